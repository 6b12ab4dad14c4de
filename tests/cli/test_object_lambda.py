"""An S3 Object Lambda handler that converts shards while they are fetched, on a stub of its API."""

from __future__ import annotations

import http.server
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dsprep

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "between-frameworks.md"


def shown() -> str:
    """The handler that the guide shows."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (handler,) = [block for block in blocks if "def handler(" in block]
    return handler


class Client:
    """S3, as far as the handler uses it."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {}

    def write_get_object_response(self, *, Body: Any, **others: str) -> None:
        """Read the body as botocore does where its length is not known: chunk by chunk."""
        self.answer = {**others, "parts": list(iter(lambda: Body.read(8192), b""))}


@pytest.fixture
def url(tmp_path: Path, photos: Path) -> Iterator[str]:
    """Where S3 hands out the shard that was asked for."""
    root = tmp_path / "bucket"
    root.mkdir()
    dsprep.convert(str(photos), str(tmp_path / "photos" / "train.tar"), workers=1)
    (tmp_path / "photos" / "train.tar").rename(root / "train.tar")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(root))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/train.tar"
        server.shutdown()
        thread.join()


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Client]:
    """The handler of the guide, and the client that it gets."""
    client = Client()
    boto3 = ModuleType("boto3")
    boto3.client = lambda service: client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "boto3", boto3)
    names: dict[str, Any] = {}
    exec(shown(), names)
    return names["handler"], client


def event(url: str) -> dict[str, Any]:
    return {"getObjectContext": {"inputS3Url": url, "outputRoute": "r", "outputToken": "t"}}


def test_answers_with_the_other_format(
    handled: tuple[Any, Client], url: str, tmp_path: Path
) -> None:
    handler, client = handled
    assert handler(event(url), None) == {"statusCode": 200}
    parts = client.answer.pop("parts")
    assert client.answer == {"RequestRoute": "r", "RequestToken": "t"}
    expected = tmp_path / "train.tfrecord"
    dsprep.convert(str(tmp_path / "bucket" / "train.tar"), str(expected), workers=1)
    assert b"".join(parts) == expected.read_bytes()
    assert {len(part) for part in parts[:-1]} == {8192}


def test_fails_on_a_shard_that_is_cut(
    handled: tuple[Any, Client], url: str, tmp_path: Path
) -> None:
    """S3 then gets no end of the answer, and whoever asked for it knows."""
    shard = tmp_path / "bucket" / "train.tar"
    shard.write_bytes(shard.read_bytes()[:-15_000])
    handler, client = handled
    with pytest.raises(dsprep.DsprepError, match="at byte"):
        handler(event(url), None)
    assert client.answer == {}


def test_is_ten_lines() -> None:
    code = [line for line in shown().splitlines() if line.strip() and "import" not in line]
    assert len(code) <= 10
