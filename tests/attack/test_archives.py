"""Archives that are cut, lie, or mean harm: what is whole is used, the rest is said."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.catalog import Catalog
from dsprep.errors import BadSample, DsprepError, SourceError
from dsprep.findings import Finding
from dsprep.formats import CONCATENATIVE
from dsprep.formats.base import Format
from dsprep.places.archive import CompressedTarReader
from dsprep.sample import Sample
from dsprep.schema import Field, Schema
from dsprep.sources.reading import read_source
from dsprep.sources.shards.shards import read_shards
from dsprep.sources.shards.shardset import ShardSet
from dsprep.sources.source import Source, make_source
from tests.attack.trees import rejects
from tests.conftest import Finished
from tests.images import jpeg

A, B, C = (jpeg(seed) for seed in range(3))
Files = Iterable[tuple[str, bytes]]


def tree(path: Path) -> Source:
    return make_source(str(path), kind="images")


def read(path: Path) -> tuple[Catalog, list[Finding]]:
    return read_source(tree(path))


def samples(catalog: Catalog) -> dict[str, bytes | str]:
    """What the reader gives for every row, by path; the reason for what it does not."""
    found = catalog.reader.read(catalog.rows())
    paths = catalog.table["path"].to_list()
    return {
        path: str(each) if isinstance(each, BadSample) else each  # type: ignore[misc]
        for path, each in zip(paths, found, strict=True)
    }


def make_tar(path: Path, files: Files, compress: Callable[[bytes], bytes] = bytes) -> Path:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files:
            add(tar, name, content)
    path.write_bytes(compress(data.getvalue()))
    return path


def add(tar: tarfile.TarFile, name: str, content: bytes = b"", **header: Any) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for field, value in header.items():
        setattr(member, field, value)
    tar.addfile(member, io.BytesIO(content))


def make_zip(path: Path, files: Files, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in files:
            file.writestr(zipfile.ZipInfo(name), content, method)
    return path


GOOD = [("a/1.jpg", A), ("b/2.jpg", B), ("b/3.jpg", C)]
COMPRESS = {"tar.gz": gzip.compress, "tar.bz2": bz2.compress, "tar.xz": lzma.compress}
HOSTILE = [
    "/etc/a.jpg",
    "../a.jpg",
    "a/../../b.jpg",
    "a/..",
    "C:/a.jpg",
    "c:a.jpg",
    "..",
    "a/../b.jpg",
]


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_names_that_lead_outside(
    tmp_path: Path, make: Callable[[Path, Files], Path], run_here: Callable[..., Finished]
) -> None:
    path = make(tmp_path / "x", [*((name, A) for name in HOSTILE), *GOOD])
    catalog, findings = read(path)
    assert samples(catalog) == dict(GOOD)
    images = [name for name in HOSTILE if name.endswith(".jpg")]
    assert {each.path for each in findings if each.kind == "bad-name"} == set(images)
    done = run_here("pack", path, tmp_path / "in/shards", "--format", "webdataset", "-q")
    assert done.code == 3
    assert set(rejects(tmp_path / "in/shards")) == set(images)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in", "x"]


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_names_as_archivers_leave_them(tmp_path: Path, make: Callable[[Path, Files], Path]) -> None:
    others = ["__MACOSX/a/._1.jpg", ".git/x.jpg", "a/.x.jpg", "a/Thumbs.db", "a/x.txt", "LICENSE"]
    path = make(tmp_path / "x", [*GOOD, *((name, b"x") for name in others)])
    catalog, findings = read(path)
    assert samples(catalog) == dict(GOOD)
    assert findings == [
        Finding("hidden", ".git/"),
        Finding("harmless", "LICENSE"),
        Finding("hidden", "__MACOSX/"),
        Finding("hidden", "a/.x.jpg"),
        Finding("hidden", "a/Thumbs.db"),
        Finding("left-over", "a/x.txt"),
    ]


@pytest.mark.parametrize("make", [make_zip, make_tar])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_last_of_several_members_counts(
    tmp_path: Path, make: Callable[[Path, Files], Path]
) -> None:
    path = make(tmp_path / "x", [("a/1.jpg", B), *GOOD[1:], ("a//1.jpg", C), ("./a/1.jpg", A)])
    catalog, findings = read(path)
    assert samples(catalog) == dict(GOOD)
    detail = "3 times in the archive; the last one counts"
    assert findings == [Finding("duplicate", "a/1.jpg", detail)]


# Tar


def test_links_devices_and_directories(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        add(tar, "a", type=tarfile.DIRTYPE)
        add(tar, "a/1.jpg", A)
        add(tar, "a/hard.jpg", type=tarfile.LNKTYPE, linkname="a/1.jpg")
        add(tar, "b/soft.jpg", type=tarfile.SYMTYPE, linkname="../a/1.jpg")
        add(tar, "b/again.jpg", type=tarfile.SYMTYPE, linkname="soft.jpg")
        add(tar, "b/out.jpg", type=tarfile.SYMTYPE, linkname="/etc/passwd")
        add(tar, "b/up.jpg", type=tarfile.SYMTYPE, linkname="../../etc/passwd")
        add(tar, "b/loop.jpg", type=tarfile.SYMTYPE, linkname="loop.jpg")
        add(tar, "b/gone.jpg", type=tarfile.LNKTYPE, linkname="a/gone.jpg")
        add(tar, "b/dir", type=tarfile.SYMTYPE, linkname="../a")
        add(tar, "b/null.jpg", type=tarfile.CHRTYPE, devmajor=1, devminor=3)
        add(tar, "b/pipe", type=tarfile.FIFOTYPE)
    catalog, findings = read(tmp_path / "x.tar")
    names = ("a/1.jpg", "a/hard.jpg", "b/again.jpg", "b/soft.jpg")
    assert samples(catalog) == dict.fromkeys(names, A)
    assert [(each.kind, each.path) for each in findings] == [
        ("not-an-image", "b/dir"),
        ("missing", "b/gone.jpg"),
        ("missing", "b/loop.jpg"),
        ("not-an-image", "b/null.jpg"),
        ("missing", "b/out.jpg"),
        ("not-an-image", "b/pipe"),
        ("missing", "b/up.jpg"),
    ]


@pytest.mark.parametrize("suffix", ["tar", *COMPRESS])
def test_a_tar_that_is_cut(tmp_path: Path, suffix: str, run_here: Callable[..., Finished]) -> None:
    whole = make_tar(tmp_path / "whole.tar", GOOD).read_bytes()
    third = whole.index(C)
    cuts = {third - 512: 2, third - 100: 2, third: 2, third + 700: 2, third + len(C): 3}
    path = tmp_path / f"x.{suffix}"
    for cut, kept in cuts.items():
        path.write_bytes(COMPRESS.get(suffix, bytes)(whole[:cut]))
        catalog, findings = read(path)
        assert samples(catalog) == dict(GOOD[:kept])
        damage = [each for each in findings if each.kind == "damaged"]
        assert [each.path for each in damage] == [path.name]
        assert damage[0].detail.startswith("at byte ")
        lost = [each.path for each in findings if each.kind == "unreadable"]
        assert lost == (["b/3.jpg"] if third - 100 < cut < third + len(C) else [])
    done = run_here("pack", path, tmp_path / "o", "--format", "webdataset", "-q")
    assert done.code == 3
    assert rejects(tmp_path / "o")[path.name].startswith("is damaged (at byte ")


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_data_that_is_cut(tmp_path: Path, suffix: str) -> None:
    whole = make_tar(tmp_path / "whole.tar", GOOD * 3).read_bytes()
    data = COMPRESS[suffix](whole)
    path = tmp_path / f"x.{suffix}"
    for cut in (len(data) - 1, len(data) * 9 // 10, len(data) // 2, 40):
        path.write_bytes(data[:cut])
        try:
            catalog, findings = read(path)
        except SourceError as error:
            assert str(error).startswith(f"{path}: ")
            continue
        assert set(samples(catalog).values()) <= set(dict(GOOD).values())
        if cut < len(data) - 1:
            assert [each.kind for each in findings if each.path == path.name] == ["damaged"]
        assert isinstance(catalog.reader, CompressedTarReader)
        catalog.reader.write_spool(0, str(tmp_path / "0"))
        spooled = catalog.reader.spooled(str(tmp_path)).read(catalog.rows())
        assert list(spooled) == list(samples(catalog).values())


def test_a_header_that_is_wrong(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", GOOD)
    data = bytearray(path.read_bytes())
    place = data.index(C) - 512
    data[place + 5] ^= 1
    path.write_bytes(data)
    catalog, findings = read(path)
    assert samples(catalog) == dict(GOOD[:2])
    problem = "a tar header has a wrong checksum, or it is not a tar header"
    detail = f"at byte {place}: {problem}"
    assert findings == [Finding("damaged", "x.tar", detail)]


def header(name: bytes, size: bytes, kind: bytes = b"0") -> bytes:
    """A tar header whose checksum is right."""
    block = bytearray(name.ljust(100, b"\0") + bytes(24) + size.ljust(24, b"\0") + b" " * 8 + kind)
    block += bytes(512 - len(block))
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        (b"77777777777", b"0"),
        (b"\x80" + (10**15).to_bytes(11, "big"), b"0"),
        (b"\x80" + b"\xff" * 11, b"0"),
        (b"\xff" * 12, b"0"),
        (b"12345abc", b"0"),
        (b"77777777777", b"x"),
        (b"77777777777", b"L"),
        (b"77777777777", b"S"),
    ],
)
@pytest.mark.parametrize("suffix", ["tar", *COMPRESS])
def test_sizes_that_lie(tmp_path: Path, suffix: str, size: bytes, kind: bytes) -> None:
    whole = make_tar(tmp_path / "whole.tar", GOOD).read_bytes()
    end = whole.index(C) + len(C)
    end += -end % 512
    path = tmp_path / f"x.{suffix}"
    liar = header(b"b/4.jpg", size, kind) + bytes(99)
    path.write_bytes(COMPRESS.get(suffix, bytes)(whole[:end] + liar))
    catalog, findings = read(path)
    assert samples(catalog) == dict(GOOD)
    assert [each.kind for each in findings if each.path == path.name] == ["damaged"]


@pytest.mark.parametrize(
    "pax",
    [
        b"9 size=1\n",
        b"99 path=x\n",
        b"0 path=x\n",
        b"-1 path=x\n",
        b"path=x\n",
        b"26 size=9999999999999999999\n",
    ],
)
def test_pax_headers_that_lie(tmp_path: Path, pax: bytes) -> None:
    whole = make_tar(tmp_path / "x.tar", GOOD).read_bytes()
    third = whole.index(C) - 512
    liar = header(b"pax", b"%o" % len(pax), b"x") + pax.ljust(512, b"\0")
    (tmp_path / "x.tar").write_bytes(whole[:third] + liar + whole[third:])
    catalog, findings = read(tmp_path / "x.tar")
    found = samples(catalog)
    assert {path: found[path] for path in ("a/1.jpg", "b/2.jpg")} == dict(GOOD[:2])
    assert [each.kind for each in findings if each.path == "x.tar"] == ["damaged"]


def test_tars_in_a_tar_that_are_damaged(tmp_path: Path) -> None:
    inner = make_tar(tmp_path / "inner.tar", [("1.jpg", A), ("2.jpg", B)]).read_bytes()
    end = inner.index(B) + 100
    bomb = make_tar(tmp_path / "nested.tar", [("n.tar", inner), ("3.jpg", C)]).read_bytes()
    path = make_tar(
        tmp_path / "x.tar",
        [("a.tar", inner[:end]), ("b.tar", inner), ("c.tar", b"x" * 999), ("d.tar", bomb)],
    )
    catalog, findings = read(path)
    assert samples(catalog) == {"a/1.jpg": A, "b/1.jpg": A, "b/2.jpg": B, "d/3.jpg": C}
    assert [(each.kind, each.path) for each in findings] == [
        ("damaged", "a/x.tar"),
        ("unreadable", "a/2.jpg"),
        ("left-over", "c.tar"),
        ("left-over", "d/n.tar"),
    ]


def test_sparse_files_and_others(tmp_path: Path) -> None:
    whole = make_tar(tmp_path / "whole.tar", GOOD).read_bytes()
    sparse = bytearray(header(b"b/s.jpg", b"1000", b"S"))
    sparse[482] = 1
    sparse[148:156] = b" " * 8
    sparse[148:156] = b"%06o\0 " % sum(sparse)
    odd = bytes(sparse) + bytes(512) + bytes(512) + header(b"b/q.jpg", b"1000", b"Q") + bytes(512)
    path = tmp_path / "x.tar"
    path.write_bytes(odd + whole)
    catalog, findings = read(path)
    assert samples(catalog) == dict(GOOD)
    assert findings == [
        Finding("unreadable", "b/q.jpg", "a member of the type 'Q'"),
        Finding("unreadable", "b/s.jpg", "a sparse file"),
    ]


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    whole = make_tar(tmp_path / "whole.tar", GOOD).read_bytes()
    odd = header(b"b/\xff.jpg", b"0") + header(b"b/\xff.txt", b"0")
    (tmp_path / "x.tar").write_bytes(odd + whole)
    catalog, findings = read(tmp_path / "x.tar")
    assert samples(catalog) == dict(GOOD)
    assert findings == [
        Finding("bad-name", "b/\\xff.jpg", "the name is not UTF-8"),
        Finding("not-an-image", "b/\\xff.txt", "the name is not UTF-8"),
    ]


# Zip


def patched(path: Path, signature: bytes, number: int, at: int, value: bytes) -> None:
    """Overwrite a field of the n-th record of a zip that has this signature."""
    data = bytearray(path.read_bytes())
    place = -1
    for _ in range(number + 1):
        place = data.index(signature, place + 1)
    data[place + at : place + at + len(value)] = value
    path.write_bytes(data)


ENTRY, LOCAL, END = b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (8, b"\1\0", "encrypted"),
        (10, b"\x0c\0", "compressed by method 12"),
        (10, b"\x63\0", "compressed by method 99"),
        (20, b"\xff\xff\xff\x7f", "its bytes are not in the zip"),
        (42, b"\xff\xff\xff\x7f", "its bytes are not in the zip"),
        (24, b"\xff\xff\xff\x7f", "says that it has 2147483647 bytes"),
    ],
)
def test_members_that_are_not_read(
    tmp_path: Path, at: int, value: bytes, reason: str, run_here: Callable[..., Finished]
) -> None:
    path = make_zip(tmp_path / "x.zip", GOOD)
    patched(path, ENTRY, 1, at, value)
    catalog, findings = read(path)
    assert samples(catalog) == dict([GOOD[0], GOOD[2]])
    assert [each[:2] for each in findings] == [("unreadable", "b/2.jpg")]
    assert findings[0].detail.startswith(reason)
    done = run_here("pack", path, tmp_path / "o", "--format", "webdataset", "-q")
    assert done.code == 3
    assert rejects(tmp_path / "o")["b/2.jpg"] == f"cannot be read ({findings[0].detail})"


@pytest.mark.parametrize(
    ("record", "at", "value", "reason"),
    [
        (LOCAL, 0, b"XX", "no member begins at the offset in the directory of the zip"),
        (LOCAL, 6, b"\1\0", "encrypted"),
        (LOCAL, 8, b"\x0c\0", "compressed by method 12; dsprep reads stored and deflated members"),
        (LOCAL, 14, b"\1\2\3\4", "its crc32 is "),
        (LOCAL, 18, b"\1\0\0\0", "its header and the directory of the zip give different sizes"),
        (LOCAL, 22, b"\1\0\0\0", "its header and the directory of the zip give different sizes"),
        (LOCAL, 26, b"\xff\xff", "the archive was cut off in it"),
        (LOCAL, 26, b"\0\0", ""),
        (ENTRY, 24, b"\1\0\0\0", "does not have the 1 bytes"),
        (ENTRY, 24, b"\xff\xff\0\0", "does not have the 65535 bytes"),
    ],
)
def test_members_that_are_not_what_they_should_be(
    tmp_path: Path, record: bytes, at: int, value: bytes, reason: str
) -> None:
    path = make_zip(tmp_path / "x.zip", GOOD)
    patched(path, record, 2, at, value)
    found = samples(read(path)[0])
    assert {name: found[name] for name in ("a/1.jpg", "b/2.jpg")} == dict(GOOD[:2])
    assert isinstance(found["b/3.jpg"], str)
    assert found["b/3.jpg"].startswith(reason)


def test_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    """A member that says it is small, and is not."""
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = b"".join(packed.compress(bytes(1 << 20)) for _ in range(1 << 6)) + packed.flush()
    path = tmp_path / "x.zip"
    name = b"a/1.jpg"
    sizes = struct.pack("<3L2H", 0, len(data), 100, len(name), 0)
    local = LOCAL + struct.pack("<5H", 20, 0, 8, 0, 33) + sizes + name + data
    entry = ENTRY + struct.pack("<6H", 20, 20, 0, 8, 0, 33) + sizes + bytes(14) + name
    end = END + struct.pack("<4H2LH", 0, 0, 1, 1, len(entry), len(local), 0)
    path.write_bytes(local + entry + end)
    tracemalloc.start()
    try:
        found = samples(read(path)[0])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == {"1.jpg": "does not have the 100 bytes of the directory of the zip"}
    assert peak < 10_000_000


@pytest.fixture
def small_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is a bomb from a gigabyte on is one from a megabyte on."""
    monkeypatch.setattr("dsprep.formats.stream._BOMB", 1 << 20)


