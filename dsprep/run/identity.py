"""What identifies a command, and how two commands differ."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from dsprep.dataset.manifest import Manifest
from dsprep.images import bilinear
from dsprep.plan.plan import Plan

OTHER_IMAGES = ("other source", "other file times", "other source, file times")
"""Differences that a command has from itself, if its images have changed."""

# what an identity has, and no manifest
_UNTOLD = ("file times", "Pillow", "simplejpeg", "OpenCV", "appended to", "units")


def identity_of(plan: Plan) -> dict[str, Any]:
    """Return what identifies a command; file times and versions stay in ``run.json``."""
    job = plan.job
    identity = {
        **json.loads(json.dumps(plan.options())),
        "name": job.name,
        "source": plan.catalog.digest(),
        "schema": job.schema and json.loads(json.dumps(job.schema.to_json())),
        "file times": plan.catalog.mtimes_digest(),
    }
    if job.writes_tree:
        identity["units"] = len(plan.shards)
    if job.images.changes:
        identity["Pillow"] = version("pillow")
        if job.images.transform is not None and job.images.transform.filter == "bilinear":
            identity |= bilinear.versions()
    return identity


def unlike(finished: Manifest, identity: dict[str, Any]) -> str:
    """Say how a command differs from the one that wrote a data set; empty if it does not."""
    # The source is that of paths, sizes and classes: it does not tell labels in fields of samples.
    known = {name: identity[name] for name in _UNTOLD if name in identity}
    known |= {**finished.options, "name": finished.name, "source": finished.source}
    if "manifest" in identity:  # a join knows its manifest before it begins
        known["manifest"] = finished.digest
    own = {name: value for name, value in identity.items() if name != "schema"}
    if finished.schema is not None and (schema := identity.get("schema")) is not None:
        known |= _fields_of(finished.schema.to_json())
        own |= _fields_of(schema)
    return differences(known, own)


def _fields_of(schema: dict[str, Any]) -> dict[str, Any]:
    fields = {each["name"]: each["type"] for each in schema["fields"]}
    return {"label (--label-field)": schema["label"], "fields": fields, "image": schema["image"]}


def differences(known: Any, identity: dict[str, Any]) -> str:
    """Say how another command differs from this one; empty if it does not."""
    if known == identity:
        return ""
    every = {**identity, **known} if isinstance(known, dict) else {}
    keys = [key for key in every if known.get(key) != identity.get(key)]
    if "format" in keys:
        at = keys.index("format")
        keys[at : at + 1] = _options_unlike(known.get("format"), identity.get("format"))
    return "other " + ", ".join(keys) if keys else "another version"


def _options_unlike(known: Any, own: Any) -> list[str]:
    """Return the options in which two records of one format differ; ``format`` if it is another."""
    if not (isinstance(known, dict) and isinstance(own, dict)):
        return ["format"]
    keys = [key for key in {**own, **known} if known.get(key) != own.get(key)]
    return ["format"] if "name" in keys else keys


def has_published(run: dict[str, Any] | None, finished: Manifest) -> bool:
    """Whether the run with this note has published this manifest."""
    identity = (run or {}).get("identity")
    if not isinstance(identity, dict):
        return True
    if (base := identity.get("appended to")) is None:
        return not unlike(finished, identity)
    added = (finished.options.get("appended") or [None])[-1]
    shards = [shard.name for shard in finished.shards]
    return (
        isinstance(added, dict)
        and (added.get("source"), added.get("first_shard")) == (identity.get("source"), len(base))
        and shards[: len(base)] == base
    )
