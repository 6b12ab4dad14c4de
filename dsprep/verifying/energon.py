"""What NVIDIA's Megatron-Energon reads beside the shards of a WebDataset, as text and bytes. Pure.

Energon opens a directory that has ``.nv-meta``, and jumps to samples by an index beside each shard:

- ``SHARD.tar.idx``: for each sample the offset of its first header, then the offset where the last
  sample ends, all unsigned 64-bit little-endian (``TarIndexWriter`` in
  ``flavors/webdataset/itar.py``; ``_preprocess_tar`` in ``prepare.py`` beside it).
- ``.nv-meta/.info.json``: the samples of each shard. The directory is a data set for Energon only
  if this file is there (``get_dataset_type`` in ``metadata.py`` beside it).
- ``.nv-meta/split.yaml``: the shards of each side, whose names are expanded like those of a shell,
  and what is excluded (``WebdatasetSplits`` in ``structs.py``). ``energon prepare`` always names
  ``train``, ``val`` and ``test``, and ``energon lint`` reads these three.
- ``.nv-meta/dataset.yaml``: the type of the samples and which extension is which of its fields
  (``tools/prepare.py``), or ``CrudeWebdataset``, whose samples are members by extension.

Joins, auxiliary data and mounts also need ``index.sqlite`` and the random ``index.uuid``, which
only ``energon prepare`` writes. All paths are those of Megatron-Energon 7.4.1.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence

from dsprep.places.names import usual_side

DATASET, SPLIT, INFO = ".nv-meta/dataset.yaml", ".nv-meta/split.yaml", ".nv-meta/.info.json"

_VERSION = "7.4.1"  # the version of Energon whose `prepare` writes the same files
_SIDES = ("train", "val", "test")
# what webdataset's `imagehandler` (autodecode.py), which Energon decodes images with, takes for one
_IMAGES = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm")
_TEXTS = ("txt", "text", "transcript")  # what `basichandlers` beside it take for a text
_ITEM = re.compile(r"^  - (.+)$", re.MULTILINE)
_SPAN = re.compile(r"([^{}]*)\{([0-9]{1,18})\.\.([0-9]{1,18})\}([^{}]*)")
_MOST_SHARDS = 1_000_000
_PATH = re.compile(r"[\w.-]+", re.ASCII)  # extensions in which a path of `field_map` has no marks

# What YAML reads as these characters, and as a text (YAML 1.1, 5.3 and 10.3).
_PLAIN = re.compile(r"[A-Za-z_][\w./{}-]*|\d[\w./{}-]*\.tar", re.ASCII)
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))

Shape = tuple[str, ...]
"""The extensions of a sample's members."""


def offsets_index(starts: Iterable[int], end: int) -> bytes:
    """Return the index of a shard: where its samples start, and where the last member ends."""
    offsets = [*starts, end]
    return struct.pack(f"<{len(offsets)}Q", *offsets)


def files(
    samples: Mapping[str, int], sides: Mapping[str, str], shapes: Collection[Shape]
) -> tuple[dict[str, bytes], list[str]]:
    """Return the files of all shards, in the order in which to write them, and notes.

    ``samples`` and ``sides`` have the number of samples, and the side, of each shard.
    """
    described, note = dataset(shapes)
    made = {DATASET: described, SPLIT: split(sides), INFO: info(samples)}
    return made, [note] if note else []


def info(samples: Mapping[str, int]) -> bytes:
    """Return ``.info.json``: the number of samples of each shard, by name."""
    counts = {name: samples[name] for name in sorted(samples)}
    return json.dumps({"energon_version": _VERSION, "shard_counts": counts}, indent=2).encode()


