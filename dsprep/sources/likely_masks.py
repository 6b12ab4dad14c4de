"""Images that are likely masks of other images, or other parts of their samples: no samples.

Names say which images may be: `masks/1.png`, `1_mask.png`, or `LR/1.jpg` beside `HR/1.jpg`. The
pixels of some decide whether they are masks.
"""

from __future__ import annotations

import io
import posixpath
import re
import shlex
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from dsprep.errors import BadSample
from dsprep.findings import Finding
from dsprep.images.header import read_header
from dsprep.places.names import FILE_WORDS, is_companion, side_name
from dsprep.storage.files import open_file, read_bytes

if TYPE_CHECKING:
    import polars as pl
    from PIL.Image import Image

    from dsprep.places.files import Files

MASKS = "has the look of a mask of"
"""How the detail of a likely mask begins, before the image that it is of."""

PARTS = "belongs to"
"""How the detail of another part of a sample begins, before the image of the sample."""

_SAME_NAME = ", which has the same name"

_MASK_WORDS = frozenset(
    (
        *("mask", "masks", "label", "labels", "labelids", "labelid", "trainids", "trainannot"),
        *("instance", "instances", "instanceids", "semantic", "semantics", "panoptic", "parts"),
        *("annot", "annots", "annotation", "annotations", "trimap", "trimaps", "scribble"),
        *("scribbles", "seg", "segs", "segmentation", "segmentations", "segmentationclass"),
        *("segmentationobject", "segment", "segments", "gt", "gts", "truth", "truths"),
        *("groundtruth", "groundtruths", "gtfine", "gtcoarse"),
    )
)
# Directories for a part of each sample, whatever their images show.
_PART_WORDS = frozenset(
    ("depth", "depths", "disparity", "normals", "flow", "rgb", "hr", "lr", "hq", "lq", "nir")
    + ("upsampled", "upscaled")
)
_LAST_WORDS = frozenset(("l", "p", "color"))  # `1_L.png`, as CamVid and CelebAMask have masks
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBERED_CLASS = re.compile(r"(?i)labels?[\W_]*\d+")  # `label_0` is a class
_DIVIDED = re.compile(r"[\s_.-]+")
_BEFORE_NUMBER = re.compile(
    rf"(?i)^(?:{'|'.join(sorted(_MASK_WORDS | FILE_WORDS, key=len, reverse=True))})(?=\d)"
)
_IMAGE_WORDS = FILE_WORDS | {"rgb"}
_IMAGE_ENDINGS = frozenset(("leftimg8bit", "sat", "original", "orig"))  # `1_sat.jpg`, `1_mask.png`
_LOSSLESS = (".png", ".apng", ".bmp", ".gif", ".tif", ".tiff")
_DEPTHS = 4  # directories of a path that may be parallel to others
_MOST_PARALLEL = 8  # directories that are parallel to one another
_RANK_OF_MASKS, _NO_PART = 2, 3
_SAMPLED = 1000  # paths that show whether directories are parallel
_LOOKED_UP = 50  # names in one directory that are looked for in another
MOST_DECODED = 8  # images
_MOST_FOR_ONE = 10  # images; among fewer, one mask shows what its name means
_CONVENTIONS = 4  # ways of naming masks that are looked at
_MOST_PIXELS = 4_000_000
_FEW, _FEW_COLORS = 64, 256  # values of a mask: of gray, of colors in a directory of masks
_PEAKS, _MOST_OF = 3, 0.97  # a JPEG of a mask has few values, and some around them
_CODES = {"I;16": "H", "I": "i", "F": "f"}
_HEAD = 1 << 16  # bytes with the header of an image
_LARGEST = 1 << 26  # bytes of an image that is decoded

Pair = tuple[str, str]  # what may be a mask, and the image that it may be of


