"""Annotations from a stranger: paths that lead out, numbers that are none, and far too much."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.attack.trees import contents, rejects
from tests.conftest import Finished
from tests.images import jpeg

RunCli = Callable[..., Finished]

SIZE = 200, 100
LONG = "x" * 300_000
NUMBERS = [math.nan, math.inf, -math.inf, 1e308, 10**400, "x", None, True, [1]]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two images, and one beside their directory that no annotation may reach."""
    root = tmp_path_factory.mktemp("images") / "images"
    (root / "deep").mkdir(parents=True)
    (root / "a.jpg").write_bytes(jpeg(1, SIZE))
    (root / "deep" / "b.jpg").write_bytes(jpeg(2, SIZE))
    (root.parent / "secret.jpg").write_bytes(jpeg(3, SIZE))
    return root


def label_studio(image: Any, *sides: Any) -> str:
    value = dict(zip(("x", "y", "width", "height"), sides or (10, 20, 30, 40), strict=True))
    result = {
        "original_width": SIZE[0],
        "original_height": SIZE[1],
        "type": "rectanglelabels",
        "value": value | {"rectanglelabels": ["cat"]},
    }
    return json.dumps({"annotations": [{"result": [result]}], "data": {"image": image}})


def ground_truth(image: Any, *sides: Any) -> str:
    names = ("left", "top", "width", "height")
    box = dict(zip(names, sides or (10, 20, 30, 40), strict=True)) | {"class_id": 0}
    size = {"width": SIZE[0], "height": SIZE[1], "depth": 3}
    line = {
        "source-ref": image,
        "job": {"image_size": [size], "annotations": [box]},
        "job-metadata": {"class-map": {"0": "cat"}, "type": "groundtruth/object-detection"},
    }
    return json.dumps(line)


def table(image: Any, *sides: Any) -> str:
    cells = (image, "cat", *(sides or (10, 20, 60, 60)))
    return ",".join('"{}"'.format(str(cell).replace('"', '""')) for cell in cells)


def lst(image: Any, *sides: Any) -> str:
    cells = map(str, (0, 2, 5, 0, *(sides or (0.1, 0.2, 0.6, 0.6)), image))
    return "\t".join(cells)


Line = Callable[..., str]
HEADER = "image,class,xmin,ymin,xmax,ymax"
FILES: dict[str, tuple[Line, str, Callable[[list[str]], str]]] = {
    "label-studio": (label_studio, "tasks.json", lambda lines: f"[{','.join(lines)}]"),
    "manifest": (ground_truth, "output.manifest", lambda lines: "".join(f"{x}\n" for x in lines)),
    "csv": (table, "boxes.csv", lambda lines: "".join(f"{x}\n" for x in [HEADER, *lines])),
    "lst": (lst, "boxes.lst", lambda lines: "".join(f"{x}\n" for x in lines)),
}
KINDS = sorted(FILES)


def pack(run: RunCli, images: Path, out: Path, kind: str, *lines: str, text: str = "") -> Finished:
    _, name, joined = FILES[kind]
    path = out.parent / name
    path.write_text(text or joined(list(lines)))
    done = run("pack", images, out, "--to", "webdataset", "--annotations", path)
    assert "Traceback" not in done.err
    assert len(done.err) < 5000
    secret = (images.parent / "secret.jpg").read_bytes()
    assert not any(secret in data for data in contents(out).values())
    return done


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        "../secret.jpg",
        "deep/../../secret.jpg",
        "/etc/passwd",
        "file:///etc/passwd",
        "s3://bucket/../../secret.jpg",
        "/data/local-files/?d=%2e%2e%2fsecret.jpg",
        "..\\secret.jpg",
        "..",
        "a.jpg\0",
        LONG,
        "a/" * 50_000 + "none.jpg",
    ],
    ids=lambda name: ascii(name)[1:30],
)
def test_a_path_that_leads_out_finds_nothing(
    run_here: RunCli, images: Path, tmp_path: Path, kind: str, name: str
) -> None:
    """It is missing, or the file is refused; the image that is named well is there or not."""
    line = FILES[kind][0]
    if kind == "lst":
        good = "\t".join(["1", *line("deep/b.jpg").split("\t")[1:]])
    else:
        good = line("deep/b.jpg")
    done = pack(run_here, images, tmp_path / "out", kind, line(name), good)
    assert done.code in (3, 4), done.out
    if done.code == 3:
        assert len(rejects(tmp_path / "out")) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("at", "number"),
    list(zip(cycle((0, 2)), NUMBERS, strict=False)),
    ids=lambda each: str(each)[:9],
)
def test_a_side_that_is_no_number_is_told(
    run_here: RunCli, images: Path, tmp_path: Path, kind: str, number: Any, at: int
) -> None:
    line = FILES[kind][0]
    sides = [0.1, 0.2, 0.6, 0.6] if kind == "lst" else [10, 20, 60, 60]
    sides[at] = number
    done = pack(run_here, images, tmp_path / "out", kind, line("a.jpg", *sides))
    assert done.code in (3, 4), done.out
    if done.code == 3:
        assert list(rejects(tmp_path / "out")) == ["a.jpg"]


