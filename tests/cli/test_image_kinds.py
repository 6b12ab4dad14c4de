"""Images of any kind: each is packed or rejected, and frames that are lost are counted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.attack.trees import contents
from tests.conftest import Finished
from tests.images import draw, encode, jpeg, png

Run = Callable[..., Finished]

FRAMES = [draw(seed) for seed in (1, 2)]
HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(90)


def animated(kind: str) -> bytes:
    return encode(draw(), kind, save_all=True, append_images=FRAMES)


READ = {
    "a/1.jfif": jpeg(1),
    "a/2.JPE": jpeg(2),
    "a/3.avif": encode(draw(3), "AVIF"),
    "a/4.jp2": encode(draw(4), "JPEG2000"),
    "b/5.pgm": encode(draw(5, mode="L"), "PPM"),
    "b/6.apng": animated("PNG"),
    "b/7.gif": animated("GIF"),
    "b/8.webp": animated("WEBP"),
    "b/9.tiff": animated("TIFF"),
}
NOT_DECODED = {"a/a.heic": "HEIC", "b/b.NEF": "a camera's raw image", "b/c.svg": "SVG"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kinds") / "tree"
    for name, data in (READ | dict.fromkeys(NOT_DECODED, HEIC) | {"b/d.txt": b"x"}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def report_of(done: Finished) -> dict[str, Any]:
    assert done.code == 3, done
    report: dict[str, Any] = json.loads(done.out)
    return report


@pytest.mark.parametrize("how", ["folder", "zip", "tar", "gztar"])
def test_every_image_is_packed_or_rejected(
    tree: Path, how: str, run_here: Run, tmp_path: Path
) -> None:
    source = tree
    if how != "folder":
        source = Path(shutil.make_archive(str(tmp_path / "t"), how, tree.parent, tree.name))
    dest = tmp_path / "out"
    args = ("--format", "webdataset", "--no-shuffle", "--check", "decode", "--json", "-q")
    report = report_of(run_here("pack", source, dest, *args))
    assert report["samples"] == len(READ)
    assert report["rejects"] == [
        {
            "path": path,
            "reason": f"cannot be read ({name}, which dsprep does not decode: convert it to JPEG "
            "or PNG first)",
        }
        for path, name in NOT_DECODED.items()
    ]
    assert report["skipped"] == [{"kind": "left-over", "path": "b/d.txt", "detail": ""}]
    data = contents(dest)["train-000000.tar"]
    assert all(image in data for image in READ.values())


def test_a_list_names_what_is_a_sample(tree: Path, run_here: Run, tmp_path: Path) -> None:
    listed = tmp_path / "l.lst"
    listed.write_text("0\t0\ta/a.heic\n1\t1\ta/1.jfif\n")
    args = ("--list", listed, "--format", "webdataset", "--json", "-q")
    report = report_of(run_here("pack", tree, tmp_path / "out", *args))
    (reject,) = report["rejects"]
    assert reject["path"] == "a/a.heic"
    assert reject["reason"].startswith("HEIC, which dsprep does not decode")


@pytest.mark.parametrize("how", ["folder", "zip"])
def test_a_table_names_it_without_its_extension(
    tree: Path, how: str, run_here: Run, tmp_path: Path
) -> None:
    source = tree
    if how != "folder":
        source = Path(shutil.make_archive(str(tmp_path / "t"), how, tree.parent, tree.name))
    table = tmp_path / "t.csv"
    table.write_text("id,label\na/a,cat\na/1,dog\na/gone,dog\n")
    args = ("--labels", table, "--format", "webdataset", "--json", "-q")
    report = report_of(run_here("pack", source, tmp_path / "out", *args))
    reasons = {each["path"]: each["reason"] for each in report["rejects"]}
    assert reasons.keys() == {"a/a.heic", "a/gone"}
    assert "HEIC, which dsprep does not decode" in reasons["a/a.heic"]
    assert "a/a.heic" not in str(report["skipped"])


def test_other_files_are_not_samples_if_the_user_says_which_are(
    tree: Path, run_here: Run, tmp_path: Path
) -> None:
    args = ("--extensions", "jfif", "--format", "webdataset", "-q")
    assert run_here("pack", tree, tmp_path / "out", *args).code == 0


@pytest.mark.parametrize("how", ["folder", "zip", "tar"])
def test_nothing_but_images_that_dsprep_does_not_decode(
    how: str, run_here: Run, tmp_path: Path
) -> None:
    (tmp_path / "t").mkdir()
    for number in range(3):
        (tmp_path / f"t/{number}.heic").write_bytes(HEIC)
    source = tmp_path / "t"
    if how != "folder":
        source = Path(shutil.make_archive(str(tmp_path / "a"), how, tmp_path / "t"))
    done = run_here("pack", source, tmp_path / "out", "--format", "webdataset")
    assert done.code == 4
    assert "holds no images that dsprep reads, but 3 .heic (HEIC, which dsprep" in done.err


def frames_of(report: dict[str, Any]) -> list[str]:
    return [each for each in report["notes"] if "frames" in each]


class TestFrames:
    def test_those_that_are_lost_are_counted(
        self, tree: Path, run_here: Run, tmp_path: Path
    ) -> None:
        for workers in (1, 2):
            args = ("--format", "tfrecord", "--resize", "20", "--shards", "2", f"-qj{workers}")
            report = report_of(run_here("pack", tree, tmp_path / f"{workers}", *args, "--json"))
            assert frames_of(report) == ["4 images of several frames kept only the first"]

    def test_none_are_lost_where_images_keep_their_bytes(
        self, run_here: Run, tmp_path: Path
    ) -> None:
        (tmp_path / "t").mkdir()
        (tmp_path / "t/1.gif").write_bytes(animated("GIF"))
        (tmp_path / "t/2.gif").write_bytes(encode(draw(), "GIF"))
        (tmp_path / "t/3.png").write_bytes(png())
        dest = tmp_path / "a"
        args = ("--format", "webdataset", "--resize", "1000", "--json", "-q")
        assert frames_of(json.loads(run_here("pack", tmp_path / "t", dest, *args).out)) == []
        for form in ("parquet", "recordio"):
            args = ("--to", form, "--encode", "png", "--json", "-q")
            done = run_here("convert", dest, tmp_path / form, *args)
            notes = frames_of(json.loads(done.out))
            assert notes == ["1 image of several frames kept only the first"]

    def test_in_a_stream(self, run_here: Run, tmp_path: Path) -> None:
        (tmp_path / "t").mkdir()
        (tmp_path / "t/1.gif").write_bytes(animated("GIF"))
        run_here("pack", tmp_path / "t", tmp_path / "a.tar", "-q")
        args = ("--to", "tfrecord", "--encode", "jpeg")
        done = run_here("convert", tmp_path / "a.tar", "-", *args)
        assert done.err == "note: 1 image of several frames kept only the first\n"


def test_avif_is_turned_upright(run_here: Run, tmp_path: Path) -> None:
    """As Pillow tells its orientation, which stands in the AVIF itself."""
    (tmp_path / "t").mkdir()
    (tmp_path / "t/1.avif").write_bytes(encode(draw(size=(60, 40)), "AVIF", orientation=6))
    args = ("--to", "folder", "--encode", "png", "-q")
    assert run_here("convert", tmp_path / "t", tmp_path / "out", *args).code == 0
    with Image.open(tmp_path / "out/1.png") as image:
        assert image.size == (40, 60)
