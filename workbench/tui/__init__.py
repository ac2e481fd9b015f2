"""The screen, a client of the engine; start with `app`, and with `keys` for what it can do."""
