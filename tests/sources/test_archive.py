"""Which archive a path means, and where in it paths begin."""

from __future__ import annotations

import gzip
import io
import re
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import polars as pl
import pytest

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.formats.stream import compression_of
from dsprep.places.archive import archive_kind, is_archive, open_archive, split_path
from dsprep.places.files import Files, files_of, read_beside
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source

EXTENSIONS = frozenset({"jpg"})


def make(path: Path, *names: str) -> Path:
    """A zip of empty files."""
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, "")
    return path


def files(path: Path, below: str = "") -> Files:
    return files_of(open_archive(str(path / below)), EXTENSIONS)


def test_the_file_in_a_path(tmp_path: Path) -> None:
    path = make(tmp_path / "a.zip", "x.jpg")
    assert split_path(f"{path}") == (str(path), "")
    assert split_path(f"{path}/") == (str(path), "")
    assert split_path(f"{path}/a/b/") == (str(path), "a/b")
    assert split_path(f"{path}/./a//b") == (str(path), "a/b")
    assert split_path(f"{tmp_path}/b.zip/a") == (str(tmp_path), "b.zip/a")
    assert split_path(f"{tmp_path}") == (str(tmp_path), "")
    assert split_path("") == ("", "")
    assert split_path("no such file") == ("", "no such file")


def test_kinds_are_told_by_content(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert archive_kind(str(make(path, "a.jpg"))) == "zip"
    assert archive_kind(str(make(path))) == "zip"
    for mode, kind in (("", "tar"), ("gz", "compressed tar"), ("xz", "compressed tar")):
        with tarfile.open(path, f"w:{mode}") as tar:
            tar.addfile(tarfile.TarInfo("a.jpg"))
        assert archive_kind(str(path)) == kind
        assert is_archive(f"{path}/a")
    with tarfile.open(path, "w"):
        pass
    assert archive_kind(str(path)) is None
    assert archive_kind(str(path.rename(tmp_path / "x.tar"))) == "tar"
    (tmp_path / "x.tar").write_bytes(b"no tar" * 999)
    assert archive_kind(str(tmp_path / "x.tar")) is None
    with pytest.raises(SourceError, match="x: cannot be read"):
        archive_kind(str(path))


@pytest.mark.parametrize(
    ("names", "top"),
    [
        (["d/a/1.jpg", "d/b/2.jpg"], "d"),
        (["d/a/1.jpg", "d/b/2.jpg", "LICENSE", "__MACOSX/x.jpg"], "d"),
        (["d/1.jpg", "d/2.jpg"], "d"),
        (["d/e/a/1.jpg", "d/e/b/2.jpg"], "d"),
        (["d/a/1.jpg", "e/b/2.jpg"], ""),
        (["d/a/1.jpg", "2.jpg"], ""),
        (["1.jpg"], ""),
        (["./d/a/1.jpg", "./d/b/2.jpg"], ""),
        (["LICENSE"], ""),
    ],
)
def test_the_directory_that_an_archive_is_of(tmp_path: Path, names: list[str], top: str) -> None:
    found = files(make(tmp_path / "a.zip", *names))
    assert found.top == top
    prefix = f"{top}/" if top else ""
    images = [name.removeprefix("./").removeprefix(prefix) for name in names]
    expected = [name for name in images if name.endswith(".jpg") and "__MACOSX" not in name]
    assert sorted(found.below_top().table["path"]) == sorted(expected)


@pytest.mark.parametrize(
    ("paths", "below"),
    [
        (["a/1.jpg"], True),
        (["a/1"], True),
        (["a/x.txt"], True),
        (["d/a/1.jpg"], False),
        (["d/a/1.jpg", "a/1.jpg"], False),
        (["other"], False),
    ],
)
def test_where_the_paths_of_a_list_begin(tmp_path: Path, paths: list[str], below: bool) -> None:
    found = files(make(tmp_path / "a.zip", "d/a/1.jpg", "d/b/2.jpg", "d/a/x.txt"))
    fitting = found.fitting(pl.Series("path", paths))
    assert fitting.table.equals((found.below_top() if below else found).table)


def test_a_directory_in_an_archive(tmp_path: Path) -> None:
    path = make(tmp_path / "a.zip", "d/a/1.jpg", "d/ab/2.jpg", "d/a/x.txt", "d/ab/y.txt")
    found = files(path, "d/a")
    assert found.table["path"].to_list() == ["1.jpg"]
    assert [finding.path for finding in found.findings] == ["x.txt"]
    with pytest.raises(SourceError, match=r"a\.zip: has no directory 'd/x'"):
        files(path, "d/x")


def test_text_in_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name in ("d/t.csv", "e/t.csv", "u.csv", "d/u.csv", "d/v.csv"):
            file.writestr(name, name)
        file.writestr("w.csv", b"\xff")
    assert read_beside(str(path), "e/t.csv") == b"e/t.csv"
    assert read_beside(str(path), "./u.csv") == b"u.csv"
    assert read_beside(str(path), "v.csv") == b"d/v.csv"
    assert read_beside(str(path / "d"), "t.csv") == b"d/t.csv"
    with pytest.raises(SourceError, match=r"t\.csv: may be 'd/t.csv' or 'e/t.csv' of "):
        read_beside(str(path), "t.csv")
    on_disk = tmp_path / "u.csv"
    on_disk.write_text("on the disk")
    assert read_beside(str(path), str(on_disk)) == b"on the disk"


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 40_000, 300_000])
def test_tars_are_listed_alike_from_disk_and_stream(tmp_path: Path, size: int) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as outer:
        for number in range(4):
            member = tarfile.TarInfo("n" * 50 * number + f"{number}.tar")
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as tar:
                for name in ("a", "b/" + "c" * 90, "d" * 300):
                    each = tarfile.TarInfo(f"{name}.jpg")
                    each.size = size
                    tar.addfile(each, io.BytesIO(bytes(size)))
            member.size = inner.tell()
            inner.seek(0)
            outer.addfile(member, inner)
        outer.addfile(tarfile.TarInfo("last.jpg"))
    (tmp_path / "x.tar").write_bytes(data.getvalue())
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(data.getvalue(), 1))
    plain, streamed = (open_archive(f"{tmp_path}/{name}") for name in ("x.tar", "x.tar.gz"))
    assert plain == replace(streamed, reader=plain.reader)
    assert len(plain.names) == 13
    assert not plain.damage
    assert len(plain.stems) == 4
    assert set(plain.sizes[:12]) == {size}


