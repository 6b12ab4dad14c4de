"""One run at a time where a store has no locks: an object that a run renews while it is alive.

A run that was killed leaves its lease behind. Another run watches it: if nobody renews it for a
while, the first run is taken to be dead. That time is measured here, because clocks of machines
differ.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

from dsprep.errors import DestinationError, DestinationStoreError, DsprepError, StoreError
from dsprep.storage.local import destination_errors, read_whole
from dsprep.storage.pool import Flag
from dsprep.storage.store import Store
from dsprep.storage.stored import Stored

LEASE = "lease.json"  # the name of the object
RENEWED_EVERY = 10.0  # seconds between two renewals
DEAD_AFTER = 60.0  # seconds without a renewal after which a run is taken to be dead
# Seconds without a renewal after which nobody needs to watch: more than clocks differ, because S3
# refuses requests of a clock that is fifteen minutes off.
LONG_AGO = 1800.0
_ANSWERED_WITHIN = 10.0  # seconds that a renewal waits: the minute of other requests is too long
_LOOK_EVERY = 2.0
_PATIENCE = 3.0  # seconds that giving a lease back may take
_LOOKS = "{}: another run was writing there; looking for up to {:.0f} s whether it still is"
_LIVES = "{}: another dsprep run is writing there; wait for it to end"


class Lease:
    """The right of a run to write to a place."""

    def __init__(self, store: Store, key: str, place: str) -> None:
        self._store = self._impatient = store
        self._key, self._place = key, place
        self._holder, self._renewals, self._etag = "", 0, ""
        self._said = 0.0
        self._lost: DsprepError | None = None
        self._over, self._renewing = Flag(), threading.Lock()

    def take(self, known: Path, tell: Callable[[str], None], waits: bool = False) -> None:
        """Take it, from a dead run if need be, and renew it; wait for one that lives if asked."""
        # `known` is a file with the name of the holder: who goes on with a run on the same machine
        # need not wait.
        with destination_errors(known):
            if not known.exists():
                known.write_text(uuid4().hex)
            self._holder = read_whole(known).decode("ascii", "replace")
        first, seen = "", 0.0  # the ETag of another run's lease, and when it was first seen
        while not self._put():
            if (found := find_lease(self._store, self._key)) is None:
                continue
            holder, lease = found
            if not first:
                first, seen = lease.etag, time.monotonic()
                long_ago = time.time() - lease.modified > LONG_AGO
                if (long_ago or holder == self._holder) and self._put(first):
                    break
                tell(_LOOKS.format(self._place, DEAD_AFTER))
            if lease.etag != first and waits:
                first, seen = lease.etag, time.monotonic()
            elif lease.etag != first:
                raise DestinationError(_LIVES.format(self._place))
            if time.monotonic() - seen > DEAD_AFTER and self._put(first):
                break
            # short at first: the other run may end at once
            time.sleep(min(_LOOK_EVERY, 0.1 + time.monotonic() - seen))
        try:
            find_lease(self._store, self._key)
        except StoreError:  # fail early: a right that is missing now is missing later, too
            self._store.delete([self._key])
            raise
        threading.Thread(target=self._keep, name="lease", daemon=True).start()

    def check(self) -> None:
        """See that this run still holds it, which it can be sure of for a while after a renewal."""
        if time.monotonic() - self._said > DEAD_AFTER - 2 * RENEWED_EVERY:
            self._renew()
        if self._lost is not None:
            raise self._lost

    def _keep(self) -> None:
        if self._over.wait(RENEWED_EVERY):
            return
        store = self._store.in_role(DestinationStoreError).hurried(_ANSWERED_WITHIN)
        with closing(store) as self._impatient:
            while self._lost is None and not self._over.is_set:
                with suppress(DsprepError):  # the network may be there again next time
                    self._renew()
                self._over.wait(RENEWED_EVERY)

    def _renew(self) -> None:
        with self._renewing:
            if self._over.is_set or self._lost is not None or self._put(self._etag):
                return
            found = find_lease(self._impatient, self._key)
            if found is not None and found[0] == self._holder and self._put(found[1].etag):
                return  # our last renewal succeeded, and only its answer was lost
            self._lost = lost_lease(self._place)

    def give_back(self) -> None:
        """Let other runs in, if S3 can be reached now; otherwise they will find out."""
        if self._over.is_set or not self._etag:
            return
        self._over.set()

        def delete() -> None:
            with self._renewing, suppress(DsprepError):
                found = find_lease(self._impatient, self._key)
                if found is not None and found[0] == self._holder:
                    self._store.delete([self._key])

        thread = threading.Thread(target=delete, name="lease", daemon=True)
        thread.start()
        thread.join(_PATIENCE)

    def _put(self, etag: str = "") -> bool:
        """Store a renewal, unless another run has stored one meanwhile."""
        self._renewals += 1
        now = time.monotonic()
        said = json.dumps({"holder": self._holder, "renewals": self._renewals}).encode()
        try:
            self._etag = self._impatient.put(self._key, said, replaces=etag).etag
        except StoreError as error:
            if error.kind == "exists" or (etag and error.kind == "missing"):
                return False
            raise
        self._said = now
        return True


def end_parts(store: Store, prefix: str, place: str, tell: Callable[[str], None]) -> None:
    """Take their leases from parts of a run that are dead; refuse if one is alive."""

    def leases() -> dict[str, Stored]:
        return {each.key: each for page in store.list(prefix) for each in page}

    first, began = leases(), time.monotonic()
    young = {key for key, each in first.items() if time.time() - each.modified <= LONG_AGO}
    if young:
        tell(_LOOKS.format(place, DEAD_AFTER))
    while young and time.monotonic() - began <= DEAD_AFTER:
        time.sleep(_LOOK_EVERY)
        there = leases()
        young &= there.keys()
        if any(there[key].etag != first[key].etag for key in young):
            raise DestinationError(_LIVES.format(place))
    store.delete([*first])


def find_lease(store: Store, key: str) -> tuple[str, Stored] | None:
    """Return the holder of a lease, and the object that tells it."""
    try:
        data, stored = store.read(key)
        return str(json.loads(data)["holder"]), stored
    except StoreError as error:
        if error.kind != "missing":
            raise
        return None
    except (ValueError, LookupError, TypeError):
        raise DestinationError(
            f"{store.url(key)}: is not what dsprep writes there; delete it if no run is writing "
            "there"
        ) from None


def lost_lease(place: str) -> DestinationError:
    """Return the error for a run whose lease another run has taken."""
    return DestinationError(
        f"{place}: another dsprep run has gone on with this one, which gave no sign "
        "of life; wait for it to end"
    )