def without_masks(root: str, files: Files) -> Files:
    """Take likely masks and other parts of samples out of the images: these are left over."""
    import polars as pl

    paths = files.table["path"]
    masks = _masks(paths, _Pictures(root, files))
    parts = _parts(_without(paths, masks))
    if not masks and not parts:
        note = _note_on_names(paths)
        return files._replace(findings=[*files.findings, note]) if note else files
    found = [Finding("left-over", path, detail) for path, detail in (masks | parts).items()]
    findings = sorted([*files.findings, *found], key=lambda each: each.path)
    table = files.table.filter(~pl.col("path").is_in([*masks, *parts]))
    return files._replace(table=table, findings=findings)


def _without(paths: pl.Series, others: Collection[str]) -> pl.Series:
    return paths.filter(~paths.is_in(list(others))) if others else paths


def image_of(detail: str) -> str:
    """Return the image that the detail of a mask, or of another part of its sample, names."""
    return detail.removeprefix(f"{MASKS} ").removeprefix(f"{PARTS} ").removesuffix(_SAME_NAME)


def pairs_for(image: str, other: str) -> dict[str, str]:
    """Return what ``--pair`` takes for two images of one name in parallel directories."""
    parts = [each.split("/") for each in (image, other)]
    depth = next(at for at, (one, two) in enumerate(zip(*parts, strict=False)) if one != two)
    patterns = [
        "/".join([*each[: depth + 1], "**" if len(each) > depth + 2 else "*"])
        + posixpath.splitext(each[-1])[1]
        for each in parts
    ]
    field = re.sub(r"[^a-z0-9_]", "_", parts[1][depth].lower())
    return dict(zip(("image", field), patterns, strict=True))


# Masks


def _masks(paths: pl.Series, pictures: _Pictures) -> dict[str, str]:
    """Return likely masks; the first of each directory with a detail."""
    masks: dict[str, str] = {}
    for own, pairs in _named_alike(paths):
        if _are_masks(pairs, pictures):
            where = {posixpath.dirname(path) for path, _ in pairs}
            masks |= {path: "" for path in own if posixpath.dirname(path) in where}
            masks |= _with_details(pairs, MASKS, "")
    for pairs in _parallel_pairs(_without(paths, masks), _lossless_beside_lossy):
        if _are_masks([pair for pair in pairs if pair[1]], pictures):
            masks |= _with_details(pairs, MASKS, "")
    return masks


def _named_alike(paths: pl.Series) -> Iterator[tuple[list[str], list[Pair]]]:
    """Yield files that one word calls masks, and those of them that have an image, with that."""
    candidates = [path for path in paths.filter(_may_be(paths)) if _is_named(path)]
    if not 0 < len(candidates) < len(paths):
        return
    images = _nearest_images(candidates, paths)
    by_name: dict[str, list[str]] = {}
    for path in sorted(candidates):
        by_name.setdefault(_convention(path), []).append(path)
    for own in sorted(by_name.values(), key=len, reverse=True)[:_CONVENTIONS]:
        pairs = [(path, images[path]) for path in own if path in images]
        if len(pairs) > 1 or len(pairs) >= len(paths) // _MOST_FOR_ONE:
            yield own, pairs  # otherwise one picture among many, which tells nothing


def _may_be(paths: pl.Series) -> pl.Series:
    """Return which paths may have a word for masks: fast, as few sets have any."""
    return paths.str.contains(
        "(?i)mask|label|trainids|instance|semantic|panoptic|parts|annot|trimap|scribble|seg|gt|truth"
        r"|_l\.|_p\.|_color\."
    )


@lru_cache(4096)
def _words(name: str) -> frozenset[str]:
    """Return the words in a name: `gtFine_labelIds` has `gt`, `fine`, `label` and `ids`."""
    return frozenset(each.lower() for each in (*_WORD.findall(name), *_DIVIDED.split(name)))


def _is_named(path: str) -> bool:
    """Return whether a file is called like a mask, or the nearest word among its directories is."""
    *directories, name = path.split("/")
    return bool(_mask_words(name) or _mask_directory(directories))


