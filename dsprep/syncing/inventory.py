"""What both sides hold when a sync begins: their files, and what manifests say about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from shlex import quote

from dsprep.dataset.manifest import FileReceipt, Manifest, parse_manifest
from dsprep.errors import DestinationError, DsprepError, SourceError
from dsprep.storage.pool import Pace
from dsprep.syncing.plan import Filters, is_manifest
from dsprep.syncing.report import Failure
from dsprep.syncing.sides import ROOT, Listing, Side
from dsprep.syncing.threads import in_threads


@dataclass(frozen=True)
class Inventory:
    """What both sides hold when a run begins."""

    ours: Listing  # what the source holds
    theirs: Listing  # what the destination holds
    unseen: list[Failure]  # what could not be listed
    documents: Mapping[str, bytes]  # the source's files that have the name of a manifest, by path
    manifests: dict[str, Manifest]  # those of them that are manifests
    checksums: Mapping[str, int]  # the crc32c of files of the source, from these, by path


def take_inventory(source: Side, destination: Side, filters: Filters, pace: Pace) -> Inventory:
    """List both sides, and read the manifests of the source."""
    listings = dict(in_threads(lambda side: side.list(), (source, destination), 2, pace))
    ours, theirs = listings[source], listings[destination]
    _require_listed(source, ours, SourceError)
    _require_listed(destination, theirs, DestinationError)
    if not (ours.files or ours.left or ours.unseen):
        raise SourceError(f"{source.name('')}: {source.why_empty()}")
    unseen = _unseen(source, ours, filters) + _unseen(destination, theirs, filters)
    documents = {path: source.read(path) for path in ours.files if is_manifest(path)}
    manifests = manifests_in(documents, documents.__getitem__)
    return Inventory(ours, theirs, unseen, documents, manifests, checksums_in(manifests))


def _require_listed(side: Side, listing: Listing, error: type[DsprepError]) -> None:
    for skipped in listing.unseen:
        if skipped.path == ROOT:
            raise error(f"{side.name('')}: {skipped.why}; nothing has been done")


def _unseen(side: Side, listing: Listing, filters: Filters) -> list[Failure]:
    """What could not be listed, as failures: its files are unknown, not absent."""
    return [
        Failure(
            skipped.path,
            f"{side.name(skipped.path)}: {skipped.why}; repair that, or leave it out with "
            f"--exclude {quote(escape(skipped.path) + '*')}",
        )
        for skipped in listing.unseen
        if filters.may_admit(skipped.path)
    ]


def manifests_in(paths: Iterable[str], read: Callable[[str], bytes]) -> dict[str, Manifest]:
    """Return the manifests among some files, by path; files that only have the name are skipped."""
    found = {}
    for path in filter(is_manifest, paths):
        data = read(path)
        with suppress(SourceError):
            found[path] = parse_manifest(data, path)
    return found


def files_of(path: str, manifest: Manifest) -> dict[str, FileReceipt]:
    """Return the files that a manifest names, by their path."""
    directory, slash, _ = path.rpartition("/")
    return {f"{directory}{slash}{file.name}": file for file in manifest.every_file()}


def names_in(path: str, manifest: Manifest) -> frozenset[str]:
    """Return the paths of all files that a manifest names."""
    return frozenset(files_of(path, manifest))


def checksums_in(manifests: Mapping[str, Manifest]) -> dict[str, int]:
    """Return the crc32c of every file that manifests name, by its path."""
    return {
        path: file.crc32c
        for beside, manifest in manifests.items()
        for path, file in files_of(beside, manifest).items()
    }