def test_zips_as_other_programs_write_them(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/1.jpg", b"one")
        file.writestr("a/2.jpg", b"two")
    plain = path.read_bytes()
    at = plain.rindex(b"PK\x05\x06")
    count, length, start = struct.unpack("<H2L", plain[at + 10 : at + 20])
    end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, length, start)
    end += struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)
    always_zip64 = plain[:at] + end + plain[at:]
    told_before = bytearray(plain)  # flags that promise a checksum after each member; there is none
    for signature, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        for found in re.finditer(signature, plain):
            told_before[found.start() + flags] |= 8
    for data in (always_zip64, told_before):
        path.write_bytes(data)
        with zipfile.ZipFile(path) as file:
            assert file.testzip() is None
        archive = open_archive(str(path))
        assert (archive.names, archive.damage) == (["a/1.jpg", "a/2.jpg"], [])
        assert list(archive.reader.members(map(archive.place, range(2)))) == [b"one", b"two"]


@pytest.mark.parametrize("signed", [True, False])
def test_checksums_after_the_members_of_a_zip(signed: bool, tmp_path: Path) -> None:
    class Pipe(io.BytesIO):
        def tell(self) -> int:
            raise OSError

    path, data = tmp_path / "x.zip", Pipe()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("a/1.jpg", b"one")
    written = data.getvalue()
    if not signed:  # the end record says where the directory begins, which is now earlier
        at, size = written.index(b"PK\1\2"), len(written)
        written = written.replace(b"PK\7\x08", b"")
        written = written[: size - 10] + struct.pack("<L", at - 4) + written[size - 6 :]
    for content, expected in ((b"one", "b'one'"), (b"two", "BadSample('its crc32 is not")):
        path.write_bytes(written.replace(b"one", content))
        archive = open_archive(str(path))
        (found,) = archive.reader.members([archive.place(0)])
        assert repr(found).startswith(expected)


