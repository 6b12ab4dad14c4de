"""The public functions ``sync`` and ``clean_uploads``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from dsprep.arguments import AnyPath, public
from dsprep.errors import (
    DestinationError,
    DestinationStoreError,
    Interrupted,
    OptionError,
    SourceError,
    SourceStoreError,
    StoreError,
)
from dsprep.options import given_options, require_effect
from dsprep.storage.location import is_s3, parse_url
from dsprep.storage.pool import DEFAULT_CONCURRENCY, Pace
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.s3.config import S3Config
from dsprep.storage.transfer import DEFAULT_PART, Events, TransferOptions
from dsprep.syncing.movers import Across, Down, Mover, Up
from dsprep.syncing.orphans import Orphan, abort_uploads
from dsprep.syncing.plan import Filters, Rule
from dsprep.syncing.proof import prove_all
from dsprep.syncing.report import SyncReport
from dsprep.syncing.run import Sync, SyncOptions
from dsprep.syncing.sides import Directory, Prefix
from dsprep.syncing.tally import Tally

_SPARE = 2  # connections for listings, besides those for transfers


@public
def sync(
    source: AnyPath,
    destination: AnyPath,
    *,
    rules: Sequence[Rule] = (),
    size_only: bool = False,
    delete: bool = False,
    max_delete: int | None = None,
    verify: bool = False,
    follow_links: bool = True,
    part_size: int = 0,
    concurrency: int = DEFAULT_CONCURRENCY,
    bandwidth: float = 0.0,
    abort_on_exit: bool = False,
    dry_run: bool = False,
    config: S3Config | None = None,
    events: Events | None = None,
) -> SyncReport:
    """Make a directory or a prefix on S3 hold the files that another one holds.

    Args:
        source: A directory, a file, or ``s3://bucket/prefix``.
        destination: A directory or ``s3://bucket/prefix``; at least one of both is on S3.
        rules: Which files take part; the last that matches wins.
        size_only: Whether files of equal sizes are taken for equal.
        delete: Whether files that the source has not are deleted at the destination: none if
            anything failed, and none where links lead elsewhere, or the source was left out.
        max_delete: The most files that may be deleted; None for any number.
        verify: Whether all files are proven in the end by their checksums on S3, also those that
            were there before.
        follow_links: Whether links in the source are followed; those at the destination are.
        part_size: The size of parts, in bytes; 0 for a good one.
        concurrency: How many requests there are at once.
        bandwidth: Bytes a second in all; 0 for no limit.
        abort_on_exit: Whether nothing is kept of an upload that is stopped or fails.
        dry_run: Whether nothing is done, and the report says what would be.
        config: How S3 is reached, and how objects are kept there.
        events: Receives the progress.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the source is not there or cannot be read.
        DestinationError: If the destination refuses, or too much would be deleted.
        StoreError: If S3 refuses what all files need: a :class:`SourceError` too, or a
            :class:`DestinationError`.
        Interrupted: If it is stopped; calling again goes on.
    """
    facts = {"local_source": not is_s3(source), "remote": is_s3(destination)}
    require_effect("sync", given_options(locals()), **facts)
    tally = Tally(events or Events())
    if bandwidth:  # few parts at once, so that some are complete if it is stopped
        concurrency = min(concurrency, max(1, round(2 * bandwidth / DEFAULT_PART)))
    pace = Pace(concurrency, bandwidth)
    config = replace(config or S3Config(), connections=concurrency + _SPARE)
    stores: list[S3Store] = []

    def side(text: str, role: type[StoreError], to_files: bool, follow: bool) -> Directory | Prefix:
        if not is_s3(text):
            path = Path(text)
            single = path.name if path.is_file() else None
            return Directory(path.parent if single else path, single, follow, pace)
        url = parse_url(text)
        store = S3Store(
            url.bucket,
            config,
            wait=pace.wait,
            on_retry=tally.retry,
            on_fallback=tally.fallback,
            role=role,
        )
        stores.append(store)
        return Prefix(store, _prefix_of(url.key), to_files, pace)

    _require_apart(source, destination)
    try:
        ours = side(source, SourceStoreError, not is_s3(destination), follow_links)
        theirs = side(destination, DestinationStoreError, to_files=False, follow=True)
        if delete and isinstance(ours, Directory) and ours.single is not None:
            raise OptionError(f"{source}: is a file; --delete goes with a directory")
        way = TransferOptions(pace, tally, part_size, keep=not abort_on_exit)
        options = SyncOptions(Filters(tuple(rules)), size_only, delete, max_delete, dry_run)
        run = Sync(ours, theirs, _mover(ours, theirs), options, way, concurrency).run()
        if verify and not dry_run:
            prove_all(run, ours, theirs)
        return run.report
    except (KeyboardInterrupt, Interrupted):
        pace.stop()
        raise Interrupted(
            f"interrupted; {tally.so_far(not abort_on_exit)}; give the same command again to go on"
        ) from None
    except StoreError as error:
        if not tally.planned:
            raise
        message = f"{error}\n{tally.so_far(not abort_on_exit)}"
        raise type(error)(message, error.kind) from None
    finally:
        pace.stop()
        pace.close()
        for store in stores:
            store.close()


@public
def clean_uploads(
    place: AnyPath, older_than: float = 0.0, dry_run: bool = False, config: S3Config | None = None
) -> list[Orphan]:
    """Abort one's own unfinished uploads; see :func:`~dsprep.syncing.orphans.abort_uploads`.

    Args:
        place: ``s3://bucket/prefix``.
        older_than: Seconds.
        dry_run: Whether they are only listed.
        config: How S3 is reached.

    Raises:
        OptionError: If it is not on S3.
        StoreError: If it is refused.
    """
    url = parse_url(place)
    with closing(S3Store(url.bucket, config, role=DestinationStoreError)) as store:
        return abort_uploads(store, url.key, older_than, dry_run)


def _mover(source: Directory | Prefix, destination: Directory | Prefix) -> Mover:
    if isinstance(source, Directory) and isinstance(destination, Prefix):
        return Up(source, destination)
    if isinstance(source, Prefix) and isinstance(destination, Directory):
        return Down(source, destination)
    if isinstance(source, Prefix) and isinstance(destination, Prefix):
        return Across(source, destination)
    raise OptionError("SRC and DST are both local: one of them must be like s3://bucket/prefix")


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
