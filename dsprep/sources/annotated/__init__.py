"""Annotated images: images, and what is drawn on them: boxes, polygons, keypoints, masks.

Entry: `recognized.named_scan`, `recognized.recognized_scan`; `annotated.catalog_of` joins a scan
  and the images.
Always: an entry without an image, and an image without an entry, are findings.
Tests: tests/sources/test_recognized.py, tests/sources/test_coco.py and one for each kind beside it.
"""
