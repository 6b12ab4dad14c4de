"""The public functions ``sync`` and ``clean_uploads``."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dsprep.arguments import AnyPath
from dsprep.errors import (
    DestinationError,
    DestinationStoreError,
    Interrupted,
    OptionError,
    SourceError,
    SourceStoreError,
    StoreError,
)
from dsprep.keywords import Options, SyncOptions, called_with, option
from dsprep.options import require_effect
from dsprep.storage.location import is_s3, parse_url
from dsprep.storage.pool import DEFAULT_CONCURRENCY, Pace
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.s3.config import S3Config
from dsprep.storage.s3.upload import probe
from dsprep.storage.store import Events, ignore
from dsprep.storage.transfer import DEFAULT_PART, TransferOptions
from dsprep.syncing.plan import SyncReport
from dsprep.syncing.run import Mover, Sync
from dsprep.syncing.sides import Directory, Prefix, Side
from dsprep.units import format_count, parse_size

_SPARE = 2  # connections for listings, besides those for transfers


@called_with(SyncOptions)
def sync(options: SyncOptions) -> SyncReport:
    """Make a directory or a prefix on S3 hold the files that another one holds.

    ``source`` is a directory, a file, or ``s3://bucket/prefix``; ``destination`` is a directory or
    ``s3://bucket/prefix``. At least one of both is on S3. ``rules`` tell which files take part; the
    last that matches wins.

    Returns:
        What was done.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the source is not there or cannot be read.
        DestinationError: If the destination refuses, or too much would be deleted.
        StoreError: If S3 refuses what all files need: a :class:`SourceError` too, or a
            :class:`DestinationError`.
        Interrupted: If it is stopped; calling again goes on.
    """
    source, destination = options.source, options.destination
    facts = {"local_source": not is_s3(source), "remote": is_s3(destination)}
    require_effect("sync", options.given, **facts)
    tally = Tally(options.events or ignore, keep=not options.abort_on_exit)
    concurrency, bandwidth = options.concurrency or DEFAULT_CONCURRENCY, options.bandwidth or 0.0
    if bandwidth:  # few parts at once, so that some are complete if it is stopped
        concurrency = min(concurrency, max(1, round(2 * bandwidth / DEFAULT_PART)))
    pace = Pace(concurrency, bandwidth)
    config = replace(options.config or S3Config(), connections=concurrency + _SPARE)
    stores: list[S3Store] = []

    def side(text: str, role: type[StoreError], to_files: bool, follow: bool) -> Side:
        if not is_s3(text):
            path = Path(text)
            single = path.name if path.is_file() else None
            return Directory(path.parent if single else path, single, follow, pace)
        url = parse_url(text)
        store = S3Store(url.bucket, config, wait=pace.wait, events=tally, role=role)
        stores.append(store)
        return Prefix(store, _prefix_of(url.key), to_files, pace)

    _require_apart(source, destination)
    try:
        ours = side(source, SourceStoreError, not is_s3(destination), options.follow_links)
        theirs = side(destination, DestinationStoreError, to_files=False, follow=True)
        if options.delete and isinstance(ours, Directory) and ours.single is not None:
            raise OptionError(f"{source}: is a file; --delete goes with a directory")
        if not stores:
            raise OptionError(
                "SRC and DST are both local: one of them must be like s3://bucket/prefix"
            )
        part_size = parse_size(options.part_size) if options.part_size else 0
        mover = Mover(ours, theirs, TransferOptions(pace, tally, part_size, tally.keep))
        return Sync(mover, options).run()
    except (KeyboardInterrupt, Interrupted):
        pace.stop()
        raise Interrupted(
            f"interrupted; {tally.so_far()}; give the same command again to go on"
        ) from None
    except StoreError as error:
        if not tally.planned:
            raise
        raise type(error)(f"{error}\n{tally.so_far()}", error.kind) from None
    finally:
        pace.stop()
        pace.close()
        for store in stores:
            store.close()


def _require_apart(source: str, destination: str) -> None:
    """Refuse a destination that is the source, lies in it, has it inside, or is a file."""
    if not is_s3(source) and not os.path.exists(source):
        raise SourceError(f"{source}: does not exist")
    if not is_s3(destination) and os.path.lexists(destination) and not os.path.isdir(destination):
        raise DestinationError(f"{destination}: is not a directory; name the one to sync to")
    if is_s3(source) and is_s3(destination):
        ours, theirs = parse_url(source), parse_url(destination)
        one, other = _prefix_of(ours.key), _prefix_of(theirs.key)
        if ours.bucket == theirs.bucket and (one.startswith(other) or other.startswith(one)):
            raise OptionError(f"{destination}: is {source} itself, or one lies in the other")


def _prefix_of(key: str) -> str:
    """Return what the keys below a location begin with."""
    return key if not key or key.endswith("/") else key + "/"


class Tally:
    """Counts files sent, and parts of others that are kept for the next run; passes events on."""

    def __init__(self, events: Events, keep: bool) -> None:
        self._events, self.keep = events, keep
        self._lock = threading.Lock()
        self._parts: dict[str, int] = {}  # of files that are under way
        self.planned = self.whole = 0

    def __call__(self, event: str, **facts: Any) -> None:
        with self._lock:
            match event, facts:
                case "plan", {"files": files}:
                    self.planned += files
                case "begin", {"name": name, "parts": parts} if parts > 1:
                    self._parts.setdefault(name, 0)
                case "found", {"name": name, "parts": parts}:
                    self._parts[name] = self._parts.get(name, 0) + parts
                case "part", {"name": name} if name in self._parts:
                    self._parts[name] += 1
                case "end", {"name": name}:
                    self._parts.pop(name, None)
                    self.whole += 1
        self._events(event, **facts)

    def so_far(self) -> str:
        """Return the progress, for a message that ends the run."""
        with self._lock:
            begun = [count for count in self._parts.values() if count]
        if not self.whole and not begun:
            return "nothing was sent"
        text = f"{self.whole:,} of {format_count(self.planned, 'file')} sent"
        if begun and self.keep:
            parts, are = format_count(sum(begun), "part"), "is" if sum(begun) == 1 else "are"
            text += f", and {parts} of {len(begun):,} more {are} kept for the next run"
        elif begun:
            text += ", and nothing is kept of the others"
        return text


@dataclass(frozen=True)
class Orphan:
    """An unfinished upload."""

    url: str  # of the object
    id: str  # upload id
    seconds: float  # its age
    initiator: str  # who began it; empty if unknown
    parts: int  # uploaded parts
    bytes: int  # their size
    aborted: bool


class CleanOptions(Options):
    """The options of :func:`clean_uploads`."""

    place: AnyPath = field(kw_only=False)
    older_than: float = option("", "Seconds that uploads are old at least.", default=0.0)
    dry_run: bool = option("", "List them only.", default=False)
    config: S3Config | None = None  # how S3 is reached


@called_with(CleanOptions)
def clean_uploads(options: CleanOptions) -> list[Orphan]:
    """Abort one's own unfinished uploads below ``place``; those of others are left alone.

    Raises:
        OptionError: If it is not on S3.
        StoreError: If it is refused.
    """
    url = parse_url(options.place)
    with closing(S3Store(url.bucket, options.config, role=DestinationStoreError)) as store:
        return abort_uploads(store, url.key, options.older_than, options.dry_run)


def abort_uploads(
    store: S3Store, place: str, older_than: float = 0.0, dry_run: bool = False
) -> list[Orphan]:
    """Abort one's own unfinished uploads."""
    # An upload is one's own if its initiator is that of an upload begun now, which also shows the
    # server's time. If the server names no initiators, all uploads below the place are one's own.
    below = _prefix_of(place)
    mine = None if dry_run else probe(store, below)
    now = time.time() if mine is None else mine.initiated
    found = []
    for upload in store.list_uploads(place):
        is_below = upload.key == place or upload.key.startswith(below)
        is_own = mine is None or upload.initiator == mine.initiator
        age = now - upload.initiated
        if not (is_below and is_own and age >= older_than):
            continue
        parts = store.parts(upload)
        if parts is None:  # it has ended meanwhile
            continue
        size, url = sum(part.size for part in parts), store.url(upload.key)
        found.append(
            Orphan(url, upload.id, age, upload.initiator, len(parts), size, aborted=not dry_run)
        )
        if not dry_run:
            store.abort(upload)
    return found
