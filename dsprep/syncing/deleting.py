"""``--delete``: only what is sure to be meant goes, and manifests before what they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dsprep.errors import DestinationError
from dsprep.syncing.plan import SyncPlan
from dsprep.syncing.ranks import is_manifest
from dsprep.syncing.report import Failure
from dsprep.units import format_count, format_some


def limit_deletions(plan: SyncPlan, place: str, blind: bool, most: int | None) -> list[str]:
    """Take what may not be deleted out of a plan."""
    notes = []
    if plan.spared:
        notes.append(
            f"not deleted at the destination: {format_count(len(plan.spared), 'file')} "
            f"({format_some(plan.spared)}), though the source has no such file: what lies behind "
            "links, where the source was left out, or what a manifest names that stays, is kept"
        )
    if blind and plan.deletions:
        notes.append(nothing_deleted(plan.deletions))
        plan.deletions = []
    if most is not None and len(plan.deletions) > most:
        raise DestinationError(
            f"{place}: {format_count(len(plan.deletions), 'file')} would be deleted "
            f"({format_some(plan.deletions)}), and --max-delete allows {most}; nothing has been "
            "done"
        )
    return notes


def nothing_deleted(paths: Sequence[str]) -> str:
    """What to say if files stay as something else went wrong."""
    return (
        f"nothing is deleted at the destination ({format_count(len(paths), 'file')}), as "
        "something failed, or could not be listed"
    )


def delete_in_order(
    paths: Sequence[str], delete: Callable[[Sequence[str]], list[Failure]]
) -> tuple[list[str], list[Failure]]:
    """Delete manifests, then what they name; nothing of that if one of them stays."""
    manifests = [path for path in paths if is_manifest(path)]
    others = [path for path in paths if not is_manifest(path)]
    failures = delete(manifests)
    if failures:
        others = []
    failures += delete(others)
    kept = {each.path for each in failures}
    return [path for path in [*manifests, *others] if path not in kept], failures
