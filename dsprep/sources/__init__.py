"""Sources: what a catalog can be made from.

Each source returns the catalog of what it holds, and findings about what it noticed on the way.

Entry: `reading.read_source`; `reading.detect` says what a place holds.
Always: files that are missing or were passed over are findings; names are enough for most sources,
  so that payloads are not read.
Tests: tests/sources, tests/matrix, tests/attack.
"""
