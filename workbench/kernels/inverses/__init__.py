"""Mechanisms that can be found in a kernel and taken out again; `base`, then `registry`."""
