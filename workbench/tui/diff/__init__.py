"""How two texts differ, and drawing it."""
