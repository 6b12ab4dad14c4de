"""The commands of ``dsprep lst``: lists are made, edited, compared and checked.

Entry: `edit_lists.create_list`, `edit_lists.edit_list` and `inspect_lists.check_list`; `lists` has
  the functions on tables that these call.
Always: a list is read, changed and written under its lock, and a dry run writes nothing.
Tests: tests/lists, tests/cli/test_edit_lists.py, tests/cli/test_inspect_lists.py.
"""
