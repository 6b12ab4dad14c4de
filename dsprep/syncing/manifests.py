"""Manifests at the destination that would be wrong: they go before what they name is replaced.

A data set without its manifest is incomplete; with an old manifest, it is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dsprep.errors import OptionError, SourceError
from dsprep.storage.store import Stored
from dsprep.syncing.inventory import manifests_in, names_in
from dsprep.syncing.plan import Filters, Pair, SyncPlan, is_manifest
from dsprep.syncing.sides import Listing, Side, lies_in


def settle_manifests(
    plan: SyncPlan, ours: Listing, theirs: Listing, destination: Side, filters: Filters
) -> list[str]:
    """Return the manifests to withdraw, and plan to send again what would be wrong otherwise."""
    there = [path for path in theirs.files if is_manifest(path)]
    if not (there and (plan.replaced or plan.deletions)):
        return []
    manifests = manifests_in(there, destination.read)
    names = {path: names_in(path, manifest) for path, manifest in manifests.items()}
    outdated = _outdated(names, plan.replaced)
    left = {skipped.path for skipped in ours.left}
    for path in outdated:
        if lies_in(path, left) or not filters.admit(path):
            raise OptionError(
                f"{destination.name(path)}: names files that would be replaced, but is excluded "
                "itself; include it, or exclude these files too; nothing has been done"
            )
    # A manifest that seems the same is sent again if what it names changes.
    changed = _outdated(names, [*plan.replaced, *plan.deletions])
    again = sorted({path for path, _ in plan.same}.intersection(changed))
    plan.same = [(path, by) for path, by in plan.same if path not in again]
    plan.sends += [
        (Pair(path, ours.files[path], theirs.files[path]), "withdrawn") for path in again
    ]
    going = {*plan.deletions, *(pair.path for pair, _ in plan.sends)}
    staying = frozenset().union(*(names[path] for path in names if path not in going))
    plan.spare(lambda path: path in staying)
    return outdated


def _outdated(names: Mapping[str, frozenset[str]], changed: Iterable[str]) -> list[str]:
    """The manifests that name files which change."""
    paths = set(changed)
    return [manifest for manifest, named in names.items() if not paths.isdisjoint(named)]


def require_true(source: Side, file: Stored, expected: int | None) -> None:
    """Refuse a file of the source that has not the crc32c in its manifest."""
    known = None if expected is None else source.content(file, None).crc32c()
    if known is not None and known[0] != expected:
        raise SourceError(
            f"{source.name(file.key)}: its crc32c is {known[0]:08x}, but its manifest has "
            f"{expected:08x}: see dsprep verify; nothing has been sent"
        )
