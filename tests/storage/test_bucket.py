"""What S3 may answer, and what is made of it: right bytes, or an error that says what is wrong."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import SourceError, StoreError
from dsprep.storage.objects import read_back
from dsprep.storage.pool import Pace
from dsprep.storage.s3 import bucket
from dsprep.storage.s3.config import S3Config
from dsprep.storage.s3.store import S3Store
from dsprep.storage.stored import CRC32C, crc32c, md5
from tests.transfers import AT_ONCE, MIB, PART, data_of, download

DATA = data_of(2 * PART)

Answer = Callable[..., dict[str, Any]]


class Server:
    """Stands for S3 and the connection to it.

    Attributes:
        answer: What it answers to each operation.
        asked: The arguments of each request.
        bodies: Those of its answers.
    """

    def __init__(self) -> None:
        self.answer: dict[str, Answer] = {"HeadObject": head, "GetObject": honest}
        self.asked: list[dict[str, Any]] = []
        self.bodies: list[io.BytesIO] = []

    def send(self, operation: str, **args: Any) -> dict[str, Any]:
        self.asked.append(args)
        found = self.answer[operation](**args)
        self.bodies += [found["Body"]] if "Body" in found else []
        return found

    def follows(self, _: Exception) -> bool:
        return False

    def ranges(self) -> list[str]:
        return [args["Range"] for args in self.asked if "Range" in args]


def head(**_: Any) -> dict[str, Any]:
    return {"ContentLength": len(DATA), "ETag": '"e"'}


def part_of(start: int, stop: int, body: io.BytesIO | None = None) -> dict[str, Any]:
    """An answer that brings a range of the object."""
    return {
        **head(),
        "Body": body or io.BytesIO(DATA[start:stop]),
        "ContentLength": stop - start,
        "ContentRange": f"bytes {start}-{stop - 1}/{len(DATA)}",
    }


def asked_range(text: str) -> tuple[int, int]:
    start, _, last = text.removeprefix("bytes=").partition("-")
    return int(start), int(last or len(DATA) - 1) + 1


def honest(Range: str = "", **_: Any) -> dict[str, Any]:
    return part_of(*asked_range(Range)) if Range else whole()


def whole(**_: Any) -> dict[str, Any]:
    return {**head(), "Body": io.BytesIO(DATA)}


def beginning(Range: str, **_: Any) -> dict[str, Any]:
    start, stop = asked_range(Range)
    return part_of(0, stop - start)


def short(Range: str, **_: Any) -> dict[str, Any]:
    start = asked_range(Range)[0]
    return part_of(start, start + 1)


def of_unknown_size(Range: str, **_: Any) -> dict[str, Any]:
    start, stop = asked_range(Range)
    return {**part_of(start, stop), "ContentRange": f"bytes {start}-{stop - 1}/*"}


def without_length(**_: Any) -> dict[str, Any]:
    return {"ETag": '"e"', "Body": io.BytesIO(DATA)}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(bucket, "Connection", lambda *_: server)
    return server


def store_of() -> S3Store:
    return S3Store("bucket", retries=AT_ONCE)


OTHERS = [whole, beginning, short, of_unknown_size, without_length]


@pytest.mark.parametrize(
    "told",
    [{"Metadata": {CRC32C: f"{crc32c(DATA):08x}"}}, {"ETag": f'"{md5(DATA).hex()}"'}],
    ids=["metadata", "md5"],
)
@pytest.mark.parametrize("damaged", [False, True])
def test_a_wrong_checksum_of_the_server_alone_does_not_refuse_an_object(
    server: Server, told: dict[str, Any], damaged: bool
) -> None:
    data = DATA[:-1] + bytes([DATA[-1] ^ damaged])
    wrong = {"ChecksumCRC32C": "AQIDBA==", "ChecksumType": "FULL_OBJECT"}
    server.answer["GetObject"] = lambda **_: {**whole(), **wrong, **told, "Body": io.BytesIO(data)}
    with pytest.raises(SourceError, match="its crc32c is not") if damaged else nullcontext():
        assert store_of().read_object("k") == DATA
    assert len(server.asked) == (AT_ONCE.attempts if damaged else 1)


@pytest.mark.parametrize("answer", OTHERS)
def test_other_bytes_than_were_asked_for_are_refused(
    server: Server, tmp_path: Path, answer: Answer
) -> None:
    server.answer["GetObject"] = answer
    store, pace = store_of(), Pace()
    with pytest.raises(SourceError, match=r"s3://bucket/k: cannot be read: .* makes no sense"):
        store_of().read_range("k", 50, 4, "e")
    with pytest.raises(StoreError, match="makes no sense"):
        download(store, "k", tmp_path / "k", part_size=PART)
    assert not (tmp_path / "k").exists()
    stored = store.stat("k")
    assert stored is not None
    (told,) = read_back(store, [stored], pace, part_size=PART)
    pace.close()
    assert isinstance(told, StoreError)
    assert all(body.closed for body in server.bodies)


def test_all_that_there_is_may_come_unasked(server: Server) -> None:
    server.answer["GetObject"] = whole
    with store_of().open("k", 0, 3 * PART) as reading:
        assert reading.read_all() == DATA


class Breaking(io.BytesIO):
    """A body whose connection stalls after some bytes, as a read of more of them finds out."""

    def __init__(self, start: int, stop: int, at: int) -> None:
        super().__init__(DATA[start:stop])
        self.at = at

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        if self.tell() + size > self.at:
            raise TimeoutError("timed out")
        return super().read(size)


def stalling(at: int) -> Answer:
    def answer(Range: str = "", **_: Any) -> dict[str, Any]:
        start, stop = asked_range(Range or "bytes=0-")
        found = part_of(start, stop, Breaking(start, stop, at))
        return found if Range else {**found, "ContentRange": ""}

    return answer


def test_what_has_come_is_not_asked_for_again(server: Server) -> None:
    server.answer["GetObject"] = stalling(4 * MIB)
    assert store_of().read_object("k") == DATA
    last = 2 * PART - 1
    assert server.ranges() == [f"bytes={4 * MIB}-{last}", f"bytes={8 * MIB}-{last}"]
    assert [args.get("IfMatch") for args in server.asked] == [None, '"e"', '"e"']
    server.asked.clear()
    assert store_of().read_range("k", MIB, 8 * MIB, "e") == DATA[MIB : 9 * MIB]
    assert server.ranges() == [f"bytes={at * MIB}-{9 * MIB - 1}" for at in (1, 5)]


def test_what_breaks_again_and_again_ends(server: Server) -> None:
    server.answer["GetObject"] = stalling(MIB // 2)
    with pytest.raises(SourceError, match="timed out; it was tried 4 times"):
        store_of().read_range("k", 0, MIB, "e")
    assert len(server.asked) == AT_ONCE.attempts


def test_bytes_that_end_too_early_are_asked_for_again(server: Server) -> None:
    def answer(Range: str, **_: Any) -> dict[str, Any]:
        start, stop = asked_range(Range)
        return part_of(start, stop, io.BytesIO(DATA[start : start + (stop - start + 1) // 2]))

    server.answer["GetObject"] = answer
    assert store_of().read_range("k", 7, 4, "e") == DATA[7:11]
    assert server.ranges() == ["bytes=7-10", "bytes=9-10", "bytes=10-10"]


MARKS = {"NextContinuationToken": "t", "NextKeyMarker": "k", "NextUploadIdMarker": "u"}


@pytest.mark.parametrize(
    ("operation", "ask"),
    [
        ("ListObjectsV2", lambda store: store.list()),
        ("ListObjectsV2", lambda store: store.levels("")),
        ("ListMultipartUploads", lambda store: store.list_uploads()),
    ],
)
@pytest.mark.parametrize("following", [{}, MARKS])
def test_a_listing_that_never_ends_is_refused(
    server: Server,
    operation: str,
    ask: Callable[[S3Store], Iterator[Any]],
    following: Mapping[str, str],
) -> None:
    server.answer[operation] = lambda **_: {"IsTruncated": True, **following}
    with pytest.raises(StoreError, match="makes no sense: (it has no Next|the page that follows)"):
        list(ask(store_of()))
    assert len(server.asked) <= 2


@pytest.mark.parametrize("facts", [{}, {"ContentLength": 3, "LastModified": "in May"}])
def test_an_answer_to_a_look_that_makes_no_sense(server: Server, facts: dict[str, Any]) -> None:
    server.answer["HeadObject"] = lambda **_: facts
    with pytest.raises(StoreError, match="s3://bucket/k: cannot be looked up: .* makes no sense"):
        store_of().stat("k")
    assert len(server.asked) == 1


class Refusal(Exception):
    """Stands for botocore's ClientError."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


