"""Images as bytes: what they are, whether they are whole, and what is done to them on the way.

``header`` reads kind and size without a decoder, ``check`` decides whether an image may be packed,
``decode`` opens images with Pillow, and ``transform`` resizes and encodes them. Pillow is imported
when the first image is decoded, so that copying images never pays for it.
"""
