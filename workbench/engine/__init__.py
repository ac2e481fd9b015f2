"""Runs a session: start with `loop`, `gating`, `gatehouse`, `workplace`; `serve` is its process."""
