"""The command line: flags in, one call of a public function, its report out.

Entry: `main.main`.
Always: nothing below prints; `--help` loads click and nothing else.
Tests: tests/cli, tests/house/test_printing.py.
"""
