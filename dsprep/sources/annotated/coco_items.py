"""The items of COCO's JSON: annotations that are written alike are found without parsing them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dsprep.errors import SourceError
from dsprep.sources.annotated.coco_captions import is_caption
from dsprep.sources.annotated.coco_segments import segments_in
from dsprep.sources.annotated.json_file import JsonText
from dsprep.storage.files import open_file
from dsprep.storage.pool import BlocksAhead, Update
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    import polars as pl

LISTS = ("images", "annotations", "categories")
SPANS = ("file", "image", "category", "id", "offset", "size", "is_label")
DRAWN = frozenset(("bbox", "segmentation", "keypoints"))  # keys of objects, and of no labels
# The parts of an annotation. Others that a tool writes have the same keys and other values. At each
# character, one part alone can go on: regular expressions of polars are fast then.
_SPACE = r"[ \t\r\n]*"
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_NUMBERS = r"[0-9.eE+\-, \t\r\n]*"
_PARTS = {
    "key": f"{_STRING}{_SPACE}:{_SPACE}",
    "text": _STRING,
    "list": rf"\[{_NUMBERS}(?:\[{_NUMBERS}\]{_NUMBERS})*\]",
    "number": "-?[0-9][0-9.eE+-]*",
    "word": "true|false|null",
}
_PART = re.compile("|".join(f"(?P<{name}>{part})" for name, part in _PARTS.items()))
_ID = re.compile(r'"(image_id|category_id|id)"')
_IDS = {"image_id": "image", "category_id": "category", "id": "id"}  # columns by keys
_JOINT = re.compile(rf"{_SPACE},{_SPACE}\{{")  # from the end of an annotation into the next one
_MOST_FORMS = 16  # forms of annotations that are looked for
_LONGEST_FORM = 1 << 14  # characters
_SOME = 1 << 22  # characters of annotations that are matched at once


class CocoFile(NamedTuple):
    """A file of COCO's."""

    path: str
    below: str = ""  # the directory below the root that its names start from, if images lie there
    side: str = ""  # the side that its images are, if that is known
    data: bytes | None = None  # its content, if it lies in an archive
    pngs: str | None = None  # the directory of its PNGs, if it is panoptic
    joins: bool = False  # whether its annotations say more of those of other files, by their ids


def _form(text: str, item: Any) -> str | None:
    """Return what matches annotations that are written as this one is, and takes their ids.

    It is a regular expression of polars, for what lies between the outer braces.
    """
    import polars as pl

    body = text[1:-1]
    parts, end, key = ["^"], 0, ""
    for part in _PART.finditer(body):
        parts.append(pl.escape_regex(body[end : part.start()]))
        kind, end = str(part.lastgroup), part.end()
        if kind == "key":
            found = _ID.match(part[0])
            key = found[1] if found else ""
            parts.append(pl.escape_regex(part[0]))
        elif kind == "number" and key:
            parts.append(f"(?P<{key}>-?[0-9]{{1,18}})")
        else:
            parts.append(f"(?:{_PARTS[kind]})")
    form = "".join((*parts, pl.escape_regex(body[end:]), "$"))
    if len(form) > _LONGEST_FORM:
        return None
    try:
        ids = {name: str(item[name]) for name in _IDS}
        is_own = pl.Series([body]).str.extract_groups(form).to_list() == [ids]
    except (pl.exceptions.ComputeError, LookupError, TypeError):
        return None
    return form if is_own else None


def _ids_of(bodies: pl.Series, form: str) -> pl.DataFrame:
    """Return the ids in annotations, on all cores; they are null where the form does not match."""
    import polars as pl

    ids = pl.col("body").str.extract_groups(form).struct.unnest().cast(pl.Int64)
    cores = pl.thread_pool_size()
    size = bodies.len() // cores + 1
    parts = (bodies.slice(core * size, size).to_frame().lazy() for core in range(cores))
    found = pl.concat(pl.collect_all([part.select(ids) for part in parts]))
    # the groups of a form are in the order of its keys, which others may have otherwise
    return found.select(pl.col(key).alias(column) for key, column in _IDS.items())


