"""Reports as JSON: the names of their fields, which stay when attributes are renamed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO

import click

# The names of each kind of record, in their order; NAME=ATTRIBUTE where these differ.
_NAMES = {
    "WriteReport": "destination format state shards samples bytes estimated classes per_class "
    "rejects rejects_file skipped skipped_counts duplicates collisions chosen notes schema fields "
    "seconds",
    "ShardFacts": "name samples bytes",
    "Chosen": "filtered unknown",
    "VerifyReport": "destination format manifest shards samples bytes checked problems seconds "
    "proof notes fields",
    "Problem": "file offset sample message",
    "FieldFound": "name type classes role told samples",
    "IndexReport": "destination format state shards samples bytes files problems notes seconds",
    "IndexFile": "name kind state detail",
    "SplitReport": "destination state method samples lists parts classes off groups seed leaks "
    "rejects skipped skipped_counts materialized notes seconds",
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
}


def print_json(report: Any, stream: TextIO | None = None) -> None:
    """Print a report as one JSON object, in ASCII, which any stdout can write."""
    click.echo(json.dumps(to_json(report), indent=1), file=stream)


def to_json(value: Any) -> Any:
    """Return a report as JSON values."""
    if names := _NAMES.get(type(value).__name__):
        pairs = (name.partition("=") for name in names.split())
        return {name: to_json(getattr(value, own or name)) for name, _, own in pairs}
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(name): to_json(item) for name, item in value.items()}
    if hasattr(value, "_fields"):
        raise TypeError(f"{type(value).__name__} has no names for JSON")
    return [to_json(item) for item in value] if isinstance(value, (list, tuple)) else value
