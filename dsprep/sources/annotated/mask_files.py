"""Masks that lie beside images: in which directory, and which belongs to which image.

Sides never mix: an image in ``train`` has no mask in ``val``.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.places.scan import RunAll, scan_below
from dsprep.sources.annotated.masks import (
    Masks,
    black_and_white,
    colors_in,
    named_colors_in,
    require_numbers,
)
from dsprep.sources.mask_names import (
    IMAGE_ENDING,
    convention,
    endings_of_masks,
    is_called_mask,
    is_for_images,
    is_for_masks,
    name_in_common,
)
from dsprep.storage.files import exists, full_path, is_dir
from dsprep.tuples import NamedTuple
from dsprep.units import extension_in, format_count, format_some

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.archive import Archive
    from dsprep.places.files import Files
    from dsprep.places.match import Spelling
    from dsprep.rows import Reader
    from dsprep.sources.source import Source

_ENDINGS = ("", "_mask", "_masks", "_seg", "_segmentation", "_label", "_gt", "_labelIds")
_BEGIN = "mask_"
# of Kaggle's sets, of CamVid, of CVAT, of datumaro
_TABLES_OF_COLORS = (
    *("class_dict.csv", "class_dict_seg.csv", "labelmap.csv"),
    *("label_colors.txt", "labelmap.txt", "dataset_meta.json"),
)
_LAST_WORD = re.compile(r"_[^_./]*(?=\.[^./]+$)")
_NUMBERED = re.compile(r"_\d+\.[^./]+$")  # what further masks of an image end in: `1_mask_1.png`
_KINDS = frozenset({"png", "gif", "bmp", "tif", "tiff"})  # lossless: others change numbers
_DEEPEST = 64  # directories above a mask in an archive


class MaskFiles(NamedTuple):
    """The files that may be masks, in the directory of ``--masks``.

    Attributes:
        root: The directory, on a disk or in the archive of the images.
        sizes: The bytes of each file, by its path below the directory.
        places: Where each lies in the archive: its offset, and its bytes there. None for files.
        inside: What of its path lies below the directory of the images; empty for this itself, and
            None if it lies elsewhere.
        above: What of the path of the images lies below it, likewise.
        pattern: Whether a pattern chooses the files.
        others: The files there that the pattern does not mean.
        table: The table of colors of classes that lies there, which masks in color need.
    """

    root: str
    sizes: Mapping[str, int]
    places: Mapping[str, tuple[int, int]] | None
    inside: str | None
    above: str | None
    pattern: bool = False
    others: Collection[str] = ()
    table: str = ""

    def masks(self, paths: Sequence[str]) -> Masks:
        """Return some of these as the masks of images; an empty path is that of none."""
        masks = Masks(self.root, tuple(paths), [self.sizes.get(path, 0) for path in paths])
        if self.places is None:
            return masks
        places = [self.places.get(path, (0, 0)) for path in paths]
        return replace(masks, offsets=[at for at, _ in places], stored=[size for _, size in places])

    def as_below(self, paths: Sequence[str]) -> list[str]:
        """Return the paths of images below this directory; none if they do not lie there."""
        return [] if self.above is None else [posixpath.join(self.above, path) for path in paths]

    def as_images(self, paths: Collection[str]) -> set[str]:
        """Return the paths of masks as those of images are; none if they do not lie there."""
        if self.inside is not None:
            return {posixpath.join(self.inside, path) for path in paths}
        top = f"{self.above}/"
        own = set() if self.above is None else {path for path in paths if path.startswith(top)}
        return {path.removeprefix(top) for path in own}


def masks_among(root: str, files: Files, paths: Sequence[str]) -> Masks:
    """Return images of a source as the masks of others; an empty path is that of none."""
    columns = ["path", "size", *(("offset", "stored") if files.archive is not None else ())]
    wanted = files.table["path"].is_in(list(paths))
    rows = {path: row for path, *row in files.table.filter(wanted).select(columns).iter_rows()}
    nothing = [0] * (len(columns) - 1)
    masks = [rows.get(path, nothing) for path in paths]
    sizes, *places = ([row[at] for row in masks] for at in range(len(nothing)))
    found = Masks(root, tuple(paths), sizes)
    return replace(found, offsets=places[0], stored=places[1]) if places else found


def mask_files(source: Source, files: Files, run_all: RunAll) -> MaskFiles:
    """List the files that may be masks, on a disk or in the archive of the images."""
    root, pattern = _divided(str(source.masks))
    if posixpath.basename(root.rstrip("/")) == "SegmentationObject":
        raise OptionError(
            f"--masks {root}: its pixels are numbers of objects, not of classes: give "
            "SegmentationClass"
        )
    places = None
    if files.archive is not None and (root == files.archive.path or not exists(root)):
        full, images, sizes, places = _in_archive(source, root, files, files.archive)
    else:
        _require_directory(root)
        full, images, sizes = full_path(root), full_path(source.root), files_below(root, run_all)
    meant = {path: size for path, size in sizes.items() if _is_like(path, pattern or "*")}
    if not meant:
        raise OptionError(f"--masks {source.masks}: holds no PNG, GIF, BMP or TIFF")
    inside, above = _within(full, images), _within(images, full)
    others, table = sizes.keys() - meant.keys(), _table_of_colors(source, files, root)
    return MaskFiles(root, meant, places, inside, above, bool(pattern), others, table)


def _table_of_colors(source: Source, files: Files, root: str) -> str:
    """Return the table of colors of classes below SOURCE, or beside masks; empty without one."""
    if source.mask_colors is not None:
        return ""
    others = (each.path for each in files.findings if each.kind == "not-an-image")
    own = [path for path in others if posixpath.basename(path).lower() in _TABLES_OF_COLORS]
    if own:
        return posixpath.join(source.root, min(own, key=lambda path: (path.count("/"), path)))
    above = posixpath.dirname(full_path(root))
    beside = (posixpath.join(above, name) for name in _TABLES_OF_COLORS)
    return "" if files.archive is not None else next(filter(exists, beside), "")


def _divided(masks: str) -> tuple[str, str]:
    """Return the directory of ``--masks``, and the pattern of names; empty if there is none."""
    directory, name = posixpath.split(masks)
    return (directory or ".", name) if "*" in name and not exists(masks) else (masks, "")


def _is_like(path: str, pattern: str) -> bool:
    return fnmatchcase(posixpath.basename(path), pattern)


def _require_directory(root: str) -> None:
    from dsprep.places.archive import is_archive, split_path

    if is_dir(root):
        return
    if not split_path(root)[0] or not is_archive(root):
        raise SourceError(f"--masks {root}: is not a directory")
    raise SourceError(
        f"--masks {root}: lies in an archive, and the images in another place: unpack it, or put "
        "images and masks into one archive"
    )


def _in_archive(
    source: Source, named: str, files: Files, archive: Archive
) -> tuple[str, str, dict[str, int], dict[str, tuple[int, int]]]:
    """Find the files that may be masks in the archive of the images.

    Returns the directory, that of the images, and the size and the place of each file.
    """
    from dsprep.places.files import files_of

    every = files_of(replace(archive, below=""), _KINDS)
    found = _directory_in(source, named, files, archive, every)
    if found:
        every = every.below(found)
    columns = every.table.select("path", "size", "offset", "stored").iter_rows()
    rows = {path: (size, (offset, stored)) for path, size, offset, stored in columns}
    sizes, places = ({path: row[at] for path, row in rows.items()} for at in (0, 1))
    full, images = (f"/{each}".rstrip("/") or "/" for each in (found, files.start))
    return full, images, sizes, places  # type: ignore[return-value]


def _directory_in(source: Source, named: str, files: Files, archive: Archive, every: Files) -> str:
    """Return the directory in an archive that a user names, with or without those above it."""
    import polars as pl

    if named == source.root:
        return files.start
    if named == archive.path:
        return ""
    wanted = posixpath.normpath(
        named.removeprefix(f"{source.root.rstrip('/')}/").removeprefix(f"{archive.path}/")
    )
    assert every.others is not None
    paths = pl.concat([every.table["path"], every.others["path"]])
    above = {posixpath.dirname(path) for path in paths}
    directories = {
        "/".join(path.split("/")[: at + 1])
        for path in above
        for at in range(min(path.count("/") + 1, _DEEPEST))
    }
    likely = (posixpath.join(files.start, wanted), posixpath.join(archive.below, wanted), wanted)
    if exact := next((each for each in likely if each in directories), ""):
        return exact
    ends = sorted(each for each in directories if each.endswith(f"/{wanted}"))
    if len(ends) > 1:
        raise SourceError(f"--masks {named}: may be {' or '.join(ends[:2])} of {archive.path}")
    if not ends:
        raise SourceError(
            f"--masks {named}: does not exist, neither on the disk nor in {archive.path}"
        )
    return ends[0]


def _within(path: str, top: str) -> str | None:
    """Return a path below another, empty for this itself; None if it lies elsewhere."""
    if path == top:
        return ""
    top = f"{top.rstrip('/')}/"
    return path.removeprefix(top) if path.startswith(top) else None


def files_below(root: str, run_all: RunAll) -> dict[str, int]:
    """Return the files in a directory that may be masks, with their sizes."""
    known: dict[str, int] = {}
    for scanned in scan_below(root, _KINDS, run_all):
        names = scanned.paths.split("\0") if scanned.sizes else []
        known |= zip(names, scanned.sizes, strict=True)
    return known


# Images that are masks of others


def without_mask_files(source: Source, files: Files, masks: MaskFiles) -> Files:
    """Return the files without the images that are masks of others.

    A directory below SOURCE has nothing but masks. If it is SOURCE itself, or above, the masks of
    others are none, and what is called like these.
    """
    import polars as pl

    table, path = files.table, pl.col("path")
    if masks.inside:
        samples = table.filter(~path.str.starts_with(f"{masks.inside}/"))
        if samples.is_empty():
            raise OptionError(
                f"--masks {masks.root}: has all images of {source.root}: if masks lie among the "
                "images, give the same directory as SOURCE"
            )
        left = table.filter(path.str.starts_with(f"{masks.inside}/"))["path"].sort().to_list()
        lossy = [path for path in left if extension_in(path).removeprefix(".") not in _KINDS]
        return files._replace(table=samples, findings=[*files.findings, *_lossy(masks, lossy)])
    if masks.above is None:
        return files
    own = {*_found(masks, table["path"].sort().to_list())} - {""}
    calls = {convention(each) for each in own if is_called_mask(each)}
    every = (*masks.sizes, *masks.others)
    alike = {each for each in every if is_called_mask(each) and convention(each) in calls}
    findings = [*files.findings, *_not_meant(source, sorted(alike.intersection(masks.others)))]
    samples = table.filter(~path.is_in(list(masks.as_images(own | alike))))
    return files._replace(table=samples, findings=findings)


def _not_meant(source: Source, paths: Sequence[str]) -> Iterator[Finding]:
    """Note which files are called like masks, and that the pattern of masks does not mean them."""
    if paths:
        said = f"{format_count(len(paths), 'file')} called like masks and not in {source.masks}"
        yield Finding("note", "", f"{said}: {format_some(paths)}")


def _lossy(masks: MaskFiles, paths: Sequence[str]) -> Iterator[Finding]:
    """Note which images are neither samples nor masks, as they lie in the directory of masks."""
    if paths:
        yield Finding(
            "note",
            "",
            f"{format_count(len(paths), 'image')} in {masks.root} taken neither for samples nor "
            f"for masks, which are PNG, GIF, BMP or TIFF: {format_some(paths)}",
        )


# Which mask belongs to which image


def find_masks(
    source: Source, files: MaskFiles, paths: Sequence[str], images: Reader
) -> tuple[Masks, Sequence[str]]:
    """Find the mask of each image in a directory: by its path without extension, or its stem.

    Returns also the files there that are the mask of no image.

    Args:
        source: What the user named, with the options.
        files: The files that may be masks.
        paths: The paths of the images.
        images: What reads the images.
    """
    found = _found(files, paths)
    if not any(found):
        raise SourceError(
            f"{files.root}: not one of its {format_count(len(files.sizes), 'file')} is called like "
            f"an image, {next(iter(files.sizes))!r} and {paths[0]!r} for example"
        )
    layers = [found, *(_further(files, found) if files.pattern else ())]
    masks, *further = (files.masks(layer) for layer in layers)
    colors, values = _colors(source), _values(source)
    masks = replace(masks, colors=colors, values=values, further=tuple(further))
    try:
        require_numbers(masks, images)
    except SourceError:
        if colors or values:
            raise
        named = named_colors_in(_text(source, files.table)) if files.table else {}
        if named:
            colors = {color: at for at, color in enumerate(named)}
            masks = replace(masks, colors=colors, names=tuple(named.values()))
            require_numbers(masks, images)
        elif (taken := black_and_white(masks, images)) is not None:
            masks = taken
        else:
            raise
    used = {path for layer in layers for path in layer}
    return masks, sorted(files.sizes.keys() - {*used, *files.as_below(paths)})


def is_further(path: str, stems: Collection[str]) -> bool:
    """Return whether a file is called like a further mask, as `1_mask_1.png` beside `1_mask`."""
    return _NUMBERED.sub("", path) in stems


def further_masks(paths: Collection[str]) -> Sequence[str]:
    """Return the files that are further masks of an image beside its first one."""
    stems = {posixpath.splitext(path)[0] for path in paths}
    return [path for path in paths if is_further(path, stems)]


def joining(root: str, masks: Sequence[str], further: Sequence[str]) -> str:
    """Return the pattern that takes the masks of images and further ones: ``*_mask*.png``.

    It has the last word of the masks if all have the same: ``*.png`` takes `1.png` and `2.png`.
    """
    words = {"".join(_LAST_WORD.findall(path)) for path in masks}
    extensions = {extension_in(path) for path in (*masks, *further)}
    word, extension = (found.pop() if len(found) == 1 else "" for found in (words, extensions))
    return posixpath.join(root, f"*{word}*{extension}".replace("**", "*"))


def _further(files: MaskFiles, found: Sequence[str]) -> Iterator[list[str]]:
    """Yield further masks of the images, one of each at a time, in the order of their numbers.

    The mask of an image is none of another: ``1_2.png`` is that of ``1_2.jpg``.
    """
    own: dict[str, list[str]] = {posixpath.splitext(path)[0]: [] for path in found if path}
    more = [path for path in files.sizes.keys() - {*found} if is_further(path, own)]
    for path in sorted(more, key=lambda path: (len(path), path)):
        own[_NUMBERED.sub("", path)].append(path)
    of_each = [own[posixpath.splitext(path)[0]] if path else [] for path in found]
    for number in range(max(map(len, of_each), default=0)):
        yield [each[number] if number < len(each) else "" for each in of_each]


def _found(files: MaskFiles, paths: Sequence[str]) -> list[str]:
    """Return the mask of each image: empty for none.

    If masks have none of the usual names, they have what their names go on with in common, or a
    word less or more in their names: ``gt_0001.png`` is of ``image_0001.png``.
    """
    found = _found_by(files, paths, _ENDINGS, is_called_mask)
    if any(found):
        return found
    endings = endings_of_masks(files.sizes, paths)
    if len(endings) > 1:
        some = format_some([_pattern(files, ending) for ending in endings])
        raise OptionError(
            f"--masks {files.root}: has several masks of an image: give one of {some}"
        )
    if not endings:
        return _found_by_words(files, paths)
    (ending,) = endings
    is_mask = partial(_ends_in, ending)
    return _found_by(files, paths, ("", ending), is_mask, IMAGE_ENDING.pattern)


def _found_by_words(files: MaskFiles, paths: Sequence[str]) -> list[str]:
    """Return the mask of each image by their names without words such as `image` and `gt`.

    There are none if two images of a side, or two masks, have such a name in common. An image in
    ``cat/`` has no mask in ``dog/``.
    """
    from dsprep.places.names import side_above

    top = posixpath.basename(files.root.rstrip("/"))
    images = [(side_above(path), name_in_common(path)) for path in paths]
    masks = {(side_above(f"{top}/{path}"), name_in_common(path)): path for path in files.sizes}
    are_clear = len({*images}) == len(images) and len(masks) == len(files.sizes)
    if not are_clear or files.inside == "" or files.above is not None:
        return [""] * len(paths)
    found = [masks.get(own, "") for own in images]
    pairs = zip(paths, found, strict=True)
    return [mask if _are_in_parallel(path, mask) else "" for path, mask in pairs]


def _are_in_parallel(image: str, mask: str) -> bool:
    """Return whether the directories of a mask are those at the end of an image's, or reverse."""
    from dsprep.places.names import side_name

    one, other = (
        [
            name
            for name in path.split("/")[:-1]
            if not (is_for_images(name) or is_for_masks(name) or side_name(name))
        ]
        for path in (image, mask)
    )
    count = min(len(one), len(other))
    return one[len(one) - count :] == other[len(other) - count :]


