"""Places at the destination that ``pack``, ``convert`` or ``shard`` writes to: a lease tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from os.path import splitext

from dsprep.errors import DestinationError, StoreError
from dsprep.run.lease import DEAD_AFTER, LONG_AGO
from dsprep.storage.base import Stored
from dsprep.storage.local import SCRATCH
from dsprep.storage.pace import Pace
from dsprep.syncing.sides import Side

_LOOK_EVERY = 2.0


def require_idle(
    destination: Side,
    leases: Mapping[str, Stored],
    paths: Collection[str],
    pace: Pace,
    tell: Callable[[str], object],
) -> None:
    """See that no other command is writing what is to be written."""
    for path, lease in leases.items():
        before = _guarded(path)
        is_old = time.time() - lease.modified > LONG_AGO
        if not is_old and any(each.startswith(before) for each in paths):
            _require_dead(destination, path, destination.name(before), pace, tell)


def _require_dead(
    destination: Side, path: str, place: str, pace: Pace, tell: Callable[[str], object]
) -> None:
    """Watch a lease that may have been left behind: a run that is alive renews it."""
    try:
        first, began = destination.read(path), time.monotonic()
        tell(
            f"{place}: another dsprep command was writing there; looking for up to "
            f"{DEAD_AFTER:.0f} s whether it still is"
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
    """What the paths of the files begin with that a lease is for."""
    above, scratch, _ = f"/{lease}".rsplit("/", 2)
    single = scratch.removesuffix(SCRATCH).removeprefix(".")
    stem, _ = splitext(single)  # train.idx stands beside train.rec
    return f"{above}/{stem}".removeprefix("/")