def test_links_in_a_zip_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/1.jpg", b"one")
        for name, target in (("a/2.jpg", "1.jpg"), ("a/3.jpg", "x" * 5000)):
            link = zipfile.ZipInfo(name)
            link.external_attr = 0o120777 << 16
            file.writestr(link, target)
    path.write_bytes(path.read_bytes().replace(b"a/2.jpg1.jpg", b"a/2.jpg9.jpg"))
    found = files(path)
    assert found.table["path"].to_list() == ["a/1.jpg"]
    assert [(each.kind, each.path) for each in found.findings] == [
        ("unreadable", "a/2.jpg"),
        ("unreadable", "a/3.jpg"),
    ]


def test_a_sparse_file_has_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("a/GNUSparseFile.7/1.jpg")
        member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "a/1.jpg"}
        tar.addfile(member)
    found = [Finding("unreadable", "a/1.jpg", "a sparse file")]
    assert open_archive(str(path)).odd == found


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_tree_that_is_cut_is_still_one(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name in ("cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/2.jpg"):
            member = tarfile.TarInfo(name)
            member.size = 100
            tar.addfile(member, io.BytesIO(bytes(100)))
    path = tmp_path / "x.tar"
    path.write_bytes(compress(data.getvalue()[: 3 * 1024 + 600]))
    catalog, findings = read_source(make_source(str(path)))
    assert catalog.classes == ("cat", "dog")
    assert catalog.table["cls"].to_list() == [0, 0, 1]
    assert {each.kind for each in findings} == {"damaged", "unreadable"}


@pytest.mark.parametrize("last", ["link", "file"])
def test_the_last_of_a_link_and_a_file_of_one_name_counts(tmp_path: Path, last: str) -> None:
    link = tarfile.TarInfo("a/1.jpg")
    link.type, link.linkname = tarfile.SYMTYPE, "2.jpg"
    one, two = tarfile.TarInfo("a/1.jpg"), tarfile.TarInfo("a/2.jpg")
    one.size = two.size = 3
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as tar:
        tar.addfile(two, io.BytesIO(b"two"))
        for member in (one, link) if last == "link" else (link, one):
            tar.addfile(member, io.BytesIO(b"one"))
    catalog, findings = read_source(make_source(str(path), kind="images"))
    found = list(catalog.reader.read(catalog.rows()))
    assert found == [b"two" if last == "link" else b"one", b"two"]
    assert [each.kind for each in findings] == ["duplicate"]


def test_what_was_listed_before_the_damage_can_be_read(tmp_path: Path) -> None:
    """However much is asked for at once: lists are made of headers, spools of blocks."""
    noise = Random(0).randbytes(1 << 21)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for at in range(0, len(noise), 4096):
            member = tarfile.TarInfo(f"a/{at}.jpg")
            member.size = 4096
            tar.addfile(member, io.BytesIO(noise[at:]))
    whole = gzip.compress(data.getvalue(), 1)
    path = tmp_path / "x.tar.gz"
    for place in range(500_000, 1_500_000, 100_000):
        path.write_bytes(whole[:place] + noise[:50_000] + whole[place + 50_000 :])
        archive = open_archive(str(path))
        assert archive.damage
        places = [archive.place(at) for at in range(len(archive.names))]
        assert len(list(archive.reader.members(places))) >= 50
        archive.reader.write_spool(0, str(tmp_path / "0"))


def test_how_a_file_is_compressed() -> None:
    assert compression_of(b"\x1f\x8b\x08\0\0\0") == "gzip"
    assert compression_of(b"BZh91AY") == "bzip2"
    assert compression_of(b"\xfd7zXZ\0") == "xz"
    assert compression_of(b"PK\x03\x04") is None
    assert compression_of(b"") is None
