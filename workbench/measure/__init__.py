"""Times and their kinds: `records`; `pairs` and `sequential` for measured, `model` for modeled."""
