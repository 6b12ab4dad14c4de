"""Where files live: stores, such as a disk and S3.

Entry: `store.store_of` returns the store of a path; the functions of `files` read a path, whatever
  store it is in; `local.publish` names a file on a disk.
Always: a file has its final name only when its bytes are on the disk; only regular files are
  opened. A store passes tests/storage/contract.py.
Tests: tests/storage, tests/attack/test_not_regular.py.
"""
