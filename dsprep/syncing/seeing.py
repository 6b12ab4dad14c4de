"""What both sides of a sync hold when it begins: their files, and what manifests tell of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dsprep.dataset.manifest import Manifest
from dsprep.errors import DestinationError, SourceError
from dsprep.storage.pace import Pace
from dsprep.syncing.contents import checksums_in, manifests_in
from dsprep.syncing.filters import Filters
from dsprep.syncing.ranks import is_manifest
from dsprep.syncing.report import Failure
from dsprep.syncing.sides import Listing, Side
from dsprep.syncing.threads import each
from dsprep.syncing.unseen import require_listed, unseen_in


@dataclass(frozen=True)
class Seen:
    """What both sides hold when a run begins."""

    ours: Listing  # what the source holds
    theirs: Listing  # what the destination holds
    unseen: list[Failure]  # what could not be listed
    documents: Mapping[str, bytes]  # the source's files that have the name of a manifest, by path
    manifests: dict[str, Manifest]  # those of them that are manifests
    checksums: Mapping[str, int]  # the crc32c of files of the source, as these tell it, by path


def see(source: Side, destination: Side, filters: Filters, pace: Pace) -> Seen:
    """Look what is there."""
    listings = dict(each(lambda side: side.list(), (source, destination), 2, pace))
    ours, theirs = listings[source], listings[destination]
    require_listed(source, ours, SourceError)
    require_listed(destination, theirs, DestinationError)
    if not (ours.files or ours.left or ours.unseen):
        raise SourceError(f"{source.name('')}: {source.why_empty()}")
    unseen = unseen_in(source, ours, filters) + unseen_in(destination, theirs, filters)
    documents = {path: source.read(path) for path in ours.files if is_manifest(path)}
    manifests = manifests_in(documents, documents.__getitem__)
    return Seen(ours, theirs, unseen, documents, manifests, checksums_in(manifests))
