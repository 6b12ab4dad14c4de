"""``sync --verify``: does a side hold what it should? By the checksums that S3 keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from dsprep.errors import DsprepError
from dsprep.storage.checksums import known_crc32c, may_be_wrong
from dsprep.storage.store import Stored
from dsprep.syncing.compare import Content
from dsprep.syncing.report import Failure, read_back_notes
from dsprep.syncing.run import Outcome, stops_all
from dsprep.syncing.sides import Directory, Prefix, Side
from dsprep.syncing.threads import in_threads


class Proof(NamedTuple):
    """What the check of one file found."""

    by: str  # what proves it: `checksum`, `metadata`, `etag` or `download`; empty if nothing
    problem: str = ""  # what is wrong; empty if nothing is


def prove_all(run: Outcome, source: Side, destination: Side) -> None:
    """Prove all files of a run, also those not sent now, and add the results to its report."""
    remote, other = (
        (destination, source) if isinstance(destination, Prefix) else (source, destination)
    )
    assert isinstance(remote, Prefix)
    # The checksums in the source's manifests are no proof of what was downloaded.
    checksums = run.checksums if other is source else {}

    def check(path: str) -> Proof:
        file = run.files[path]
        there = replace(file, key=path) if isinstance(other, Directory) else file
        try:
            content = other.content(there, checksums.get(path))
            return prove(
                content,
                remote.store.stat(remote.key(path)),
                lambda stored: remote.content(stored, None).read_crc32c(),
            )
        except DsprepError as error:
            if stops_all(error):
                raise
            return Proof("", str(error))

    report = run.report
    checked = in_threads(check, sorted(run.files), remote.pace.concurrency, remote.pace)
    proofs = dict(sorted(checked))
    for path, proof in proofs.items():
        if proof.problem:
            report.failures.append(Failure(path, proof.problem))
            report.state = "incomplete"
        else:
            report.verified[proof.by] += 1
    read = [path for path, proof in proofs.items() if proof.by == "download"]
    wrong = [path for path in read if proofs[path].problem]
    right = [path for path in read if not proofs[path].problem]
    report.notes += read_back_notes(run.files, right, wrong)


def prove(source: Content, stored: Stored | None, read: Callable[[Stored], int]) -> Proof:
    """Prove that an object is what it should be; ``read`` returns the crc32c of its bytes."""
    if stored is None:
        return Proof("", "is not there")
    known = known_crc32c(stored)
    if known is None:
        if stored.md5 is not None and source.has_md5:
            return Proof("etag", "" if stored.md5 == source.md5() else "has another ETag")
        return Proof("", "cannot be proven: S3 keeps neither its crc32c nor its MD5")
    theirs, by = known
    ours = source.crc32c()
    if ours is None:
        return Proof("", "cannot be proven: the checksum of its source is not known")
    # Some servers keep wrong checksums: the bytes decide.
    if theirs != ours[0] and by == "checksum" and may_be_wrong(stored):
        theirs, by = read(stored), "download"
    if theirs != ours[0]:
        return Proof(by, f"has the crc32c {theirs:08x}, and {ours[0]:08x} is right")
    return Proof(by)
