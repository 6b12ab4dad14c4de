"""One training example, and the names its fields have inside dsprep.

Inside dsprep a field has the name that WebDataset would give its extension. Every format maps these
names to its own:

=============  ====================================================  =======================
field          value                                                 in a WebDataset shard
=============  ====================================================  =======================
jpg, png, ...  the encoded image; ``bin`` if its kind is unknown     ``KEY.jpg``
cls            the class number                                      ``KEY.cls``
label          several numbers, a detection label, or a fraction     ``KEY.label.json``
class          the class name                                        in ``KEY.json``
filename       the image's path below the root of its source         in ``KEY.json``
width, height  pixels of the encoded image                           in ``KEY.json``
id             a number of its own, where the key does not tell it   in ``KEY.json``
anything else  bytes                                                 ``KEY.NAME``
anything else  `Ints`, `Floats`, `Blobs`                             in ``KEY.features.json``
=============  ====================================================  =======================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeGuard


class Ints(tuple[int, ...]):
    """A list of signed 64-bit integers, of a field that no convention names."""

    __slots__ = ()


class Floats(tuple[float, ...]):
    """A list of 32-bit floats, of a field that no convention names."""

    __slots__ = ()


class Blobs(tuple[bytes, ...]):
    """A list of byte strings, of a field that no convention names."""

    __slots__ = ()


Value: TypeAlias = bytes | int | str | tuple[float, ...] | Ints | Floats | Blobs


def is_label(value: Value | None) -> TypeGuard[tuple[float, ...]]:
    """Whether a value is that of a ``label``, rather than a list that no convention names."""
    return type(value) is tuple


IMAGE_KINDS = frozenset({"jpg", "png", "webp", "gif", "bmp", "tif", "avif", "jp2", "ppm"})
"""The fields that hold an encoded image, each named by what its bytes are."""

UNKNOWN_IMAGE = "bin"
"""The field that holds an encoded image of a kind that dsprep does not know."""

IMAGE_EXTENSIONS = {
    **dict.fromkeys(("jpg", "jpeg", "jpe", "jfif"), "jpg"),
    **dict.fromkeys(("png", "apng"), "png"),
    "webp": "webp",
    "gif": "gif",
    "bmp": "bmp",
    **dict.fromkeys(("tif", "tiff"), "tif"),
    "avif": "avif",
    **dict.fromkeys(("jp2", "j2k", "j2c", "jpc", "jpx"), "jp2"),
    **dict.fromkeys(("ppm", "pgm", "pbm", "pnm"), "ppm"),
}
"""File name extensions, in lower case, and the image field that each promises."""

OTHER_IMAGES = {
    **dict.fromkeys(("heic", "heif", "hif"), "HEIC"),
    "jxl": "JPEG XL",
    **dict.fromkeys(("psd", "psb"), "a Photoshop file"),
    **dict.fromkeys(("svg", "svgz"), "SVG"),
    **dict.fromkeys(("ico", "cur", "icns"), "an icon"),
    "tga": "TGA",
    "exr": "OpenEXR",
    **dict.fromkeys(("dcm", "dicom"), "DICOM"),
    **dict.fromkeys(
        (
            *("3fr", "arw", "cr2", "cr3", "crw", "dng", "erf", "kdc", "mrw", "nef", "nrw", "orf"),
            *("pef", "raf", "rw2", "srf", "srw", "x3f"),
        ),
        "a camera's raw image",
    ),
    **{name: name.upper() for name in ("dds", "fits", "jxr", "pcx", "qoi", "xcf")},
}
"""Extensions of images that dsprep does not decode, in lower case, and what these are."""


TYPES: dict[str, type] = {
    each.__name__: each for each in (bytes, int, str, tuple, Ints, Floats, Blobs)
}
"""The types of values, by their names."""


@dataclass(slots=True)
class Sample:
    """One training example.

    Attributes:
        key: Its name, unique in the data set; may hold ``/`` but, after the last one, no dot.
        fields: Its parts by field name, in the order in which they are written.
        id: The position in the source, or what a ``.lst`` says it is.
        lost_frames: Whether a transform made its image the first frame of an animation.
    """

    key: str
    fields: dict[str, Value]
    id: int = 0
    lost_frames: bool = False

    def image(self) -> tuple[str, bytes] | None:
        """The kind and the bytes of the encoded image, or None if there is none."""
        for name, value in self.fields.items():
            if name in IMAGE_KINDS and isinstance(value, bytes):
                return name, value
        unknown = self.fields.get(UNKNOWN_IMAGE)
        return (UNKNOWN_IMAGE, unknown) if isinstance(unknown, bytes) else None

    def label(self) -> int | tuple[float, ...] | None:
        """The class number, or the numbers of the label; None if there is neither."""
        number, numbers = self.fields.get("cls"), self.fields.get("label")
        if isinstance(number, int):
            return number
        if isinstance(numbers, tuple) and not isinstance(numbers, (Ints, Floats, Blobs)):
            return numbers
        return None


def key_of(path: str) -> str:
    """The key of the sample whose image lies at a path.

    Readers of WebDataset take everything after the first dot of the base name for the extension, so
    the key may not hold one: ``cat/a.x.jpg`` becomes ``cat/a_x``.

    Args:
        path: Path below the root of the source, parts joined by ``/``.

    Returns:
        The path without its extension, the dots that remain in its base name made ``_``.
    """
    # Nearly all names have one dot, before the "jpg" and after a name.
    if path.endswith(".jpg") and path.find(".") == len(path) - 4 and path[-5:-4] not in ("", "/"):
        return path[:-4]
    directory, slash, name = path.rpartition("/")
    stem = name.rpartition(".")[0] or name
    return directory + slash + stem.replace(".", "_")


def image_kind_of(path: str) -> str | None:
    """The image field that a file name's extension promises, or None if it promises no image."""
    if path.endswith(".jpg"):
        return "jpg"
    return IMAGE_EXTENSIONS.get(path.rpartition(".")[2].lower())
