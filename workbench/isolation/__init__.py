"""Processes that run code nobody trusts; start with `workshop` and `worker`, then `sandbox`."""
