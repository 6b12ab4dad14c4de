"""One training example, and the names that encoded images have."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dsprep.patterns import pattern

if TYPE_CHECKING:
    import polars as pl

Value: TypeAlias = Any
"""A value of a field.

A typed value is ``bytes``, ``str``, ``bool``, ``int``, ``float``, or a tuple of these, as the
schema's type of the field says (:data:`dsprep.schema.TYPES`). A raw value is whatever lies in a
source: also :class:`Ints`, :class:`Floats` and :class:`Blobs`, and what JSON and Arrow know.
"""


class Ints(tuple[int, ...]):
    """Raw value: a list of signed 64-bit integers; a list of one may mean the number."""

    __slots__ = ()


class Floats(tuple[float, ...]):
    """Raw value: a list of 32-bit floats; a list of one may mean the number."""

    __slots__ = ()


class Blobs(tuple[bytes, ...]):
    """Raw value: a list of byte strings; a list of one may mean the bytes."""

    __slots__ = ()


# the kinds of encoded image that dsprep knows, by what their bytes are
IMAGE_KINDS = frozenset({"jpg", "png", "webp", "gif", "bmp", "tif", "avif", "jp2", "ppm"})
UNKNOWN_IMAGE = "bin"  # the kind of an encoded image that dsprep does not know
# what a field `format` says for each kind of image
FORMAT_NAMES = {kind: kind for kind in IMAGE_KINDS} | {"jpg": "jpeg", "tif": "tiff"}

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
"""File name extensions, in lower case, and the kind of image that each promises."""

RAW = "a camera's raw image"
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
        RAW,
    ),
    **{name: name.upper() for name in ("dds", "fits", "jxr", "pcx", "qoi", "xcf")},
}
"""Extensions of images that dsprep does not decode, in lower case, and what these are."""


_COPY = pattern(r"_aug[0-9]+(\.[^./]*)?\Z")  # what `copy_name` adds


@dataclass(slots=True)
class Sample:
    """A sample: one training example."""

    # its name, unique in the data set; may hold `/` but, after the last one, no dot. Empty if its
    # shard does not tell it.
    key: str
    # its values by field name: as the schema says, or, in a raw sample, by the names that they have
    # in the source
    fields: dict[str, Value]
    id: int = 0  # its position in the source, or what a `.lst` says it is
    # the name of its image's file below the root of its source; empty if nothing tells it
    path: str = ""
    image: str | None = None  # the name of the field that is its image
    class_name: str | None = None  # the name of its class, if the sample itself tells it
    # what making it cost, for the report: how many of what happened, such as
    # `object dropped, as too little of it is left`; None if nothing did
    effects: Counter[str] | None = None

    @property
    def encoded(self) -> bytes:
        """The bytes of its image, typed or raw; none if it has no image."""
        value = self.fields.get(self.image) if self.image else b""
        if type(value) is bytes:
            return value
        value = value["bytes"] if isinstance(value, dict) else value
        data: bytes = value[0] if isinstance(value, Blobs) else value or b""
        return data


def key_of(path: str) -> str:
    """The key of the sample whose image lies at a path."""
    # Readers of WebDataset take everything after the first dot of the base name for the extension,
    # so the key may not hold one: `cat/a.x.jpg` becomes `cat/a_x`.
    # Nearly all names have one dot, before the "jpg" and after a name.
    if path.endswith(".jpg") and path.find(".") == len(path) - 4 and path[-5:-4] not in ("", "/"):
        return path[:-4]
    directory, slash, name = path.rpartition("/")
    stem = name.rpartition(".")[0] or name
    return directory + slash + stem.replace(".", "_")


def key_expr(path: str = "path") -> pl.Expr:
    """Return what :func:`key_of` computes, for a whole column of paths."""
    import polars as pl

    name = pl.col(path).str.split("/").list.last()
    stem = name.str.replace(r"\.[^.]*$", "")
    undotted = (
        pl.when(stem == "").then(name).otherwise(stem).str.replace_all(".", "_", literal=True)
    )
    return pl.col(path).str.strip_suffix(name) + undotted


def key_size_expr() -> pl.Expr:
    """Return the bytes of what :func:`key_expr` returns, without making the texts."""
    import polars as pl

    path = pl.col("path")
    # A name that is nothing but an extension is a key as it is.
    has_stem = path.str.contains(r"[^/]\.[^./]*$")
    dot = path.str.find(r"\.[^./]*$")
    return pl.when(has_stem).then(dot).otherwise(path.str.len_bytes()).cast(pl.Int64)


def copy_name(path: str, copy: int) -> str:
    """The path, or the key, of a copy of the sample with this one: ``cat/1_aug03.jpg``."""
    directory, slash, name = path.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    stem, extension = (stem, dot + extension) if dot else (name, "")
    return f"{directory}{slash}{stem}_aug{copy:02d}{extension}"


def copy_id(id: int, copy: int) -> int:
    """The id of a copy of what has this id: 3000000007 is that of the third copy of 7."""
    return (id + copy * 1_000_000_000) % (1 << 63)


def copy_expr(path: str = "path", copy: str = "copy") -> pl.Expr:
    """Return what :func:`copy_name` computes, for whole columns; number 0 is no copy."""
    import polars as pl

    parts = pl.col(path).str.extract_groups(r"(?s)^(.*?)(\.[^./]*)?$").struct
    number = pl.col(copy).cast(pl.String).str.zfill(2)
    name = pl.concat_str(parts.field("1"), pl.lit("_aug"), number, parts.field("2").fill_null(""))
    return pl.when(pl.col(copy) > 0).then(name).otherwise(pl.col(path))


def original_name(path: str) -> str:
    """The path, or the key, that :func:`copy_name` was given."""
    return _COPY.sub(r"\1", path)


def original_expr(path: str = "path", copy: str = "copy") -> pl.Expr:
    """Return what :func:`original_name` computes, for whole columns; number 0 is no copy."""
    import polars as pl

    return (
        pl.when(pl.col(copy) > 0)
        .then(pl.col(path).str.replace(r"_aug[0-9]+(\.[^./]*)?$", "${1}"))
        .otherwise(pl.col(path))
    )


def image_kind_of(path: str) -> str | None:
    """The kind of image that a file name's extension promises, or None if it promises no image."""
    if path.endswith(".jpg"):
        return "jpg"
    return IMAGE_EXTENSIONS.get(path.rpartition(".")[2].lower())
