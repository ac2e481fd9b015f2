"""Whether a candidate is accepted: `judge` asks policy, compile, correctness, profile in turn."""
