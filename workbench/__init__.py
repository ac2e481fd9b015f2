"""A terminal workbench that makes GPU kernels faster one gated step at a time.

CONTRIBUTING.md has the map: how one step goes, and what each package is for.
"""
