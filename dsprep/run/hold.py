"""The right to write to a target, which one run at a time has."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dsprep.storage.local import ScratchLock, destination_errors, remove_all_but

if TYPE_CHECKING:
    from dsprep.storage.lease import Lease


class Hold:
    """The right to write to a target, which one run at a time has: a lock and, on S3, a lease."""

    def __init__(
        self,
        work: Path,
        guarded: Path | str,
        lease: Lease | None = None,
        whole: ScratchLock | None = None,
    ) -> None:
        """Take the lock; of a part of a run, ``whole`` is the lock that all parts share."""
        with destination_errors(work.parent):
            above = (work.parent, *work.parent.parents)
            self._made = [path for path in above if not path.exists()]
        self._lock, self._lease, self._work = ScratchLock(work, guarded), lease, work
        self._whole = whole

    def check(self) -> None:
        if self._lease is not None:
            self._lease.check()

    def remove(self) -> None:
        """Remove the hidden directory, and a stage as a whole, then let other runs in."""
        if self._lease is not None:
            self._lease.give_back()
            with suppress(OSError):
                remove_all_but(self._work.parent, self._work.name)
        self._lock.remove()
        if self._whole is not None:
            self._whole.remove()
        if self._lease is not None:
            with suppress(OSError):
                self._work.parent.rmdir()

    def release(self, keep: bool) -> None:
        """Let other runs in; keep what a later run needs, or remove it all."""
        if self._whole is not None:
            self._lock.remove()
            self._whole.leave()
        elif not keep:
            self.remove()
            with suppress(OSError):  # removing fails if another program has put a file there
                for path in self._made:
                    path.rmdir()
        if self._lease is not None:
            self._lease.give_back()
        self._lock.release()
