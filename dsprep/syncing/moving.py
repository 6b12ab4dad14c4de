"""``--move``: local files go when they are proven to be on S3."""

from __future__ import annotations

from dsprep.syncing.report import Failure
from dsprep.syncing.run import Sync
from dsprep.syncing.sides import Directory

_BY_CONTENT = ("etag", "checksum", "metadata")
"""What proves that a file which was not sent is there; equal sizes and times do not."""


def remove_sources(run: Sync, source: Directory) -> tuple[int, list[Failure]]:
    """Delete the local files that a run has sent, or found by their content.

    One that has changed since it was looked at stays.

    Returns:
        How many were deleted, and what could not be.
    """
    proven = run.arrived.union(path for path, by in run.same if by in _BY_CONTENT)
    removed, failures = 0, []
    for path in sorted(proven):
        file, known = source.path(path), run.files[path]
        try:
            now = file.stat()
            if (now.st_size, now.st_mtime) == (known.size, known.modified):
                file.unlink()
                removed += 1
        except OSError as error:
            failures.append(Failure(path, f"cannot be deleted ({error.strerror})"))
    return removed, failures
