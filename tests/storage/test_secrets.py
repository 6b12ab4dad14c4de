"""Passwords and signatures of addresses stay out of messages, reports, pages and files."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dsprep.printable import visible
from dsprep.storage.s3.config import Retries
from tests.conftest import Finished
from tests.images import image_folder

RunCli = Callable[..., Finished]

SIGNED = (
    "X-Amz-Credential=HUNTER2%2F2026&X-Amz-Date=2026&X-Amz-Security-Token=HUNTER2+/=="
    "&X-Amz-Signature=HUNTER2"
)
OLD = "AWSAccessKeyId=HUNTER2&Expires=1&Signature=HUNTER2%3D"
ADDRESSES = (
    f"https://bucket.s3.amazonaws.com/train.tar?{SIGNED}",
    f"https://bucket.s3.amazonaws.com/train.tar?{OLD}",
    "https://account.blob.core.windows.net/train.tar?sv=2026&sig=HUNTER2",
    "https://storage.googleapis.com/b/train.tar?X-Goog-Signature=HUNTER2&X-Goog-Credential=HUNTER2",
    "https://user:HUNTER2@host/train.tar",
    "https://HUNTER2@host/train.tar",
    "s3://user:HUNTER2@bucket/train.tar",
)


class _Refusing(BaseHTTPRequestHandler):
    """Refuses all, and quotes addresses with secrets."""

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        said = f"see http://user:HUNTER2@host/?{SIGNED}".replace("&", "&amp;")
        body = f"<Error><Code>AccessDenied</Code><Message>{said}</Message></Error>".encode()
        self.send_response(403)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def refusing() -> Iterator[str]:
    """The address of a server that refuses all."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(Retries, "delay", lambda self, failed: 0.0)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    files = dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), os.devnull)
    return dict.fromkeys(names, "HUNTER2") | files | {"AWS_REGION": "us-east-1"}


def commands(source: str, dest: str, images: Path, out: Path) -> Iterator[tuple[str, ...]]:
    """Commands that read a source and commands that write to a destination."""
    yield ("pack", source, f"{out}/a", "--to", "webdataset")
    yield ("convert", source, f"{out}/b", "--to", "tfrecord")
    yield ("verify", source)
    yield ("lst", "create", source, "-o", f"{out}/c.lst")
    yield ("inspect", source, "-o", f"{out}/page.html")
    yield ("sync", source, f"{out}/d")
    yield ("sync", source, f"{out}/d", "--json")
    yield ("sync", str(images), dest)
    yield ("sync", str(images), dest, "--json")
    yield ("pack", str(images), dest, "--to", "webdataset")
    yield ("status", dest)


def require_no_secret(done: Finished, out: Path) -> None:
    assert "HUNTER2" not in done.out + done.err
    for path in out.rglob("*"):
        assert path.is_dir() or b"HUNTER2" not in path.read_bytes(), path


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_with_a_secret_is_refused_without_it(
    run_here: RunCli, tmp_path: Path, env: dict[str, str], address: str
) -> None:
    image_folder(tmp_path / "images", ("cat",), per_class=1)
    (tmp_path / "out").mkdir()
    for words in commands(address, address, tmp_path / "images", tmp_path / "out"):
        done = run_here(*words, env=env)
        assert done.code, words
        require_no_secret(done, tmp_path)
    assert "***" in run_here("verify", address, env=env).err


@pytest.mark.parametrize("place", ["refusing", "unreachable"])
def test_a_failing_server_adds_none(
    run_here: RunCli, tmp_path: Path, refusing: str, env: dict[str, str], place: str
) -> None:
    env["AWS_ENDPOINT_URL"] = refusing if place == "refusing" else "http://127.0.0.1:9"
    image_folder(tmp_path / "images", ("cat",), per_class=1)
    (tmp_path / "out").mkdir()
    url = f"s3://bucket/train?{SIGNED}"
    for words in commands(url, url, tmp_path / "images", tmp_path / "out"):
        done = run_here(*words, env=env)
        assert (done.code, "X-Amz-Signature=***" in done.err) == (
            5 if words[0] == "status" or words[1] == str(tmp_path / "images") else 4,
            True,
        ), done
        require_no_secret(done, tmp_path)


@pytest.mark.parametrize(
    ("way", "user"),
    [
        ("AWS_ENDPOINT_URL", "user:HUNTER2"),
        ("AWS_ENDPOINT_URL", "HUNTER2"),
        ("AWS_ENDPOINT_URL", "user:1/HUNTER2"),
        ("AWS_ENDPOINT_URL_S3", "user:HUNTER2@x"),
        ("option", "user:a:HUNTER2"),
        ("file", "user:HUNTER2"),
    ],
)
def test_an_endpoint_with_a_password_is_refused_without_it(
    run_here: RunCli, tmp_path: Path, env: dict[str, str], way: str, user: str
) -> None:
    image_folder(tmp_path / "images", ("cat",), per_class=1)
    url = f"http://{user}@127.0.0.1:9"
    words = ["sync", str(tmp_path / "images"), "s3://bucket/train"]
    if way == "option":
        words += ["--endpoint-url", url]
    elif way == "file":
        (tmp_path / "config").write_text(f"[default]\nendpoint_url = {url}\n")
        env["AWS_CONFIG_FILE"] = str(tmp_path / "config")
    else:
        env[way] = url
    done = run_here(*words, env=env)
    assert (done.code, "***@127.0.0.1:9: " in done.err) == (2, True), done.err
    assert "HUNTER2" not in done.out + done.err


def test_a_proxy_that_cannot_be_reached_adds_none(
    run_here: RunCli, tmp_path: Path, env: dict[str, str]
) -> None:
    env |= {"HTTPS_PROXY": "http://user:HUNTER2@127.0.0.1:9", "HTTP_PROXY": "", "NO_PROXY": ""}
    done = run_here("verify", "s3://bucket/train", env=env)
    assert done.code == 4
    require_no_secret(done, tmp_path)


def test_data_sets_have_none_of_the_names_they_were_made_from(
    run_here: RunCli, tmp_path: Path
) -> None:
    source = tmp_path / f"photos?{SIGNED.replace('/', '')}"
    image_folder(source, ("cat", "dog"), per_class=2)
    for words in (
        ("pack", source, tmp_path / "out", "--to", "webdataset", "--samples-per-shard", "1"),
        ("pack", source, tmp_path / "parts", "--to", "webdataset", "--part", "0/2"),
        ("status", tmp_path / "parts"),
        ("inspect", source, "-o", tmp_path / "page.html"),
        ("verify", tmp_path / "out", "--against", source),
    ):
        for report in ((), ("--json",)):
            done = run_here(*words, *report)
            assert "HUNTER2" not in done.out + done.err
    for path in (*(tmp_path / "out").rglob("*"), *(tmp_path / "parts").rglob("*.json")):
        assert path.is_dir() or b"HUNTER2" not in path.read_bytes(), path
    assert "HUNTER2" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/cat/a@2x.jpg: is missing",
        "s3://arn:aws:s3:eu-west-1:1:accesspoint/name/a@2x.jpg",
        "http://host:9000/bucket/a@b",
        "s3://bucket: cannot be listed; write to a@b.c",
        "by/sig=3/Signature=4/x.jpg",
        "https://host/x?size=3&token=4",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert visible(text) == text
