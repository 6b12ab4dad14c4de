"""Label Studio's export as JSON: a list of tasks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dsprep.annotations.label_studio import REFUSED, chosen, drawn, parse
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.numbering import not_given, number_classes, numbers_of
from dsprep.places.prefetch import Pieces
from dsprep.sample import image_kind_of
from dsprep.sources.annotated.annotated import Scan, some_lines
from dsprep.sources.annotated.json_file import Spans, list_items
from dsprep.units import format_count, format_some, quoted_names

if TYPE_CHECKING:
    from dsprep.sources.source import Source

_SHOWN = 3


def scan_label_studio(source: Source, path: str) -> Scan:
    """Find the tasks of an export, and the classes."""
    sha, copy = hashlib.sha256(), Pieces(path)
    names, counts, places = list[str](), list[int](), list[tuple[int, int]]()
    used, left_out = set[str](), Counter[str]()
    damaged, several, skipped = list[str](), list[str](), list[str]()
    refused: dict[str, list[str]] = {}
    items = list_items(path, "list of tasks", sha.update, copy.add)
    for at, (offset, size, task) in enumerate(items, 1):
        id = f"task {task.get('id', at)}"
        try:
            name = _image_of(task, source.path_column)
            annotation, count = chosen(task)
            found = None if annotation is None else drawn(annotation)
        except (ValueError, TypeError) as error:
            damaged.append(f"{id}: {error}")
            continue
        if found is None:
            skipped.append(name)
            continue
        several += [id] if count > 1 else []
        for what in dict.fromkeys(found.refused):
            refused.setdefault(what, []).append(id)
        left_out.update(found.left_out)
        used.update(name for name, _ in found.shapes)
        names.append(name)
        counts.append(len(found.shapes))
        places.append((offset, size))
    _require_read(path, damaged, refused)
    if not names:
        why = "no task is annotated" if skipped else "the list is empty"
        raise SourceError(f"{path}: {why}")
    classes = number_classes(used, source.known_classes(), path, not_given)
    notes = [f"{format_count(count, what)}, not read" for what, count in sorted(left_out.items())]
    if several:
        notes.append(
            f"{format_count(len(several), 'task')} with several annotations; the one "
            f"marked as ground truth is taken, or the first: {format_some(several)}"
        )
    if skipped:
        said = f"{format_count(len(skipped), 'task')} skipped or not annotated"
        notes.append(f"{said}, so that their images are left out: {format_some(skipped)}")
    spans = Spans(copy.path, copy.state, numbers_of(classes), parse)
    copy.belong_to(spans)
    return Scan(
        spans,
        names,
        counts,
        [size for _, size in places],
        classes,
        (),
        sha.hexdigest(),
        path,
        [Finding("note", "", f"{path}: {note}") for note in notes],
        places=places,
        flags=False,
    )


def _image_of(task: Mapping[str, Any], column: str | None) -> str:
    """Return what a task calls its image."""
    data = task.get("data")
    if not isinstance(data, dict):
        is_coco = {"image_id", "category_id"} <= task.keys()
        raise ValueError(
            "is an annotation or a result of COCO: give the JSON with images and categories"
            if is_coco
            else "has no data, as tasks of Label Studio have: export as JSON, not as JSON-MIN"
        )
    texts = {name: value for name, value in data.items() if isinstance(value, str) and value}
    found = [name for name, value in texts.items() if image_kind_of(value.partition("?")[0])]
    name = column or ("image" if "image" in data else found[0] if len(found) == 1 else "")
    if name not in texts:
        raise ValueError(
            f"its data does not tell which text is the image: give --path-column with one of "
            f"{quoted_names(list(data), _SHOWN)}"
        )
    return texts[name]


def _require_read(path: str, damaged: Sequence[str], refused: Mapping[str, Sequence[str]]) -> None:
    """Refuse an export with damaged tasks, or with regions that dsprep does not read."""
    told = [f"{format_count(len(damaged), 'task')} cannot be read"] if damaged else []
    if refused:
        told.append(f"dsprep does not read {' and '.join(sorted(refused))}")
    lines = [
        f"  {what} in {format_count(len(ids), 'task')} ({format_some(ids)}): {REFUSED[what]}"
        for what, ids in sorted(refused.items())
    ]
    if told:
        lines = some_lines(damaged, len(damaged)) + lines
        raise SourceError(f"{path}: {'; '.join(told)}:", *lines)
