"""Tars as bsdtar writes them: by its library, in all of its dialects."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dsprep.formats.webdataset import WebDataset
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.formats.layouts import JPEG, PNG, read
from tests.images import jpeg
from tests.missing import leave_out

LIBRARY = ctypes.util.find_library("archive")

DIALECTS = ("bsdtar", "pax", "gnutar", "ustar", "v7tar")
REGULAR = 0o100000


@pytest.fixture(autouse=True)
def _library() -> None:
    if LIBRARY is None:
        leave_out("libarchive is not installed")


def libarchive_tar(path: Path, dialect: str, members: Mapping[str, bytes]) -> Path:
    """Write a tar; `bsdtar` is what that writes by default: ustar, and PAX where it has to be."""
    library = ctypes.CDLL(LIBRARY)
    for name in ("archive_write_new", "archive_entry_new"):
        getattr(library, name).restype = ctypes.c_void_p
    archive = ctypes.c_void_p(library.archive_write_new())
    assert library.archive_write_set_format_by_name(archive, dialect.encode()) == 0
    assert library.archive_write_open_filename(archive, str(path).encode()) == 0
    for name, data in members.items():
        entry = ctypes.c_void_p(library.archive_entry_new())
        library.archive_entry_copy_pathname(entry, name.encode())
        library.archive_entry_set_size(entry, ctypes.c_int64(len(data)))
        library.archive_entry_set_filetype(entry, REGULAR)
        library.archive_entry_set_perm(entry, 0o644)
        library.archive_entry_set_uid(entry, ctypes.c_int64(1000))
        # With nanoseconds, as files have them: PAX where the dialect has that.
        library.archive_entry_set_mtime(entry, ctypes.c_int64(1_700_000_000), ctypes.c_long(5))
        assert library.archive_write_header(archive, entry) == 0
        assert library.archive_write_data(archive, data, ctypes.c_size_t(len(data))) == len(data)
        library.archive_entry_free(entry)
    assert library.archive_write_free(archive) == 0
    return path


@pytest.mark.parametrize("dialect", DIALECTS)
def test_samples_of_every_dialect(tmp_path: Path, dialect: str) -> None:
    keys = ["a", "d/b c", "./e/f"]
    if dialect != "v7tar":
        keys.append("d" * 90 + "/" + "n" * 60)
    if dialect in ("bsdtar", "pax", "gnutar"):
        keys += ["l" * 130, "m" * 300 + "/" + "n" * 200]
    members = {f"{key}.{name}": data for key in keys for name, data in PARTS.items()}
    path = libarchive_tar(tmp_path / "train.tar", dialect, members)
    found = [entry.sample for entry in read(WebDataset(), path.read_bytes())]
    assert [sample.key for sample in found] == [key.removeprefix("./") for key in keys]
    assert all(sample.fields == PARTS for sample in found)


PARTS = {"jpg": JPEG, "cls": b"3", "mask.png": PNG, "empty": b""}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tree_of_images_in_every_dialect(
    run_here: Callable[..., Finished], tmp_path: Path, dialect: str
) -> None:
    files = {f"{name}/{n}.jpg": jpeg(n, (16, 12)) for name in ("cat", "ねこ") for n in range(2)}
    path = libarchive_tar(tmp_path / "photos.tar", dialect, files)
    dest = tmp_path / "photos"
    assert run_here("convert", path, dest, "--to", "folder", "-qj1") == (0, "", "")
    assert contents(dest) == files
