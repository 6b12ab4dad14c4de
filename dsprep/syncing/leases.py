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
    for path, lease in leases.items():
        before = _guarded(path)
        is_old = time.time() - lease.modified > LONG_AGO
        if not is_old and any(name.startswith(before) for name in paths):
            _require_dead(destination, path, destination.name(before), pace, tell)


def _require_dead(
    destination: Side, path: str, place: str, pace: Pace, tell: Callable[[str], object]
) -> None:
    """Watch a lease that a killed run may have left: a live run renews it."""
    try:
        first, began = destination.read(path), time.monotonic()
        tell(
            f"{place}: another dsprep command was writing there; waiting for up to "
            f"{DEAD_AFTER:.0f} s to see whether it still is"
        )
        while time.monotonic() - began <= DEAD_AFTER:
            pace.wait(_LOOK_EVERY)
            if destination.read(path) != first:
                raise DestinationError(
                    f"{place}: another dsprep command is writing there; wait for it to end"
                )
    except StoreError as error:
        if error.kind != "missing":
            raise
        raise DestinationError(
            f"{place}: another dsprep command has just ended there; give the same command again"
        ) from None


def _guarded(lease: str) -> str:
    """Return the prefix of the paths that a lease protects."""
    above, scratch, _ = f"/{lease}".rsplit("/", 2)
    single = scratch.removesuffix(SCRATCH).removeprefix(".")
    stem, _ = splitext(single)  # train.idx stands beside train.rec
    return f"{above}/{stem}".removeprefix("/")
