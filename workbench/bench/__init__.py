"""The README's numbers, measured again on the machine at hand: one module or more a command."""
