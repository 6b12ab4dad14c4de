"""The table of advice: each row is seen in an example, and its words name what exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import click
import polars as pl
import pytest

from dsprep.cli.main import cli
from dsprep.errors import SourceError
from dsprep.sources import advice
from dsprep.sources.advice import WORDS, Advice, ClassDirectories, advise, refuse
from dsprep.sources.labels.table import find_separator
from dsprep.sources.unread import UNREAD

COCO = {"images": [], "annotations": [], "categories": []}
BOX = "0 0.5 0.5 0.25 0.25\n"
TAGS = find_separator(["a b", "b a", "a", "b"])

EXAMPLES: dict[str, list[object]] = {
    "AS_LABELS": [
        '{"source-ref": "s3://bucket/a.jpg", "class": 1}\n',
        json.dumps(COCO),
        '[{"id": 1, "annotations": []}]',
        '<?xml version="1.0"?>\n<annotations><image/></annotations>',
        "<annotation><filename>a.jpg</filename></annotation>",
        '<?xml version="1.0"?>\n<html/>',
        2 * BOX,
    ],
    "AS_LABELS_JSON": ['{"a.jpg": 1}'],
    "FIRST_LINE_OF_LABELS": [["a.jpg", "cat"]],
    "FIRST_LINE_OF_NUMBERS": [["a", "7"]],
    "COLUMNS_OF_BOXES": [["file", "xmin", "label"]],
    "BOXES_WITHOUT_LABELS": [["file", "xmin"]],
    "CELLS_OF_SOURCE": [["a.jpg", "b.png"]],
    "TAGS_OF_SOURCE": [TAGS],
    "TAGS_OF_LABELS": [TAGS],
    "TABLE_TO_SPLIT": ["labels.CSV"],
    "CLASSES_IN_NAMES": [
        pl.Series([f"{age}_{age % 2}_20170116174525125.jpg.chip.jpg" for age in (25, 26)]),
        pl.Series([f"{name}.{number}.jpg" for name in ("cat", "dog") for number in range(2)]),
        pl.Series([f"{name}-{side}.jpg" for name in ("cat", "dog") for side in ("left", "top")]),
    ],
    "SPLITS_AS_CLASSES": [
        ClassDirectories(["train/cat", "train/dog", "val/cat"], "photos"),
        ClassDirectories(["train", "more/val"], "photos"),
    ],
    "KINDS_AS_CLASSES": [
        ClassDirectories(["images", "masks"], "photos"),
        ClassDirectories(["images", "labels"], "photos"),
    ],
    "DIRECTORY_AS_LIST": [["lists/train.lst", "lists/val.lst"], []],
    "TABLE_BESIDE": ["photos/labels.csv"],
}
OTHERS: dict[str, object] = {
    "AS_LABELS": "path,label\na.jpg,cat\n",
    "AS_LABELS_JSON": "0\t1\ta.jpg\n",
    "FIRST_LINE_OF_LABELS": ["path", "label"],
    "FIRST_LINE_OF_NUMBERS": ["path", "label"],
    "COLUMNS_OF_BOXES": ["path", "label"],
    "BOXES_WITHOUT_LABELS": ["path", "label"],
    "CELLS_OF_SOURCE": ["a.jpg", "1", "2"],
    "TAGS_OF_SOURCE": find_separator(["New York", "golden retriever"]),
    "TAGS_OF_LABELS": None,
    "TABLE_TO_SPLIT": "photos",
    "CLASSES_IN_NAMES": pl.Series(["a.jpg", "b.jpg"]),
    "SPLITS_AS_CLASSES": ClassDirectories(["cat", "dog"], "photos"),
    "KINDS_AS_CLASSES": ClassDirectories(["cat", "images"], "photos"),
    "TABLE_BESIDE": "",
}
FACTS = dict.fromkeys(("path", "column", "label", "text", "where", "what", "kept"), "x")


def tables() -> dict[str, tuple[Advice, ...]]:
    return {
        name: each
        for name, each in vars(advice).items()
        if isinstance(each, tuple) and each and isinstance(each[0], Advice)
    }


def commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield f"{above}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{above}{name} ")


def options_of(command: click.Command) -> set[str]:
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


def test_a_path_is_one_word_of_a_shell() -> None:
    assert WORDS.format("{a!q} {b!q} {a}", a="it's", b="b") == """'it'"'"'s' b it's"""


def test_each_row_is_seen_and_nothing_else_is() -> None:
    assert tables().keys() == EXAMPLES.keys() == OTHERS.keys() | {"DIRECTORY_AS_LIST"}
    for name, table in tables().items():
        assert len(table) == len(EXAMPLES[name]), name
        for row, example in zip(table, EXAMPLES[name], strict=True):
            facts = row.test(example)
            assert facts is not None, (name, row.seen)
            words = tuple(WORDS.format(text, **FACTS, **facts) for text in (row.seen, row.do))
            assert advise(table, example, **FACTS) == words
        if name in OTHERS:
            assert advise(table, OTHERS[name], **FACTS) is None, name


def test_commands_and_options_in_the_words_exist() -> None:
    known = dict(commands(cli))
    every = set().union(*map(options_of, known.values()))
    words = [row.do for table in tables().values() for row in table]
    words += [row.advice for row in UNREAD]
    for text in words:
        assert set(re.findall(r"--[a-z][a-z-]*", text)) <= every, text
        for name, rest in re.findall(r"dsprep ([a-z]+)([^;:,]*)", text):
            asked = set(re.findall(r"--[a-z][a-z-]*", rest))
            assert asked <= options_of(known[name]), text


def test_a_file_that_is_something_else() -> None:
    refuse("a.json", advice.AS_LABELS, "path,label\n")
    told = "a.json: is COCO's JSON, which is neither a table nor a list: give it with --annotations"
    with pytest.raises(SourceError, match=re.escape(told)):
        refuse("a.json", advice.AS_LABELS, json.dumps(COCO))
