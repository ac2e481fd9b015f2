"""Which candidate comes next: `proposer` chooses a card, `rungs` how far a candidate climbs."""
