"""Reports as JSON: the names of their fields, which stay when attributes are renamed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TextIO

from dsprep.cli.streams import echo_as_is
from dsprep.printable import without_secrets

# The names of each kind of record, in their order.
_NAMES = {
    "WriteReport": "destination format state shards samples bytes estimated classes per_class "
    "rejects rejects_file skipped skipped_counts duplicates collisions sides chosen existing notes "
    "schema fields objects seconds",
    "ShardFacts": "name samples bytes",
    "Chosen": "filtered unknown unmatched",
    "VerifyReport": "destination format manifest shards samples bytes checked problems seconds "
    "proof notes fields objects",
    "StatusReport": "destination state shards done samples bytes missing problems commands",
    "ServeReport": "place channels exit_code rejects notes seconds",
    "ChannelServed": "name format files epochs closed_early bytes",
    "SagemakerReport": "request job channels lists notes",
    "JobChannel": "name uri data",
    "DataFacts": "place format samples classes bytes side files",
    "CostReport": "samples bytes prices layouts transfer conversion epoch file_systems",
    "LayoutCost": "layout objects storage upload whole ranges samples",
    "EpochCost": "full input_bound",
    "FileSystemCost": "name bytes storage upload epoch date",
    "Problem": "file offset sample message",
    "FieldFound": "name type classes role told samples",
    "ObjectCounts": "objects classes samples without per_class",
    "IndexReport": "destination format state shards samples bytes files problems notes seconds",
    "IndexFile": "name kind state detail",
    "SplitReport": "destination state method samples lists parts classes off groups seed leaks "
    "rejects skipped skipped_counts materialized notes seconds written",
    "InspectReport": "data output samples looked_at decoded hashed fields sides alike suspects "
    "rejects skipped shown notes seconds",
    "DedupReport": "data output samples near sets copies bytes conflicts rejects skipped notes "
    "seconds",
    "SideFigures": "name samples looked_at bytes classes classes_of_all objects kinds modes "
    "orientations sizes distributions channels",
    "Distribution": "name images least p5 median mean p95 most edges counts",
    "Channels": "mean std",
    "Suspect": "side path why",
    "SampleShown": "key path fields",
    "Shown": "side path label",
    "Alike": "kind is_leak differ samples",
    "BenchReport": "state rows sentence notes work batch cores memory seconds",
    "BenchRow": "data format reader access workers name cache figures rounds busy idle "
    "noise cached_share requests fetched copy_seconds limit windows error",
    "Figures": "images_per_second bytes_per_second step_mean step_variance step_p50 step_p95 "
    "step_p99 first_batch cpu_per_1000 memory utilization",
    "ListFacts": "name path samples wanted",
    "ClassFacts": "name counts off",
    "Leak": "kind samples",
    "SyncReport": "source destination state sent bytes resumed same deleted verified left failures "
    "requests notes seconds",
    "Send": "path size by parts",
    "Left": "path why",
    "Failure": "path message",
    "Requests": "writes reads parts",
    "Orphan": "url id seconds initiator parts bytes aborted",
    # lists
    "CreateReport": "lists added known classes per_class rejects skipped skipped_counts duplicates "
    "seed written notes already_done",
    "EditReport": "path rows changed removed written already_done",
    "PatchReport": "path rows added removed changed reordered written already_done",
    "Relabeled": "lists unit moves classes dropped idle written already_done",
    "DiffReport": "a b rows counts classes relabelings other_names unread",
    "Merged": "path rows ours theirs order renumbered conflicts decided new_classes",
    "ListCheckReport": "list rows classes root reader kinds faults",
    "Statistics": "list rows kind widths distinct classes largest smallest imbalance unused "
    "objects objects_per_row",
    "SampleReport": "list output rows kept wanted classes short seed written already_done",
    "ListWritten": "path rows",
    "Move": "old new moved",
    "Change": "line old new",
    "ClassChange": "number name before after added removed gained lost",
    "OtherName": "number before after",
    "Edits": "added removed changed",
    "Renumbered": "path old new",
    "Conflict": "what base ours theirs",
    "Fault": "line kind message",
    "ClassCount": "number name rows objects",
}


def print_json(report: Any, stream: TextIO | None = None) -> None:
    """Print a report as one JSON object, in ASCII, which any stdout can write."""
    import json  # help pages do without

    echo_as_is(json.dumps(to_json(report), indent=1), stream)


def to_json(value: Any) -> Any:
    """Return a report as JSON values."""
    if names := _NAMES.get(type(value).__name__):
        return {name: to_json(getattr(value, name)) for name in names.split()}
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {str(name): to_json(item) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no word for it
    if hasattr(value, "_fields"):
        raise TypeError(f"{type(value).__name__} has no names for JSON")
    return [to_json(item) for item in value] if isinstance(value, (list, tuple)) else value
