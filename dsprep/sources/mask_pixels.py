"""Whether the pixels of pictures are those of masks: few values, and the size of their images."""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from dsprep.errors import BadSample
from dsprep.images.header import read_header
from dsprep.sources.mask_names import Pair, is_called_mask, is_for_images
from dsprep.storage.files import open_file, read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

    from dsprep.places.files import Files

MOST_DECODED = 8  # images
_PAIRS, _ROUNDED = 8, 0.02  # pairs whose proportions are looked at, and how far they may differ
_MOST_PIXELS = 4_000_000
_FEW, _FEW_COLORS = 64, 256  # values of a mask: of gray, of colors in a directory of masks
_PEAKS, _MOST_OF = 3, 0.97  # a JPEG of a mask has few values, and some around them
_CODES = {"I;16": "H", "I": "i", "F": "f"}
_HEAD = 1 << 16  # bytes with the header of an image
_LARGEST = 1 << 26  # bytes of an image that is decoded


class Pictures:
    """The images of a source. A few of them are decoded."""

    def __init__(self, root: str, files: Files) -> None:
        self._root, self._files = root.rstrip("/"), files
        self._left = MOST_DECODED

    def heads(self, paths: Collection[str]) -> dict[str, bytes]:
        """Read how images begin; in an archive, all of them."""
        return self._read(paths, _head)

    def whole(self, path: str) -> Image | None:
        """Decode an image; None if it cannot be, or if many have been."""
        from PIL import Image  # slow to load

        self._left -= 1
        data = self._read((path,), read_bytes).get(path) if self._left >= 0 else None
        if data is None:
            return None
        try:
            image = Image.open(io.BytesIO(data))
            image.load()
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            return None
        return image

    def bits(self, path: str) -> int:
        """Return the bits that an image has in its file."""
        table = self._files.table
        return 8 * int(table.filter(table["path"] == path)["size"].sum())

    def _read(self, paths: Collection[str], read: Callable[[str], bytes]) -> dict[str, bytes]:
        if self._files.archive is not None:
            return self._members(paths)
        found = {}
        for path in paths:
            try:
                found[path] = read(f"{self._root}/{path}")
            except OSError:
                continue
        return found

    def _members(self, paths: Collection[str]) -> dict[str, bytes]:
        import polars as pl

        archive, table = self._files.archive, self._files.table
        assert archive is not None
        own = table.filter(pl.col("path").is_in(list(paths)) & (pl.col("size") <= _LARGEST))
        own = own.sort("offset")
        places = own.select("offset", "stored", "size").iter_rows()
        contents = zip(own["path"], archive.reader.members(places), strict=True)
        return {path: data for path, data in contents if isinstance(data, bytes)}


def _head(path: str) -> bytes:
    with open_file(path) as file:
        return file.pread(_HEAD, 0)


def are_masks(pairs: Sequence[Pair], pictures: Pictures) -> bool:
    """Return whether the first and the last of what may be masks are, each of its image."""
    looked_at = pairs[:: max(1, len(pairs) - 1)][:2]
    heads = pictures.heads({path for pair in looked_at for path in pair})
    return bool(looked_at) and all(_is_mask(*pair, heads, pictures) for pair in looked_at)


def have_proportions(pairs: Sequence[Pair], pictures: Pictures) -> bool:
    """Return whether a few pairs of pictures have the same proportions each, as far as known."""
    looked_at = pairs[:: max(1, len(pairs) // _PAIRS)]
    heads = pictures.heads({path for pair in looked_at for path in pair})
    for pair in looked_at:
        try:
            one, other = (read_header(heads.get(path, b"")) for path in pair)
        except BadSample:
            continue
        here, there = one.width * other.height, other.width * one.height
        if abs(here - there) > _ROUNDED * max(here, there):
            return False
    return True


def _is_mask(mask: str, image: str, heads: Mapping[str, bytes], pictures: Pictures) -> bool:
    """Return whether a picture has the size of an image, and fewer values than that."""
    try:
        one, other = (read_header(heads.get(path, b"")) for path in (mask, image))
    except BadSample:
        return False
    if (one.width, one.height) != (other.width, other.height):
        return False
    is_lossy, is_named = one.kind == "jpg", is_called_mask(mask)
    if one.width * one.height > _MOST_PIXELS:  # few values take few bytes
        return is_named and not is_lossy and pictures.bits(mask) < one.width * one.height
    if not _has_few_values(pictures.whole(mask), is_lossy, is_named):
        return False
    if not is_lossy and (other.kind == "jpg" or (is_named and _is_among_images(image))):
        return True
    picture = pictures.whole(image)
    return picture is not None and not _has_few_values(picture, other.kind == "jpg", is_named)


def _is_among_images(path: str) -> bool:
    return any(map(is_for_images, path.split("/")[:-1]))


def _has_few_values(image: Image | None, is_lossy: bool, is_named: bool) -> bool:
    """Return whether an image has as few values as a mask, whatever their kind."""
    if image is None:
        return False
    if is_lossy:
        return _has_few_peaks(image)
    few = _FEW_COLORS if is_named and image.mode not in ("L", "P") else _FEW
    if image.mode in ("1", "L", "P", "RGB", "RGBA", "LA"):
        return image.getcolors(few) is not None
    return len(set(array(_CODES.get(image.mode, "B"), image.tobytes()))) <= few


def _has_few_peaks(image: Image) -> bool:
    """Return whether most pixels of a JPEG have one of few values, or nearly."""
    counts = image.convert("L").histogram()
    near = [sum(counts[at : at + 16]) for at in range(0, 256, 16)]
    return sum(sorted(near)[-_PEAKS:]) >= _MOST_OF * sum(near)