@pytest.mark.parametrize("value", [None, 5, {}, {"rectanglelabels": ["cat"]}], ids=str)
@pytest.mark.parametrize("type", ["rectanglelabels", "polygonlabels"])
def test_a_region_of_label_studio_without_sides(
    run_here: RunCli, images: Path, tmp_path: Path, type: str, value: Any
) -> None:
    result = {"type": type, "value": value}
    task = {"annotations": [{"result": [result]}], "data": {"image": "a.jpg"}}
    done = pack(run_here, images, tmp_path / "out", "label-studio", json.dumps(task))
    assert done.code == 4
    assert f"task 1: a region of the type '{type}' has no sides and no points" in done.err


def test_the_middle_of_a_name_is_not_what_label_studio_put_before_it(
    run_here: RunCli, images: Path, tmp_path: Path
) -> None:
    lines = (label_studio("deep/b.jpg"), label_studio("a0123abcd-.jpg"))
    done = pack(run_here, images, tmp_path / "out", "label-studio", *lines)
    assert done.code == 3
    assert list(rejects(tmp_path / "out")) == ["a0123abcd-.jpg"]


@pytest.mark.parametrize("reference", [5, ["m.png"], {"a": 1}, True], ids=str)
def test_a_reference_to_a_mask_that_is_no_path(
    run_here: RunCli, images: Path, tmp_path: Path, reference: Any
) -> None:
    colors = {"0": {"class-name": "road", "hex-color": "#ffffff"}}
    metadata = {"internal-color-map": colors, "type": "groundtruth/semantic-segmentation"}
    line = {"source-ref": "a.jpg", "job-ref": reference, "job-ref-metadata": metadata}
    done = pack(run_here, images, tmp_path / "out", "manifest", json.dumps(line))
    assert done.code == 4
    assert "output.manifest:1: 'job-ref' is " in done.err


def test_many_attributes_are_told_in_few_words(
    run_here: RunCli, images: Path, tmp_path: Path
) -> None:
    line = json.dumps({"source-ref": "a.jpg"} | {f"c{at}": at for at in range(100_000)})
    done = pack(run_here, images, tmp_path / "out", "manifest", line)
    assert done.code == 4
    assert "several attributes may be the label: 'c0', 'c1', " in done.err
    assert "and 99,980 more" in done.err


@pytest.mark.parametrize("kind", ["label-studio", "manifest"])
@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '[{"data":' * 100_000,
        '[{"source-ref": "a.jpg", "annotations": ' + "[" * 100_000 + "]" * 100_000 + "}]",
        '[{"id":' + "9" * 10_000 + "}]",
        '["\\ud800"]',
    ],
    ids=lambda text: text[:12],
)
def test_json_that_is_too_deep_or_none(
    run_here: RunCli, images: Path, tmp_path: Path, kind: str, text: str
) -> None:
    assert pack(run_here, images, tmp_path / "out", kind, text=text).code == 4