def _mask_words(name: str) -> str:
    """Return the words of a file's name that say it is a mask; not the first of several words."""
    words = _DIVIDED.split(posixpath.splitext(name)[0])
    own = sorted(_MASK_WORDS & _words("_".join(words[1:] or words)))
    if not own and len(words) > 1 and words[-1].lower() in _LAST_WORDS:
        return words[-1].lower()
    return " ".join(own)


def _mask_directory(directories: Sequence[str]) -> str:
    """Return the nearest directory that is called like masks, unless a nearer one is of images."""
    for name in reversed(directories):
        if _is_for_masks(name):
            return name
        if _is_for_images(name):
            return ""
    return ""


@lru_cache(4096)
def _is_for_masks(directory: str) -> bool:
    if _NUMBERED_CLASS.fullmatch(directory):
        return False
    return not _MASK_WORDS.isdisjoint(_words(directory)) or is_companion(directory)


@lru_cache(4096)
def _is_for_images(directory: str) -> bool:
    return not _IMAGE_WORDS.isdisjoint(_words(directory))


def _convention(path: str) -> str:
    """Return what says that a file may be a mask: the words of its name, or a directory's name."""
    *directories, name = path.split("/")
    return _mask_words(name) or _mask_directory(directories).lower()


def _nearest_images(masks: Sequence[str], paths: pl.Series) -> dict[str, str]:
    """Return the image that each mask may be of: one of its name, as near in the tree as any."""
    others = _without(paths, masks)
    keys = {path: _keys(path) for path in masks}
    wanted = {key for own in keys.values() for key in own}
    below: dict[tuple[str, str], str] = {}
    for path in others:
        if (key := _key(path)) in wanted:
            for directory in _directories(path):
                below.setdefault((directory, key), path)
                if not key:  # `mask.png` is of `image.png` beside it
                    break
    found = {}
    for path, own in keys.items():
        near = (below.get((where, key)) for where in _directories(path) for key in own)
        if image := next(filter(None, near), None):
            found[path] = image
    lost = [path for path in masks if path not in found]
    return found | _only_images(lost, others) if lost else found


