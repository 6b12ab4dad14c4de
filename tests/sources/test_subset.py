"""``--keep-classes``: some of the classes of every kind of source, and the files that name them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from dsprep.errors import OptionError, SourceError
from dsprep.findings import notes_of
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.conftest import Finished
from tests.images import image_folder
from tests.parquet_files import images, write_table

RunHere = Callable[..., Finished]
SYNSETS = ("n01440764", "n01443537", "n02012849", "n02018207")
KEPT = ("n01443537", "n02018207")
FORMATS = ("webdataset", "tfrecord", "recordio", "parquet")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the folder ``images`` of four synsets, and ``two.txt``, which names two."""
    root = tmp_path_factory.mktemp("subset")
    image_folder(root / "images", SYNSETS, 3)
    (root / "two.txt").write_text("n02018207\nn01443537\n")  # not in their order
    return root


def kept(root: Path, text: str, **options: object) -> tuple[list[str], str]:
    """The classes that a file keeps of the folder, and the note on what is left out."""
    (root / "own.txt").write_text(text)
    options = {"keep_classes": str(root / "own.txt"), **options}
    catalog, findings = read_source(make_source(str(root / "images"), **options))  # type: ignore[arg-type]
    assert catalog.classes is not None
    numbers = catalog.table["cls"].unique().sort()
    return [catalog.classes[at] for at in numbers], " ".join(notes_of(findings))


def labels_in(root: Path, run_here: RunHere, source: Path, *options: object) -> dict[str, int]:
    """The label of each sample of a data set, by the name of its class."""
    shutil.rmtree(root, ignore_errors=True)
    done = run_here("lst", "create", source, "-o", root / "all.lst", *options, "--no-shuffle")
    assert done.code == 0, done.err
    rows = pl.read_csv(
        root / "all.lst", separator="\t", has_header=False, schema_overrides=[pl.String] * 3
    )
    return {Path(path).parent.name: int(float(label)) for _, label, path in rows.iter_rows()}


def test_names_of_classes_may_have_other_accents_than_directories(tmp_path: Path) -> None:
    """A zip of macOS has `e` and an accent (NFD), a list `é` (NFC); a table, either."""
    stored, written = "cafe\u0301", "caf\xe9"
    image_folder(tmp_path / "images", (stored, "bar"), 1)
    names = tmp_path / "names.txt"
    names.write_text(f"{written}\nbar\n", encoding="utf-8")
    table = tmp_path / "table.csv"
    rows = [
        f"{path.relative_to(tmp_path / 'images')},{path.parent.name}\n"
        for path in sorted((tmp_path / "images").rglob("*.jpg"))
    ]
    table.write_text("path,label\n" + "".join(rows), encoding="utf-8")
    for options in ({}, {"labels": str(table)}):
        own = {"classes": str(names), **options}
        found, _ = read_source(make_source(str(tmp_path / "images"), **own))  # type: ignore[arg-type]
        assert found.classes == (written, "bar")
        assert sorted(found.table["cls"]) == [0, 1]
    (tmp_path / "own.txt").write_text(f"{written}\n", encoding="utf-8")
    found, _ = read_source(
        make_source(str(tmp_path / "images"), keep_classes=str(tmp_path / "own.txt"))
    )
    assert found.classes == (stored,)


@pytest.mark.parametrize("format", FORMATS)
def test_a_subset_is_the_data_set_of_these_classes_alone(
    run_here: RunHere, root: Path, tmp_path: Path, format: str
) -> None:
    for name in KEPT:
        shutil.copytree(root / "images" / name, tmp_path / "alone" / name)
    told = ("--keep-classes", root / "two.txt")
    pack = ("--to", format, "--no-shuffle", "-j1", "-q")
    assert run_here("pack", root / "images", tmp_path / "all", *pack).code == 0
    assert run_here("pack", tmp_path / "alone", tmp_path / "expected", *pack).code == 0
    done = run_here("pack", root / "images", tmp_path / "packed", *pack[:-1], *told)
    assert done.code == 0, done.err
    assert "keeps 2 of 4 classes; 6 samples of others are left out" in done.out
    verbs = {"packed": (), "converted": ("convert",), "sharded": ("shard",)}
    for made, verb in verbs.items():
        if verb:
            arguments = (tmp_path / "all", tmp_path / made, "--to", format, "-j1", "-q", *told)
            assert run_here(*verb, *arguments).code == 0
        manifest = json.loads((tmp_path / made / "manifest.json").read_text())
        assert (manifest["classes"], manifest["samples"]) == ([*KEPT], 6)
        assert (tmp_path / made / "classes.txt").read_text() == "".join(f"{x}\n" for x in KEPT)
        against = ("verify", tmp_path / made, "-j1", "--against")
        if format != "recordio":  # ids, which name its records, are those of the whole source
            done = run_here(*against, tmp_path / "alone")
            assert done.code == 0, done.out
        assert run_here(*against, root / "images", *told).code == 0
        assert run_here(*against, root / "images").code == 3
    if format != "recordio":
        suffix = {"webdataset": "*.tar", "tfrecord": "*.tfrecord", "parquet": "*.parquet"}[format]
        (expected,) = (tmp_path / "expected").glob(suffix)
        (found,) = (tmp_path / "packed").glob(suffix)
        assert found.read_bytes() == expected.read_bytes()