def test_threads_that_find_out_at_once_that_checksums_are_not_taken(server: Server) -> None:
    together = threading.Barrier(2)

    def put(**args: Any) -> dict[str, Any]:
        if "ChecksumCRC32C" in args:
            together.wait()
            raise Refusal(501, "NotImplemented")
        return {"ETag": '"e"'}

    server.answer["PutObject"] = put
    told: list[str] = []
    store = S3Store("bucket", retries=AT_ONCE, events=lambda event, **facts: told.append(event))
    with ThreadPoolExecutor(2) as threads:
        stored = list(threads.map(lambda key: store.put(key, b"data"), "ab"))
    assert [each.etag for each in stored] == ["e", "e"]
    assert told == ["fallback"]


def test_a_crc32c_that_is_known_goes_with_the_bytes(server: Server) -> None:
    server.answer["PutObject"] = lambda **args: {"ChecksumCRC32C": args["ChecksumCRC32C"]}
    store = store_of()
    assert store.put("k", b"123456789").crc32c == 0xE3069283
    assert store.put("k", b"123456789", crc32c=1).crc32c == 1


def test_who_asks_pays_for_every_request(server: Server) -> None:
    server.answer["PutObject"] = lambda **_: {}
    server.answer["ListObjectsV2"] = lambda **_: {}
    store = S3Store("bucket", S3Config(request_payer=True), retries=AT_ONCE)
    store.put("k", b"")
    store.stat("k")
    list(store.list())
    server.answer["GetObject"] = stalling(PART)
    with store.open("k") as reading:
        assert reading.read_all() == DATA
    assert [args["RequestPayer"] for args in server.asked] == ["requester"] * 5
