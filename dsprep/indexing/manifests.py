"""The manifest of shards that something else wrote, and what indexing adds to one that is there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dsprep.dataset.manifest import FileReceipt, Manifest, ShardReceipt
from dsprep.dataset.recorded import options_of_others
from dsprep.formats import shard_stem
from dsprep.indexing.shard import IndexedShard, index_name
from dsprep.lists.store import read_classes
from dsprep.verifying.inspection import Problem
from dsprep.verifying.shards import Shards

_NUMBERS = re.compile(r"[-_.]*(\d+-of-\d+|\d*)$")
_SAFE = re.compile(r"\w[^/\0]{0,199}")


def data_set_name(shards: Shards) -> str:
    """What the names of the shards begin with, without their numbers."""
    known = shards.manifest.name if shards.manifest else shards.destination.stem
    name = known or _beginning(shards.names)
    return name if _SAFE.fullmatch(name) and name != "manifest" else "shards"


def _beginning(names: Sequence[str]) -> str:
    beginnings = {_NUMBERS.sub("", shard_stem(name)) for name in names}
    if len(beginnings) == 1:
        return beginnings.pop()
    return _NUMBERS.sub("", os.path.commonprefix(sorted(beginnings)))


def is_of(manifest: Manifest, directory: Path) -> bool:
    """Whether the shards that a manifest names are there, and as large as it says."""
    for shard in manifest.shards:
        path = directory / shard.name
        if not path.is_file() or path.stat().st_size != shard.bytes:
            return False
    return True


def mismatches(manifest: Manifest, made: Sequence[tuple[str, IndexedShard]]) -> Iterator[Problem]:
    """How shards are not those of their manifest."""
    found = dict(made)
    for receipt in manifest.shards:
        shard = found.get(receipt.name)
        if shard is None:
            yield Problem(receipt.name, None, "", "is in the manifest, but not there")
        elif shard.problem is None:
            for what in ("bytes", "samples"):
                has, says = getattr(shard, what), getattr(receipt, what)
                if has != says:
                    message = f"has {has:,} {what}, but the manifest says {says:,}"
                    yield Problem(receipt.name, None, "", message)


def new_manifest(
    shards: Shards,
    made: Sequence[tuple[str, IndexedShard]],
    indexes: Sequence[FileReceipt],
) -> Manifest:
    """The manifest of shards that have none."""
    classes = shards.destination.companion("classes.txt")
    of_shards = {index_name(name, shards.made.layout) for name, _ in made}
    return Manifest(
        format=shards.made.layout.name,
        name=data_set_name(shards),
        classes=read_classes(str(classes)) if classes.is_file() else None,
        samples=sum(shard.samples for _, shard in made),
        rejected=0,
        bytes=sum(shard.bytes for _, shard in made),
        source="",
        options=options_of_others(shards.made.layout, shards.destination.single is not None),
        shards=[_receipt(shards, name, shard) for name, shard in made],
        files=[
            *([FileReceipt.of(classes)] if classes.is_file() else []),
            *(each for each in indexes if each.name not in of_shards),
        ],
    )


def _receipt(shards: Shards, name: str, shard: IndexedShard) -> ShardReceipt:
    assert shard.crc32c is not None
    sidecars = [shard.index.receipt] if shard.index else []
    layout = shards.made.layout
    for suffix in layout.sidecar_suffixes:
        beside = shards.directory / f"{name.removesuffix(layout.suffix)}{suffix}"
        if beside.name != index_name(name, layout) and beside.is_file():
            sidecars.append(FileReceipt.of(beside))
    return ShardReceipt(name, shard.bytes, shard.crc32c, shard.samples, tuple(sidecars))


def with_indexes(
    manifest: Manifest,
    made: Sequence[tuple[str, IndexedShard]],
    indexes: Sequence[FileReceipt],
) -> Manifest:
    """A manifest that tells of indexes, too."""
    told = {receipt.name: receipt for receipt in indexes}
    own = {name: shard.index.receipt.name for name, shard in made if shard.index}

    def updated(files: Sequence[FileReceipt], extra: FileReceipt | None) -> list[FileReceipt]:
        current = [told.get(each.name, each) for each in files]
        is_new = extra is not None and extra.name not in {each.name for each in files}
        return [*current, extra] if extra is not None and is_new else current

    of_set = [each for each in indexes if each.name not in own.values()]
    return replace(
        manifest,
        shards=[
            replace(
                shard, sidecars=tuple(updated(shard.sidecars, told.get(own.get(shard.name, ""))))
            )
            for shard in manifest.shards
        ],
        files=updated(manifest.files, of_set[0] if of_set else None),
    )