@pytest.mark.parametrize("format", FORMATS)
def test_classes_may_keep_their_numbers(
    run_here: RunHere, root: Path, tmp_path: Path, format: str
) -> None:
    told = ("--keep-classes", root / "two.txt", "--keep-numbers")
    to = ("--to", format, "-q", "-j1")
    assert run_here("pack", root / "images", tmp_path / "all", *to).code == 0
    done = run_here("shard", tmp_path / "all", tmp_path / "some", *to, *told)
    assert done.code == 0, done.err
    assert (tmp_path / "some/classes.txt").read_text().split() == [*SYNSETS]
    done = run_here("verify", tmp_path / "some", "--against", root / "images", *told, "-j1")
    assert done.code == 0, done.out


def test_lists_and_splits(run_here: RunHere, root: Path, tmp_path: Path) -> None:
    told = ("--keep-classes", root / "two.txt")
    assert labels_in(tmp_path / "a", run_here, root / "images", *told) == {
        name: at for at, name in enumerate(KEPT)
    }
    assert (tmp_path / "a/classes.txt").read_text().split() == [*KEPT]
    of_all = dict(zip(SYNSETS, range(4), strict=True))
    assert labels_in(tmp_path / "b", run_here, root / "images") == of_all
    named = ("--list", tmp_path / "b/all.lst", "--classes", tmp_path / "b/classes.txt")
    found = labels_in(tmp_path / "c", run_here, root / "images", *named, *told, "--keep-numbers")
    assert found == {name: of_all[name] for name in KEPT}
    done = run_here("split", root / "images", "-o", tmp_path / "s", *told, "--ratio", "a=0.5,b=0.5")
    assert done.code == 0, done.err
    assert "2 classes" in done.out or "classes   2" in done.out
    assert (tmp_path / "s/classes.txt").read_text().split() == [*KEPT]
    done = run_here("split", tmp_path / "b/all.lst", "-o", tmp_path / "t", *told)
    assert done.code == 2
    assert "SOURCE is a list" in done.err
    (tmp_path / "val.csv").write_text("ImageId,PredictionString\n000,n01440764 1 2 3 4\n")
    assigned = ("--assign", tmp_path / "val.csv")
    done = run_here("split", root / "images/n01440764", "-o", tmp_path / "u", *assigned, *told)
    assert done.code == 2
    assert "gives the classes: leave it out here" in done.err
    done = run_here("lst", "append", tmp_path / "a/all.lst", root / "images", *told)
    assert done.code == 2
    with pytest.raises(OptionError, match="the classes of a list stay"):
        import dsprep

        source = make_source(str(root / "images"), keep_classes=str(root / "two.txt"))
        dsprep.append_to_list(tmp_path / "a/all.lst", source)


@pytest.mark.parametrize(
    "text",
    [
        "n02018207\nn01443537\n",
        "n02018207 \r\n n01443537\r\n\n",
        "n01443537 goldfish, Carassius auratus\nn02018207 American coot\n",
        "n01443537\tgoldfish\nn02018207\tcoot\n",
        "n01443537,goldfish\nn02018207,coot\n",
        '{"n01443537": "goldfish, Carassius auratus", "n02018207": "American coot"}',
        '{"1": ["n01443537", "goldfish"], "137": ["n02018207", "American_coot"]}',
        '["n01443537", "n02018207"]',
    ],
)
def test_the_forms_of_files_of_classes(root: Path, text: str) -> None:
    names, note = kept(root, text)
    assert names == [*KEPT]
    assert note == "--keep-classes keeps 2 of 4 classes; 6 samples of others are left out"
    assert kept(root, text, keep_numbers=True)[0] == [*KEPT]


