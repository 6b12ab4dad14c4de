"""What is there, compared with what a manifest says of it. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from dsprep.dataset.manifest import FileReceipt, Manifest
from dsprep.formats import format_of_file
from dsprep.storage.local import is_scratch

UNFINISHED = "a run is writing there, or was stopped: wait for it, or give its command again"


def difference(receipt: FileReceipt, size: int, crc32c: int | None) -> str:
    """Say what tells a file from the one that was written; nothing if it is the same."""
    if size != receipt.bytes:
        return f"has {size:,} bytes, not {receipt.bytes:,}"
    if crc32c not in (None, receipt.crc32c):
        return f"its crc32c is {crc32c:08x}, not {receipt.crc32c:08x}: bytes have changed"
    return ""


def false_totals(manifest: Manifest) -> Iterable[str]:
    """Where a manifest does not agree with itself."""
    for what in ("samples", "bytes"):
        says, sums = getattr(manifest, what), sum(getattr(each, what) for each in manifest.shards)
        if says != sums:
            yield f"says {says:,} {what}, but its shards {sums:,}"
    label = manifest.schema.label_field if manifest.schema else None
    if label is not None and label.names and label.names != (manifest.classes or label.names):
        yield f"names other classes than its field {label.name!r}"


def unnamed(
    names: Iterable[str], manifests: Iterable[Manifest], formats: set[str]
) -> Iterable[str]:
    """The files that look like shards of these formats, and that no manifest names."""
    manifests = list(manifests)
    known = {file.name for manifest in manifests for file in manifest.every_file()}
    single = any(manifest.options.get("single_file") for manifest in manifests)
    for name in sorted(names):
        layout = format_of_file(name)
        if name not in known and layout is not None and (single or layout.name in formats):
            yield name


def unfinished(names: Iterable[str], known: set[str]) -> Iterable[tuple[str, str]]:
    """What runs have left that are not finished."""
    for name in sorted(names):
        if is_scratch(name) and name not in known:
            yield name, UNFINISHED
