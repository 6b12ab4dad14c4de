"""``sync``: what is called with what users give."""

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
from dsprep.storage.bucket import S3Store
from dsprep.storage.events import Events
from dsprep.storage.pace import DEFAULT_CONCURRENCY, Pace
from dsprep.storage.parts import DEFAULT_PART
from dsprep.storage.s3_config import S3Config
from dsprep.storage.urls import is_s3, parse_url
from dsprep.syncing.filters import Filters, Rule
from dsprep.syncing.movers import Across, Down, Mover, Up, Way
from dsprep.syncing.moving import remove_sources
from dsprep.syncing.orphans import Orphan, abort_uploads
from dsprep.syncing.report import Failure, SyncReport, read_back_notes
from dsprep.syncing.run import Outcome, Sync, Wishes
from dsprep.syncing.sides import Directory, Prefix
from dsprep.syncing.tally import Tally
from dsprep.syncing.verifying import prove
from dsprep.syncing.watching import watch as watch_source


@public
def sync(
    source: AnyPath,
    destination: AnyPath,
    *,
    rules: Sequence[Rule] = (),
    size_only: bool = False,
    delete: bool = False,
    max_delete: int | None = None,
    move: bool = False,
    watch: bool = False,
    verify: str | None = None,
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
        destination: A directory, or a place on S3; one of both is on S3.
        rules: Which files take part; the last that matches wins.
        size_only: Whether files of equal sizes are taken for equal.
        delete: Whether files that the source has not are deleted at the destination: none if
            anything failed, and none where links lead elsewhere, or the source was left out.
        max_delete: The most files that may be deleted; None for any number.
        move: Whether local files are deleted when they are proven to be on S3, but for those
            behind links to directories.
        watch: Whether to go on until the source is a complete data set.
        verify: ``heads`` or ``download``: how all files, sent now or before, are proven in the end;
            None for those that were sent only.
        follow_links: Whether links in the source are followed; those at the destination are.
        part_size: The size of parts, in bytes; 0 for a good one.
        concurrency: How many requests there are at once.
        bandwidth: Bytes a second in all; 0 for no limit.
        abort_on_exit: Whether nothing is kept of an upload that is stopped or fails.
        dry_run: Say what would be done, and do nothing.
        config: How S3 is reached, and how objects are kept there.
        events: Is told how it goes.

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
    if bandwidth:  # few parts at once, so that some are whole if it is stopped
        concurrency = min(concurrency, max(1, round(2 * bandwidth / DEFAULT_PART)))
    pace = Pace(concurrency, bandwidth)
    config = replace(config or S3Config(), connections=concurrency + _SPARE)
    stores: list[S3Store] = []

    def place(
        text: str, role: type[StoreError], to_files: bool, follow: bool
    ) -> Directory | Prefix:
        if not is_s3(text):
            return _directory(text, follow, pace)
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

    def once(last: bool) -> SyncReport:
        now = replace(wishes, delete=delete and last)
        run = Sync(ours, theirs, _mover(ours, theirs), now, way, concurrency).run()
        report = run.report
        if verify and not dry_run:
            _prove(run, ours, theirs, verify)
        if move and isinstance(ours, Directory) and not dry_run and not report.failures:
            remove_sources(run, ours)
        return report

    _require_apart(source, destination, watch)
    try:
        ours = place(source, SourceStoreError, not is_s3(destination), follow_links)
        theirs = place(destination, DestinationStoreError, to_files=False, follow=True)
        if (delete or watch) and isinstance(ours, Directory) and ours.single is not None:
            raise OptionError(f"{source}: is a file; --delete and --watch go with a directory")
        if move and delete:
            raise OptionError(
                "--move and --delete do not go together: what was moved would be deleted next time"
            )
        way = Way(pace, tally, part_size, keep=not abort_on_exit)
        wishes = Wishes(Filters(tuple(rules)), size_only, delete, max_delete, dry_run)
        if watch and isinstance(ours, Directory) and not dry_run:
            return watch_source(ours, once, pace.wait, tally.waiting)
        return once(True)
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
        OptionError: If it is no place on S3.
        StoreError: If it is refused.
    """
    url = parse_url(place)
    with closing(S3Store(url.bucket, config, role=DestinationStoreError)) as store:
        return abort_uploads(store, url.key, older_than, dry_run)


_SPARE = 2
"""Connections for looking, besides those for sending."""


def _prove(run: Outcome, ours: Directory | Prefix, theirs: Directory | Prefix, level: str) -> None:
    """Prove all files, not only those that were sent."""
    report = run.report
    proofs = prove(run, ours, theirs, level)
    for path, proof in proofs.items():
        if proof.problem:
            report.failures.append(Failure(path, proof.problem))
            report.state = "incomplete"
        else:
            report.verified[proof.by] += 1
    if level == "heads":
        read = [path for path, proof in proofs.items() if proof.by == "download"]
        wrong = [path for path in read if proofs[path].problem]
        right = [path for path in read if not proofs[path].problem]
        report.notes += read_back_notes(run.files, right, wrong)


def _directory(text: str, follow_links: bool, pace: Pace) -> Directory:
    path = Path(text)
    if os.path.isfile(path):
        return Directory(path.parent, path.name, follow_links, pace)
    return Directory(path, None, follow_links, pace)


def _mover(source: Directory | Prefix, destination: Directory | Prefix) -> Mover:
    if isinstance(source, Directory) and isinstance(destination, Prefix):
        return Up(source, destination)
    if isinstance(source, Prefix) and isinstance(destination, Directory):
        return Down(source, destination)
    if isinstance(source, Prefix) and isinstance(destination, Prefix):
        return Across(source, destination)
    raise OptionError("neither of both is on S3: one has to be like s3://bucket/prefix")


def _require_apart(source: str, destination: str, watch: bool) -> None:
    """Refuse a place as its own destination, one that lies in the other, and one that is a file."""
    if not is_s3(source) and not os.path.exists(source) and not watch:
        raise SourceError(f"{source}: is not there")
    if not is_s3(destination) and os.path.lexists(destination) and not os.path.isdir(destination):
        raise DestinationError(f"{destination}: is no directory; name the one to sync to")
    if is_s3(source) and is_s3(destination):
        ours, theirs = (parse_url(each) for each in (source, destination))
        one, other = _prefix_of(ours.key), _prefix_of(theirs.key)
        if ours.bucket == theirs.bucket and (one.startswith(other) or other.startswith(one)):
            raise OptionError(f"{destination}: is {source} itself, or one lies in the other")


def _prefix_of(key: str) -> str:
    """What the keys below a place begin with."""
    return key if not key or key.endswith("/") else key + "/"
