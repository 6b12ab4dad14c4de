"""What a command reads is never what it replaces, and what it plans is what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import dsprep
from dsprep.errors import OptionError
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.images import image_folder, jpeg

RunCli = Callable[..., Finished]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    image_folder(tmp_path / "images", classes=("cat", "dog"), per_class=6)
    return tmp_path / "images"


class TestInputsAreSpared:
    def test_a_class_list_of_the_data_set_that_is_replaced(
        self, run_here: RunCli, folder: Path, tmp_path: Path
    ) -> None:
        dest = tmp_path / "out"
        assert run_here("pack", folder, dest, "--format", "webdataset").code == 0
        before = contents(dest)
        again = ("pack", folder, dest, "--format", "tfrecord", "--classes", dest / "classes.txt")
        refused = run_here(*again, "--overwrite")
        assert refused.code == 5
        assert "classes.txt: is read by this command" in refused.err
        assert contents(dest) == before

    def test_a_list_that_stands_where_its_file_will_be(
        self, run_here: RunCli, folder: Path, tmp_path: Path
    ) -> None:
        listed = tmp_path / "train.lst"
        paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.jp*g"))
        listed.write_text("".join(f"{n}\t{n % 2}\t{path}\n" for n, path in enumerate(paths)))
        text = listed.read_bytes()
        done = run_here("pack", folder, tmp_path / "train.rec", "--list", listed, "--overwrite")
        assert done.code == 0, done.err
        assert listed.read_bytes() == text


def test_a_piece_that_was_damaged_is_written_again(
    run_here: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop a run whose single file is written in pieces, flip a byte of one, and go on."""
    monkeypatch.setattr("dsprep.run.run.PIECE_BYTES", 1)
    source = tmp_path / "images"
    for number in range(20):
        path = source / f"{number:02d}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jpeg(number))
    options = {"workers": 2, "seed": None, "check": "decode"}
    whole = tmp_path / "whole" / "train.rec"
    whole.parent.mkdir()
    dsprep.pack(str(source), str(whole), **options)

    (source / "zz.jpg").write_bytes(b"")
    dest = tmp_path / "train.rec"
    with pytest.raises(dsprep.DsprepError, match="zz.jpg: empty file"):
        dsprep.pack(str(source), str(dest), on_error="fail", **options)
    pieces = sorted((tmp_path / ".train.rec.dsprep" / "pieces").iterdir())
    assert len(pieces) > 3
    data = bytearray(pieces[1].read_bytes())
    data[100] ^= 1
    pieces[1].write_bytes(data)
    with pytest.raises(dsprep.DsprepError, match="give the same command again"):
        dsprep.pack(str(source), str(dest), **options)
    report = dsprep.pack(str(source), str(dest), **options)
    assert (report.samples, [reject.path for reject in report.rejects]) == (20, ["zz.jpg"])
    assert dest.read_bytes() == whole.read_bytes()


class TestDryRun:
    def test_it_shows_colliding_keys_and_says_that_they_will_not_do(
        self, run_here: RunCli, folder: Path, tmp_path: Path
    ) -> None:
        first = next(folder.rglob("*.jp*g"))
        (first.parent / (first.stem + ".png")).write_bytes(first.read_bytes())
        done = run_here("pack", folder, tmp_path / "out", "--format", "webdataset", "--dry-run")
        assert done.code == 4
        assert "planned as webdataset" in done.out
        assert first.stem in done.out
        assert "--key index" in done.err
        assert not (tmp_path / "out").exists()

    def test_it_names_what_is_listed_twice(
        self, run_here: RunCli, folder: Path, tmp_path: Path
    ) -> None:
        path = next(folder.rglob("*.jp*g")).relative_to(folder)
        listed = tmp_path / "two.lst"
        listed.write_text(f"0\t0\t{path}\n1\t0\t{path}\n")
        command = ("pack", folder, tmp_path / "x.rec", "--list", listed, "--dry-run", "--json")
        done = run_here(*command, "--duplicates", "keep")
        report = json.loads(done.out)
        assert [each["path"] for each in report["duplicates"]] == [str(path)]
        assert "two.lst:2" in report["duplicates"][0]["detail"]


class TestArguments:
    def test_a_compressed_tar(self, run_here: RunCli, folder: Path, tmp_path: Path) -> None:
        refused = run_here("pack", folder, tmp_path / "train.tar.gz")
        assert refused.code == 2
        assert "only TFRecord shards can be compressed" in refused.err

    def test_no_workers(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="--workers 0"):
            dsprep.pack(str(folder), str(tmp_path / "x.rec"), workers=0)

    def test_a_size_as_text(self, folder: Path, tmp_path: Path) -> None:
        dest = tmp_path / "out"
        report = dsprep.pack(str(folder), str(dest), format="tfrecord", target_size="20KB")
        assert max(shard.bytes for shard in report.shards) <= 20_000

    def test_a_long_name_is_said(self, run_here: RunCli, tmp_path: Path) -> None:
        path = tmp_path / "images" / "a" / ("n" * 120 + ".jpg")
        path.parent.mkdir(parents=True)
        path.write_bytes(jpeg(1))
        done = run_here("pack", tmp_path / "images", tmp_path / "out", "--format", "webdataset")
        assert done.code == 0
        assert "wids and DALI do not read" in done.out


def test_the_estimate_does_not_depend_on_the_order(tmp_path: Path) -> None:
    """Whatever the seed, the same images are tried, so all orders have as many shards."""
    for number in range(450):
        path = tmp_path / "images" / f"{number:03d}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jpeg(number, (40 + number % 50, 40)))
    planned = [
        dsprep.pack(
            str(tmp_path / "images"),
            str(tmp_path / "out"),
            format="tfrecord",
            target_size="40KB",
            transform=dsprep.Transform(resize=24, encode="jpeg"),
            seed=seed,
            dry_run=True,
        )
        for seed in (0, 1, 2)
    ]
    assert len({report.bytes for report in planned}) == 1


def test_samples_that_cannot_be_encoded_are_rejects_of_the_estimate_too(
    run_here: RunCli, folder: Path, tmp_path: Path
) -> None:
    """A label that the format cannot hold is met before anything is planned."""
    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.jp*g"))
    lines = [f"{n}\t{n}\t1\t{path}\n" for n, path in enumerate(paths)]
    lines[3] = f"3\t16777217\t1\t{paths[3]}\n"
    listed = tmp_path / "some.lst"
    listed.write_text("".join(lines))
    options = ("--list", listed, "--format", "recordio", "--resize", "16", "--target-size", "5KB")
    done = run_here("pack", folder, tmp_path / "out", *options)
    assert done.code == 3
    assert f"{paths[3]}: the label is 16777217, which 32-bit floats do not" in done.out
    assert f"samples   {len(paths) - 1}" in done.out
