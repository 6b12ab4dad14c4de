"""Labels: the classes and labels of samples, from names, lists and tables.

Entry: `table.read_table`, `choose.choose`, `classes.classes_of_directories`.
Always: a name that no class has, or that may mean two samples, is an error.
Tests: tests/sources/test_classes.py, tests/sources/test_table.py, tests/sources/test_subset.py.
"""
