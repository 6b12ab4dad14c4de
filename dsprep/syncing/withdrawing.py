"""Manifests at the destination that would be wrong: they go before what they name is replaced.

Without its manifest a data set is one that is being made; with an old one, it is one that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable

from dsprep.errors import OptionError, SourceError
from dsprep.storage.base import Stored
from dsprep.syncing.contents import manifests_in, names_in
from dsprep.syncing.filters import Filters
from dsprep.syncing.plan import Pair, SyncPlan
from dsprep.syncing.ranks import is_manifest, outdated_manifests
from dsprep.syncing.sides import Listing, Side, lies_in


def settle_manifests(
    plan: SyncPlan, ours: Listing, theirs: Listing, destination: Side, filters: Filters
) -> list[str]:
    """See to it that no manifest at the destination will name what is not there, or is another."""
    there = [path for path in theirs.files if is_manifest(path)]
    if not (there and (plan.replaced or plan.deletions)):
        return []
    manifests = manifests_in(there, destination.read)
    names = {path: names_in(path, each) for path, each in manifests.items()}
    outdated = outdated_manifests(names, plan.replaced, names)
    left = {each.path for each in ours.left}
    for path in outdated:
        if lies_in(path, left) or not filters.admit(path):
            raise OptionError(
                f"{destination.name(path)}: what it names would be replaced, and it takes no part "
                "itself; do not leave it out with --exclude, or leave out what it names, too; "
                "nothing has been done"
            )
    changed = [*plan.replaced, *plan.deletions]
    _publish_again(plan, outdated_manifests(names, changed, names), ours, theirs)
    going = {*plan.deletions, *(pair.path for pair, _ in plan.sends)}
    staying = frozenset().union(*(names[path] for path in names if path not in going))
    plan.spare(lambda path: path in staying)
    return outdated


def _publish_again(plan: SyncPlan, outdated: Iterable[str], ours: Listing, theirs: Listing) -> None:
    """Plan to send what would be wrong there, if the source has it, even if it seems the same."""
    same = {path for path, _ in plan.same}.intersection(outdated)
    plan.same = [each for each in plan.same if each[0] not in same]
    for path in sorted(same):
        plan.sends.append((Pair(path, ours.files[path], theirs.files[path]), "withdrawn"))


def require_true(source: Side, file: Stored, told: int | None) -> None:
    """Refuse a file that would not be sent, as it is not what its manifest tells."""
    known = None if told is None else source.content(file, None).crc32c()
    if known is not None and known[0] != told:
        raise SourceError(
            f"{source.name(file.key)}: its crc32c is {known[0]:08x}, and its manifest "
            f"tells {told:08x}: see dsprep verify; nothing has been sent"
        )
