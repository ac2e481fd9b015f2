"""Nsight Compute: its command, its output as records, and the facts that follow."""
