"""``sync``: what to send, in which order, and what to delete."""
