"""Whether a candidate computes what the reference computes; start with `stage`, then `trial`."""