@pytest.mark.usefixtures("small_bombs")
@pytest.mark.parametrize("suffix", ["zip", *COMPRESS])
def test_a_bomb_that_says_its_size_is_not_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    files = [*GOOD, ("b/4.jpg", bytes(9 << 20))]
    if suffix == "zip":
        make_zip(path, files)
    else:
        make_tar(path, files, COMPRESS[suffix])
    catalog, findings = read(path)
    assert samples(catalog) == dict(GOOD)
    assert [each[:2] for each in findings] == [("unreadable", "b/4.jpg")]
    assert "a bomb" in findings[0].detail


@pytest.mark.usefixtures("small_bombs")
@pytest.mark.parametrize("layout", [layout() for layout in CONCATENATIVE.values()])
def test_a_bomb_in_a_shard_is_damage(tmp_path: Path, layout: Format) -> None:
    images = (A, B, bytes(2 << 20))
    fields = (Field("image", "image"), Field("label", "class"))
    layout, _ = layout.arranged(Schema(fields, "image", "label"))
    encoded = [
        layout.encode(Sample(str(at), {"image": each, "label": 1}, at, image="image"))
        for at, each in enumerate(images)
    ]
    data = b"".join(chain.from_iterable(encoded))
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(data + layout.trailer(len(data))))
    catalog, findings = read_shards(ShardSet("x", (str(path),), type(layout)()))
    assert len(catalog) in (1, 2)  # a tar's sample ends where another one begins
    assert [each.kind for each in findings] == ["damaged"]
    assert "a bomb" in findings[0].detail


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (struct.pack("<3Q", 9, 9, 1 << 63), "its bytes are not in the zip"),
        (struct.pack("<3Q", 9, (1 << 64) - 1, 0), "its bytes are not in the zip"),
        (struct.pack("<3Q", 10**9, 9, 0), "says that it has 1000000000 bytes"),
        (struct.pack("<Q", 9), "its bytes are not in the zip"),
        (b"", "its bytes are not in the zip"),
    ],
)
def test_zip64_fields_that_lie(tmp_path: Path, field: bytes, reason: str) -> None:
    path = make_zip(tmp_path / "x.zip", GOOD, zipfile.ZIP_STORED)
    data = path.read_bytes()
    entry = data.rindex(ENTRY)
    start = data.index(ENTRY)
    extra = struct.pack("<2H", 1, len(field)) + field
    liar = bytearray(data[entry : data.index(END)] + extra)
    struct.pack_into("<2L", liar, 20, 0xFFFFFFFF, 0xFFFFFFFF)
    struct.pack_into("<H", liar, 30, len(extra))
    struct.pack_into("<L", liar, 42, 0xFFFFFFFF)
    end = END + struct.pack("<4H2LH", 0, 0, 3, 3, entry - start + len(liar), start, 0)
    path.write_bytes(data[:entry] + liar + end)
    catalog, findings = read(path)
    assert samples(catalog) == dict(GOOD[:2])
    assert [each[:2] for each in findings] == [("unreadable", "b/3.jpg")]
    assert findings[0].detail.startswith(reason)


