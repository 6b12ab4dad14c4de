"""Annotated images: images, and what is drawn on them: boxes, polygons, keypoints, masks."""