class WrittenAlike:
    """Takes annotations of a file that are written as others before them, without parsing them.

    Their ids are all that the scan needs: 20 times as fast as parsing them. Workers parse them all.
    """

    def __init__(self, file: int) -> None:
        self.tables: list[pl.DataFrame] = []  # what was taken, with the columns of `SPANS`
        self._file = file
        self._forms: dict[str, bool] = {}  # and whether these annotations are labels of images
        self._tries = _MOST_FORMS
        self._joint = ""  # from within an annotation into the next one
        self._runs: list[pl.DataFrame] = []  # what was found and not taken, in reverse
        self._stop = 0  # where in the file the first annotation begins that was not looked at

    def learn(self, text: str, position: int, stop: int, item: Any) -> None:
        """From now on, take annotations that are written as the one in this part of a text."""
        joint = _JOINT.match(text, stop)
        if joint is None or not self._tries:
            return
        self._tries -= 1
        form = _form(text[position:stop], item)
        if form is not None and form not in self._forms:
            self._forms[form] = DRAWN.isdisjoint(item)
            self._joint, self._stop = "}" + joint[0], 0

    def take(self, text: str, position: int, start: int) -> int:
        """Take annotations from a position of the text on; return where they end.

        The text begins at ``start`` in the file.
        """
        if not self._forms:
            return position
        if start + position >= self._stop:
            self._look(text[position : position + _SOME], start + position)
        while self._runs and (first := self._runs[-1]["offset"][0] - start) <= position:
            run = self._runs.pop()
            if first == position:
                self.tables.append(run)
                return int(run["offset"][-1] + run["size"][-1]) - start
        return position

    def _look(self, text: str, start: int) -> None:
        """Find annotations in a text that begins with one, at ``start`` in the file."""
        import polars as pl

        bodies = pl.Series([text[1:]]).str.split(self._joint).explode()
        size = bodies.str.len_chars().cast(pl.Int64) + len("{}")
        following = start + (size + len(self._joint) - len("}{")).cum_sum()
        offset = following.shift(1, fill_value=start)
        # What looks like a joint, and is none, leaves parts of no form. The last part may be cut.
        rest = pl.DataFrame({"body": bodies, "offset": offset, "size": size})[:-1]
        rest, self._stop = rest.with_row_index("row"), offset[-1]
        found = []
        for form, is_label in self._forms.items():
            ids = _ids_of(rest["body"], form)
            own = rest.with_columns(ids, is_label=pl.lit(int(is_label), pl.Int64))
            found.append(own.drop_nulls())
            rest = rest.filter(ids["id"].is_null())
        table = pl.concat(found).sort("row").with_columns(file=pl.lit(self._file, pl.Int64))
        begins = (table["row"].diff() != 1).fill_null(True).arg_true()
        bounds = pairwise([*begins, table.height])
        self._runs = [table[begin:end].select(SPANS) for begin, end in bounds][::-1]


def items_of(
    of: CocoFile,
    updates: Sequence[Update],
    alike: WrittenAlike | None = None,
    what: str = "JSON of COCO's",
) -> Iterator[tuple[str, int, int, Any]]:
    """Yield the items of each list in a file, with its name, but for what ``alike`` takes."""
    with (
        open_file(of.path) if of.data is None else BytesIO(of.data) as file,
        BlocksAhead(file, *updates) as blocks,
    ):
        held = JsonText(blocks, of.path, what)
        held.take("{")
        goes_on = held.begins("}")
        while goes_on:
            held.expect('"')
            *_, name = held.value()
            held.take(":")
            if (follows := held.following()) != "[":
                if name in LISTS and follows != "n":  # the list is null
                    raise SourceError(f"{of.path}: {name} is no list: correct it")
                if held.value()[-1] and name not in LISTS:
                    yield name, 0, 0, None
            else:
                held.position += 1
                has_more = held.begins("]")
                while has_more:
                    mark = held.following()
                    after = held.position
                    if alike is not None and mark == "{" and name == "annotations":
                        after = alike.take(held.text, held.position, held.start)
                    if after > held.position:
                        held.position = after
                        held.drop()
                    elif name == "annotations":
                        text, at = held.text, held.position
                        # workers reject the image of an object that is not UTF-8
                        offset, size, item = held.value(takes_latin_1=of.pngs is None)
                        is_object = isinstance(item, dict) and not is_caption(item)
                        if not is_object:
                            held.require_utf_8()
                        if alike is not None and is_object and of.pngs is None:
                            alike.learn(text, at, at + size, item)
                        yield name, offset, size, item
                        if of.pngs is not None:
                            yield from segments_in(held.last, offset, item, of.path)
                    else:
                        yield from ((name, 0, 0, item) for item in held.some())
                    has_more = held.goes_on("]")
            goes_on = held.goes_on("}")
        held.end()
