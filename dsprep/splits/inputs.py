"""What a split reads: the samples, and the file that gives them sides or classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from dsprep.errors import OptionError
from dsprep.lists.store import read_classes
from dsprep.sources.reading import Source, make_source
from dsprep.splits.asked import Asked
from dsprep.splits.assigned import Assignment, assigned_values, class_labels, parse_assignment
from dsprep.splits.reading import Samples, is_list, list_source, read_rows
from dsprep.text import read_text

Look = Callable[[Source], Samples]
"""Looks for the files of a source."""


def read_inputs(asked: Asked, look: Look) -> tuple[Samples, pl.Series | None]:
    """Read the samples; with the classes that a file gives, or beside the sides that it gives."""
    if asked.assign is None:
        return _read_samples(asked, None, look), None
    text = read_text(asked.assign)
    assignment = parse_assignment(
        text, asked.assign, asked.assign_column, asked.path_column, is_shared=bool(asked.labels)
    )
    samples = _read_samples(asked, assignment, look)
    paths = samples.rows["path"]
    values = assigned_values(assignment, paths, asked.assign, asked.skip_unmatched)
    if assignment.gives == "side":
        return samples, values
    if samples.labeled:
        raise OptionError(f"{asked.assign}: gives classes, but {asked.source} has labels already")
    named = read_classes(asked.classes) if asked.classes else None
    label, classes = class_labels(assignment, values, named, asked.assign)
    rows = samples.rows.with_columns(label)
    return replace(samples, rows=rows, classes=classes, labeled=True, in_folders=False), None


def _read_samples(asked: Asked, assignment: Assignment | None, look: Look) -> Samples:
    if asked.others or not is_list(asked.source):
        gives_classes = assignment is not None and assignment.gives != "side"
        is_of_assignment = assignment is not None and asked.labels is None
        return look(
            make_source(
                asked.source,
                others=asked.others,
                list_file=asked.list_file,
                labels=asked.labels,
                path_column=None if is_of_assignment else asked.path_column,
                label_columns=asked.label_columns,
                label_separator=asked.label_separator,
                label_type=asked.choice.label_type,
                choice=asked.choice,
                duplicates=asked.duplicates,
                classes=None if gives_classes else asked.classes,
                class_order=asked.class_order,
                extensions=asked.extensions,
                kind=asked.kind,
                parts=asked.parts,
                pairs=dict(asked.pairs),
                whole=True,
            )
        )
    if asked.root is not None:
        return look(list_source(asked.source, asked.root, asked.classes, asked.duplicates))
    if asked.leaks is not None or asked.materialize is not None:
        raise OptionError(
            "--leaks and --materialize need the files: give --root, the directory that the paths "
            "of the list start from"
        )
    return read_rows(asked.source, asked.classes, asked.duplicates)
