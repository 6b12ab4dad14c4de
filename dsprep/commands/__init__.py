"""The public functions: each checks its arguments, builds what is asked for and runs it."""
