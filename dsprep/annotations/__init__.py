"""Annotations: boxes, polygons, keypoints and masks.

What a value is, how it moves with its image, and how other tools write it. Sources find the texts
that these functions parse, and formats lay out what they return.

Entry: `objects.Objects` is the value; `coco.parse`, `yolo.parse` and others read texts of tools.
Always: all functions are pure; a ValueError says what is wrong with a text.
Tests: tests/annotations, tests/formats/test_objects.py, tests/attack/test_annotation_files.py.
"""
