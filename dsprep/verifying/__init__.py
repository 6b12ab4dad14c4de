"""Proving what was written, and saying what is there of it.

Entry: `verify.verify`; `stored` does it on S3 without a download; `status.status`.
Always: no file of a data set is changed; a size alone is no proof.
Tests: tests/verifying, tests/attack/test_damage.py.
"""
