"""Annotated images: images, and what is drawn on them: boxes, polygons, keypoints, masks.

Entry: `recognized.named_scan`, `recognized.recognized_scan` ask the kinds, which are in the modules
  `*_kind.py`; `annotated.catalog_of` joins a scan and the images.
Always: an entry without an image, and an image without an entry, are findings.
Tests: tests/sources/test_annotation_kinds.py, tests/sources/test_recognized.py,
  tests/sources/test_coco.py and one for each kind beside it.
"""
