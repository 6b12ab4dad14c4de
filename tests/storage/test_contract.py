"""All stores pass the tests of `contract`; and what only one of them does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsprep.errors import DestinationStoreError, StoreError
from dsprep.storage.disk import LOCAL
from dsprep.storage.store import _MODULES, scheme_of, store_of
from tests.servers.bucket import Bucket
from tests.storage.contract import StoreTests


class InDirectory(StoreTests):
    """A store whose files lie in a directory."""

    directory: Path

    def inside(self) -> dict[str, bytes]:
        files = (path for path in self.directory.rglob("*") if path.is_file())
        return {path.relative_to(self.directory).as_posix(): path.read_bytes() for path in files}

    def place(self, path: str, data: bytes) -> None:
        full = self.directory / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(data)


class TestToyStore(InDirectory):
    """The store that the recipe of CONTRIBUTING.md adds."""

    @pytest.fixture(autouse=True)
    def toy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = tmp_path / "store" / "top"
        self.directory.mkdir(parents=True)
        monkeypatch.setenv("TOY_STORE", str(tmp_path / "store"))
        monkeypatch.setitem(_MODULES, "toy", "tests.house.toy_store")
        self.top = "toy://top"
        self.store, _ = store_of(self.top)


class TestLocalStore(InDirectory):
    """A directory."""

    @pytest.fixture(autouse=True)
    def local(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "top"
        self.directory.mkdir()
        self.store, self.top = LOCAL, str(self.directory)

    def test_links_are_followed_but_in_circles(self) -> None:
        self.place("d/k", b"")
        os.symlink("../d", f"{self.top}/d/again")
        os.symlink("..", f"{self.top}/d/up")
        os.symlink("d", f"{self.top}/e")
        os.symlink("none", f"{self.top}/broken")
        os.mkfifo(f"{self.top}/pipe")
        assert self.paths() == ["d/k", "e/k"]
        assert LOCAL.stat(f"{self.top}/pipe") is None

    def test_what_may_not_be_read_is_an_error_of_the_role(self) -> None:
        os.symlink("loop", f"{self.top}/loop")
        with pytest.raises(StoreError, match="loop: cannot be read"):
            LOCAL.stat(f"{self.top}/loop")
        with pytest.raises(DestinationStoreError, match="file/k: cannot be written"):
            self.place("file", b"")
            LOCAL.in_role(DestinationStoreError).put(f"{self.top}/file/k", b"")
        assert list(LOCAL.delete([self.top])) == [self.top]

    def test_relative_paths(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place("d/k", b"1")
        monkeypatch.chdir(self.top)
        assert [each.key for page in LOCAL.list() for each in page] == ["d/k"]
        LOCAL.put("l", b"2")
        assert self.inside() == {"d/k": b"1", "l": b"2"}


class OnS3(StoreTests):
    """A bucket on a server."""

    bucket: Bucket

    def connect(self, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
        self.bucket, self.top = bucket, f"{bucket.url}/top"
        self.store, _ = store_of(self.top)

    def inside(self) -> dict[str, bytes]:
        return self.bucket.contents("top/")

    def place(self, path: str, data: bytes) -> None:
        self.bucket.put(f"top/{path}", data)


class TestS3StoreOnCeph(OnS3):
    @pytest.fixture(autouse=True)
    def server(self, ceph: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
        self.connect(ceph, monkeypatch)


class TestS3StoreOnLocalStack(OnS3):
    @pytest.fixture(autouse=True)
    def server(self, localstack: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
        self.connect(localstack, monkeypatch)


@pytest.mark.parametrize(
    ("path", "scheme"),
    [
        ("s3://bucket/key", "s3"),
        ("S3://bucket", "s3"),
        ("https://host/path", ""),
        ("a://b", ""),
        ("./s3://bucket", ""),
        ("s3:/bucket", ""),
        ("", ""),
    ],
)
def test_a_scheme_is_known_or_part_of_a_path(path: str, scheme: str) -> None:
    assert scheme_of(path) == scheme


def test_facts_of_a_store_load_no_client_of_it_and_a_disk_loads_nothing_of_s3() -> None:
    code = (
        "import sys; from dsprep.storage.files import is_file, require_disk, takes_requests\n"
        "assert not is_file('a') and not takes_requests('a')\n"
        "assert not any('.s3.' in name for name in sys.modules)\n"
        "assert takes_requests('s3://bucket/key')\n"
        "assert not any('boto' in name for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
