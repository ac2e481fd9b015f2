"""Cards and when they apply: `card`, `conditions` over facts, and the decision `policy`."""
