"""Which requests that failed without boto3 are left to it, and which are failures."""

from __future__ import annotations

import io
import ssl
from http.client import HTTPResponse, RemoteDisconnected
from typing import Any
from unittest.mock import MagicMock

import pytest

from dsprep.storage import quick
from dsprep.storage.quick import Quick, Unavailable
from dsprep.storage.signing import Keys, Route


def responding(data: bytes) -> MagicMock:
    """A connection that answers so."""

    def respond() -> HTTPResponse:
        response = HTTPResponse(MagicMock(makefile=lambda _: io.BytesIO(data)))
        response.begin()
        return response

    return MagicMock(getresponse=respond)


def failing(error: Exception) -> MagicMock:
    """A connection whose server does not answer."""
    return MagicMock(getresponse=MagicMock(side_effect=error))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The connections that will be made."""
    connections: list[Any] = []
    monkeypatch.setattr(quick, "_Connection", lambda *_, **__: connections.pop(0))
    return connections


def requests() -> Quick:
    route = Route("http", "s3.example:80", "/bucket", "us-east-1")
    return Quick(route, lambda: Keys("access", "secret", None), None, 1.0)


SILENCE = [
    TimeoutError("timed out"),
    RemoteDisconnected("closed"),
    ConnectionResetError(104, "reset"),
]


@pytest.mark.parametrize("error", SILENCE)
def test_a_new_connection_that_fails_is_a_failure(made: list[Any], error: Exception) -> None:
    made += [failing(error)]
    with pytest.raises(type(error)):
        requests().get("k", {})


@pytest.mark.parametrize("error", SILENCE)
def test_a_used_connection_may_have_been_closed_meanwhile(
    made: list[Any], error: Exception
) -> None:
    used = responding(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    made += [used]
    quickly = requests()
    assert quickly.put("k", b"", {}) == {"ContentLength": "0"}
    used.getresponse = MagicMock(side_effect=error)
    assert quickly.put("k", b"", {}) is None
    used.close.assert_called()


def test_a_server_that_cannot_be_reached_is_left_to_boto3(made: list[Any]) -> None:
    for error in (ConnectionRefusedError(111, "refused"), ssl.SSLError("not trusted")):
        made += [MagicMock(connect=MagicMock(side_effect=error))]
        assert requests().get("k", {}) is None
    made += [MagicMock(connect=MagicMock(side_effect=TimeoutError("timed out")))]
    with pytest.raises(TimeoutError):
        requests().get("k", {})


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_not_asked_again_at_once(made: list[Any], status: int) -> None:
    answer = f"HTTP/1.1 {status} Slow Down\r\nx-amz-request-id: R1\r\nContent-Length: 3\r\n\r\nxml"
    made += [responding(answer.encode())]
    with pytest.raises(Unavailable) as caught:
        requests().get("k", {})
    assert caught.value.response == {
        "Error": {"Message": "Slow Down"},
        "ResponseMetadata": {"HTTPStatusCode": status, "RequestId": "R1"},
    }


@pytest.mark.parametrize("status", [301, 400, 403, 404, 412, 416, 501])
def test_what_is_refused_is_explained_by_boto3(made: list[Any], status: int) -> None:
    made += [responding(f"HTTP/1.1 {status} No\r\nContent-Length: 3\r\n\r\nxml".encode())]
    assert requests().get("k", {}) is None


def test_readers_are_told_what_boto3_tells_them(made: list[Any]) -> None:
    headers = "Content-Type: image/jpeg\r\nCache-Control: no-store\r\nContent-Length: 0"
    made += [responding(f"HTTP/1.1 200 OK\r\n{headers}\r\n\r\n".encode())]
    told = requests().get("k", {})
    assert told is not None
    assert (told["ContentType"], told["CacheControl"]) == ("image/jpeg", "no-store")
