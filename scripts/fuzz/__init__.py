"""Fuzzing: every reader on bytes that a coverage-guided fuzzer makes up."""
