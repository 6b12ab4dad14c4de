"""Carrying a plan out: writing, going on after a kill, and what makes a data set complete."""
