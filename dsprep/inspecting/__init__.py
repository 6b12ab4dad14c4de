"""What a data set looks like: measured image by image, as figures, and as pictures.

Entry: `measure.measure_catalog`, `figures.figures_of` and `copies.find_copies`.
Always: nothing is written; figures and copies depend on the samples alone, not on the workers.
Tests: tests/inspecting.
"""
