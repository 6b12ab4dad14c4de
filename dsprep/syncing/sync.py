"""The public functions ``sync`` and ``clean_uploads``."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from shlex import quote
from typing import Any

from dsprep.arguments import AnyPath
from dsprep.dataset.names import MANIFEST, manifest_beside
from dsprep.declared import Options, called_with, field, option
from dsprep.errors import (
    DestinationError,
    DestinationStoreError,
    Interrupted,
    OptionError,
    SourceError,
    SourceStoreError,
    StoreError,
)
from dsprep.frozen import Frozen
from dsprep.options import require_effect
from dsprep.printable import json_values
from dsprep.storage.files import system_path
from dsprep.storage.location import parse_url
from dsprep.storage.pool import DEFAULT_CONCURRENCY, Pace
from dsprep.storage.s3.config import S3Config
from dsprep.storage.s3.store import S3Store, with_config
from dsprep.storage.s3.upload import probe
from dsprep.storage.store import store_below, store_of
from dsprep.storage.stored import Events, ignore
from dsprep.storage.transfer import DEFAULT_PART, TransferOptions
from dsprep.syncing.checksums import Checksums
from dsprep.syncing.options import SyncOptions
from dsprep.syncing.report import SyncReport
from dsprep.syncing.run import Sync
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
    from_disk, to_disk = (system_path(place) is not None for place in (source, destination))
    require_effect("sync", options.given, local_source=from_disk, remote=not to_disk)
    tally = Tally(options.events or ignore, keep=not options.abort_on_exit)
    concurrency, bandwidth = options.concurrency or DEFAULT_CONCURRENCY, options.bandwidth or 0.0
    if bandwidth:  # few parts at once, so that a stop leaves complete ones
        concurrency = min(concurrency, max(1, round(2 * bandwidth / DEFAULT_PART)))
    pace = Pace(concurrency, bandwidth)
    part_size = parse_size(options.part_size) if options.part_size else 0
    stores = ExitStack()

    def side(place: str, role: type[StoreError], follow: bool) -> Side:
        if system_path(place) is not None:
            path = Path(place)
            single = path.name if path.is_file() else None
            checksums = Checksums(path, trusted=not options.verify)
            return Directory(path.parent if single else path, single, follow, pace, checksums)
        found, prefix = store_below(place)
        found = with_config(found, options.config).in_role(role)
        store = found.for_run(pace.wait, tally, concurrency + _SPARE)
        stores.callback(store.close)
        return Prefix(store, prefix, to_disk, pace)

    _require_apart(options, from_disk, to_disk)
    _require_s3(options)
    try:
        source_side = side(source, SourceStoreError, options.follow_links)
        destination_side = side(destination, DestinationStoreError, follow=True)
        way = TransferOptions(pace, tally, part_size, tally.keep)
        report = Sync(source_side, destination_side, way, options).run()
        report.notes += _notes_of_manifest(source_side, source, destination)
        return report
    except (KeyboardInterrupt, Interrupted):
        pace.stop()
        raise Interrupted(
            f"interrupted; {tally.so_far()}; give the same command again to go on"
        ) from None
    except StoreError as error:
        if tally.planned:
            error.args += (tally.so_far(),)
        raise
    finally:
        pace.stop()
        pace.close()
        stores.close()


def _notes_of_manifest(side: Side, source: str, destination: str) -> list[str]:
    """Say which command sends the manifest as well, if it lies beside a directory."""
    path = manifest_beside(source)
    if isinstance(side, Prefix):
        is_there = path and side.store.stat(store_of(path)[1]) is not None
    else:
        is_there = path and side.single is None and os.path.isfile(path)
    if not is_there:
        return []
    name = os.path.basename(path).removesuffix(f".{MANIFEST}")
    above, _, last = destination.rstrip("/").rpartition("/")
    ends = (os.path.dirname(path) or ".", above or "." if last == name else destination)
    patterns = f"--exclude '*' --include {quote(f'{name}/*')} --include {quote(f'{name}.*')}"
    return [
        f"{path}: lies beside {source}, and is not sent; all files of this data set: "
        f"dsprep sync {quote(ends[0])} {quote(ends[1])} {patterns}"
    ]


def _require_apart(options: SyncOptions, from_disk: bool, to_disk: bool) -> None:
    """Refuse a destination that is the source, lies in it, has it inside, or is a file."""
    source, destination = options.source, options.destination
    if from_disk and not os.path.exists(source):
        raise SourceError(f"{source}: does not exist")
    if to_disk and os.path.lexists(destination) and not os.path.isdir(destination):
        raise DestinationError(f"{destination}: is not a directory; name the one to sync to")
    if not (from_disk or to_disk):
        places = map(store_below, (source, destination))
        one, other = (store.url(prefix) for store, prefix in places)
        if one.startswith(other) or other.startswith(one):
            raise OptionError(f"{destination}: is {source} itself, or one lies in the other")
    if from_disk and options.delete and os.path.isfile(source):
        raise OptionError(f"{source}: is a file; --delete goes with a directory")
    if from_disk and to_disk:
        raise OptionError("SRC and DST are both local: one of them must be like s3://bucket/prefix")


def _require_s3(options: SyncOptions) -> None:
    """Refuse options of S3 if neither side is there."""
    places = (options.source, options.destination)
    others = [store_below(place)[0] for place in places if system_path(place) is None]
    is_given = options.config not in (None, S3Config())
    if is_given and not any(isinstance(store, S3Store) for store in others):
        names = " and ".join(sorted({store.name for store in others}))
        raise OptionError(
            f"options of S3, such as --profile and --sse, do not go with {names}; leave them out"
        )


class Tally:
    """Counts files sent, and parts of others that are kept for the next run; passes events on."""

    def __init__(self, events: Events, keep: bool) -> None:
        self._events, self.keep = events, keep
        self._lock = threading.Lock()
        self._parts: dict[str, int] = {}  # complete parts of each file that is being sent
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


class Orphan(Frozen):
    """An unfinished upload."""

    url: str  # address of the object
    id: str  # upload id
    seconds: float  # its age
    initiator: str  # who began it; empty if unknown
    parts: int  # uploaded parts
    bytes: int  # their size
    aborted: bool

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "url": self.url,
                "id": self.id,
                "seconds": self.seconds,
                "initiator": self.initiator,
                "parts": self.parts,
                "bytes": self.bytes,
                "aborted": self.aborted,
            }
        )


class CleanOptions(Options):
    """The options of :func:`clean_uploads`."""

    place: AnyPath = field(kw_only=False)
    older_than: float = option("", "Minimum age of the uploads in seconds.", default=0.0)
    dry_run: bool = option("", "List the uploads, and abort none.", default=False)
    config: S3Config | None = None  # how to connect to S3


@called_with(CleanOptions)
def clean_uploads(options: CleanOptions) -> list[Orphan]:
    """Abort your own unfinished uploads below ``place``, a location like ``s3://bucket/prefix``.

    Returns:
        The uploads.

    Raises:
        OptionError: If the location is not on S3.
        StoreError: If S3 refuses a request.
    """
    # An upload is one's own if its initiator is that of an upload begun now, which also shows the
    # server's time. If the server names no initiators, all uploads below the place are one's own.
    url, found = parse_url(options.place), []
    with closing(S3Store(url.bucket, options.config, role=DestinationStoreError)) as store:
        mine = None if options.dry_run else probe(store, url.prefix)
        now = time.time() if mine is None else mine.initiated
        for upload in store.list_uploads(url.key):
            is_below = upload.key == url.key or upload.key.startswith(url.prefix)
            is_own = mine is None or upload.initiator == mine.initiator
            age, name = now - upload.initiated, store.url(upload.key)
            if not (is_below and is_own and age >= options.older_than):
                continue
            parts = store.parts(upload)
            if parts is None:  # the upload was completed or aborted meanwhile
                continue
            size, aborted = sum(part.size for part in parts), not options.dry_run
            found.append(Orphan(name, upload.id, age, upload.initiator, len(parts), size, aborted))
            if aborted:
                store.abort(upload)
    return found
