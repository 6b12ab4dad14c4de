"""How a row of a catalog becomes a sample."""
