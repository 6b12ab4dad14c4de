"""Which sample goes to which side, and what leaks between them."""
