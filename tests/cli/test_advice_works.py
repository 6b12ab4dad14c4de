"""What a refusal advises is a command that exists and works: each option and path is tried."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.conftest import Finished
from tests.images import png
from tests.sources.boxes import ROW, box, coco, write

Run: TypeAlias = Callable[..., Finished]
Set: TypeAlias = dict[str, str | bytes | None]

SOURCE = "a set"  # a shell takes it for two words
IMAGES: Set = dict.fromkeys(f"{at}.jpg" for at in range(4))
CELEBA = "4\nBald Young\n" + "".join(f"{at}.jpg -1 {at % 2 * 2 - 1}\n" for at in range(4))
ICDAR = "5,5,30,5,30,15,5,15,Genaxis Theatre\n"


def beside(extension: str, text: str) -> Set:
    return {f"{at}{extension}": text for at in range(4)}


def table(head: str, *cells: str, name: str = "t.csv") -> Set:
    """A table with a row for each image, beside them."""
    rows = [f"{at}.jpg,{cells[at % len(cells)]}" for at in range(4)]
    return {**IMAGES, name: "\n".join([head, *rows]) + "\n"}


LAYOUTS: dict[str, Set] = {
    "labels": table("id,breed", "pug", "corgi"),
    "no header": {**IMAGES, "t.txt": "".join(f"{at}.jpg pug\n" for at in range(4))},
    "three cells": {**IMAGES, "t.txt": "".join(f"{at}.jpg {at % 2} 5\n" for at in range(4))},
    "captions": {
        **IMAGES,
        "t.txt": "".join(f"{at // 2}.jpg#{at % 2}\ta cat\n" for at in range(8)),
    },
    "celeba": {**IMAGES, "Anno/list_attr_celeba.txt": CELEBA},
    "flags": table("image_name,haze,clear", "0,1", "1,0"),
    "tags": table("image_name,tags", "haze clear", "clear", "haze", "haze clear"),
    "two labels": table("path,label,class", "a,b", "c,d"),
    "odd names": table("picture,what,more", "a,b", "c,d"),
    "unclear boxes": table("image,bbox", '"[10, 5, 30, 15]"'),
    "boxes in no order": table("image,bbox", '"[30, 5, 30, 40]"'),
    "odd boxes": table("image,a,b,c,d", "1,2,3,4"),
    "shares": table("image,xmin,ymin,xmax,ymax", ".1,.2,.3,.4"),
    "boxes of sides": {
        **IMAGES,
        "train.csv": "image,xmin,ymin,xmax,ymax\n0.jpg,1,2,3,4\n1.jpg,1,2,3,4\n",
        "val.csv": "image,xmin,ymin,xmax,ymax\n2.jpg,1,2,3,4\n3.jpg,1,2,3,4\n",
    },
    "described": {
        "0.jpg": None,
        "metadata.jsonl": json.dumps(
            {"file_name": "0.jpg", "objects": {"bbox": [[20, 5, 38, 18]], "categories": [0]}}
        ),
    },
    "icdar": {**IMAGES, **beside(".txt", ICDAR)},
    "coco of instances and persons": {
        **IMAGES,
        "annotations/instances_val.json": coco([*IMAGES], [box(1, 1)]),
        "annotations/person_keypoints_val.json": coco([*IMAGES], [box(2, 1)]),
    },
    "coco and yolo": {
        **IMAGES,
        "_annotations.coco.json": coco([*IMAGES], [box(1, 1)]),
        **{f"labels/{at}.txt": ROW for at in range(4)},
        "data.yaml": "names: [cat]\ntrain: .\n",
    },
    "masks": {
        **{f"images/{name}": None for name in IMAGES},
        **{f"masks/{at}.png": png(at, (40, 20), "P") for at in range(4)},
    },
    "an id of two images": {
        "a/1.jpg": None,
        "b/1.jpg": None,
        "b/2.jpg": None,
        "t.csv": "id,label\n1,x\n2,y\n",
    },
    "an image in two rows": table("id,label", "x", "x\n0,x"),
    "parts": {
        **{f"images/{name}": None for name in IMAGES},
        **{f"labels/{at}.cls": "1" for at in range(4)},
    },
}  # fmt: skip

ALSO: dict[str, tuple[str, ...]] = {
    "three cells": ("--labels", "t.txt"),
    "captions": ("--labels", "t.txt", "--label-type", "text"),
    "celeba": ("--labels", "Anno/list_attr_celeba.txt"),
    "flags": ("--labels", "t.csv"),
    "tags": ("--labels", "t.csv"),
    "two labels": ("--labels", "t.csv"),
    "odd names": ("--labels", "t.csv"),
    "unclear boxes": ("--annotations", "t.csv"),
    "boxes in no order": ("--annotations", "t.csv"),
    "odd boxes": ("--annotations", "t.csv", "--box-columns", "a,b,c,d"),
    "shares": ("--annotations", "t.csv"),
    "an id of two images": ("--labels", "t.csv"),
    "an image in two rows": ("--labels", "t.csv"),
    "parts": ("--parts",),
}
"""What a user gave already."""

_WORD = r"(?:'[^']*'|[^\s'\";()]+)"
_ADVICE = re.compile(rf"--[a-z][a-z-]+(?: {_WORD})?(?: --[a-z][a-z-]+(?: {_WORD})?)*")
_SOURCE = re.compile(rf"SOURCE ({_WORD}) and (--masks {_WORD})")
_SOURCES = re.compile(rf"as SOURCE, ({_WORD}) or ({_WORD})")
_COLUMN = re.compile(r"(--(?:path|label)-column): ((?:'[^']*'(?:, )?)+)")
_MEANT = {"--path-column": ("picture",), "--label-column": ("what", "Bald", "haze")}
"""The columns of the layouts that a user would name."""

_FREE = re.compile(r"(?:[A-Z_]{2,},?)+|with|of")  # what a message leaves to the user: NAME, DIR
_FLAGS = frozenset({"--no-image", "--parts"})
_TO_DO = re.compile(r"--[a-z]|correct|put |merge|rename|write")


def _is_whole(word: str, following: str) -> bool:
    """Return whether a word of a message has a value if it is an option, and none if it is not."""
    if word in _FLAGS:
        return following.startswith("--")
    return not (word.startswith("--") and following.startswith("--"))


def advised(message: str, source: str, given: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield what a message says to give: another source, and options."""
    if without := re.findall(r"to go on without: (--leave-out .*)", message):
        yield source, shlex.split(" ".join(without))
    for line in message.splitlines():
        for roots in _SOURCES.findall(line):
            yield from ((shlex.split(root)[0], []) for root in roots)
        for root, masks in _SOURCE.findall(line):
            yield shlex.split(root)[0], shlex.split(masks)
        for option, columns in _COLUMN.findall(line):
            meant = [name for name in _MEANT[option] if f"'{name}'" in columns]
            yield from ((source, [option, name]) for name in meant)
        line = line.partition(" does not take it in")[2] or _SOURCE.sub("", line)
        if "to go on without" in line:
            continue
        for words in map(shlex.split, _ADVICE.findall(line)):
            words = [word.rstrip(",:.") for word in words]
            whole = all(map(_is_whole, words, [*words[1:], "--"]))
            if whole and not any(map(_FREE.fullmatch, words)) and not {*words} <= {*given}:
                yield source, words


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_advice_of_a_refusal_works(
    name: str, run_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {f"{SOURCE}/{path}": content for path, content in LAYOUTS[name].items()})
    for path in ("t.csv", "t.txt", "Anno"):
        if (tmp_path / SOURCE / path).exists():
            (tmp_path / path).symlink_to(tmp_path / SOURCE / path)
    monkeypatch.chdir(tmp_path)
    seen = set[tuple[str, ...]]()
    works, refused = list[str](), dict[str, str]()

    def follow(source: str, given: tuple[str, ...], depth: int) -> None:
        key = (source, *given)
        if key in seen or depth > 3:
            return
        seen.add(key)
        done = run_here("pack", source, "out", "--to", "webdataset", "--dry-run", *given)
        command = shlex.join(key)
        assert "Traceback" not in done.err, command
        if done.code in (0, 3):
            works.append(command)
            return
        advice = list(advised(done.err, source, given))
        refused[command] = done.err
        assert _TO_DO.search(done.err), f"{command}: {done.err}"
        for root, words in advice:
            for word in words:
                if os.sep in word and "*" not in word:
                    assert Path(word).exists(), f"{command}: {word} does not exist: {done.err}"
            kept = [word for word in given if word != "--parts" or "--pair" not in words]
            follow(root, (*kept, *words), depth + 1)

    follow(SOURCE, ALSO.get(name, ()), 0)
    assert refused, "nothing was refused"
    assert works, json.dumps(refused, indent=1)
    print(json.dumps({"works": works, "refused": refused}, indent=1))
