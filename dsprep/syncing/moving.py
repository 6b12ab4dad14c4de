"""``--move``: local files go when they are proven to be on S3."""

from __future__ import annotations

from dsprep.errors import SourceError
from dsprep.storage.base import Stored
from dsprep.syncing.compare import BY_CHECKSUM, BY_CONTENT
from dsprep.syncing.report import Failure
from dsprep.syncing.run import Outcome
from dsprep.syncing.sides import Directory, lies_in
from dsprep.syncing.threads import each


def remove_sources(run: Outcome, source: Directory) -> None:
    """Delete the local files that a run has sent, or found by their content.

    One that has changed since it was looked at stays, and so does what lies behind a link to a
    directory.
    """
    found = {path: by for path, by in run.same if by in BY_CONTENT}
    proven = sorted(path for path in {*run.arrived, *found} if not lies_in(path, run.linked))

    def remove(path: str) -> bool | Failure:
        # The rest was read: to be sent, or for its MD5.
        told = run.checksums.get(path) if found.get(path) in BY_CHECKSUM else None
        return _remove(source, run.files[path], told)

    report = run.report
    for _, removed in each(remove, proven, source.pace.concurrency, source.pace):
        if isinstance(removed, Failure):
            report.failures.append(removed)
            report.state = "incomplete"
        else:
            report.moved += removed
    report.notes += [
        f"{source.name(path)}: is a link to a directory; what lies behind it is not deleted"
        for path in sorted(run.linked)
    ]


def _remove(source: Directory, known: Stored, told: int | None) -> bool | Failure:
    """Delete a file, unless it has changed; returns whether it is gone."""
    file = source.path(known.key)
    try:
        read = None if told is None else source.content(known, None).crc32c()
        if read is not None and read[0] != told:
            return Failure(
                known.key,
                f"{file}: is not deleted, as its crc32c is {read[0]:08x}, and its manifest tells "
                f"{told:08x}: see dsprep verify",
            )
        now = file.stat()
        if (now.st_size, now.st_mtime) != (known.size, known.modified):
            return False
        file.unlink()
    except SourceError as error:
        return Failure(known.key, str(error))
    except OSError as error:
        return Failure(known.key, f"{file}: cannot be deleted ({error.strerror})")
    return True
