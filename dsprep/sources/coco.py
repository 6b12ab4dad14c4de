"""COCO's JSON: images, categories and annotations in one file, in any order.

The annotations of an image may lie anywhere in the file. Only where each begins is kept of them.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dsprep.annotations.coco import parse
from dsprep.annotations.objects import Objects
from dsprep.errors import SourceError
from dsprep.sources.annotated import Annotations, Scan
from dsprep.sources.prefetch import read_at
from dsprep.storage.files import open_file
from dsprep.units import format_count, format_some

_BLOCK = 1 << 24
_LONGEST = 1 << 28  # bytes of one item: a crowd's runs may be long
_BETWEEN = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class CocoAnnotations(Annotations):
    """The spans of annotations in files of COCO's."""

    files: tuple[str, ...]
    classes: dict[int, int]  # numbers by category ids
    starts: array[int]  # the first span of each image, and at last the number of spans
    file: array[int]  # of each span, the number of its file
    offsets: array[int]
    sizes: array[int]
    extents: array[int]  # width and height of each image, 0 if the file does not tell them

    def objects(self, number: int) -> Objects:
        spans = range(self.starts[number], self.starts[number + 1])
        texts = []
        for at in spans:
            with open_file(self.files[self.file[at]]) as file:
                texts.append(read_at(file, self.sizes[at], self.offsets[at]))
        width, height = self.extents[2 * number : 2 * number + 2]
        extent = (float(width), float(height)) if width and height else None
        return Objects(parse(texts, self.classes), extent)


def scan_coco(files: Sequence[str]) -> Scan:
    """Find the images, categories and annotations in files of COCO's."""
    import polars as pl

    sha = hashlib.sha256()
    images: dict[tuple[int, int], int] = {}  # numbers by file and id
    names: list[str] = []
    extents = array("q")
    categories: dict[int, str] = {}
    flags = False
    spans = {name: array("q") for name in ("file", "image", "offset", "size")}
    for at, path in enumerate(files):
        for section, offset, size, item in _items(path, sha):
            try:
                if section == "annotations":
                    flags = flags or bool(item.get("iscrowd"))
                    place = (at, item["image_id"], offset, size)
                    for column, number in zip(spans.values(), place, strict=True):
                        column.append(number)
                elif section == "images":
                    if images.setdefault((at, item["id"]), len(names)) != len(names):
                        raise SourceError(f"{path}: two images have the id {item['id']}")
                    names.append(str(item.get("file_name") or item["coco_url"]))
                    extents.extend((int(item.get("width") or 0), int(item.get("height") or 0)))
                elif section == "categories":
                    categories[item["id"]] = str(item["name"])
            except (KeyError, TypeError) as error:
                raise SourceError(f"{path}: an item of {section} lacks {error}") from None
    ids = tuple(sorted(categories))
    table = pl.DataFrame(spans, schema=dict.fromkeys(spans, pl.Int64))
    known = pl.DataFrame(
        [(file, id, number) for (file, id), number in images.items()],
        schema=dict.fromkeys(("file", "image", "number"), pl.Int64),
        orient="row",
    )
    table = table.join(known, on=["file", "image"], how="left", maintain_order="left")
    lost = table.filter(pl.col("number").is_null())
    if not lost.is_empty():
        raise SourceError(
            f"{files[lost['file'][0]]}: {format_count(lost.height, 'annotation')} of images that "
            f"are not in images: {format_some(lost['image'].unique().sort().to_list())}"
        )
    table = table.sort("number", maintain_order=True)
    of_image = (
        known.sort("number")
        .select("number")
        .join(
            table.group_by("number").agg(pl.len(), pl.col("size").sum()),
            on="number",
            how="left",
            maintain_order="left",
        )
        .fill_null(0)
    )
    starts = pl.concat([pl.Series("len", [0], pl.Int64), of_image["len"].cum_sum().cast(pl.Int64)])
    annotations = CocoAnnotations(
        tuple(files),
        {id: number for number, id in enumerate(ids)},
        array("q", starts.to_list()),
        array("q", table["file"].to_list()),
        array("q", table["offset"].to_list()),
        array("q", table["size"].to_list()),
        extents,
    )
    classes = tuple(categories[id] for id in ids)
    counts, texts = (of_image[name].to_list() for name in ("len", "size"))
    return Scan(
        *(annotations, names, counts, texts, classes, ids, sha.hexdigest()),
        format_some(list(files)),
        flags=flags,
    )


def _items(path: str, sha: Any) -> Iterator[tuple[str, int, int, Any]]:
    """Return the items of each list in a file: its name, and where each item lies.

    Text is read as Latin-1, of which each byte is a character, so that places are those of bytes.
    """
    scan = json.JSONDecoder().raw_decode
    with open_file(path) as file:
        text, start, end = "", 0, False  # the text that is held, and where it begins

        def fill() -> bool:
            nonlocal text, end
            block = read_at(file, _BLOCK, start + len(text))
            sha.update(block)
            text += block.decode("latin-1")
            end = not block
            return bool(block)

        def skip(position: int) -> int:
            while True:
                position = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
                if position < len(text) or not fill():
                    return position

        def value(position: int) -> tuple[Any, int]:
            while True:
                try:
                    found, stop = scan(text, position)
                    if stop < len(text) or not fill():  # a number may go on
                        return found, stop
                except ValueError:
                    if len(text) - position > _LONGEST or not fill():
                        where = start + position
                        raise SourceError(
                            f"{path}: is no JSON of COCO's, or ends early: byte {where:,}"
                        ) from None

        def expect(position: int, marks: str) -> int:
            position = skip(position)
            if text[position : position + 1] not in marks or position >= len(text):
                raise SourceError(
                    f"{path}: is no JSON of COCO's, or ends early: byte {start + position:,}"
                )
            return position

        at = expect(0, "{") + 1
        while True:
            at = expect(at, '"}')
            if text[at] == "}":
                return
            name, at = value(at)
            at = skip(expect(at, ":") + 1)
            if text[at : at + 1] != "[":
                _, at = value(at)
            else:
                at += 1
                while text[at := expect(at, '{[]"0123456789-tfn,')] != "]":
                    if text[at] == ",":
                        at += 1
                        continue
                    found, stop = value(at)
                    if name != "annotations":  # names of files and classes are no Latin-1
                        found = json.loads(text[at:stop].encode("latin-1"))
                    yield name, start + at, stop - at, found
                    at = stop
                    if at > _BLOCK:
                        text, start, at = text[at:], start + at, 0
                at += 1
            at = expect(at, ",}")
            at += text[at] == ","
