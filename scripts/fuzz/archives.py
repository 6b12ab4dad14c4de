"""Archives: listed and read forth and back, plain and compressed, and made a tree of images."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dsprep.errors import DamagedShard, DsprepError
from dsprep.formats.stream import Decompressor, compression_of
from dsprep.places.archive import Archive, open_archive
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from scripts.fuzz.repair import repair_tar
from scripts.fuzz.target import Different, Target, is_chosen, require_equal

_CSV = b"path,label\nb/2.jpg,1\n"
_FILES = (("a/1.jpg", b"one"), ("b/2.jpg", b""), ("b/label.csv", _CSV))


def _check(data: bytes, directory: Path) -> Archive:
    """List an archive, read every member, and make a catalog that stays in its folder."""
    path = directory / "archive.zip"
    path.write_bytes(data)
    archive = open_archive(str(path))
    places = list(map(archive.place, range(len(archive.names))))
    forth = list(archive.reader.members(places))
    back = list(archive.reader.members(places[::-1]))
    require_equal(list(map(repr, forth)), list(map(repr, back[::-1])), "backwards")
    if is_chosen(data):
        with suppress(DsprepError):
            catalog, _ = read_source(make_source(str(path), kind="images"))
            for name in catalog.table["path"].to_list():
                if name.startswith("/") or ".." in name.split("/") or "\0" in name:
                    raise Different(f"a path that leads outside: {name!r}")
    return archive


def _check_zip(data: bytes, directory: Path) -> None:
    _check(data, directory)


def _check_tar(data: bytes, directory: Path) -> None:
    """Read a tar as it is, and compressed."""
    plain = _check(data, directory)
    squeezed = _check(gzip.compress(data, 1), directory)
    for name in ("names", "odd", "links"):
        one, other = getattr(plain, name), getattr(squeezed, name)
        require_equal(one, other, f"{name}, compressed")


def _check_compressed(data: bytes, directory: Path) -> None:
    if compression_of(data):
        with suppress(DamagedShard):
            stream = Decompressor("compressed", io.BytesIO(data[6:]), data[:6])
            while stream.read(1 << 16):
                pass


def tars() -> list[bytes]:
    """Tars in every format, with links, long names, and tars in a tar."""
    kinds = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
    made = [_tar(_FILES, kind) for kind in kinds]
    long = [("é" * 99 + "/" + "n" * 90 + ".jpg", b"long")]
    return [
        *made,
        *(_tar(long, kind) for kind in kinds[1:]),
        _tar([("n01.tar", made[0]), ("n02.tar", made[1])], tarfile.USTAR_FORMAT),
        _tar_of_links(),
    ]


def _tar(files: Iterable[tuple[str, bytes]], kind: int) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=kind) as file:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return data.getvalue()


def _tar_of_links() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as file:
        file.addfile(tarfile.TarInfo("a/1.jpg"))
        for kind, link in (
            (tarfile.SYMTYPE, "1.jpg"),
            (tarfile.LNKTYPE, "a/1.jpg"),
            (tarfile.CHRTYPE, ""),
            (tarfile.DIRTYPE, ""),
            (tarfile.GNUTYPE_SPARSE, ""),
        ):
            member = tarfile.TarInfo(f"a/{kind.decode()}.jpg")
            member.type, member.linkname = kind, link
            file.addfile(member)
    return data.getvalue()


def _zips() -> list[bytes]:
    """Zips: stored, deflated, streamed, with zip64 fields, a link, a comment and a head."""
    made = [_zip(_FILES, method) for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)]
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        with file.open(zipfile.ZipInfo("a/1.jpg"), "w", force_zip64=True) as member:
            member.write(b"large")
        link = zipfile.ZipInfo("a/2.jpg")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        file.writestr(link, "1.jpg")
        file.comment = b"comment"
    others = [_zip([("é.jpg", b"x")], zipfile.ZIP_STORED), _zip([], zipfile.ZIP_STORED)]
    return [*made, *others, data.getvalue(), b"#!program\n" + made[0]]


def _zip(files: Iterable[tuple[str, bytes]], method: int) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as file:
        for name, content in files:
            file.writestr(zipfile.ZipInfo(name), content, method)
    return data.getvalue()


def _compressed() -> list[bytes]:
    """Compressed files, in one part and in several."""
    data = _CSV * 9
    return [
        gzip.compress(data[:100]) + gzip.compress(b"") + gzip.compress(data[100:]) + bytes(9),
        gzip.compress(data, 0),
        bz2.compress(data) + bz2.compress(data),
        lzma.compress(data) + bytes(8) + lzma.compress(data),
    ]


ARCHIVES = {
    "tar": Target(_check_tar, tars, repair_tar),
    "zip": Target(_check_zip, _zips),
    "compressed": Target(_check_compressed, _compressed),
}
