"""Labels of tables and lists, as a user meets them: tags, repeated rows, images without objects."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dsprep.cli.streams import shortened
from tests.conftest import Finished
from tests.images import jpeg

RunHere = Callable[..., Finished]

TAGS = ("haze primary", "clear", "clear primary water", "primary")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four images in one directory, 0.jpg to 3.jpg."""
    root = tmp_path_factory.mktemp("labels") / "images"
    root.mkdir()
    for number in range(4):
        (root / f"{number}.jpg").write_bytes(jpeg(number))
    return root


def table(directory: Path, *labels: object) -> Path:
    """A table of as many images, in their order and then again from the first."""
    path = directory / "labels.csv"
    rows = (f"{number % 4}.jpg,{label}\n" for number, label in enumerate(labels))
    path.write_text("path,label\n" + "".join(rows))
    return path


@pytest.mark.parametrize("format", ["webdataset", "tfrecord", "recordio"])
def test_tags_are_packed_and_verified(
    run_here: RunHere, images: Path, tmp_path: Path, format: str
) -> None:
    told = ("--labels", table(tmp_path, *TAGS), "--label-separator", " ")
    done = run_here("pack", images, tmp_path / "out", "--format", format, *told, "-j1")
    assert done.code == 0, done.err
    assert "classes   4" in done.out
    assert (tmp_path / "out/classes.txt").read_text() == "clear\nhaze\nprimary\nwater\n"
    verify = ("verify", tmp_path / "out", "--against", images, "-j1")
    assert run_here(*verify, *told).code == 0
    table(tmp_path, *reversed(TAGS))
    assert run_here(*verify, *told).code == 3


def test_tags_are_listed_and_split(run_here: RunHere, images: Path, tmp_path: Path) -> None:
    told = ("--labels", table(tmp_path, *TAGS), "--label-separator", " ")
    done = run_here("lst", "create", images, "-o", tmp_path / "a.lst", "--no-shuffle", *told)
    assert done.code == 0, done.err
    assert (tmp_path / "a.lst").read_text().splitlines()[::2] == [
        "0\t0\t1\t1\t0\t0.jpg",
        "2\t1\t0\t1\t1\t2.jpg",
    ]
    done = run_here("split", images, "-o", tmp_path / "s", "--ratio", "a=0.5,b=0.5", *told)
    assert done.code == 0, done.err
    lists = [(tmp_path / f"s/{name}.lst").read_text() for name in "ab"]
    both = "".join(lists).splitlines()
    assert sorted(both) == (tmp_path / "a.lst").read_text().splitlines()


