"""Damaged shards as sources: file and offset are named, and what is readable is kept, or not."""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from google_crc32c import value as crc32c

from dsprep.formats import FORMATS
from dsprep.formats.stream import ShardStream
from tests.attack.trees import contents, manifest, rejects
from tests.conftest import Finished
from tests.images import image_folder
from tests.limits import no_memory_above

RunCli = Callable[..., Finished]
Damage = Callable[[bytes, int], tuple[bytes, int]]
"""From a shard, and the offset of its fourth sample, to damage and where it is to be told; what
lies before the fourth sample stays as it is."""

VERBS = {"convert": ("convert",), "shard": ("shard", "--shards", 1)}
SHARDED = ("webdataset", "tfrecord", "recordio", "recordio-protobuf")
LIE = 1_000_000_000


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory, run_here: RunCli) -> dict[str, Path]:
    """Twelve samples in two shards of each format."""
    root = tmp_path_factory.mktemp("sets")
    image_folder(root / "photos", ("cat", "dog", "owl"), 4, (16, 12))
    for name in SHARDED:
        call = ("convert", root / "photos", root / name, "--to", name, "--samples-per-shard", 6)
        assert run_here(*call, "-qj1").code == 0
    return {name: root / name for name in SHARDED}


def cut(data: bytes, at: int) -> tuple[bytes, int]:
    return data[: at + 20], at


def garbage(data: bytes, at: int) -> tuple[bytes, int]:
    return data[:at] + bytes(range(1, 256)) * 5, at


def cut_between_members(data: bytes, at: int) -> tuple[bytes, int]:
    """The fourth sample's image is there, and nothing after it."""
    size = int(data[at + 124 : at + 135], 8)
    return data[: at + 512 + (size + 511) // 512 * 512], at


def cut_between_samples(data: bytes, at: int) -> tuple[bytes, int]:
    return data[:at], at


def wrong_crc_of_data(data: bytes, at: int) -> tuple[bytes, int]:
    return data[: at + 100] + bytes([data[at + 100] ^ 1]) + data[at + 101 :], at


def wrong_crc_of_length(data: bytes, at: int) -> tuple[bytes, int]:
    return data[: at + 8] + bytes([data[at + 8] ^ 1]) + data[at + 9 :], at


def lie_in_record(data: bytes, at: int) -> tuple[bytes, int]:
    """With a checksum that is right."""
    length = struct.pack("<Q", LIE)
    crc = crc32c(length)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return data[:at] + length + struct.pack("<I", masked) + data[at + 12 :], at


def lie_in_frame(data: bytes, at: int) -> tuple[bytes, int]:
    return data[: at + 4] + struct.pack("<I", (1 << 29) - 1) + data[at + 8 :], at


def lie_in_header(data: bytes, at: int) -> tuple[bytes, int]:
    header = bytearray(data[at : at + 512])
    header[124:136] = b"%011o\0" % LIE
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return data[:at] + bytes(header) + data[at + 512 :], at


DAMAGES: list[tuple[str, Damage]] = [
    *((name, damage) for name in SHARDED for damage in (cut, garbage)),
    ("webdataset", cut_between_members),
    ("webdataset", cut_between_samples),
    ("webdataset", lie_in_header),
    ("tfrecord", wrong_crc_of_data),
    ("tfrecord", wrong_crc_of_length),
    ("tfrecord", lie_in_record),
    ("recordio", lie_in_frame),
    ("recordio-protobuf", lie_in_frame),
]
every_damage = pytest.mark.parametrize(
    ("name", "damage"), DAMAGES, ids=[f"{name}-{damage.__name__}" for name, damage in DAMAGES]
)


def damaged(source: Path, name: str, damage: Damage, to: Path) -> tuple[str, int, int]:
    """Copy shards, the first one damaged; returns its name, its size, and where it is damaged."""
    to.mkdir()
    first, second = sorted(source.glob(f"*{FORMATS[name].suffix}"))
    data = first.read_bytes()
    with ShardStream(str(first)) as stream:
        at = [entry.offset for entry in FORMATS[name]().read(stream)][3]
    broken, told = damage(data, at)
    (to / first.name).write_bytes(broken)
    (to / second.name).write_bytes(second.read_bytes())
    return first.name, len(broken), told


def images(dest: Path) -> list[bytes]:
    found = []
    for path in sorted(dest.glob("*.tfrecord")):
        with ShardStream(str(path)) as stream:
            for entry in FORMATS["tfrecord"]().read(stream):
                found.append(entry.sample.fields["image/encoded"][0])
    return found


@every_damage
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_readable_is_kept_and_the_rest_is_named(
    run_here: RunCli, sets: dict[str, Path], tmp_path: Path, name: str, damage: Damage, verb: str
) -> None:
    shard, size, at = damaged(sets[name], name, damage, tmp_path / "in")
    photos = [path.read_bytes() for path in sorted((sets[name].parent / "photos").rglob("*.jpg"))]
    call = [*VERBS[verb], tmp_path / "in", tmp_path / "out", "--to", "tfrecord", "-j1"]
    finished = run_here(*call)
    assert finished.code == 3
    assert shard.partition(".")[0] in finished.out + finished.err
    kept = images(tmp_path / "out")
    # Nobody knows whether the tar's last sample has all of its members.
    sure = 2 if name == "webdataset" and damage is not cut_between_members else 3
    after = 4 if damage is wrong_crc_of_data else 6
    assert kept == photos[:sure] + photos[after:]
    assert manifest(tmp_path / "out")["samples"] == len(kept)
    reasons = {
        path: why
        for path, why in rejects(tmp_path / "out").items()
        if shard.partition(".")[0] in path
    }
    assert reasons
    for path, why in reasons.items():
        told = re.search(r"at byte (\d+)", why)
        assert told, (path, why)
        assert at <= int(told[1]) <= size

    strict = run_here(*call[:-2], "tfrecord", "--on-error", "fail", "-j1", "--overwrite")
    assert strict.code == 6
    assert shard.partition(".")[0] in strict.err


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("damage", [cut, cut_between_samples])
@pytest.mark.parametrize("name", SHARDED)
def test_a_manifest_tells_how_many_are_missing(
    run_here: RunCli, sets: dict[str, Path], tmp_path: Path, name: str, damage: Damage, verb: str
) -> None:
    shard, *_ = damaged(sets[name], name, damage, tmp_path / "in")
    for each in ("manifest.json", "classes.txt"):
        (tmp_path / "in" / each).write_bytes((sets[name] / each).read_bytes())
    call = [*VERBS[verb], tmp_path / "in", tmp_path / "out", "--to", "tfrecord", "-j1"]
    finished = run_here(*call)
    assert finished.code == 3
    kept = len(images(tmp_path / "out"))
    missing = 12 - kept
    assert missing in (3, 4)  # of a tar, the last one before the damage may not be whole
    assert manifest(tmp_path / "out")["rejected"] == len(rejects(tmp_path / "out")) == missing
    assert f"{missing} samples of {shard} are missing" in finished.out
    assert f"{shard}/5: is not in the shard" in finished.out
    strict = run_here(*call, "--max-errors", 2, "--overwrite")
    assert strict.code == 6


@pytest.mark.parametrize("name", SHARDED)
def test_the_whole_shard_is_no_use(
    run_here: RunCli, sets: dict[str, Path], tmp_path: Path, name: str
) -> None:
    shard, _, _ = damaged(sets[name], name, lambda data, at: (b"\x01" * 3000, 0), tmp_path / "in")
    call = ("convert", tmp_path / "in", tmp_path / "out", "--to", "tfrecord", "-qj1")
    assert run_here(*call).code == 3
    assert len(images(tmp_path / "out")) == 6
    (reason,) = rejects(tmp_path / "out").values()
    assert "at byte 0" in reason
    for each in sorted((tmp_path / "in").iterdir()):
        each.write_bytes(b"\x01" * 3000)
    nothing = run_here("convert", tmp_path / "in", tmp_path / "none", "--to", "tfrecord", "-qj1")
    assert nothing.code == 4
    assert shard.partition(".")[0] in nothing.err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["webdataset", "tfrecord"])
