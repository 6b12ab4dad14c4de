"""Places: the names and the bytes in a directory, an archive or a prefix on S3, without meaning.

Entry: `scan.scan_below` lists a directory, `archive.open_archive` an archive; `files.list_files`
  makes a table of either. `match` finds the paths that names mean.
Always: archives are hostile: their sizes and names are checked before they are believed.
Tests: tests/sources/test_scan.py, tests/sources/test_archive.py, tests/attack.
"""
