"""Processes that run plain functions on plain data.

Entry: `engine.open_executor`, which returns an `executor.Executor`.
Always: a worker that dies is an error that names its task, and no worker outlives its parent.
Tests: tests/workers, tests/run/test_stop.py, tests/run/test_cluster.py.
"""