def shards_in(data: bytes) -> list[str]:
    """Return the names of the shards in an ``.info.json``; none if it is not one."""
    try:
        counts = json.loads(data)["shard_counts"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return []
    return [*counts] if isinstance(counts, dict) else []


def shards_listed(data: bytes) -> list[str]:
    """Return the names of the shards in a ``split.yaml`` that :func:`split` has written.

    Names with unusual characters are left as they are written there.
    """
    names = list[str]()
    for text in _ITEM.findall(data.decode(errors="replace")):
        span = _SPAN.fullmatch(text)
        if span is None:
            names.append(text)
            continue
        before, first, last, after = span.groups()
        numbers = range(int(first), int(last) + 1)
        if len(first) != len(last) or len(numbers) > _MOST_SHARDS - len(names):
            return []
        names += [f"{before}{number:0{len(first)}d}{after}" for number in numbers]
    return names


def parts_of(sides: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the part of Energon that each shard is of, and notes on parts that stay empty.

    A side such as ``train2017`` is Energon's ``train``, which it reads by default, if no other side
    means it too.

    Args:
        sides: The side of each shard, by name.
    """
    meant: dict[str, list[str]] = {}
    for side in dict.fromkeys(sides.values()):
        meant.setdefault(usual_side(side), []).append(side)
    parts, notes = dict[str, str](), list[str]()
    for usual, own in meant.items():
        if len(own) == 1:
            parts[own[0]] = usual
        elif usual not in own:
            several = " and ".join(own)
            notes.append(f"Energon's part {usual} is empty: {several} could each be it")
    return {name: parts.get(side, side) for name, side in sides.items()}, notes


def split(sides: Mapping[str, str]) -> bytes:
    """Return ``split.yaml``: the shards of each side, from the side of each shard."""
    lines = ["split_parts:"]
    for side in dict.fromkeys((*_SIDES, *sides.values())):
        own = sorted(name for name in sides if sides[name] == side)
        lines.append(f"  {_scalar(side)}:{'' if own else ' []'}")
        lines += [f"  - {_scalar(each)}" for each in collapsed(own)]
    return "\n".join([*lines, "exclude: []", ""]).encode()


def collapsed(names: Sequence[str]) -> list[str]:
    """Join names that differ by a number that counts up: ``train-{000000..000002}.tar``.

    Braces that a name has itself are escaped, as ``braceexpand`` wants it.
    """
    runs: list[tuple[list[str], list[str], int]] = []  # the first name, the last, what counts up
    for name in names:
        # Python refuses numbers of more than 4,300 digits.
        parts = re.split(r"([0-9]{1,999})", re.sub(r"[\\{}]", r"\\\g<0>", name))
        if runs and (at := _counts_up(runs[-1][1], parts)) and runs[-1][2] in (0, at):
            runs[-1] = (runs[-1][0], parts, at)
        else:
            runs.append((parts, parts, 0))
    texts = []
    for first, last, at in runs:
        span = [f"{{{first[at]}..{last[at]}}}"] if at else []
        texts.append("".join([*first[:at], *span, *first[at + 1 :]] if at else first))
    return texts


def _counts_up(before: Sequence[str], after: Sequence[str]) -> int:
    """Return where the number is that is one more in the second name; 0 if they differ otherwise.

    The texts of a name have even positions, and its numbers odd ones.
    """
    differ = [at for at, pair in enumerate(zip(before, after, strict=False)) if len({*pair}) > 1]
    if len(before) != len(after) or len(differ) != 1 or not (at := differ[0]) % 2:
        return 0
    follows = int(after[at]) == int(before[at]) + 1 and len(after[at]) == len(before[at])
    return at if follows else 0


def dataset(shapes: Collection[Shape]) -> tuple[bytes, str]:
    """Return ``dataset.yaml`` for samples of these shapes, and a note on what it leaves out."""
    fields = _fields(shapes)
    if not fields:
        return b"__module__: megatron.energon\n__class__: CrudeWebdataset\n", ""
    name = "ImageClassificationSample" if "label" in fields else "CaptioningSample"
    lines = [
        "sample_type:",
        "  __module__: megatron.energon",
        f"  __class__: {name}",
        "field_map:",
        *(f"  {field}: {path}" for field, path in fields.items()),
        "",
    ]
    known = {extension for path in fields.values() for extension in path.split(",")}
    others = sorted({extension for shape in shapes for extension in shape} - known)
    note = ""
    if others:
        note = (
            f"{name} has no place for .{', .'.join(others)}; for all members, write "
            f"CrudeWebdataset into {DATASET}"
        )
    return "\n".join(lines).encode(), note


def _fields(shapes: Collection[Shape]) -> dict[str, str]:
    """Return where each field of a sample type is: an extension, or several, one a sample."""
    images = [name for name in _IMAGES if any(name in shape for shape in shapes)]
    if not images or any(len({*images} & {*shape}) != 1 for shape in shapes):
        return {}
    fields, everywhere = {"image": ",".join(images)}, set.intersection(*map(set, shapes))
    texts = [name for name in sorted(everywhere) if name.rpartition(".")[2] in _TEXTS]
    texts = [name for name in texts if name in _TEXTS] or texts
    if "cls" in everywhere:
        return fields | {"label": "cls"}
    if len(texts) == 1 and _PATH.fullmatch(texts[0]):
        return fields | {"caption": texts[0]}
    return {}


def _scalar(text: str) -> str:
    """Write a text in YAML as PyYAML does, if it is not unusual."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text)
