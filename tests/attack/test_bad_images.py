"""Images that are broken, lying or odd: each is in a shard or in the rejects, and says why."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tests.attack.trees import manifest, names, rejects
from tests.conftest import Finished
from tests.images import bmp, bomb, draw, encode, gif, jpeg, png, truncated, webp
from tests.limits import bound_to_permissions
from tests.missing import framework

RunCli = Callable[..., Finished]

FORMATS = ("webdataset", "tfrecord", "recordio")
LOADERS = {"webdataset": "webdataset", "tfrecord": "tensorflow", "recordio": "mxnet"}

ODD = {
    "gray.jpg": jpeg(1, mode="L"),
    "cmyk.jpg": jpeg(2, mode="CMYK"),
    "progressive.jpg": jpeg(3, progressive=True),
    "turned.jpg": jpeg(4, orientation=6),
    "tiny.jpg": jpeg(5, (1, 1)),
    "palette.png": png(6, mode="P"),
    "bits.png": png(7, mode="1"),
    "gray16.png": png(8, mode="I;16"),
    "alpha.png": png(9, mode="RGBA"),
    "gray alpha.png": png(10, mode="LA"),
    "a bmp.bmp": bmp(11),
    "a png.JPEG": png(12),
    "a jpeg.png": jpeg(13),
}
"""Images that every format takes."""

UNREADABLE = {
    "clear.webp": webp(14, mode="RGBA"),
    "animated.gif": gif(15, frames=3),
    "a tiff.tif": encode(draw(16), "TIFF"),
    "16 bit.tiff": encode(draw(17, mode="I;16"), "TIFF"),
}
"""Images that MXNet does not read."""

_JPEG, _PNG = jpeg(20, (300, 200)), png(21, (300, 200))
CUT = {
    f"{kind} cut at {share}.{kind}": truncated(data, share)
    for kind, data in (("jpg", _JPEG), ("png", _PNG))
    for share in (0.001, 0.01, 0.1, 0.3, 0.6, 0.9, 0.99)
} | {"jpg cut by one.jpg": _JPEG[:-1], "png cut by one.png": _PNG[:-1]}
BAD = {
    "empty.jpg": b"",
    "zeros.png": bytes(4096),
    "a page.jpg": b"<!DOCTYPE html>\n<html><body>404</body></html>",
    "some text.png": b"nothing to see here\n",
    "a drawing.png": b'<?xml version="1.0"?><svg/>',
    "half zeros.jpg": _JPEG[: len(_JPEG) // 2] + bytes(len(_JPEG) // 2),
    "a bomb.png": bomb(),
    "two bytes.jpg": b"\xff\xd8",
    **CUT,
}
"""What no check lets pass."""

_PIXELS = _PNG.index(b"IDAT") + 50
DAMAGED = {"damaged.png": _PNG[:_PIXELS] + b"damage" + _PNG[_PIXELS + 6 :]}
"""What the header does not show."""


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("zoo") / "zoo"
    root.mkdir()
    for path, data in {**ODD, **UNREADABLE, **BAD, **DAMAGED}.items():
        (root / path).write_bytes(data)
    return root


ALL = len(ODD) + len(UNREADABLE) + len(BAD) + len(DAMAGED)


def assert_adds_up(finished: Finished, dest: Path, lost: set[str]) -> None:
    """Report, manifest, rejects and exit code tell one story."""
    assert finished.code == (3 if lost else 0)
    report = json.loads(finished.out)
    assert {each["path"] for each in report["rejects"]} == lost
    assert set(rejects(dest) if lost else {}) == lost
    assert all(rejects(dest).values() if lost else ())
    written = manifest(dest)
    assert written["samples"] == report["samples"] == ALL - len(lost)
    assert written["rejected"] == len(lost)
    assert sum(shard["samples"] for shard in written["shards"]) == written["samples"]


@pytest.mark.parametrize(
    ("format", "check"),
    [
        *(("webdataset", each) for each in ("header", "structure", "decode", "none", "default")),
        *(("tfrecord", each) for each in ("decode", "default")),
        *(("recordio", each) for each in ("header", "none", "default")),  # which decodes
    ],
)
def test_each_check_finds_what_it_says(
    run_here: RunCli, zoo: Path, tmp_path: Path, format: str, check: str
) -> None:
    dest = tmp_path / "out"
    options = () if check == "default" else ("--check", check)
    finished = run_here("pack", zoo, dest, "--format", format, *options, "--json")
    decodes = check in ("structure", "decode") or (check == "default" and format == "recordio")
    lost = set() if check == "none" else set(BAD)
    lost |= set(DAMAGED) if decodes else set()
    if format == "recordio":
        lost |= set(UNREADABLE) if check != "none" else {"empty.jpg"}  # which would be no record
    assert_adds_up(finished, dest, lost)
    assert run_here("verify", dest, "--against", zoo).code == 0
    if decodes:
        framework(LOADERS[format])
        whole = run_here("verify", dest, "--decode", "--loader", LOADERS[format])
        assert whole.code == 0, whole.out


@pytest.mark.parametrize("format", FORMATS)
def test_transforms_reject_what_cannot_be_decoded_and_take_all_the_rest(
    run_here: RunCli, zoo: Path, tmp_path: Path, format: str
) -> None:
    dest = tmp_path / "out"
    command = ("pack", zoo, dest, "--format", format, "--resize", 40, "--encode", "jpeg", "--json")
    finished = run_here(*command)
    assert_adds_up(finished, dest, {*BAD, *DAMAGED})
    framework(LOADERS[format])
    whole = run_here("verify", dest, "--decode", "--against", zoo, "--loader", LOADERS[format])
    assert whole.code == 0, whole.out


def test_reasons_say_what_is_wrong(run_here: RunCli, zoo: Path, tmp_path: Path) -> None:
    assert run_here("pack", zoo, tmp_path, "--format", "webdataset", "--check", "decode").code == 3
    reasons = rejects(tmp_path)
    for path, word in {
        "empty.jpg": "empty",
        "zeros.png": "zero",
        "a page.jpg": "HTML",
        "a drawing.png": "SVG",
        "a bomb.png": "--max-pixels",
        "jpg cut at 0.6.jpg": "truncated",
        "png cut by one.png": "truncated",
        "damaged.png": "PNG",
    }.items():
        assert word in reasons[path]


def test_content_tells_the_extension(run_here: RunCli, zoo: Path, tmp_path: Path) -> None:
    dest = tmp_path / "out.tar"
    assert run_here("pack", zoo, dest, "--metadata").code == 3
    with tarfile.open(dest) as tar:
        members = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]
    assert members["a png.png"] == ODD["a png.JPEG"]
    assert members["a jpeg.jpg"] == ODD["a jpeg.png"]
    assert json.loads(members["a png.json"])["filename"] == "a png.JPEG"
    for name, data in members.items():
        if not name.endswith("json"):
            with Image.open(io.BytesIO(data)) as image:
                kind = {"JPEG": "jpg", "MPO": "jpg", "TIFF": "tif"}.get(
                    str(image.format), str(image.format).lower()
                )
            assert name.endswith("." + kind)


def test_a_file_that_may_not_be_read_is_rejected(run_cli: RunCli, tmp_path: Path) -> None:
    source, dest = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    for number in range(3):
        (source / f"{number}.jpg").write_bytes(jpeg(number))
    (source / "1.jpg").chmod(0)
    command = ("pack", source, dest, "--format", "webdataset")
    assert run_cli(*command, under=bound_to_permissions()).code == 3
    assert rejects(dest) == {"1.jpg": "cannot be read (Permission denied)"}


def test_a_directory_that_may_not_be_read_is_an_error(run_cli: RunCli, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("open", "closed"):
        (source / name).mkdir(parents=True)
        (source / name / "0.jpg").write_bytes(jpeg())
    (source / "closed").chmod(0)
    command = ("pack", source, tmp_path / "out", "--format", "webdataset")
    refused = run_cli(*command, under=bound_to_permissions())
    (source / "closed").chmod(0o755)
    assert refused.code == 4
    assert str(source / "closed") in refused.err
    assert names(tmp_path) == ["source"]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_rejected_is_not_in_its_class(
    run_here: RunCli, tmp_path: Path, workers: int
) -> None:
    for path in ("cat/0.jpg", "cat/1.jpg", "dog/0.jpg"):
        (tmp_path / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / path).write_bytes(b"" if path == "cat/1.jpg" else jpeg())
    command = ("pack", tmp_path / "in", tmp_path / "out", "--format", "webdataset", "-j", workers)
    for _ in range(2):  # the second finds it packed already
        assert "2, of 1 sample each" in run_here(*command).out


class TestStoppingEarly:
    @pytest.mark.parametrize("workers", [1, 2])
    def test_after_too_many(
        self, run_here: RunCli, zoo: Path, tmp_path: Path, workers: int
    ) -> None:
        dest = tmp_path / "out"
        command = ("pack", zoo, dest, "--format", "webdataset", "--samples-per-shard", 3)
        stopped = run_here(*command, "--max-errors", 5, "-j", workers)
        assert stopped.code == 6
        assert "--max-errors" in stopped.err
        assert any(path in stopped.err for path in BAD)
        assert "manifest.json" not in names(dest)
        assert run_here(*command, "--max-errors", len(BAD) - 1).code == 6
        assert run_here(*command, "--max-errors", len(BAD)).code == 3
        assert len(rejects(dest)) == len(BAD)

    @pytest.mark.parametrize("options", [("--on-error", "fail"), ("--max-errors", "0")])
    def test_at_the_first(
        self, run_here: RunCli, zoo: Path, tmp_path: Path, options: tuple[str, ...]
    ) -> None:
        dest = tmp_path / "out"
        stopped = run_here("pack", zoo, dest, "--format", "webdataset", *options)
        assert stopped.code == 6
        assert any(path in stopped.err for path in BAD)
        assert names(dest) == []

    def test_counts_samples_that_are_not_there(self, run_here: RunCli, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.mkdir()
        (source / "0.jpg").write_bytes(jpeg())
        (tmp_path / "train.lst").write_text("0\t0\t0.jpg\n1\t0\tgone.jpg\n")
        command = ("pack", source, tmp_path / "out", "--format", "webdataset")
        listed = (*command, "--list", tmp_path / "train.lst")
        stopped = run_here(*listed, "--on-error", "fail")
        assert (stopped.code, "gone.jpg" in stopped.err) == (6, True)
        assert run_here(*listed, "--max-errors", "1").code == 3


@pytest.mark.parametrize("format", FORMATS)
def test_a_shard_of_bad_samples_is_empty_and_whole(
    run_here: RunCli, tmp_path: Path, format: str
) -> None:
    source, dest = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    for number in range(6):
        (source / f"{number}.jpg").write_bytes(jpeg(number) if number // 2 != 1 else b"")
    command = ("--format", format, "--no-shuffle", "--samples-per-shard", 2)
    packed = run_here("pack", source, dest, *command)
    assert packed.code == 3
    assert "empty" in packed.out
    shards = manifest(dest)["shards"]
    assert [shard["samples"] for shard in shards] == [2, 0, 2]
    assert shards[1]["name"] in packed.out
    verified = run_here("verify", dest, "--against", source, "--decode")
    assert verified.code == 0, verified.out
