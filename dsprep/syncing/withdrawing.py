"""Manifests that would tell of other files while these are being replaced: they go before that.

Without its manifest a data set is one that is being made; with an old one, it is one that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dsprep.errors import SourceError
from dsprep.stores.base import Stored
from dsprep.syncing.contents import manifests_in, names_in
from dsprep.syncing.plan import Pair, SyncPlan
from dsprep.syncing.ranks import is_manifest, outdated_manifests
from dsprep.syncing.sides import Side


def find_outdated(
    plan: SyncPlan, found: Iterable[str], read: Callable[[str], bytes]
) -> frozenset[str]:
    """The manifests at the destination that name files which are about to change, or to go.

    Args:
        plan: What is to be done.
        found: The paths of all files at the destination.
        read: Reads one of them.
    """
    changed = [pair.path for pair, _ in plan.sends if pair.found is not None]
    there = [path for path in found if is_manifest(path)]
    if not (there and (changed or plan.deletions)):
        return frozenset()
    names = {path: names_in(path, each) for path, each in manifests_in(there, read).items()}
    return frozenset(outdated_manifests(there, [*changed, *plan.deletions], names))


def require_true(source: Side, file: Stored, told: int | None) -> None:
    """Refuse a file that would not be sent, as it is not what its manifest tells.

    Args:
        source: The side that it is on.
        file: The file.
        told: Its crc32c, as the manifest beside it tells; None if none does.

    Raises:
        SourceError: If it is another.
    """
    known = None if told is None else source.content(file, None).crc32c()
    if known is not None and known[0] != told:
        raise SourceError(
            f"{source.name(file.key)}: its crc32c is {known[0]:08x}, and its manifest "
            f"tells {told:08x}: see dsprep verify; nothing has been sent"
        )


def publish_again(plan: SyncPlan, outdated: Iterable[str], source: dict[str, Stored]) -> None:
    """Plan to send what is removed, if the source has it, even if it is the same there.

    Args:
        plan: What is to be done.
        outdated: The manifests that are removed.
        source: The files of the source, by path.
    """
    same = {path for path, _ in plan.same}.intersection(outdated)
    plan.same = [each for each in plan.same if each[0] not in same]
    plan.sends += [(Pair(path, source[path], None), "withdrawn") for path in sorted(same)]
