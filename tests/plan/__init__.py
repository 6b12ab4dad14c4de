"""What is written, and where: destinations, weights, filters."""
