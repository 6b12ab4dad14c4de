"""What is done to lists: pure functions on tables of rows; others read and write the files.

Entry: `edit`, `diff`, `merge` and `check` on tables; `store.editing` and `store.write_files` on
  files.
Always: files that belong together are renamed together, also if the writer is killed.
Tests: tests/lists, tests/cli/test_edit_lists.py, tests/attack/test_repeated.py.
"""
