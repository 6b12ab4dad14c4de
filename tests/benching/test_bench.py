"""``dsprep bench`` runs the loops, and reports what they did."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import mmap
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import ExitStack, suppress
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import dsprep
from dsprep.benching import cache
from dsprep.benching.cells import Cell, loop_of, read_data
from dsprep.benching.loops import LoopOptions, run_loop
from tests.conftest import Finished, Running
from tests.foreign.sets import DATA
from tests.missing import framework

RunCli = Callable[..., Finished]
QUICK = ("--rounds", 1, "--steps", 8, "--warmup", 1, "--every", 2, "-q")
"""More steps than an epoch of 24 images has, in batches of 4."""


def measured(run_here: RunCli, *args: object, code: int = 0) -> dict[str, Any]:
    """The report of a run."""
    done = run_here("bench", *args, *QUICK, "--json")
    assert done.code == code, done.err
    return dict(json.loads(done.out))


# Workers of most libraries are PyTorch's, which is too large for what tests install: 700 MB.
WITH_TORCH = [
    (("webdataset",), "webdataset,wids", "train", "0,2"),
    (("folder", "parquet"), "torch,datasets", "train", "0,2"),
]


@pytest.mark.parametrize(
    ("formats", "readers", "work", "workers"),
    [
        (("webdataset", "folder"), "webdataset,raw", "bytes", "0"),
        (("webdataset",), "webdataset,raw", "decode", "0"),
        (("folder", "parquet"), "raw,datasets", "train", "0"),
        *(WITH_TORCH if find_spec("torch") else ()),
    ],
)
def test_the_loops_of_the_examples_run(
    data: Path, run_here: RunCli, formats: tuple[str, ...], readers: str, work: str, workers: str
) -> None:
    places = [data / name for name in formats]
    options = ("--reader", readers, "--work", work, "-j", workers, "--shuffle", 5)
    report = measured(run_here, *places, *options)

    assert {row["reader"].split()[0] for row in report["rows"]} == {*readers.split(",")}
    for row in report["rows"]:
        assert_measured(row)
    assert report["sentence"]


def assert_measured(row: dict[str, Any]) -> None:
    """A combination has run, and has all figures."""
    assert row["error"] == ""
    figures = row["figures"]
    assert figures["images_per_second"] > 0
    assert figures["step_p50"] <= figures["step_p95"] <= figures["step_p99"]
    assert figures["memory"] > 10_000_000
    assert len(row["windows"]) == 3
    told = row["reader"].split()[0] != "mxnet"
    assert (figures["bytes_per_second"] is not None) == told


def test_what_verify_understands_is_measured(
    data: Path, tmp_path: Path, run_here: RunCli, capsys: pytest.CaptureFixture[str]
) -> None:
    """Images of any name, bare pixels, several labels, compressed records."""
    framework("tensorflow")
    framework("mxnet")
    with tarfile.open(tmp_path / "toy.tar", "w") as tar:
        for at, path in enumerate(sorted((data / "folder").rglob("*.jpg"))):
            members = {f"{at}.image": path.read_bytes(), f"{at}.label": b"%d" % (at % 2)}
            members = members if at % 8 else {f"{at}.label": b"0"}  # some have no image
            for name, content in members.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    options: dict[str, Any] = {"to": "tfrecord", "shards": 1, "workers": 1}
    small = dsprep.Transform(encode="raw", resize=64)
    dsprep.pack(data / "folder", tmp_path / "raw", transform=small, **options)
    several = DATA / "im2rec-multi"
    places = (tmp_path / "toy.tar", tmp_path / "raw", DATA / "hf-cifar100" / "data", several)
    readers = ("--reader", "webdataset,raw,tf,datasets,mxnet", "-j0", "--work", "train")
    report = measured(run_here, *places, *readers)
    assert [row["reader"].split()[0] for row in report["rows"]] == [
        *("webdataset", "raw", "tensorflow", "datasets", "mxnet")
    ]
    for row in report["rows"]:
        assert_measured(row)
    for name, image in (
        ("cifar-raw", ["image", True, 3, 32, 32]),
        ("mnist-raw", ["image_raw", False, "height", "width", "depth"]),
        ("by-hand", ["img"]),
    ):
        assert read_data(str(DATA / name)).keywords == {"image": image}
    # In this process, which has the libraries: each of them loads for seconds.
    for reader, place, images in (
        ("tf", data / "tfrecord", 4),
        ("mxnet", data / "recordio", 4),
        ("tf", DATA / "gzip", 1),
        ("tf", DATA / "zlib", 1),
    ):
        found = read_data(str(place))
        loop = runpy.run_path(str(loop_of(reader, "file")))["main"]
        loop([*found.files], "train", images, 0, steps=1, **found.keywords)
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["images"] == images


def test_a_set_without_an_image_is_refused(tmp_path: Path, run_here: RunCli) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        member = tarfile.TarInfo("0.txt")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"a"))
    done = run_here("bench", tmp_path / "x.tar", *QUICK)
    assert done.code == 4
    assert "its samples have no image to read; fields are text" in done.err


def test_workers_hand_out_the_same_bytes(data: Path) -> None:
    """One epoch has each image once: that is seen by its bytes."""
    total = sum(file.stat().st_size for file in (data / "folder").rglob("*.jpg"))
    for workers in (0, 2):
        cell = Cell(read_data(str(data / "folder")), "raw", "file", workers)
        run = run_loop(
            cell, [str(data / "folder")], LoopOptions("bytes", 5, 3, 0, 0.0), lambda _: None
        )

        assert [step.images for step in run.steps] == [5, 5, 5, 5, 4]
        assert sum(step.size or 0 for step in run.steps) == total


def test_a_step_that_computes_is_what_limits(data: Path, run_here: RunCli) -> None:
    report = measured(
        run_here, data / "webdataset", "-j0", "--compute", 100, "--cached", "--work", "bytes"
    )
    (row,) = report["rows"]

    assert row["figures"]["utilization"] > 0.9
    assert row["figures"]["step_mean"] >= 0.1
    assert row["limit"] == "compute"
    assert 0.8 < row["cached_share"] < 1.2


def test_cold_files_are_read_from_the_device(data: Path, run_here: RunCli) -> None:
    with TemporaryDirectory(dir="/var/tmp" if cache.in_memory(str(data)) else None) as directory:
        place = shutil.copytree(data / "webdataset", Path(directory, "shards"))
        _measure_cold(place, run_here)


def _measure_cold(place: Path, run_here: RunCli) -> None:
    arguments = (place, "-j0", "--work", "bytes", "--reader", "raw")
    (cold,) = measured(run_here, *arguments, "--cache", "cold")["rows"]
    (warm,) = measured(run_here, *arguments, "--cache", "warm")["rows"]
    with ExitStack() as stack:
        for file in place.glob("*.tar"):  # pages that are mapped cannot be dropped
            opened = stack.enter_context(file.open("rb"))
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            assert sum(stack.enter_context(mapped)[:]) > 0
        (held,) = measured(run_here, *arguments, "--cache", "cold")["rows"]

    assert (cold["cache"], warm["cache"], held["cache"]) == ("cold", "warm", "warm in part")
    assert cache.proof("cold", 94, 100) == "warm in part"
    assert cache.proof("cold", 95, 100) == "cold"


def test_what_is_in_memory_is_never_cold(data: Path, run_here: RunCli, tmp_path: Path) -> None:
    assert cache.in_memory("/dev/shm/x")
    assert not cache.in_memory("/proc")
    link = tmp_path / "shards"
    with TemporaryDirectory(dir="/dev/shm") as directory:
        shutil.copytree(data / "webdataset", directory, dirs_exist_ok=True)
        link.symlink_to(directory)
        for place in (directory, link):
            done = run_here("bench", place, "-j0", "--cache", "cold")
            assert done.code == 2
            assert "is in memory and has no device behind it" in done.err


def test_pipes_and_commands_feed_as_files_do(data: Path, run_here: RunCli) -> None:
    ways = ("--access", "file,fifo", "--access", "cmd:cat {url}")
    report = measured(run_here, data / "webdataset", "-j0", *ways)

    assert [row["access"] for row in report["rows"]] == ["file", "fifo", "cmd:cat {url}"]
    assert [row["error"] for row in report["rows"]] == ["", "", ""]


def test_a_combination_that_fails_is_a_row(data: Path, run_here: RunCli) -> None:
    ways = ("--access", "file", "--access", "cmd:false {url}")
    report = measured(run_here, data / "webdataset", "-j0", *ways, code=3)
    good, bad = report["rows"]

    assert good["figures"]
    assert bad["figures"] is None
    assert "exit code 1" in bad["error"]


def test_an_image_that_cannot_be_read_is_looked_for_by_inspect(
    data: Path, run_here: RunCli, tmp_path: Path
) -> None:
    place = tmp_path / "photos of birds"
    shutil.copytree(data / "folder", place)
    next(place.rglob("*.jpg")).write_bytes(b"<html>")
    done = run_here("bench", place, "--reader", "raw", "-j0", *QUICK[:-1])
    assert (done.code, f"dsprep inspect '{place}' names images" in done.out) == (3, True)
    assert f"  failed    {place} with raw by file, 0 workers: PIL" in done.out


def test_tables_are_measured(
    data: Path, tmp_path: Path, run_here: RunCli, capsys: pytest.CaptureFixture[str]
) -> None:
    """An epoch is repeated for its steps; one without rows ends, as it would never end."""
    (tmp_path / "t.csv").write_text("label,a,b\n" + "1,0.5,\n0,2.5,7\n" * 10)
    options: dict[str, Any] = {"workers": 1, "label_field": "label", "shuffle": False}
    dsprep.pack(tmp_path / "t.csv", tmp_path / "csv", to="csv", header=True, **options)
    table = (tmp_path / "t.csv").read_text().replace(",\n", ",1\n")
    (tmp_path / "t.csv").write_text(table)
    dsprep.pack(tmp_path / "t.csv", tmp_path / "pb", to="recordio-protobuf", **options)
    places = (tmp_path / "csv", tmp_path / "pb")
    report = measured(run_here, *places, "--work", "train", "-j2", "--shuffle", 5, "--batch", 4)
    assert [row["reader"] for row in report["rows"]] == ["csv", "protobuf"]
    for row in report["rows"]:
        assert_measured(row)
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    for reader, place in zip(("csv", "protobuf"), places, strict=True):
        found, loop = read_data(str(place)), runpy.run_path(str(loop_of(reader, "file")))
        loop["main"]([*found.files], "train", 8, 0, **found.keywords)  # an epoch
        steps = map(json.loads, capsys.readouterr().out.splitlines())
        assert [each["images"] for each in steps if "images" in each] == [8, 8, 4]
        with pytest.raises(SystemExit, match="no r"):
            loop["main"]([str(empty)], "train", 8, 0, steps=3, **found.keywords)
    batch, *_ = runpy.run_path(str(loop_of("csv", "file")))["to_batch"]([b"1,0.5,\n"], "train")
    assert (batch[0].tolist(), str(batch[1].tolist())) == ([1.0], "[[0.5, nan]]")
    records = runpy.run_path(str(loop_of("protobuf", "file")))
    (path,) = (tmp_path / "pb").glob("*.pb")
    dsprep.pack(data / "folder", tmp_path / "images", to="recordio-protobuf", workers=1)
    done = run_here("bench", tmp_path / "images", *QUICK)
    assert (done.code, "its records hold images" in done.err) == (4, True)
    (labels, values, keys, counts), rows, _ = records["to_batch"](
        list(records["read_records"]([path])), "train"
    )
    assert (rows, counts, keys) == (20, [2] * 20, [])
    assert (values[:4].tolist(), labels[:2].tolist()) == ([0.5, 1.0, 2.5, 7.0], [[1.0], [0.0]])


def test_the_table_is_csv_or_text(data: Path, run_here: RunCli) -> None:
    place = data / "webdataset"
    label = ("--label", "FSx", "--work", "bytes", "-j0")
    done = run_here("bench", place, *label, *QUICK, "--csv")
    (row,) = csv.DictReader(io.StringIO(done.out))

    assert (row["data"], row["by"], row["workers"]) == (str(place), "FSx", "0")
    assert float(row["images/s"]) > 0
    done = run_here("bench", place, *label, *QUICK[:-1])
    assert "images/s, the most" in done.out
    assert "smaller than 5 times the memory" in done.out


def test_nothing_runs_when_only_the_plan_is_asked_for(data: Path, run_here: RunCli) -> None:
    places = [data / "webdataset", data / "tfrecord"]
    done = run_here("bench", *places, "-j0,2", "--reader", "webdataset,tf", "--dry-run")

    assert f"{data}/tfrecord with tf by file, 2 workers" in done.out
    assert "3 shards for 2 readers: 1 reads a shard more" in done.out
    assert "nothing was written" in done.out


def test_show_code_prints_a_loop_that_runs(data: Path, run_here: RunCli, tmp_path: Path) -> None:
    done = run_here("bench", data / "tfrecord", "--show-code")
    named = run_here("bench", data / "tfrecord", "--show-code", "--reader", "tf")
    assert done.out == named.out
    assert "tf.data.TFRecordDataset" in done.out

    done = run_here("bench", data / "webdataset", "--show-code")
    (tmp_path / "loop.py").write_text(done.out)
    shards = sorted((data / "webdataset").glob("*.tar"))
    env = {**os.environ, "LOOP_OPTIONS": json.dumps({"batch": 5, "workers": 0})}
    ran = subprocess.run(
        [sys.executable, "loop.py", *shards], cwd=tmp_path, env=env, capture_output=True, check=True
    )
    reader, *steps = map(json.loads, ran.stdout.splitlines())
    assert reader["reader"].startswith("webdataset")
    assert [step["images"] for step in steps] == [5, 5, 5, 5, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--reader", "tf"), "tf does not read folder"),
        (("--json", "--csv"), "both are forms of one report"),
        (("--workers", ","), "give numbers from 0 on"),
        (("--compute", "-1"), "give numbers from 0 on"),
        (("--steps", "11"), "the first step and --warmup 10 do not count; give at least 12"),
        (("--workers", "0,x"), "'x' is not a whole number"),
        (("-o", "s3://bucket/page"), "cannot be written to S3"),
        (("--show-code", "--reader", "keras"), "choose of webdataset"),
    ],
)
def test_refusals(data: Path, run_here: RunCli, options: tuple[str, ...], message: str) -> None:
    done = run_here("bench", data / "folder", *options)

    assert done.code == 2
    assert message in done.err


def test_numbers_of_callers_are_checked(data: Path) -> None:
    with pytest.raises(dsprep.OptionError, match="--every 0: give 1 or more"):
        dsprep.bench(data / "folder", every=0)


def test_ctrl_c_gives_what_has_been_measured(data: Path, start_cli: Callable[..., Running]) -> None:
    place = data / "webdataset"
    running = start_cli(
        *("bench", place, "--json", "-j0", "--steps", 20, "--warmup", 0, "--rounds", 500),
        *("--work", "bytes"),
    )
    seen = set[int]()
    while len(seen) < 2:  # the first loop is over when there is another
        seen |= loops_of(running)
        time.sleep(0.02)
    running.process.send_signal(signal.SIGINT)
    done = running.end()

    assert done.code == 130
    report = json.loads(done.out)
    assert report["state"] == "interrupted"
    assert report["rows"][0]["rounds"] >= 1
    assert running.family() == []


def loops_of(running: Running) -> set[int]:
    """The processes of loops, without those that they start."""
    found = set()
    for pid in running.family():
        with suppress(OSError):
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            named = "webdataset_loop.py" in Path(f"/proc/{pid}/cmdline").read_text()
            if named and int(parent) == running.process.pid:
                found.add(pid)
    return found


class Elements(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_loads_nothing_and_escapes_names(
    data: Path, tmp_path: Path, run_here: RunCli
) -> None:
    place = tmp_path / "<img src=x onerror=alert(1)>"
    place.symlink_to(data / "webdataset")
    measured(run_here, place, "-j0", "--work", "bytes", "-o", tmp_path / "page")

    text = (tmp_path / "page/index.html").read_text("utf-8")
    page = Elements()
    page.feed(text)
    tags = {tag for tag, _ in page.elements}
    assert {"svg", "table", "polyline", "rect"} <= tags
    assert not tags & {"script", "img", "link", "iframe", "object", "image", "use"}
    addresses = [
        value
        for tag, attributes in page.elements
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href", "style") or name.startswith("on")
    ]
    assert addresses == []
    assert "<img src=x onerror=alert(1)>" in page.text
    assert "url(" not in text
    policy = next(
        attributes["content"] or ""
        for tag, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert style is not None
    digest = b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in policy
    assert "prefers-color-scheme:dark" in style[1]
    classes = {
        name for _, attributes in page.elements for name in (attributes.get("class") or "").split()
    }
    assert all(f".{name}" in style[1] for name in classes), "a class without a style"