def test_ids_and_names_are_found_in_names_of_both(tmp_path: Path) -> None:
    words = ("tench, Tinca tinca", "goldfish", "crane, bird", "crane, machine")
    column = images([b"\xff\xd8\xff\xd9"] * 4)
    features = {"label": {"names": [*words], "_type": "ClassLabel"}}
    table = {"image": column, "label": [0, 1, 2, 3]}
    path = write_table(tmp_path / "a.parquet", table, features=features)
    for text in (
        "n02012849 crane, bird\nn1 tench, Tinca tinca\n",
        "crane, bird\ntench, Tinca tinca",
    ):
        (tmp_path / "c.txt").write_text(text)
        catalog, _ = read_source(make_source(path, keep_classes=str(tmp_path / "c.txt")))
        assert catalog.classes == ("tench, Tinca tinca", "crane, bird")
        assert catalog.table["cls"].to_list() == [0, 1]
    both = [f"{one} {word}" for one, word in zip(SYNSETS, words, strict=True)]
    features = {"label": {"names": both, "_type": "ClassLabel"}}
    path = write_table(tmp_path / "b.parquet", table, features=features)
    (tmp_path / "c.txt").write_text("n02012849\n")
    catalog, _ = read_source(make_source(path, keep_classes=str(tmp_path / "c.txt")))
    assert catalog.classes == ("n02012849 crane, bird",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "n0201820\nn01443537\nn9\nx\ny\n",
            r"own.txt: 4 of its 5 classes are not in .*images: 'n0201820' \(did you mean "
            r"'n02018207'\?\), 'n9', 'x' and 1 more: correct or remove these lines",
        ),
        ("n01443537\nN02018207\n", r"1 of its 2 classes is not in .* 'N02018207' \(did you mean"),
        (
            "cat\ndog\n",
            r"no line names a class of .*images, 'cat' for one; classes there are 'n014",
        ),
        ("n01443537\nn02018207\nn01443537\n", r"own.txt:3: 'n01443537' stands in line 1 already"),
        ("n01443537 a\nn0201820 b\n", r"1 of its 2 classes is not in .*: 'n0201820' \(did you"),
        ("", "names no class"),
        ('{"n01443537": ', "begins like JSON, but is none"),
        ("[1, 2]", "is JSON, but neither a list nor an object of class names"),
        ('{"a": {}}', "is JSON, but neither a list nor an object of class names"),
        ("[]", "is JSON, but neither"),
    ],
)
def test_classes_that_are_not_there(root: Path, text: str, problem: str) -> None:
    with pytest.raises(SourceError, match=problem):
        kept(root, text)


def test_a_class_without_samples_keeps_its_number(root: Path, tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text("n00\n" + "".join(f"{name}\n" for name in SYNSETS))
    options = {"classes": str(tmp_path / "all.txt")}
    names, note = kept(root, "n00\nn02018207\n", **options)
    assert names == ["n02018207"]
    assert "keeps 2 of 5 classes; 9 samples of others are left out" in note
    with pytest.raises(SourceError, match=r"none of 12 samples of .* is of a class in it"):
        kept(root, "n00\n", **options)


def test_a_list_of_classes_names_those_that_are_left_out_too(root: Path, tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_text("n02018207\n")
    with pytest.raises(SourceError, match="some.txt: leave out --classes, as it has to name"):
        kept(root, "n02018207\n", classes=str(tmp_path / "some.txt"))


def test_numbers_without_names(root: Path, tmp_path: Path) -> None:
    paths = [f"{name}/000.jpg" for name in SYNSETS]
    rows = (
        f"{at}\t{label}\t{path}\n"
        for at, (label, path) in enumerate(zip((3, 7, 7, 9), paths, strict=True))
    )
    (tmp_path / "a.lst").write_text("".join(rows))
    listed = {"list_file": str(tmp_path / "a.lst")}
    names, _ = kept(root, "9\n7\n", **listed)
    assert names == ["7", "9"]  # their numbers become their names
    with pytest.raises(SourceError, match="which has numbers only; --classes FILE names them"):
        kept(root, "n01443537\n", **listed)


def test_labels_that_are_no_class(root: Path, tmp_path: Path, run_here: RunHere) -> None:
    rows = [f"{name}/000.jpg" for name in SYNSETS]
    tags = ("n01443537 x", "x", "y x", "n01443537")
    for labels, told, problem in (
        (tags, ("--label-separator", " "), "has the type list<float32>, not class"),
        ((0.5, 1.5, 2.5, 3.5), (), "has the type float32, not class"),
    ):
        table = "".join(f"{row},{label}\n" for row, label in zip(rows, labels, strict=True))
        (tmp_path / "t.csv").write_text("path,label\n" + table)
        named = ("--labels", tmp_path / "t.csv", *told, "--keep-classes", root / "two.txt")
        done = run_here("pack", root / "images", tmp_path / "o", "--to", "tfrecord", *named)
        assert done.code == 4
        assert problem in done.err
    with pytest.raises(SourceError, match="its samples have no labels; leave out --keep-classes"):
        read_source(make_source(str(root / "images/n01440764"), keep_classes=str(root / "two.txt")))


def test_objects_are_not_chosen_by_class(root: Path, tmp_path: Path) -> None:
    values = {
        "images": [{"id": 1, "file_name": "n01440764/000.jpg", "width": 8, "height": 8}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2]}],
        "categories": [{"id": 1, "name": "n01443537"}],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(values))
    with pytest.raises(SourceError, match="objects of several classes.*leave out --keep-classes"):
        kept(root, "n01443537\n", annotations=[str(tmp_path / "boxes.json")])


def test_without_effect(run_here: RunHere, root: Path, tmp_path: Path) -> None:
    done = run_here("pack", root / "images", tmp_path / "o", "--to", "tfrecord", "--keep-numbers")
    assert done.code == 2
    assert "--keep-numbers has no effect" in done.err
    done = run_here("convert", "-", "-", "--from", "webdataset", "--keep-classes", root / "two.txt")
    assert done.code == 2
