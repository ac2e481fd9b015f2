"""What a problem file turns out to be once it runs; start with `inspect`."""
