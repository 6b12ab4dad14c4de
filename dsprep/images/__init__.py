"""Images as bytes: what they are, whether they are whole, and what is done to them on the way.

``header`` reads kind and size without a decoder, ``check`` decides whether an image may be packed,
``transform`` resizes and re-encodes. Pillow is imported by the last two when first used, so that
copying images never pays for it.
"""
