"""Which unfinished uploads are aborted; the store is a stub, as a server's clock is its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dsprep.storage.stored import Upload, UploadPart
from dsprep.syncing import sync as syncing
from dsprep.syncing.sync import clean_uploads

PLACE = "s3://bucket/set"
NOW = 10_000.0
"""The time on the server, which is long before that of this machine."""


class Store:
    """A bucket of which only the uploads matter."""

    def __init__(self) -> None:
        self.uploads: dict[str, Upload] = {}
        self.writes: list[str] = []
        self.ended: set[str] = set()

    def begin(self, key: str, ago: float = 0.0, who: str = "me") -> None:
        self.uploads[key] = Upload(key, f"id of {key}", initiated=NOW - ago, initiator=who)

    def create_upload(self, key: str, metadata: dict[str, str]) -> Upload:
        self.writes.append(f"create {key}")
        self.begin(key)
        return Upload(key, f"id of {key}")

    def abort(self, upload: Upload) -> None:
        self.writes.append(f"abort {upload.key}")
        self.uploads.pop(upload.key, None)

    def list_uploads(self, prefix: str) -> list[Upload]:
        return [upload for key, upload in self.uploads.items() if key.startswith(prefix)]

    def parts(self, upload: Upload) -> list[UploadPart] | None:
        return None if upload.key in self.ended else [UploadPart(1, 5, "etag")]

    def retried(self, attempt: Callable[[int], Upload]) -> Upload:
        return attempt(1)

    def url(self, key: str) -> str:
        return f"s3://bucket/{key}"

    def close(self) -> None:
        pass


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()
    monkeypatch.setattr(syncing, "S3Store", lambda bucket, config, role: made)
    made.begin("set/young", ago=10)
    made.begin("set/old", ago=100)
    made.begin("set/theirs", ago=100, who="they")
    made.begin("setting/old", ago=100)
    return made


def test_ages_are_told_by_the_clock_of_the_server(store: Store) -> None:
    (orphan,) = clean_uploads(PLACE, older_than=50)
    assert (orphan.url, orphan.seconds, orphan.bytes) == ("s3://bucket/set/old", 100, 5)
    assert orphan.aborted
    assert set(store.uploads) == {"set/young", "set/theirs", "setting/old"}


def test_a_dry_run_writes_nothing_and_tells_who_began_what(store: Store) -> None:
    found = clean_uploads(PLACE, dry_run=True)
    assert [(each.url[-5:], each.initiator, each.aborted) for each in found] == [
        ("young", "me", False),
        ("t/old", "me", False),
        ("heirs", "they", False),
    ]
    assert store.writes == []


def test_an_upload_that_ends_meanwhile_is_no_failure(store: Store) -> None:
    store.ended.add("set/young")
    assert [each.url for each in clean_uploads(PLACE)] == ["s3://bucket/set/old"]
    assert "abort set/young" not in store.writes
