"""Processes that run plain functions on plain data."""