@pytest.mark.parametrize("option", ["--list", "--annotations"])
@pytest.mark.parametrize(
    "line",
    [
        "0\t0\t../secret.jpg",
        "0\t0\t/etc/passwd",
        "0\t0\tdeep/../a.jpg",
        "0\t0\ta.jpg\0",
        "nan\t0\ta.jpg",
        "-1\t0\ta.jpg",
        f"{10**30}\t0\ta.jpg",
        "0\tnan\ta.jpg",
        "0\tinf\ta.jpg",
        "0\t1e999\ta.jpg",
        "0\t0x1\ta.jpg",
        "0\t1_0\ta.jpg",
        f"0\t{'9' * 100_000}\ta.jpg",
        f"0\t0\t{LONG}",
        "0\t" + "\t" * 200_000 + "a.jpg",
    ],
    ids=lambda line: ascii(line)[1:20],
)
def test_lines_of_a_list(
    run_here: RunCli, images: Path, tmp_path: Path, option: str, line: str
) -> None:
    listed = tmp_path / "train.lst"
    listed.write_text(f"{line}\n")
    done = run_here("pack", images, tmp_path / "out", "--to", "webdataset", option, listed)
    assert done.code == 4
    assert f"{listed}:1: " in done.err or f"{listed}: " in done.err
    assert len(done.err) < 2000
    assert not (tmp_path / "out").exists()


def wide(columns: int, rows: int) -> str:
    """A table of images, classes and boxes with further columns, and rows that end before these."""
    head = "path,class,xmin,ymin,xmax,ymax" + "".join(f",c{at}" for at in range(columns))
    return f"{head}\n" + "a.jpg,cat,1,1,20,20\n" * rows


def sparse(columns: int, rows: int) -> str:
    """Rows of JSON that share no columns but two."""
    row = {"path": "a.jpg", "class": "cat"}
    each = columns // rows
    of_rows = [range(at * each, at * each + each) for at in range(rows)]
    return "".join(json.dumps(row | {f"c{at}": at for at in own}) + "\n" for own in of_rows)


@pytest.mark.parametrize("option", ["--labels", "--annotations"])
@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("t.csv", wide(100_000, 0), "has 100,006 columns, and dsprep reads up to 100,000"),
        ("t.csv", wide(5_000, 5_000), "5,001 rows and 5,006 columns, and most of these 25,035,006"),
        ("t.jsonl", sparse(100_000, 1), "has 100,002 columns, and dsprep reads"),
        ("t.jsonl", sparse(5_000, 5_000), "5,000 rows and 5,002 columns, and most of"),
    ],
    ids=["wide", "short", "wide lines", "sparse lines"],
)
def test_a_table_of_more_cells_than_its_file_holds(
    run_here: RunCli, images: Path, tmp_path: Path, option: str, name: str, text: str, why: str
) -> None:
    """It would take gigabytes, though the file has some kilobytes."""
    given = tmp_path / name
    given.write_text(text)
    format = ("--annotation-format", "csv") if option == "--annotations" else ()
    done = run_here("pack", images, tmp_path / "out", "--to", "webdataset", option, given, *format)
    assert (done.code, why in done.err) == (4, True), done.err
    assert len(done.err) < 2000


def test_a_table_of_cells_that_are_repeated(run_here: RunCli, images: Path, tmp_path: Path) -> None:
    """Parquet writes a column of one value in some bytes."""
    given = tmp_path / "t.parquet"
    same = pl.select(pl.repeat("a.jpg", 6_000_000)).to_series()
    pl.DataFrame({"path": same, "label": same}).write_parquet(given, compression="zstd")
    done = run_here("pack", images, tmp_path / "out", "--to", "webdataset", "--labels", given)
    assert done.code == 4
    assert "6,000,000 rows and 2 columns, and most of these 12,000,000 cells" in done.err


def test_many_lines_in_quotes_are_no_rows(run_here: RunCli, images: Path, tmp_path: Path) -> None:
    given = tmp_path / "t.csv"
    names = ",".join(f"c{at}" for at in range(500))
    text = "\n" * 30_000
    rows = "".join(f'{each},cat,"{text}"\n' for each in ("a.jpg", "deep/b.jpg"))
    given.write_text(f"path,label,{names}\n{rows}")
    done = run_here("pack", images, tmp_path / "out", "--to", "webdataset", "--labels", given)
    assert done.code == 0, done.err
