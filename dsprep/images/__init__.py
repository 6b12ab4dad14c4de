"""Images as bytes.

``header`` reads kind and size without a decoder, ``decode`` decides whether an image may be packed
and opens it with Pillow, and ``transform`` resizes and encodes it. Pillow is imported when the
first image is decoded, so that copying images never pays for it.
"""