def _pattern(files: MaskFiles, ending: str) -> str:
    """Return what ``--masks`` takes for the masks of one ending."""
    path = next(path for path in files.sizes if _ends_in(ending, path))
    return shlex.quote(posixpath.join(files.root, f"*{ending}{extension_in(path)}"))


def _ends_in(ending: str, path: str) -> bool:
    return posixpath.splitext(path)[0].endswith(ending)


def _found_by(
    files: MaskFiles,
    paths: Sequence[str],
    endings: Sequence[str],
    is_mask: Callable[[str], bool],
    image_ending: str = "",
) -> list[str]:
    """Return the mask of each image, which has one of these endings more; empty for none.

    ``image_ending`` is what names of images may end in instead.
    """
    from dsprep.places.match import match, texts  # imported late: workers do not need it
    from dsprep.places.names import side_above

    pairs = zip(paths, files.as_below(paths), strict=False)
    own = {path for path, name in pairs if name in files.sizes}
    called = set(filter(is_mask, files.sizes)) if own else set()
    masks = own & files.as_images(called)
    plain, others = sorted(own - masks), sorted({*paths} - own)
    # An image that is one of these files is not its own mask: its mask is called so, or has an
    # ending more.
    bare = texts(f"{posixpath.splitext(path)[0]}." for path in sorted(masks))
    known, found = texts(files.sizes), dict[str, str | None]()
    for meant in (
        match(texts(others), known, _spellings(endings, image_ending), nearest=True),
        match(texts(plain), texts(sorted(called)), _spellings(endings, image_ending), nearest=True),
        match(bare, known, _spellings(endings[1:], image_ending), nearest=True)._replace(
            names=texts(sorted(masks))
        ),
    ):
        meant.refuse_several(
            files.root,
            lambda one, two: ": give the directory whose paths are those of the images",
            says="the mask of {} may be",
        )
        found |= zip(meant.names, meant.paths, strict=True)
    top = posixpath.basename(files.root.rstrip("/"))
    sides = ((side_above(path), side_above(f"{top}/{found[path] or ''}")) for path in paths)
    are_apart = [bool(own and other) and own != other for own, other in sides]
    return [
        "" if is_apart else found[path] or ""
        for path, is_apart in zip(paths, are_apart, strict=True)
    ]


