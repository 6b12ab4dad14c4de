"""Leases: do not write where ``pack``, ``convert`` or ``shard`` is writing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from os.path import splitext

from dsprep.errors import DestinationError, StoreError
from dsprep.run.lease import DEAD_AFTER, LONG_AGO
from dsprep.storage.local import SCRATCH
from dsprep.storage.pool import Pace
from dsprep.storage.store import Stored
from dsprep.syncing.sides import Side

_LOOK_EVERY = 2.0


def require_idle(
    destination: Side,
    leases: Mapping[str, Stored],
    paths: Collection[str],
    pace: Pace,
    tell: Callable[[str], object],
) -> None:
    """Raise if another command is writing files that this one would write."""
    for lease, stored in leases.items():
        before = _guarded(lease)
        if time.time() - stored.modified > LONG_AGO:
            continue
        if not any(path.startswith(before) for path in paths):
            continue
        # A killed run may have left it. A live run renews it.
        place = f"{destination.name(before)}: another dsprep command"
        try:
            first, began = destination.read(lease), time.monotonic()
            tell(
                f"{place} was writing there; waiting for up to {DEAD_AFTER:.0f} s to see whether "
                "it still is"
            )
            while time.monotonic() - began <= DEAD_AFTER:
                pace.wait(_LOOK_EVERY)
                if destination.read(lease) != first:
                    raise DestinationError(f"{place} is writing there; wait for it to end")
        except StoreError as error:
            if error.kind != "missing":
                raise
            raise DestinationError(
                f"{place} has just ended there; give the same command again"
            ) from None


def _guarded(lease: str) -> str:
    """Return the prefix of the paths that a lease protects."""
    above, scratch, _ = f"/{lease}".rsplit("/", 2)
    single = scratch.removesuffix(SCRATCH).removeprefix(".")
    stem, _ = splitext(single)  # train.idx stands beside train.rec
    return f"{above}/{stem}".removeprefix("/")
