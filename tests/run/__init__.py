"""Runs that write to S3, on real servers."""
