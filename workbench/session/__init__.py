"""A session is a git repository: `reader` reads it, `store` writes it, `bundle` transports it."""
