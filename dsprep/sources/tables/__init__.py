"""Tables and arrays: each row is a sample, of CSV, NumPy, Parquet or Arrow; or an image.

Entry: `tabular.read_csv`, `tabular.read_arrays`, `parquet.read_parquet`, `stacks.read_stacks`.
Always: nothing is unpickled, and lengths in files are checked before they are believed.
Tests: tests/sources/test_tabular.py, tests/sources/test_parquet.py, tests/sources/test_columns.py,
    tests/sources/test_stacks.py.
"""
