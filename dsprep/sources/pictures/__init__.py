"""Pictures: each file, or each slice of a file, is an image.

Entry: `tree.read_tree`, `parts.read_parts`, `described.read_described`, `pixels.read_pixels`.
Always: images are read by workers, and only headers before.
Tests: tests/sources/test_folder.py, tests/sources/test_parts.py, tests/sources/test_pixels.py.
"""
