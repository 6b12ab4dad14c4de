"""Captions of Flickr8k, Flickr30k and the like, and the sides that Karpathy's JSON or lists tell.

Flickr's ``NAME.token`` has a line for each caption: ``1.jpg#0``, a tab, the text; Flickr8k has a
list of names for each side. Kaggle's copies are tables: ``image,caption`` or ``image_name|
comment_number| comment``. Karpathy's ``dataset_flickr30k.json`` has a list ``images`` of
``filename``, ``split`` and ``sentences``, whose texts are ``raw``
(cs.stanford.edu/people/karpathy/deepimagesent).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from dsprep.csv_parsers import CsvError, records_of
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.places.names import told_sides
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.coco_captions import values_of_captions
from dsprep.sources.annotated.coco_items import CocoFile, items_of
from dsprep.storage.files import full_path
from dsprep.units import format_count, quoted, quoted_names

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_NUMBERED = re.compile(r"([^\t]+)#\d+\t(.+)")
# of the table of Flickr30k; one line of Kaggle's copy has no bar behind the number
_BARRED = re.compile(r"([^|]+?)\s*\|\s*\d+\s*\|?\s*(.+)")
_SENTENCE = frozenset(("raw", "tokens", "imgid", "sentid"))


class _Captions:
    """What files have told so far."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}  # by the name of the image
        self.sides: dict[str, str] = {}
        self.left_out = set[str]()

    def add(self, path: str, name: str, texts: Sequence[str], side: str = "") -> None:
        """Add captions of an image."""
        if self.sides.setdefault(name, side) != side:
            raise SourceError(
                f"{path}: {quoted(name)} is of the side {quoted(side)}, and of "
                f"{quoted(self.sides[name])} elsewhere: leave one of them out"
            )
        self.texts.setdefault(name, []).extend(texts)


def scan_captions(
    source: Source, place: AnnotatedPlace, forms: Mapping[str, str], lists: Mapping[str, str]
) -> Scan:
    """Read files of captions.

    Args:
        source: What the user named, with the options.
        place: The images, and the files beside them.
        forms: The files, with what `form_of` of `dsprep.sources.annotated.caption_files_kind`
            calls each.
        lists: Files of the names of the images of a side, with the side.
    """
    found, digest = _Captions(), sha256()
    top = f"{full_path(source.root)}/"
    where = " and ".join(map(posixpath.basename, forms)) if len(forms) < 3 else source.root
    for (path, form), side in zip(forms.items(), _sides_of([*forms], where), strict=True):
        if form == "json":
            texts = place.files.texts
            held = None if texts is None else texts[full_path(path).removeprefix(top)]
            _read_json(CocoFile(path, data=held), found, digest.update)
            continue
        text = _text_of(place, path)
        digest.update(text.encode())
        rows = _numbered(text, path) if form == "numbered" else _rows_of_table(text, path)
        for name, caption in rows:
            found.add(path, name, [caption], side)
    for path, side in lists.items():
        text = _text_of(place, path)
        digest.update(text.encode())
        _read_list(text, path, side, found)
    names = [*found.texts]
    sides = [found.sides.get(name, "") for name in names]
    not_kept = f"{where}: not kept: {quoted_names(sorted(found.left_out), 10)} of sentences"
    return Scan(
        *(None, names, (), (), (), (), digest.hexdigest(), where),
        findings=[Finding("note", "", not_kept)] if found.left_out else [],
        sides=sides if any(sides) else (),
        used=[full_path(path).removeprefix(top) for path in (*forms, *lists)],
        values=values_of_captions([found.texts[name] for name in names]),
    )


def _sides_of(paths: Sequence[str], where: str) -> Sequence[str]:
    """Return the side that the name of each file tells; refuse several files that tell none."""
    stems = [posixpath.splitext(posixpath.basename(path))[0] for path in paths]
    sides = told_sides(paths, stems)
    if not sides and len(paths) > 1:
        raise SourceError(
            f"{where}: have captions, and their names tell no sides: give --annotations with one "
            "of them, or call them like train_captions.txt"
        )
    return sides or [""] * len(paths)


def _text_of(place: AnnotatedPlace, path: str) -> str:
    text = place.files.text(place.root, path)
    if text is None:
        raise SourceError(
            f"{path}: tells sides, and is not read beside a file that --annotations names in an "
            "archive: leave this out, or unpack the archive"
        )
    return text


def _rows_of_table(text: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield the image and the caption of each row of a table with a header."""
    header = text.partition("\n")[0]
    mark = next(each for each in "|\t," if each in header)
    if mark == "|":
        yield from _matched(text, path, _BARRED, "NAME.jpg| 0| a caption", skip=1)
        return
    width, lines = header.count(mark) + 1, records_of(text, mark)
    try:
        next(lines)
        for cells in lines:
            if cells and len(cells) != width:
                raise SourceError(
                    f"{path}:{lines.line_num}: has {format_count(len(cells), 'cell')}, and the "
                    f"header {width}: put captions with such marks between quotes"
                )
            if cells:
                yield cells[0], cells[-1]
    except CsvError as error:
        raise SourceError(f"{path}:{lines.line_num}: cannot be read: {error}") from None


def _numbered(text: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield the image and the caption of each line."""
    return _matched(text, path, _NUMBERED, "NAME.jpg#0, a tab and a caption")


def _matched(
    text: str, path: str, form: re.Pattern[str], said: str, skip: int = 0
) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(text.split("\n"), 1):
        if at <= skip or not line.strip():
            continue
        found = form.fullmatch(line.rstrip("\r"))
        if found is None:
            raise SourceError(f"{path}:{at}: {quoted(line[:80])} is not {said}: correct the line")
        yield found[1], found[2]


def _read_json(file: CocoFile, found: _Captions, update: Any) -> None:
    """Read Karpathy's JSON."""
    for section, _, _, item in items_of(file, [update], what="JSON of captions"):
        if section != "images":
            continue
        try:
            name = posixpath.join(item.get("filepath") or "", item["filename"])
            texts = [each["raw"] for each in item["sentences"]]
            side = item.get("split") or ""
            if not all(isinstance(each, str) for each in (side, *texts)):
                raise TypeError("a caption or the split is no text")
            found.left_out.update(*(each.keys() - _SENTENCE for each in item["sentences"]))
            found.add(file.path, name, texts, side)
        except (KeyError, TypeError, AttributeError) as error:
            lacks = "lacks" if isinstance(error, KeyError) else "cannot be read:"
            raise SourceError(
                f"{file.path}: an item of images {lacks} {error}: correct it"
            ) from None


def _read_list(text: str, path: str, side: str, found: _Captions) -> None:
    """Read the names of the images of a side."""
    for line in filter(None, map(str.strip, text.split("\n"))):
        if found.sides.get(line):
            raise SourceError(f"{path}: {quoted(line)} is in two lists: leave it out of one")
        found.sides[line] = side
