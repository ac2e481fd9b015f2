"""Whether a candidate is accepted: `judge` asks policy, compile, correctness and profile in turn."""
