"""Images as bytes.

``header`` reads kind and size without a decoder, ``structure`` finds the damage at which decoders
stop, ``transform`` decides whether an image may be
packed, opens it with Pillow, resizes and encodes it. Pillow is imported when the first image is
decoded, so that copying images never pays for it.
"""