def _spellings(endings: Sequence[str], image_ending: str) -> Iterator[Spelling]:
    """Compare paths without extension, then stems; those of masks may have an ending more.

    Between these, directories do not count that say only what kind of files they hold, so that
    ``train/images/1.jpg`` has the mask ``train/masks/1.png``.
    """
    import polars as pl

    from dsprep.places.match import NAME, PATH, Spelling, bare, stem

    for form in (bare, _plain, stem):
        mask = form(PATH).str
        forms = [pl.when(mask.ends_with(end)).then(mask.strip_suffix(end)) for end in endings]
        forms.append(pl.when(mask.starts_with(_BEGIN)).then(mask.strip_prefix(_BEGIN)))
        name = form(NAME).str.replace(image_ending, "")
        yield Spelling(name, pl.concat_list(forms).list.drop_nulls())


def _plain(path: pl.Expr) -> pl.Expr:
    """Return paths without extensions, and without the words for files in their directories."""
    import polars as pl

    from dsprep.places.match import bare, base
    from dsprep.places.names import COMPANION_OF_SIDE, FILE_WORDS
    from dsprep.sources.mask_names import MASK_WORDS

    words = FILE_WORDS | MASK_WORDS
    each = pl.element().str.replace(COMPANION_OF_SIDE, "$1")
    kept = each.filter(~each.str.to_lowercase().is_in(sorted(words)))
    above = bare(path).str.replace(r"/?[^/]*$", "").str.split("/").list.eval(kept)
    return above.list.join("/") + "/" + base(bare(path))


