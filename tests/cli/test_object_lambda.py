"""An S3 Object Lambda handler that converts shards while they are fetched; S3 is a stub."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dsprep

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "between-frameworks.md"


def shown() -> str:
    """The handler that the guide shows."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (handler,) = [block for block in blocks if "def handler(" in block]
    return handler


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
def handled(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, Any]]:
    """The handler of the guide, and what boto3 would have sent for it."""
    import boto3
    from botocore.awsrequest import AWSResponse

    sent: dict[str, Any] = {}

    def send(request: Any, **_: object) -> AWSResponse:
        parts = list(iter(lambda: request.body.read(8192), b""))
        sent.update(url=request.url, headers=request.headers, parts=parts)
        return AWSResponse(request.url, 200, {}, SimpleNamespace(stream=lambda: iter(())))

    def client(service: str, make: Any = boto3.client, **options: Any) -> Any:
        made = make(service, region_name="us-east-1", **options)
        made.meta.events.register("before-send.s3", send)
        return made

    monkeypatch.setattr(boto3, "client", client)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    names: dict[str, Any] = {}
    exec(shown(), names)
    return names["handler"], sent


def event(url: str) -> dict[str, Any]:
    return {"getObjectContext": {"inputS3Url": url, "outputRoute": "r", "outputToken": "t"}}


def test_answers_with_the_other_format(
    handled: tuple[Any, dict[str, Any]], url: str, tmp_path: Path
) -> None:
    handler, sent = handled
    assert handler(event(url), None) == {"statusCode": 200}
    assert sent["url"].startswith("https://r.s3-object-lambda.")
    assert sent["headers"]["x-amz-request-token"] == b"t"
    assert sent["headers"]["Transfer-Encoding"] == "chunked"
    parts = sent["parts"]
    expected = tmp_path / "train.tfrecord"
    dsprep.convert(str(tmp_path / "bucket" / "train.tar"), str(expected), workers=1)
    assert b"".join(parts) == expected.read_bytes()
    assert {len(part) for part in parts[:-1]} == {8192}


def test_fails_on_a_shard_that_is_cut(
    handled: tuple[Any, dict[str, Any]], url: str, tmp_path: Path
) -> None:
    """S3 then gets no end of the answer, and whoever asked for it knows."""
    shard = tmp_path / "bucket" / "train.tar"
    shard.write_bytes(shard.read_bytes()[:-15_000])
    handler, sent = handled
    with pytest.raises(dsprep.DsprepError, match="at byte"):
        handler(event(url), None)
    assert sent == {}


def test_is_ten_lines() -> None:
    code = [line for line in shown().splitlines() if line.strip() and "import" not in line]
    assert len(code) <= 10