def _only_images(masks: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """Return the image of masks that lie in a directory beside that of one image alone."""
    parents = {path: posixpath.dirname(posixpath.dirname(path)) for path in masks}
    wanted = {parent for parent in parents.values() if parent}
    held: dict[str, list[str]] = {}
    for path in others if wanted else ():
        parent = posixpath.dirname(posixpath.dirname(path))
        if parent in wanted:
            held.setdefault(parent, []).append(path)
    return {path: held[own][0] for path, own in parents.items() if len(held.get(own, ())) == 1}


def _key(path: str) -> str:
    """Return what the name of an image has in common with that of its mask."""
    words = _DIVIDED.split(posixpath.splitext(posixpath.basename(path))[0])
    return _joined(words)


def _joined(words: Iterable[str]) -> str:
    kept = (_BEFORE_NUMBER.sub("", word) for word in words if not _says_part(word))
    key = "_".join(kept)
    return key.lstrip("0") or "0" if key.isdigit() else key


@lru_cache(4096)
def _says_part(word: str) -> bool:
    """Return whether a word tells only which part of a sample a file is."""
    if word.lower() in _MASK_WORDS | _IMAGE_WORDS | _IMAGE_ENDINGS:
        return True
    return not any(map(str.isdigit, word)) and not _MASK_WORDS.isdisjoint(_words(word))


def _keys(path: str) -> list[str]:
    """Return the keys that the image of a mask may have, the likeliest first."""
    words = _DIVIDED.split(posixpath.splitext(posixpath.basename(path))[0])
    found = [_joined(words)]
    at = next((at for at, word in enumerate(words) if at and _says_part(word)), len(words))
    cut = [words[:at]]
    if words[-1].lower() in _LAST_WORDS:
        cut.append(words[:-1])
    if _mask_directory(path.split("/")[:-1]):
        cut += [words[:-1], words[:-2]]  # several masks of an image: `1_m0_a1b2.png`
    return list(dict.fromkeys(found + [_joined(each) for each in cut if each]))


def _directories(path: str) -> Iterator[str]:
    """Yield the directories that a path lies in, the nearest first, and the root as ``""``."""
    while path:
        path = posixpath.dirname(path)
        yield path


# Directories that are parallel to one another


def _parts(paths: pl.Series) -> dict[str, str]:
    """Return images of the names of others, if directories are called like parts of samples."""
    parts: dict[str, str] = {}
    for pairs in _parallel_pairs(paths, _are_parts):
        parts |= _with_details(pairs, PARTS, _SAME_NAME)
    return parts


def _note_on_names(paths: pl.Series) -> Finding | None:
    """Return a note if directories have images of the same names, and these are no numbers."""
    if _are_numbered(paths.gather_every(max(1, len(paths) // _SAMPLED)).to_list(), len(paths)):
        return None
    pairs = next(_parallel_pairs(paths, _are_of_one_size), None)
    if pairs is None:
        return None
    other, image = min(pair for pair in pairs if pair[1])
    patterns = (f"{name}={pattern}" for name, pattern in pairs_for(image, other).items())
    options = " ".join(f"--pair {shlex.quote(each)}" for each in patterns)
    return Finding(
        "note",
        "",
        f"images of the same names lie in two directories, such as {image} and {other}: if each "
        f"directory has a part of every sample, give {options}",
    )


def _are_numbered(sampled: Iterable[str], count: int) -> bool:
    """Return whether names of images are counted: few texts, and numbers near each other."""
    stems = [posixpath.splitext(posixpath.basename(path))[0] for path in sampled]
    words = {re.sub(r"\d+", "", stem) for stem in stems}
    numbers = [int("".join(re.findall(r"\d", stem)) or 0) for stem in stems]
    return (
        len(words) <= _MOST_PARALLEL
        and max(numbers, default=0) - min(numbers, default=0) < 4 * count
    )


def _are_of_one_size(groups: Groups) -> tuple[str, Sequence[str]]:
    """Choose two directories of nearly as many images."""
    if len(groups) != 2 or any(side_name(name) for name in groups):
        return "", ()
    image, other = sorted(groups)
    sizes = sorted(map(len, groups.values()))
    return (image, [other]) if 10 * sizes[0] >= 9 * sizes[1] else ("", ())


def _with_details(pairs: Iterable[Pair], begin: str, end: str) -> dict[str, str]:
    """Return the details of the first of each pairs; empty but for one of each directory."""
    pairs = sorted(pairs)
    details = dict.fromkeys((path for path, _ in pairs), "")
    first = {posixpath.dirname(path): (path, image) for path, image in reversed(pairs)}
    return details | {path: f"{begin} {image}{end}" for path, image in first.values() if image}


Groups = Mapping[str, Sequence[str]]  # paths by the directory at one depth


def _parallel_pairs(
    paths: pl.Series, choose: Callable[[Groups], tuple[str, Sequence[str]]]
) -> Iterator[list[Pair]]:
    """Yield the files of directories that have the names of those in another, with these.

    ``choose`` returns the directory of images, and those that may be parallel to it; a file that
    has no other is paired with the empty path.
    """
    sampled = paths.gather_every(max(1, len(paths) // _SAMPLED)).to_list()
    for depth in range(_DEPTHS):
        groups = _groups(sampled, depth)
        if not 1 < len(groups) <= _MOST_PARALLEL or not choose(groups)[1]:
            continue
        every = _groups(paths, depth)
        image, others = choose(every)
        by_rest = {_rest(path, depth): path for path in every.get(image, ())}
        for name in others:
            own = {path: by_rest.get(_rest(path, depth), "") for path in every[name]}
            some = [*own.values()][:: max(1, len(own) // _LOOKED_UP)]
            if 10 * sum(map(bool, some)) >= 9 * len(some):
                yield [*own.items()]


def _groups(paths: Iterable[str], depth: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split("/", depth + 1)
        if len(parts) < depth + 2:
            return {}  # not all lie so deep
        found.setdefault(parts[depth], []).append(path)
    return found


def _rest(path: str, depth: int) -> str:
    """Return a path without the directory at a depth and without its extension."""
    parts = posixpath.splitext(path)[0].split("/")
    return "/".join(parts[:depth] + parts[depth + 1 :])


def _are_parts(groups: Groups) -> tuple[str, Sequence[str]]:
    """Choose directories that are all called like parts of samples."""
    ranks = {name: _rank_of_part(name) for name in groups}
    image, *others = sorted(groups, key=lambda name: (ranks[name], _says_only_part(name), name))
    if _NO_PART in ranks.values() or ranks[image] == _RANK_OF_MASKS:
        return "", ()  # `mask` and `no_mask` are classes
    if not all(map(_says_only_part, others)):
        return "", ()  # so are `real_images` and `fake_images`
    return image, others


def _says_only_part(directory: str) -> bool:
    """Return whether the whole name of a directory is that of a part: `depth`, `rgb_images`."""
    words = {each.lower() for each in _DIVIDED.split(directory)}
    return words <= _MASK_WORDS or set() < words - FILE_WORDS <= _PART_WORDS


def _rank_of_part(directory: str) -> int:
    """Return how likely a directory has the images of samples: the lower, the likelier."""
    if side_name(directory) is not None:
        return _NO_PART
    if _is_for_images(directory):
        return 0
    if not _PART_WORDS.isdisjoint(_words(directory)):
        return 1
    return _RANK_OF_MASKS if _is_for_masks(directory) else _NO_PART


def _lossless_beside_lossy(groups: Groups) -> tuple[str, Sequence[str]]:
    """Choose directories of PNGs, beside one of JPEGs."""
    if any(side_name(name) for name in groups):
        return "", ()
    lossless = [name for name, own in groups.items() if all(map(_is_lossless, own[:_LOOKED_UP]))]
    lossy = [name for name, own in groups.items() if not any(map(_is_lossless, own[:_LOOKED_UP]))]
    return (lossy[0], lossless) if len(lossy) == 1 else ("", ())


def _is_lossless(path: str) -> bool:
    return path.lower().endswith(_LOSSLESS)


# Pixels


class _Pictures:
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


def _are_masks(pairs: Sequence[Pair], pictures: _Pictures) -> bool:
    """Return whether the first and the last of what may be masks are, each of its image."""
    looked_at = pairs[:: max(1, len(pairs) - 1)][:2]
    heads = pictures.heads({path for pair in looked_at for path in pair})
    return bool(looked_at) and all(_is_mask(*pair, heads, pictures) for pair in looked_at)


def _is_mask(mask: str, image: str, heads: Mapping[str, bytes], pictures: _Pictures) -> bool:
    """Return whether a picture has the size of an image, and fewer values than that."""
    try:
        one, other = (read_header(heads.get(path, b"")) for path in (mask, image))
    except BadSample:
        return False
    if (one.width, one.height) != (other.width, other.height):
        return False
    is_lossy, is_named = one.kind == "jpg", _is_named(mask)
    if one.width * one.height > _MOST_PIXELS:  # few values take few bytes
        return is_named and not is_lossy and pictures.bits(mask) < one.width * one.height
    if not _has_few_values(pictures.whole(mask), is_lossy, is_named):
        return False
    if not is_lossy and (other.kind == "jpg" or (is_named and _is_among_images(image))):
        return True
    picture = pictures.whole(image)
    return picture is not None and not _has_few_values(picture, other.kind == "jpg", is_named)


def _is_among_images(path: str) -> bool:
    return any(map(_is_for_images, path.split("/")[:-1]))


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