@pytest.mark.parametrize("at", [24, 32, 40, 48])
@pytest.mark.parametrize("number", [10**9, 1 << 63, (1 << 64) - 1])
def test_an_end_of_zip64_that_lies(tmp_path: Path, at: int, number: int) -> None:
    path = make_zip(tmp_path / "x.zip", GOOD)
    data = path.read_bytes()
    end, start = data.index(END), data.index(ENTRY)
    numbers = struct.pack("<4Q", 3, 3, end - start, start)
    end64 = b"PK\x06\x06" + struct.pack("<Q2H2L", 44, 45, 45, 0, 0) + numbers
    locator = b"PK\x06\x07" + struct.pack("<LQL", 0, end, 1)
    path.write_bytes(data[:end] + end64 + locator + data[end:])
    patched(path, END, 0, 10, b"\xff\xff")
    patched(path, END, 0, 12, b"\xff" * 8)
    assert samples(read(path)[0]) == dict(GOOD)
    patched(path, b"PK\x06\x06", 0, at, struct.pack("<Q", number))
    if at in (24, 32):
        assert samples(read(path)[0]) == dict(GOOD)
    else:
        with pytest.raises(SourceError, match="the zip's end is damaged"):
            read(path)


def test_members_that_share_their_bytes(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", [*GOOD, ("b/4.jpg", C)])
    data = path.read_bytes()
    entry = data.rindex(ENTRY)
    third = data.index(ENTRY)
    for _ in range(2):
        third = data.index(ENTRY, third + 1)
    patched(path, ENTRY, 3, 42, data[third + 42 : third + 46])
    assert entry > third
    catalog, findings = read(path)
    assert samples(catalog) == dict(GOOD[:2])
    reason = "it shares its bytes with another member"
    assert findings == [Finding("unreadable", f"b/{n}.jpg", reason) for n in (3, 4)]


def test_a_zip_that_is_cut(tmp_path: Path) -> None:
    whole = make_zip(tmp_path / "whole.zip", GOOD).read_bytes()
    path = tmp_path / "x.zip"
    for cut in (30, len(whole) // 2, whole.rindex(ENTRY), len(whole) - 22, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(SourceError, match=r"x\.zip: the zip has no end: it was cut off"):
            read(path)


@pytest.mark.parametrize(
    ("at", "value", "problem"),
    [
        (4, b"\1\0", "is the last part of a split zip"),
        (12, b"\xff\xff\xff\x7f", "the zip's end is damaged, or its beginning is missing"),
        (16, b"\xff\xff\xff\x7f", "the zip's end is damaged, or its beginning is missing"),
    ],
)
def test_an_end_that_lies(tmp_path: Path, at: int, value: bytes, problem: str) -> None:
    path = make_zip(tmp_path / "x.zip", GOOD)
    patched(path, END, 0, at, value)
    with pytest.raises(SourceError, match=problem):
        read(path)


@pytest.mark.parametrize(("record", "at"), [(ENTRY, 0), (END, 10)])
def test_a_directory_that_breaks_off(tmp_path: Path, record: bytes, at: int) -> None:
    path = make_zip(tmp_path / "x.zip", GOOD)
    patched(path, record, 2 if record == ENTRY else 0, at, b"\7\0")
    catalog, findings = read(path)
    kept = 2 if record == ENTRY else 3
    assert samples(catalog) == dict(GOOD[:kept])
    assert [each[:2] for each in findings] == [("damaged", "x.zip")]
    assert "the directory of the zip breaks off" in findings[0].detail


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_of_other_systems(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        for system, name in ((0, "w/win\\1.jpg"), (3, "u/un\\1.jpg"), (0, "\\etc\\1.jpg")):
            member = zipfile.ZipInfo("x")
            member.filename, member.create_system = name, system
            file.writestr(member, A)
        for system, name in ((0, "c/\x82.jpg"), (3, "m/\xc3\xa9.jpg"), (3, "n/\xff.jpg")):
            member = zipfile.ZipInfo("x" * len(name))
            member.create_system = system
            file.writestr(member, A)
    data = path.read_bytes()
    for name in (b"c/\x82.jpg", b"m/\xc3\xa9.jpg", b"n/\xff.jpg"):
        data = data.replace(b"x" * len(name), name, 1)
        place = data.rindex(b"x" * len(name), 0, data.index(END))
        last = data.index(b"x" * len(name), data.index(ENTRY))
        assert place >= last
        data = data[:last] + name + data[last + len(name) :]
    path.write_bytes(data)
    catalog, findings = read(path)
    # cp437 has é at 82 and no-break space at ff.
    expected = ["c/é.jpg", "m/é.jpg", "n/\xa0.jpg", "u/un\\1.jpg", "w/win/1.jpg"]
    assert list(samples(catalog)) == sorted(expected)
    assert [each[:2] for each in findings] == [("bad-name", "/etc/1.jpg")]


def test_links_in_a_zip(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", GOOD)
    with zipfile.ZipFile(path, "a") as file:
        for name, target in (("b/l.jpg", "../a/1.jpg"), ("b/o.jpg", "/etc/passwd")):
            member = zipfile.ZipInfo(name)
            member.external_attr = 0o120777 << 16
            file.writestr(member, target)
    catalog, findings = read(path)
    assert samples(catalog) == {**dict(GOOD), "b/l.jpg": A}
    assert findings == [Finding("missing", "b/o.jpg", "a link to /etc/passwd, not in the archive")]


# All


@pytest.mark.parametrize("suffix", ["zip", "tar", *COMPRESS])
def test_an_archive_that_changes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"

    def make(files: Files) -> None:
        if suffix == "zip":
            make_zip(path, files)
        else:
            make_tar(path, files, COMPRESS.get(suffix, bytes))

    make(GOOD)
    catalog, _ = read(path)
    make(GOOD[:2])
    with pytest.raises(SourceError, match="has changed; give the same command again"):
        samples(catalog)
    path.unlink()
    with pytest.raises(SourceError, match="cannot be read"):
        samples(catalog)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    root = tmp_path_factory.mktemp("originals")
    make_zip(root / "x.zip", GOOD)
    make_zip(root / "stored.zip", GOOD, zipfile.ZIP_STORED)
    inner = make_tar(root / "x.tar", GOOD).read_bytes()
    make_tar(root / "tars.tar", [("a.tar", inner), ("b" * 120 + ".tar", inner)])
    for suffix, compress in COMPRESS.items():
        (root / f"x.{suffix}").write_bytes(compress(inner))
    return {path.name: path.read_bytes() for path in root.iterdir()}


NAMES = ["x.zip", "stored.zip", "x.tar", "tars.tar", *(f"x.{suffix}" for suffix in COMPRESS)]


@given(data=st.data())
@pytest.mark.parametrize("name", NAMES)
def test_any_damage_is_said_or_harmless(
    tmp_path_factory: pytest.TempPathFactory,
    originals: dict[str, bytes],
    name: str,
    data: st.DataObject,
) -> None:
    damaged = bytearray(originals[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        if data.draw(st.booleans()):  # headers are where it hurts
            place = min(place // 512 * 512 + data.draw(st.integers(0, 160)), len(damaged) - 1)
        damaged[place] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(damaged)
    try:
        catalog, _ = read(path)
        found = samples(catalog)
    except DsprepError as error:
        assert str(path) in str(error)
        return
    assert all(not path.startswith(("/", "../")) and "/../" not in path for path in found)
