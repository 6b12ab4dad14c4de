"""Annotations: boxes, polygons, keypoints and masks.

What a value is, how it moves with its image, and how other tools write it. All functions are pure:
sources find the texts that these parse, and formats lay out what they return. A ValueError says
what is wrong with a text.
"""
