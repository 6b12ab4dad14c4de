"""Augmented manifests made to do harm: they lead nowhere else, and take neither time nor memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import SourceError
from dsprep.sources.annotated.augmented import read_augmented
from dsprep.sources.source import make_source


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/a.jpg").write_bytes(b"a")
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    return tmp_path / "images"


def read(images: Path, data: bytes, **options: Any) -> list[str]:
    path = images.parent / "hostile.manifest"
    path.write_bytes(data)
    source = make_source(images, list_file=path, extensions=["jpg"], **options)
    return read_augmented(source)[0].table["path"].to_list()


def line(ref: str, label: Any = 0) -> bytes:
    return json.dumps({"source-ref": ref, "class": label, "class-metadata": {}}).encode() + b"\n"


@pytest.mark.parametrize(
    "ref",
    [
        "../secret.jpg",
        "x/../../secret.jpg",
        "s3://bucket/../secret.jpg",
        "s3://bucket/x/../../secret.jpg",
        "s3://../secret.jpg",
        "file://{images}/../secret.jpg",
        "file://{images}/%2e%2e/secret.jpg",
        "file://{images}%2f..%2fsecret.jpg",
        "{images}/../secret.jpg",
        "{images}/./../secret.jpg",
        "{images}x/../secret.jpg",
        "/proc/self/environ",
        "a.jpg\0/../secret.jpg",
        "\\..\\secret.jpg",
        "FILE:///etc/passwd",
        "javascript://a.jpg",
    ],
)
def test_nothing_outside_is_read(images: Path, ref: str) -> None:
    try:
        found = read(images, line("a.jpg") + line(ref.format(images=images)))
    except SourceError:
        return
    assert found == ["a.jpg"]


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 1_000_000,
        b'{"source-ref":' * 200_000,
        b'{"source-ref":"a.jpg","class":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"source-ref":"a.jpg","class":' + b"9" * 10_000 + b"}",
        b'{"source-ref":"a.jpg","class":1e999999999}',
        b'{"source-ref":"a.jpg","class":"' + b"9" * 1_000_000 + b'"}',
        b'{"source-ref":"a.jpg","class":"' + b"[" * 1_000_000 + b'"}',
        b'{"source-ref":"a.jpg","class":"' + b"1" * 50_000 + b"x" + b'"}',
        b"\xff\xfe{}",
        b"\0" * 1_000_000,
        b'{"source-ref":"a.jpg","class":1',
        line("a.jpg")[:-3],
        b'{"source-ref":"a.jpg","class":0,"class-metadata":{"class-name":"\\ud800"}}x',
    ],
    ids=range(13),
)
def test_what_is_no_manifest_is_refused(images: Path, data: bytes) -> None:
    with pytest.raises(SourceError, match=r"hostile\.manifest:1: "):
        read(images, data)


def test_numbers_of_classes_take_no_memory(images: Path) -> None:
    metadata = {"class-map": {"999999999999999": "x"}}
    text = {"source-ref": "a.jpg", "class": 0, "class-metadata": metadata}
    with pytest.raises(SourceError, match="tells no name of class 0"):
        read(images, json.dumps(text).encode())


def test_a_size_that_makes_every_box_a_point(images: Path) -> None:
    size = {"width": 9e15, "height": 1, "depth": 3}
    one = {"class_id": 0, "left": 9e15, "top": 9e15, "width": 9e15, "height": 1e-320}
    assert read(images, line("a.jpg", {"image_size": [size], "annotations": [one]})) == ["a.jpg"]


def test_urls_of_a_million_parts_are_refused(images: Path) -> None:
    with pytest.raises(SourceError, match="longer than a URL of S3 can be"):
        read(images, line("s3://b/a.jpg") + line("s3://b" + "/x" * 1_000_000 + ".jpg"))


def test_many_urls_of_many_parts(images: Path) -> None:
    urls = b"".join(line(f"s3://b/{n}" + "/x" * 500 + ".jpg") for n in range(500))
    assert read(images, line("s3://b/a.jpg") + urls) == ["a.jpg"]


def test_a_file_may_not_be_there_at_all(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read_augmented(make_source(tmp_path, list_file=tmp_path / "none"))
    os.mkfifo(tmp_path / "images")
    with pytest.raises(SourceError):
        read_augmented(make_source(tmp_path / "images", list_file=tmp_path))
