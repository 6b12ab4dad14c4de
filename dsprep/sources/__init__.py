"""Sources: what a catalog can be made from.

Each source returns the catalog of what it holds, and findings about what it noticed on the way.
"""
