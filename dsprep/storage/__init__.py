"""Where files live.

Entry: `files.open_file` and `files.entries` read a place, whatever it is; `local.publish` names a
  file.
Always: a file has its final name only when its bytes are on the disk; only regular files are
  opened.
Tests: tests/storage, tests/attack/test_not_regular.py.
"""