COMMANDS = {
    "pack": ("pack", "IMAGES", "OUT", "--format", "tfrecord", "-j1"),
    "convert": ("convert", "IMAGES", "OUT", "--to", "recordio", "-j1"),
    "lst create": ("lst", "create", "IMAGES", "-o", "OUT.lst"),
    "split": ("split", "IMAGES", "-o", "OUT", "--ratio", "train=0.5,val=0.5"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--labels", "--list"])
def test_rows_that_repeat_an_image_are_a_question(
    run_here: RunHere, images: Path, tmp_path: Path, command: str, option: str
) -> None:
    file = table(tmp_path, 0, 1, 0, 1, 0, 0)
    if option == "--list":
        file = tmp_path / "labels.lst"
        rows = ((number, number % 4) for number in range(6))
        file.write_text("".join(f"{id}\t0\t{image}.jpg\n" for id, image in rows))
    names = {"IMAGES": images, "OUT": tmp_path / "out", "OUT.lst": tmp_path / "out.lst"}
    words = [names.get(word, word) for word in COMMANDS[command]]
    refused = run_here(*words, option, file)
    assert refused.code == 4
    assert "stands in line" in refused.err
    assert "(2 rows like this, the next in line " in refused.err
    first = run_here(*words, option, file, "--duplicates", "first")
    assert first.code == 0, first.err
    assert "2 listed again: 2 .jpg (0.jpg, 1.jpg)" in first.out
    kept = run_here(*words, option, file, "--duplicates", "keep", "--overwrite")
    assert kept.code == 0, kept.err
    assert "more than once" in kept.out


def test_a_key_that_repeats_is_not_to_be_renamed(
    run_here: RunHere, images: Path, tmp_path: Path
) -> None:
    told = ("--labels", table(tmp_path, 0, 1, 0, 1, 0), "--duplicates", "keep")
    refused = run_here("pack", images, tmp_path / "out", "--format", "webdataset", *told, "-j1")
    assert refused.code == 4
    assert "rename" not in refused.err
    assert (
        "give --duplicates first to use the first of them only, or give --key index" in refused.err
    )


@pytest.mark.parametrize("command", ["pack", "lst create"])
def test_a_stray_word_renumbers_nothing(
    run_here: RunHere, images: Path, tmp_path: Path, command: str
) -> None:
    names = {"IMAGES": images, "OUT": tmp_path / "out", "OUT.lst": tmp_path / "out.lst"}
    words = [names.get(word, word) for word in COMMANDS[command]]
    refused = run_here(*words, "--labels", table(tmp_path, 0, 11, 2, "unknown"))
    assert refused.code == 4
    assert "labels.csv:5: 'unknown' in the column 'label' is not a number" in refused.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.csv"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--label-separator", " "), "give --labels FILE"),
        (("--label-type", "class"), "the samples of SOURCE have no labels"),
        (("--duplicates", "keep"), "give --list or --labels"),
        (("--labels", "x.csv", "--label-separator", ""), "--label-separator '': give the text"),
        (
            ("--labels", "x.csv", "--label-separator", ",", "--label-type", "class"),
            "--label-type class: an image has one class",
        ),
        (
            ("--labels", "x.csv", "--label-separator", ",", "--label-column", "a,b"),
            "--label-separator goes with one --label-column",
        ),
        (
            ("--labels", "x.csv", "--classes", "y", "--label-type", "float"),
            "--label-type float: numbers have no classes",
        ),
    ],
)
def test_options_of_labels_that_make_no_sense(
    run_here: RunHere, images: Path, tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    refused = run_here("pack", images, tmp_path / "x.rec", *options)
    assert refused.code == 2
    assert problem in refused.err


def test_no_message_fills_the_terminal(run_here: RunHere, images: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.lst"
    wrong.write_text("".join(f"{number}\t0\t{'x' * 100_000}.jpg\n" for number in range(3)))
    refused = run_here("pack", images, tmp_path / "x.rec", "--list", wrong)
    assert refused.code == 4
    assert refused.err.endswith("give the directory that its paths start from\n")
    assert "more characters) …" in refused.err
    assert len(refused.err) < 2000
    refused = run_here("pack", images, "y" * 100_000, "--format", "z" * 100_000)
    assert refused.code == 2
    assert len(refused.err) < 2000
    lines = shortened("\n".join(map(str, range(500)))).split("\n")
    assert (len(lines), lines[0], lines[-2:]) == (20, "0", ["… (481 more lines)", "499"])


def objects(directory: Path) -> Path:
    """A list for detection whose images have 0 to 3 objects."""
    path = directory / "objects.lst"
    box = "\t1\t0.1\t0.2\t0.5\t0.75"
    rows = (f"{number}\t4\t5\t32\t32{box * number}\t{number}.jpg\n" for number in range(4))
    path.write_text("".join(rows))
    return path


def test_images_without_objects_are_packed(run_here: RunHere, images: Path, tmp_path: Path) -> None:
    told = ("--list", objects(tmp_path))
    refused = run_here("pack", images, tmp_path / "a.rec", *told, "-j1")
    assert refused.code == 4
    assert "1 image of 4 without objects, at which MXNet's ImageDetIter and Image" in refused.err
    done = run_here("pack", images, tmp_path / "a.rec", *told, "--empty", "mark", "-j1")
    assert done.code == 0, done.err
    assert run_here("verify", tmp_path / "a.rec", "--against", images, *told, "-j1").code == 0
    for format in ("tfrecord", "webdataset", "parquet", "recordio"):
        done = run_here("convert", tmp_path / "a.rec", tmp_path / format, "--to", format, "-j1")
        assert done.code == 0, done.err
    assert (tmp_path / "recordio/a.rec").read_bytes() == (tmp_path / "a.rec").read_bytes()


def test_images_without_objects_are_checked_and_counted(
    run_here: RunHere, images: Path, tmp_path: Path
) -> None:
    path = objects(tmp_path)
    assert run_here("lst", "check", path, "--root", images).code == 0
    checked = run_here("lst", "check", path, "--for", "mxnet")
    assert checked.code == 3
    assert "objects.lst:1: detection: no object: MXNet's ImageDetIter" in checked.out
    counted = json.loads(run_here("lst", "stats", path, "--json").out)
    assert (counted["kind"], counted["objects"]) == ("detection", 6)
    assert counted["objects_per_row"] == {"least": 0, "mean": 1.5, "most": 3}
    (tmp_path / "map.tsv").write_text("1\t7\n")
    done = run_here("lst", "relabel", path, "--map", tmp_path / "map.tsv")
    assert done.code == 0, done.err
    assert path.read_text().splitlines()[:2] == [
        "0\t4\t5\t32\t32\t0.jpg",
        "1\t4\t5\t32\t32\t7\t0.1\t0.2\t0.5\t0.75\t1.jpg",
    ]
    done = run_here("split", path, "-o", tmp_path / "s", "--ratio", "a=0.5,b=0.5")
    assert done.code == 0, done.err


@pytest.mark.parametrize("same", [True, False])
def test_a_table_of_labels_and_sides(
    run_here: RunHere, images: Path, tmp_path: Path, same: bool
) -> None:
    rows = [
        f"{number}.jpg,{'ab'[number % 2]},{('train', 'test')[number // 2]}" for number in range(4)
    ]
    labels, sides = tmp_path / "labels.csv", tmp_path / "sides.csv"
    labels.write_text("\n".join(["filepaths,labels,data set", *rows]))
    sides.write_text("\n".join(["image,labels,data set", *rows]))
    options = ("--path-column", "filepaths", "--label-column", "labels")
    assign = ("--assign", labels if same else sides, "--assign-column", "data set")
    done = run_here("split", images, "--labels", labels, *options, *assign, "-o", tmp_path / "s")
    assert done.code == 0, done.err
    assert (tmp_path / "s/train.lst").read_text() == "0\t0\t0.jpg\n1\t1\t1.jpg\n"


@pytest.mark.parametrize(("true", "false"), [("True", "False"), ("true", "FALSE"), ("1", "0")])
def test_a_filter_by_booleans(
    run_here: RunHere, images: Path, tmp_path: Path, true: str, false: str
) -> None:
    issues = tmp_path / "issues.csv"
    issues.write_text(f"path,is_issue\n0.jpg,{true}\n1.jpg,{false}\n2.jpg,{false}\n3.jpg,\n")
    table_of = ("--filter-table", issues)
    shards = tmp_path / "shards"
    assert run_here("pack", images, shards, "--format", "webdataset", "-qj1").code == 0
    for expression, count in (("NOT is_issue", 2), ("is_issue = TRUE", 1), ("is_issue IS NULL", 1)):
        options = ("--filter", expression, *table_of, "--dry-run", "-j1")
        done = run_here("shard", shards, tmp_path / "x", *options)
        assert done.code == 0, done.err
        assert f"samples   {count}\n" in done.out
    if true != "1":
        refused = run_here(
            "shard", shards, tmp_path / "x", "--filter", "is_issue <> 'True'", *table_of
        )
        assert refused.code == 2
        assert "'is_issue' holds true and false, not text: write is_issue, NOT" in refused.err


# The order of classes, and verify --against


def test_verify_takes_the_order_of_classes_that_is_stated(
    run_here: RunHere, images: Path, tmp_path: Path
) -> None:
    labels = ("--labels", table(tmp_path, "c2", "c10", "c1", "c10"))
    (tmp_path / "natural.txt").write_text("c1\nc2\nc10\n")
    natural = ("--class-order", "natural")
    for name, options in (("plain", ()), ("natural", natural)):
        pack = ("pack", images, tmp_path / name, "--format", "webdataset", *labels, "-j1")
        assert run_here(*pack, *options).code == 0
    given = ("--against", images, *labels, "-j1")
    for stated in ((), natural, ("--classes", tmp_path / "natural.txt")):
        assert run_here("verify", tmp_path / "natural", *given, *stated).code == 0
        done = run_here("verify", tmp_path / "plain", *given, *stated)
        assert done.code == (3 if stated else 0)
        assert ("its label is not that of" in done.out) == bool(stated)


@pytest.mark.parametrize("options", [("--class-order", "natural"), ("--classes", "order.txt")])
def test_verify_brings_tags_into_the_order_of_the_manifest(
    run_here: RunHere, images: Path, tmp_path: Path, options: tuple[str, str]
) -> None:
    tags = ("--labels", table(tmp_path, "c2", "c10 c2", "c1", "c1 c10"), "--label-separator", " ")
    (tmp_path / "order.txt").write_text("c2\nc1\nc0\nc10\n")
    options = (options[0], options[1].replace("order.txt", str(tmp_path / "order.txt")))
    out = tmp_path / "out"
    assert run_here("pack", images, out, "--format", "recordio", *tags, *options, "-j1").code == 0
    verify = ("verify", out, "--against", images, *tags, "-j1")
    assert run_here(*verify).code == 0
    assert run_here(*verify, *options).code == 0
    assert run_here(*verify, "--class-order", "name").code == 3


@pytest.mark.parametrize("source", ["a.tar", "a.tfrecord", "a.parquet"])
def test_recordio_refuses_labels_of_varying_length(
    run_here: RunHere, tmp_path: Path, source: str
) -> None:
    """MXNet's label_width is one number; only labels for detection tell their own length."""
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number, label in enumerate(([1, 2], [3, 4], [5, 6, 7], [8, 9])):
            add(tar, f"{number}.jpg", jpeg(number))
            add(tar, f"{number}.label.json", json.dumps(label).encode())
    if source != "a.tar":
        done = run_here("convert", tmp_path / "a.tar", tmp_path / source, "-j1")
        assert done.code == 0, done.err
    done = run_here("convert", tmp_path / source, tmp_path / "a.rec", "-j1")
    assert done.code == 3, done.out
    assert "its label has 3 numbers, and that of the first sample has 2" in done.out


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))
