"""The public functions: each checks its arguments, builds what is asked for and runs it.

Entry: `write.pack` and the other functions that `dsprep` exports; each takes an options object.
Always: a function raises an error of `dsprep.errors`, or returns a report that counts every sample.
Tests: tests/commands, tests/cli.
"""
