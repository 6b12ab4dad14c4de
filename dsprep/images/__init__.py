"""Images as bytes.

``header`` reads kind and size without a decoder, ``structure`` finds the damage at which decoders
stop, and ``transform`` opens an image with Pillow, resizes and encodes it.

Entry: `header.read_header`, `transform.make_check` and `transform.Transform`.
Always: Pillow is imported when the first image is decoded, so that copying images never pays for
  it.
Tests: tests/images, tests/attack/test_bad_images.py.
"""
