"""Interleaved pairs on a GPU that is held alone; start with `stage`, then `timed_run`."""
