"""What models do and what it costs: `step` is one round, `roles` who is asked, `ledger` pays."""
