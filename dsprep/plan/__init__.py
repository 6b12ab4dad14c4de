"""From what a user asked for to a plan of the shards to write: nothing here writes.

Entry: `plan.make_plan`, which makes a `plan.Plan` of a `job.Job`.
Always: a plan holds each sample once, and depends on the source and the options alone.
Tests: tests/plan, tests/formats/test_sizes.py.
"""
