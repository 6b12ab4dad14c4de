"""Manifests: what a data set on disk consists of, and how it was made.

Entry: `manifest.read_manifest`, `manifest.Manifest.to_json`; `find.data_sets` finds data sets.
Always: a manifest names no file outside its directory, and no time, host or path of a machine.
Tests: tests/dataset, tests/run/test_manifest.py, tests/golden, tests/attack/test_damage.py.
"""
