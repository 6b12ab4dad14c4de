"""Bare pixels in records: found, and made PNG."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from dsprep.errors import BadSample
from dsprep.formats.tfrecord import TFRecord
from dsprep.images.pixels import Shape, encode_raw
from dsprep.sample import Blobs, Floats, Ints, Sample, Value
from dsprep.schema import Choice
from dsprep.sources.raw_pixels import CIFAR, RawPixels, raw_pixels
from tests.images import jpeg

PLANES = bytes(1024) + bytes([1]) * 1024 + bytes([2]) * 1024


def sample(**fields: Value) -> Sample:
    return Sample("a", fields)


def look(samples: list[Sample]) -> RawPixels | None:
    return raw_pixels(samples, TFRecord(), Choice())


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "LA"), (3, "RGB"), (4, "RGBA")])
def test_pixels_are_as_they_were(channels: int, mode: str) -> None:
    pixels = bytes(range(6 * channels))
    image = opened(encode_raw(pixels, Shape(2, 3, channels)))
    assert (image.format, image.mode, image.size, image.tobytes()) == ("PNG", mode, (3, 2), pixels)
    planes = b"".join(pixels[channel::channels] for channel in range(channels))
    assert opened(encode_raw(planes, Shape(2, 3, channels, True))).tobytes() == pixels


def test_cifar() -> None:
    found = look([sample(image=Blobs([PLANES]), label=Ints([n])) for n in range(3)])
    assert found == RawPixels("image", CIFAR)
    made = found(sample(image=Blobs([PLANES]), label=Ints([7])))
    assert made.fields["label"] == (7,)
    image = opened(made.fields["image"])
    assert (image.size, image.getpixel((5, 5))) == ((32, 32), (0, 1, 2))
    with pytest.raises(BadSample, match="has 5 bytes of pixels, and not 3 x 32 x 32"):
        found(sample(image=Blobs([b"12345"])))


def test_sizes_beside_the_pixels() -> None:
    def made(height: int, width: int, data: bytes) -> Sample:
        sizes = {"height": Ints([height]), "width": Ints([width]), "depth": Ints([1])}
        return sample(**sizes, image_raw=Blobs([data]), label=Ints([3]))

    found = look([made(2, 3, b"abcdef"), made(1, 4, b"abcd")])
    assert found == RawPixels("image_raw", None, ("height", "width", "depth"))
    encoded = found(made(2, 3, b"abcdef"))
    assert encoded.fields.keys() == {"image_raw", "label"}
    assert opened(encoded.fields["image_raw"]).tobytes() == b"abcdef"
    with pytest.raises(BadSample, match="has 5 bytes of pixels, and not 2 x 3 x 1"):
        found(made(2, 3, b"abcde"))


@pytest.mark.parametrize(
    "fields",
    [
        {"image": Blobs([jpeg(size=(8, 8))]), "height": Ints([8]), "width": Ints([8])},
        {"embedding": Blobs([PLANES])},
        {"image": Blobs([PLANES, PLANES])},
        {"image": Blobs([PLANES[1:]])},
        {"image": Floats([0.5])},
        {
            "image": Blobs([PLANES[:60]]),
            "height": Ints([4]),
            "width": Ints([3]),
            "depth": Ints([5]),
        },
        {},
    ],
)
def test_what_is_no_pixels(fields: dict[str, Value]) -> None:
    assert look([sample(**fields)]) is None
    assert look([sample(image=PLANES), sample(**fields)]) is None


def test_an_encoded_image_stays() -> None:
    data = jpeg(size=(8, 8))
    assert RawPixels("image", CIFAR)(sample(image=data)).fields == {"image": data}
    assert look([]) is None
