"""Manifests: what a data set on disk consists of, and how it was made."""