@pytest.mark.parametrize("to", ["tfrecord", "webdataset"])
def test_gzip_that_is_cut(
    run_here: RunCli, sets: dict[str, Path], tmp_path: Path, name: str, to: str
) -> None:
    first = min(sets[name].glob(f"*{FORMATS[name].suffix}"))
    (tmp_path / "in").mkdir()
    data = gzip.compress(first.read_bytes())
    (tmp_path / "in" / f"{first.name}.gz").write_bytes(data[: len(data) * 2 // 3])
    call = ("convert", tmp_path / "in", tmp_path / "out", "--to", to, "-qj1")
    assert run_here(*call).code == 3
    assert 0 < manifest(tmp_path / "out")["samples"] < 6
    assert any("at byte" in why for why in rejects(tmp_path / "out").values())


@pytest.mark.parametrize(
    ("name", "damage"),
    [("webdataset", lie_in_header), ("tfrecord", lie_in_record), ("recordio", lie_in_frame)],
)
def test_memory_does_not_follow_what_a_length_says(
    run_cli: RunCli, sets: dict[str, Path], tmp_path: Path, name: str, damage: Damage
) -> None:
    damaged(sets[name], name, damage, tmp_path / "in")
    before = contents(tmp_path)
    call = ("convert", tmp_path / "in", tmp_path / "out", "--to", "tfrecord", "-qj1")
    one_thread, limit = {"POLARS_MAX_THREADS": "1"}, no_memory_above(400 << 20)
    assert run_cli(*call, env=one_thread, under=limit).code == 3
    assert manifest(tmp_path / "out")["samples"] >= 8
    assert before.items() <= contents(tmp_path).items()
