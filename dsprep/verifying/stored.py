"""``verify`` of data sets on S3: by what HEADs say of their files, or by reading them back."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from shlex import quote
from typing import NamedTuple, TypeAlias

from dsprep.dataset.manifest import MANIFEST, FileReceipt, manifest_names, parse_manifest, single_of
from dsprep.dataset.recorded import recorded_options
from dsprep.errors import SourceError, StoreError
from dsprep.formats import format_of_file
from dsprep.formats.folder import LISTING, Listed
from dsprep.plan.destination import Destination
from dsprep.progress import Progress
from dsprep.storage.checksums import crc32c, is_whole, known_crc32c
from dsprep.storage.location import parse_url
from dsprep.storage.pool import Pace
from dsprep.storage.s3.bucket import S3Store, store_of
from dsprep.storage.s3.read import read_back
from dsprep.storage.store import FATAL, Stored, ignore
from dsprep.storage.transfer import Range
from dsprep.units import format_count, format_size, format_some
from dsprep.verifying.report import Problem, VerifyReport, joined
from dsprep.verifying.shards import Shards, difference, false_totals, unfinished, unnamed

_AT_ONCE = 16
"""Requests at one time."""


@dataclass(frozen=True)
class Place:
    """The objects right below a prefix on S3."""

    store: S3Store  # the bucket
    prefix: str  # what keys begin with: nothing, or up to a slash
    names: frozenset[str] = frozenset()  # of the objects
    deeper: frozenset[str] = frozenset()  # of what would be directories

    @classmethod
    def look(cls, store: S3Store, prefix: str) -> Place:
        """List a prefix."""
        names: list[str] = []
        deeper: list[str] = []
        for level in store.levels(prefix):
            names += [stored.key.removeprefix(prefix) for stored in level.files]
            deeper += [key.removeprefix(prefix).rstrip("/") for key in level.deeper]
        return cls(store, prefix, frozenset(names), frozenset(deeper))

    def key(self, name: str) -> str:
        """Return the key of an object."""
        return self.prefix + name

    def url(self, name: str = "") -> str:
        """Return the URL of an object."""
        return self.store.url(self.key(name))


Found: TypeAlias = "tuple[Place, Shards] | Problem"
"""A data set and where it is; or a manifest that cannot be read."""


class Claim(NamedTuple):
    """A file that should be there."""

    file: FileReceipt  # what it should be; its name starts at the prefix of the data set
    samples: int = 0  # how many samples it stands for
    is_data: bool = False  # whether it holds samples, rather than being a companion


def claims_of(shards: Shards) -> Iterator[Claim]:
    """Return the files that a manifest names."""
    assert shards.manifest is not None
    for shard in shards.manifest.shards:
        if not shards.is_part or shard.name in shards.names:
            yield Claim(shard, shard.samples, True)
            yield from map(Claim, shard.sidecars)
    if not shards.is_part:
        yield from map(Claim, shards.manifest.files)


def find_stored(url: str) -> tuple[list[tuple[Place, Shards]], list[Problem]]:
    """Find the data sets of a manifest, a shard or a prefix.

    Problems are manifests that cannot be read, and shards that no manifest names.
    """
    bucket, key = parse_url(url)
    above, slash, name = key.rpartition("/")
    is_manifest, is_shard = name.endswith(MANIFEST), format_of_file(name) is not None
    is_file = is_manifest or is_shard
    place = Place.look(store_of(bucket), above + slash if is_file or not name else key + "/")
    if is_manifest:
        found = [_read(place, name)] if name in place.names else []
    elif is_shard:
        found = _of_shard(place, name)
    else:
        found = _of_prefix(place)
    if not found:
        is_gone = (is_shard and name not in place.names) or not (place.names or place.deeper)
        if is_gone and any(mark in key for mark in "*?[{"):
            raise SourceError(
                f"{url}: nothing is there; on S3, verify takes a prefix, a manifest or a shard, "
                "and no pattern"
            )
        if is_gone:
            raise SourceError(f"{url}: nothing is there; look at the spelling of its name")
        raise SourceError(
            f"{url}: no manifest there tells what it should be; fetch all and look into it: "
            f"dsprep sync {quote(place.url())} DIR, then dsprep verify DIR"
        )
    sets = [item for item in found if not isinstance(item, Problem)]
    problems = [item for item in found if isinstance(item, Problem)]
    if not is_file or name == MANIFEST:
        here = [shards for at, shards in sets if at is place]
        known = {shards.destination.scratch.name for shards in here}
        for name, message in unfinished(place.deeper, known):
            problems.append(Problem(place.url(name + "/"), None, "", message))
        formats = {shards.made.layout.name for shards in here}
        manifests = [shards.manifest for shards in here if shards.manifest]
        for name in unnamed(place.names, manifests, formats):
            message = "is there, but not in the manifest"
            problems.append(Problem(place.url(name), None, "", message))
    return sets, problems


def _of_prefix(place: Place) -> list[Found]:
    own = manifest_names(place.names)
    if own == [MANIFEST]:
        return [_read(place, MANIFEST)]
    above, slash, name = place.prefix.rstrip("/").rpartition("/")
    beside = f"{name}.{MANIFEST}"
    if name and place.store.stat(above + slash + beside) is not None:
        folder = _read(Place.look(place.store, above + slash), beside)
        if isinstance(folder, Problem) or folder[1].made.layout.is_tree:
            return [folder]
    return [_read(place, single) for single in own]


def _of_shard(place: Place, name: str) -> list[Found]:
    """Find a data set in one file, or the shard of a data set."""
    for manifest_name in manifest_names(place.names, name):
        found = _read(place, manifest_name)
        if isinstance(found, Problem):
            return [found]
        _, shards = found
        if name in shards.names:
            is_part = manifest_name == MANIFEST
            return [(place, replace(shards, names=[name], is_part=True) if is_part else shards)]
    return []


def _read(place: Place, name: str) -> Found:
    """Read a manifest, or say what is wrong with it."""
    url = place.url(name)
    data, stored = place.store.read(place.key(name))
    if not is_whole(data, stored):
        return Problem(url, None, "", "its bytes are not those of its checksum")
    try:
        manifest = parse_manifest(data, url)
        made = recorded_options(manifest)
    except SourceError as error:
        return Problem(url, None, "", str(error).removeprefix(f"{url}: "))
    names = [shard.name for shard in manifest.shards]
    destination = Destination(Path(), single_of(name))
    return place, Shards(made, names, manifest, destination, name)


def claims_of_folder(place: Place, shards: Shards) -> tuple[list[Claim], list[Problem]]:
    """Return the files that the listing of a folder names, and the files that it does not name.

    A listing that is missing, or is not the one of the manifest, names nothing: it is reported when
    it is compared like all other files.
    """
    single = shards.destination.single
    name = f"{single}.{LISTING}"
    receipt_of_listing = {claim.file.name: claim.file for claim in claims_of(shards)}.get(name)
    try:
        data, _ = place.store.read(place.key(name))
    except StoreError as error:
        if error.kind != "missing":
            raise
        return [], []
    if receipt_of_listing is None or receipt_of_listing.crc32c != crc32c(data):
        message = "is not as it was written: the files that it names are not looked at"
        return [], [Problem(place.url(name), None, "", message)]
    claims = []
    try:
        for line in BytesIO(data):
            for number, file in enumerate(Listed.from_json(line).files):
                if [type(value) for value in file] != [str, int, int]:
                    raise ValueError(f"{file!r:.100} tells no file")
                receipt = FileReceipt(f"{single}/{file.path}", file.bytes, file.crc32c)
                # the first file stands for the sample
                claims.append(Claim(receipt, 1 if number == 0 else 0, True))
    except ValueError as error:
        return [], [Problem(place.url(name), None, "", f"cannot be read: {error}")]
    known = {place.key(claim.file.name) for claim in claims}
    strays = [
        Problem(place.store.url(stored.key), None, "", "is there, but not in the listing")
        for page in place.store.list(place.key(f"{single}/"))
        for stored in page
        if stored.key not in known
    ]
    return claims, strays


@dataclass
class _File:
    """A file that should be there, and what was found out about it."""

    claim: Claim  # what it should be
    url: str
    stored: Stored | None = None  # what is there; None if nothing is, or if it is unknown
    by: str = ""  # what proves it, as in the report
    wrong: str = ""  # what is wrong with it; empty if nothing is
    doubted: str = ""  # what was wrong by the server's checksum, before its bytes were read

    def look(self, place: Place) -> None:
        """Compare it by a HEAD."""
        file = self.claim.file
        try:
            self.stored = place.store.stat(place.key(file.name))
        except StoreError as error:
            if error.kind in FATAL:
                raise
            self.wrong = str(error).removeprefix(f"{self.url}: ")
            return
        if self.stored is None:
            self.wrong = "is in the manifest, but not there"
            return
        checksum, self.by = known_crc32c(self.stored) or (None, "size")
        self.wrong = difference(file, self.stored.size, checksum)
        if self.wrong and self.has_size and self.by == "metadata":
            self.wrong += ", as its metadata has it"
        if self.wrong and self.has_size and self.by == "checksum":
            self.doubted = self.wrong  # another program may have stored a wrong checksum

    @property
    def has_size(self) -> bool:
        """Whether it is as large as it should be."""
        return self.stored is not None and self.stored.size == self.claim.file.bytes

    def compare_bytes(self, checksum: int | StoreError) -> None:
        """Compare it by its bytes, whatever a HEAD said."""
        self.by = "download"
        if isinstance(checksum, StoreError):
            self.wrong = str(checksum).removeprefix(f"{self.url}: ")
        else:
            self.wrong = difference(self.claim.file, self.claim.file.bytes, checksum)


def verify_stored(dest: str, download: bool, progress: Progress) -> VerifyReport:
    """Verify what manifests on S3 name."""
    began = time.monotonic()
    sets, problems = find_stored(dest)
    pace = Pace(_AT_ONCE)
    try:
        reports = [_verify(*found, download, pace, progress) for found in sets]
    finally:
        pace.stop()
        pace.close()
    return joined(dest, reports, problems, time.monotonic() - began)


def _verify(
    place: Place, shards: Shards, download: bool, pace: Pace, progress: Progress
) -> VerifyReport:
    """Verify one data set."""
    assert shards.manifest is not None
    layout, scratch = shards.made.layout, shards.destination.scratch.name
    problems = []
    if scratch in place.deeper:
        message = "an unfinished run is there: give its command again"
        problems.append(Problem(place.url(scratch + "/"), None, "", message))
    for message in () if layout.is_tree else false_totals(shards.manifest):
        problems.append(Problem(place.url(shards.manifest_name), None, "", message))
    claims = list(claims_of(shards))
    if layout.is_tree:
        more, wrong = claims_of_folder(place, shards)
        claims += more
        problems += wrong
    files = [_File(claim, place.url(claim.file.name)) for claim in claims]
    lock = threading.Lock()

    def advance(samples: int, size: int) -> None:
        with lock:  # several threads call it
            progress.advance(samples, size)

    def look(file: _File) -> None:
        file.look(place)
        if not download:
            advance(file.claim.samples, 0)

    progress.begin("verifying", sum(claim.samples for claim in claims), 0)
    try:
        pace.each(look, files)
        doubted = [file for file in files if file.doubted]
        _read_back(place, files if download else doubted, pace, advance if download else ignore)
    finally:
        progress.end()
    problems += [Problem(file.url, None, "", file.wrong) for file in files if file.wrong]
    data = [file for file in files if file.claim.is_data and file.stored]
    proof = Counter(file.by for file in files if not file.wrong)
    return VerifyReport(
        destination=place.url(),
        format=layout.name,
        manifest=True,
        shards=0 if layout.is_tree else len(data),
        samples=sum(file.claim.samples for file in data if not file.wrong),
        bytes=sum(file.stored.size for file in data if file.stored),
        checked=["manifest", "sizes", *([] if set(proof) == {"size"} else ["checksums"])],
        problems=problems,
        proof=proof,
        notes=list(_notes(doubted)),
    )


def _read_back(
    place: Place, files: Sequence[_File], pace: Pace, advance: Callable[[int, int], None]
) -> None:
    """Read all files of the right size back."""
    left = [(file, file.stored) for file in files if file.stored is not None and file.has_size]

    def on_part(index: int, part: Range) -> None:
        (file, stored), end = left[index], part.start + part.size
        before, after = (file.claim.samples * at // stored.size for at in (part.start, end))
        advance(after - before, part.size)

    for listener in (on_part, ignore):  # what seems wrong is read again: it may be the network
        values = read_back(place.store, [stored for _, stored in left], pace, listener)
        for (file, _), value in zip(left, values, strict=True):
            file.compare_bytes(value)
        left = [pair for pair in left if pair[0].wrong]


def _notes(doubted: Sequence[_File]) -> Iterator[str]:
    """Say which files were read back because the server's checksum is not the manifest's."""
    right = sorted(file.claim.file.name for file in doubted if not file.wrong)
    if doubted:
        size = format_size(sum(file.claim.file.bytes for file in doubted))
        count = format_count(len(doubted), "file")
        yield f"{count} read back ({size}), whose checksum on the server is not the manifest's"
    if right:
        yield f"the server keeps a wrong checksum, and the bytes are right: {format_some(right)}"
