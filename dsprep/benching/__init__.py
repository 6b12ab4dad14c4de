"""How fast a training loop is fed: which combinations there are, running them, their figures."""