# What the pixels mean


def _colors(source: Source) -> dict[tuple[int, int, int], int] | None:
    if source.mask_colors is None:
        return None
    return colors_in(_text(source, source.mask_colors), source.mask_colors)


def _values(source: Source) -> dict[int, int] | None:
    """Return the class numbers of pixels that are others: `255=1`."""
    values: dict[int, int] = {}
    for pixel, number in (source.mask_values or {}).items():
        try:
            values[int(pixel)] = int(number)
        except ValueError:
            values[-1] = -1
        if any(not (0 <= value < 1 << 16 and 0 <= own <= 255) for value, own in values.items()):
            raise OptionError(
                f"--mask-values {pixel}={number}: a value is 0 to 65535, a class number 0 to 255"
            )
    return values or None


def mask_names(source: Source) -> tuple[str, ...]:
    """Return the names of the classes of masks; none if nobody gave them."""
    from dsprep.lists.store import classes_in  # imported late: workers do not need it

    if source.mask_classes is None:
        return ()
    return classes_in(_text(source, source.mask_classes), source.mask_classes)


def _text(source: Source, path: str) -> str:
    """Read a file of classes or colors, on a disk or in the archive of the images."""
    from dsprep.places.files import read_beside
    from dsprep.text import decode_text

    return decode_text(read_beside(source.root, path), path)
