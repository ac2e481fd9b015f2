"""Learning from an expert: `walk` takes it apart, `chain` is what is left, `induce` makes cards."""
