"""``verify`` of data sets in a store: by what it says of their files, or by reading them back."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from shlex import quote

from dsprep.dataset.find import DataSet, Place, data_set_in, data_sets, data_sets_of, scratch_beside
from dsprep.dataset.manifest import FileEntry, Manifest, parse_manifest
from dsprep.dataset.names import MANIFEST, UNFINISHED
from dsprep.errors import SourceError, StoreError
from dsprep.formats import format_of_file
from dsprep.formats.listing import LISTING, Listed
from dsprep.progress import Progress
from dsprep.storage.files import is_dir
from dsprep.storage.local import SCRATCH
from dsprep.storage.objects import read_back
from dsprep.storage.pool import Pace
from dsprep.storage.store import Store, store_below, store_of
from dsprep.storage.stored import FATAL, Stored, crc32c, ignore
from dsprep.storage.transfer import Range
from dsprep.units import format_count, format_size, format_some
from dsprep.verifying.report import Problem, VerifyReport, joined, problem_of
from dsprep.verifying.shards import Shards, difference, false_totals, left_over, of_data_set

_AT_ONCE = 16  # requests at one time


@dataclass
class _File:
    """A file that should be there, and what was found out about it."""

    store: Store
    key: str
    receipt: FileEntry  # what it should be
    samples: int = 0  # how many samples it stands for
    is_data: bool = False  # whether it holds samples, rather than being a companion
    stored: Stored | None = None  # what is there; None if nothing is, or if it is unknown
    by: str = ""  # what proves it, as in the report
    wrong: str = ""  # what is wrong with it; empty if nothing is
    is_doubted: bool = False  # whether the server's checksum says that it is wrong

    def look(self) -> None:
        try:
            self.stored = self.store.stat(self.key)
        except StoreError as error:
            if error.kind in FATAL:
                raise
            self.wrong = problem_of(error, self.url).message
            return
        if self.stored is None:
            self.wrong = "is in the manifest, but not there"
            return
        checksum, self.by = self.stored.known_crc32c or (None, "size")
        self.wrong = difference(self.receipt, self.stored.size, checksum)
        if self.wrong and self.has_size:
            # Another program may have stored a wrong checksum.
            self.is_doubted = self.by == "checksum"
            self.wrong += ", as its metadata has it" if self.by == "metadata" else ""

    @property
    def url(self) -> str:
        return self.store.url(self.key)

    @property
    def has_size(self) -> bool:
        return self.stored is not None and self.stored.size == self.receipt.bytes


def verify_stored(dest: str, download: bool, progress: Progress) -> VerifyReport:
    """Verify what manifests in a store name."""
    began = time.monotonic()
    sets, problems = _find(dest)
    pace = Pace(_AT_ONCE)
    try:
        reports = [_verify(each, shards, download, pace, progress) for each, shards in sets]
    finally:
        pace.stop()
        pace.close()
    reports = reports or [VerifyReport(destination=dest)]
    return joined(dest, reports, problems, began)


def _find(url: str) -> tuple[list[tuple[DataSet, Shards]], list[Problem]]:
    """Find the data sets of a manifest, a shard or a prefix."""
    # Problems are manifests that cannot be read, and shards that no manifest names.
    store, key = store_of(url)
    above, slash, name = key.rpartition("/")
    is_manifest, is_shard = name.endswith(MANIFEST), format_of_file(name) is not None
    is_file = is_manifest or is_shard
    place = Place(store.url(above + slash if is_file else key))
    problems: list[Problem] = []
    if is_shard:
        sets = _set_of_shard(place, name, problems)
    elif is_manifest:
        own = [data_set_in(place, name, _read)] if name in place.names.files else []
        sets = _readable(own, problems)
    else:
        sets = _readable(data_sets(place, _read), problems)
    notes = "" if is_file or sets else _notes_beside(place)
    if notes:
        problems.append(Problem(notes, UNFINISHED))
    if not (sets or problems or (not is_file and SCRATCH in place.names.directories)):
        is_gone = (is_shard and name not in place.names.files) or not place.names.every
        if not is_gone:
            raise SourceError(
                f"{url}: no manifest there tells what it should be; fetch all and look into it: "
                f"dsprep sync {quote(_prefix(place))} DIR, then dsprep verify DIR"
            )
        advice = "look at the spelling of its name"
        if any(mark in key for mark in "*?[{"):
            takes = "verify takes a prefix, a manifest or a shard, and no pattern"
            advice = f"on {store.name}, {takes}"
        raise SourceError(f"{url}: nothing is there; {advice}")
    if not is_file or name == MANIFEST:
        problems += _left_over(place, sets)
    return sets, problems


def _set_of_shard(place: Place, name: str, problems: list[Problem]) -> list[tuple[DataSet, Shards]]:
    """Return the data set of a shard: a single file, or one of several."""
    for found in data_sets_of(place.join(name), read=_read):
        sets = _readable([found], problems)
        if not sets:
            break
        shards, own = sets[0][1], sets[0][1].destination.shard(name)
        if own in shards.names:
            is_part = found.own_name != name
            return [(found, replace(shards, names=[own], is_part=True) if is_part else shards)]
    return []


def _readable(found: Sequence[DataSet], problems: list[Problem]) -> list[tuple[DataSet, Shards]]:
    """Return the shards of data sets; add a problem for each whose manifest cannot be read."""
    sets = []
    for each in found:
        try:
            sets.append((each, of_data_set(each)))
        except SourceError as error:
            problems.append(problem_of(error, each.path, each.path))
    return sets


def _read(url: str) -> Manifest:
    store, key = store_of(url)
    data, stored = store.read(key)
    if not stored.is_whole(data):
        raise SourceError("its bytes are not those of its checksum")
    return parse_manifest(data, url)


def _left_over(place: Place, sets: Sequence[tuple[DataSet, Shards]]) -> Iterator[Problem]:
    """Find what the data sets of a place do not explain."""
    # The manifest of a directory that holds shards alone lies beside the directory.
    alone = [each for found, each in sets if each.destination.apart and found.place is not place]
    here = alone or [shards for found, shards in sets if found.place is place]
    shard, apart = (alone[0].destination.shard, alone[0].destination.apart) if alone else (str, "")
    files, directories = ([*map(shard, names)] for names in place.names)
    for name, message in left_over(files, directories, here, apart):
        end = "/" if name in place.names.directories else ""
        yield Problem(f"{_prefix(place)}{name}{end}", message)


def _prefix(place: Place) -> str:
    """Return what all addresses below a place begin with."""
    store, prefix = store_below(place.path)
    return store.url(prefix)


def _notes_beside(place: Place) -> str:
    """Return where an unfinished run keeps its notes beside a place; empty if there is none."""
    notes = scratch_beside(place.path)
    return f"{notes}/" if notes and is_dir(notes) else ""


def _verify(
    found: DataSet, shards: Shards, download: bool, pace: Pace, progress: Progress
) -> VerifyReport:
    assert shards.manifest is not None
    where, is_tree = shards.destination, shards.hold_tree
    store, _ = store_of(where.url(""))
    problems = []
    if where.scratch.name in found.place.names.directories:
        message = "an unfinished run is there: give its command again"
        problems.append(Problem(where.url(f"{where.scratch.name}/"), message))
    for message in () if is_tree else false_totals(shards.manifest):
        problems.append(Problem(found.path, message))
    files = _files_of(shards, shards.manifest)
    if is_tree:
        files += _files_in_folder(shards, problems)
    lock = threading.Lock()

    def advance(samples: int, size: int) -> None:
        with lock:  # several threads call it
            progress.advance(samples, size)

    def look(file: _File) -> None:
        file.look()
        if not download:
            advance(file.samples, 0)

    with progress.running("verifying", sum(file.samples for file in files)):
        pace.each(look, files)
        doubted = [file for file in files if file.is_doubted]
        back, listener = (files, advance) if download else (doubted, ignore)
        _read_back(back, listener, store, pace)
    problems += [Problem(file.url, file.wrong) for file in files if file.wrong]
    data = [file for file in files if file.is_data and file.stored]
    proof = Counter(file.by for file in files if not file.wrong)
    return VerifyReport(
        destination=where.url(where.shard("")),
        format=shards.made.layout.name,
        manifest=True,
        shards=0 if is_tree else len(data),
        samples=sum(file.samples for file in data if not file.wrong),
        bytes=sum(file.stored.size for file in data if file.stored),
        checked=["manifest", "sizes", *([] if set(proof) == {"size"} else ["checksums"])],
        problems=problems,
        proof=proof,
        notes=[*shards.notes, *_notes_on(doubted)],
    )


def _files_of(shards: Shards, manifest: Manifest) -> list[_File]:
    """Return the files that a manifest names: all of them, or some shards with their indexes."""
    store, prefix = store_of(shards.destination.url(""))

    def named(entry: FileEntry, samples: int = 0, is_data: bool = False) -> _File:
        return _File(store, prefix + entry.name, entry, samples, is_data)

    files = []
    for shard in manifest.shards:
        if not shards.is_part or shard.name in shards.names:
            files.append(named(shard, shard.samples, True))
            files += map(named, shard.sidecars)
    return files if shards.is_part else [*files, *map(named, manifest.files)]


def _notes_on(doubted: Sequence[_File]) -> Iterator[str]:
    """Yield what to say of files that were read because the server has another checksum."""
    if doubted:
        size = format_size(sum(file.receipt.bytes for file in doubted))
        count = format_count(len(doubted), "file")
        yield f"{count} read back ({size}), whose checksum on the server is not the manifest's"
    if right := sorted(file.receipt.name for file in doubted if not file.wrong):
        some = format_some(right)
        yield f"the server keeps a wrong checksum, and the bytes are right: {some}"


def _files_in_folder(shards: Shards, problems: list[Problem]) -> list[_File]:
    """Return the files that the listing of a folder names; find those that it does not name."""
    # A listing that is missing, or is not the one of the manifest, names nothing: it is reported
    # when it is compared like all other files.
    assert shards.manifest is not None
    where, name = shards.destination, shards.destination.companion(LISTING).name
    store, prefix = store_of(where.url(""))
    try:
        data, _ = store.read(prefix + name)
    except StoreError as error:
        if error.kind != "missing":
            raise
        return []
    if (name, crc32c(data)) not in [(it.name, it.crc32c) for it in shards.manifest.every_file()]:
        message = "is not as it was written: the files that it names are not looked at"
        problems.append(Problem(where.url(name), message))
        return []
    files = []
    try:
        for line in BytesIO(data):
            for number, file in enumerate(Listed.from_json(line).files):
                receipt = FileEntry(f"{where.single}/{file.path}", file.bytes, file.crc32c)
                # The first file stands for the sample.
                key = prefix + receipt.name
                files.append(_File(store, key, receipt, int(number == 0), True))
    except ValueError as error:
        problems.append(Problem(where.url(name), f"cannot be read: {error}"))
        return []
    known = {file.key for file in files}
    problems += [
        Problem(store.url(stored.key), "is there, but not in the listing")
        for page in store.list(f"{prefix}{where.single}/")
        for stored in page
        if stored.key not in known
    ]
    return files


def _read_back(
    files: Sequence[_File], advance: Callable[[int, int], None], store: Store, pace: Pace
) -> None:
    """Compare all files of the right size by their bytes, whatever the store said."""
    left = [file for file in files if file.has_size]

    def on_part(index: int, part: Range) -> None:
        file, end = left[index], part.start + part.size
        before, after = (file.samples * at // file.receipt.bytes for at in (part.start, end))
        advance(after - before, part.size)

    for listener in (on_part, ignore):  # what seems wrong is read again: it may be the network
        values = read_back(store, [it.stored for it in left if it.stored], pace, listener)
        for file, value in zip(left, values, strict=True):
            file.by = "download"
            if isinstance(value, StoreError):
                file.wrong = problem_of(value, file.url).message
            else:
                file.wrong = difference(file.receipt, file.receipt.bytes, value)
        left = [file for file in left if file.wrong]
