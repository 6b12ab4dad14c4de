"""Lists such as `train.txt` tell the sides of images whose classes are directories."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import dsprep
from dsprep.errors import SourceError
from dsprep.findings import notes_of
from dsprep.sources.reading import read_source
from dsprep.sources.side_lists import begun_list
from dsprep.sources.source import make_source
from tests.sources.boxes import write

IMAGES = [f"{name}/{name}_{at}" for name in ("banded", "dotted") for at in range(4)]
FILES: dict[str, str | bytes | None] = {f"images/{name}.jpg": None for name in IMAGES}


def listed(*names: str, extension: str = ".jpg") -> str:
    return "".join(f"{name}{extension}\n" for name in names)


def sides(root: Path, **options: object) -> dict[str, str]:
    """Return the side of each image by its name."""
    catalog, _ = read_source(make_source(str(root), **options))  # type: ignore[arg-type]
    if not catalog.sides:
        return {}
    rows = catalog.table.select("path", "side").rows()
    return {Path(path).stem: catalog.sides[side] for path, side in rows}


def test_lists_of_one_division(tmp_path: Path) -> None:
    lists = {
        "meta/train.txt": listed(*IMAGES[::2], *IMAGES[3::4], extension=""),
        "meta/test.txt": listed(*IMAGES[1::4], extension=""),
    }
    root = write(tmp_path / "food", FILES | lists)
    found = sides(root)
    assert (len(found), found["banded_1"], found["banded_3"]) == (8, "test", "train")
    report = dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1)
    assert (report.sides, report.classes) == ({"train": 6, "test": 2}, ("banded", "dotted"))
    shutil.make_archive(str(tmp_path / "food"), "zip", tmp_path, "food")
    assert sides(tmp_path / "food.zip") == found
    assert sides(root, leave_out=("meta/*.txt",)) == {}
    assert sides(root, kind="images") == {}


def test_the_first_of_several_divisions(tmp_path: Path) -> None:
    lists: dict[str, str | bytes | None] = {}
    for number, step in enumerate((1, 3), 1):
        order = [IMAGES[step * at % 8] for at in range(8)]
        lists |= {f"labels/train{number}.txt": listed(*order[:4])}
        lists |= {f"labels/val{number}.txt": listed(*order[4:6])}
        lists |= {f"labels/test{number}.txt": listed(*order[6:])}
    root = write(tmp_path / "dtd", FILES | lists)
    found = sides(root)
    assert sorted(found.values()) == ["test"] * 2 + ["train"] * 4 + ["val"] * 2
    assert found["banded_3"] == "train"  # the second one has it in `val`
    notes = notes_of(read_source(make_source(str(root)))[1])
    assert any("in 2 ways, and the first is taken: labels/test2.txt is not" in n for n in notes)


def test_years_are_no_divisions(tmp_path: Path) -> None:
    lists = {f"train{year}.txt": listed(IMAGES[at]) for at, year in enumerate((2007, 2012))}
    root = write(tmp_path / "voc", FILES | lists | {"val2012.txt": listed(*IMAGES[2:])})
    assert [*sides(root).values()].count("train") == 2


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ({"val.txt": listed(*IMAGES[:5]), "test.txt": listed(*IMAGES[5:])}, "8 of 8 images"),
        ({"train.txt": listed(*IMAGES[:2]), "val.txt": listed(IMAGES[2])}, "3 of 8 images"),
        ({"train.txt": listed(*IMAGES)}, ""),
        ({"train.txt": "loss 0.1\nloss 0.2\n", "val.txt": "loss 0.3\n"}, ""),
    ],
)
def test_lists_that_do_not_tell_all_sides(
    tmp_path: Path, lists: dict[str, str | bytes | None], said: str
) -> None:
    root = write(tmp_path / "data", FILES | lists)
    catalog, findings = read_source(make_source(str(root)))
    assert (len(catalog), catalog.sides) == (8, ())
    own = [note for note in notes_of(findings) if note.endswith(": these are not read")]
    assert [note.partition(" are named")[0] for note in own] == ([said] if said else [])


def test_images_that_no_list_names_are_reported(tmp_path: Path) -> None:
    lists = {"train.txt": listed(*IMAGES[:4]), "val.txt": listed(*IMAGES[4:6], "gone/gone")}
    root = write(tmp_path / "data", FILES | lists)
    catalog, findings = read_source(make_source(str(root)))
    assert len(catalog) == 6
    assert [each.kind for each in findings].count("unlisted") == 2
    (lost,) = (each for each in findings if each.kind == "missing")
    assert (lost.path, lost.detail) == ("gone/gone.jpg", "named in val.txt")


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ({"train.txt": "1\n", "test.txt": "2\n"}, "may mean 'a/2.jpg' or 'b/2.jpg'"),
        ({"train.txt": "\xe9".encode("latin-1"), "test.txt": ""}, "/train.txt:1: not UTF-8 text"),
    ],
)
def test_texts_that_cannot_be_lists_are_refused_with_the_way_out(
    tmp_path: Path, lists: dict[str, str | bytes | None], said: str
) -> None:
    images = {f"{name}/{at}.jpg": None for name in "ab" for at in (1, 2)}
    root = write(tmp_path / "data", images | lists)
    for place in (root, Path(shutil.make_archive(str(root), "zip", tmp_path, "data"))):
        with pytest.raises(SourceError) as refused:
            read_source(make_source(str(place)))
        problem, way_out = refused.value.args
        assert said in problem
        assert way_out.endswith("to go on without sides, --leave-out '*.txt'")
        assert len(read_source(make_source(str(place), leave_out=("*.txt",)))[0]) == 4


def numbered(*names: str, of: dict[str, int], above: str = "") -> str:
    return "".join(f"{above}{name}.jpg {of[name.partition('/')[0]]}\n" for name in names)


NUMBERS = {"dotted": 0, "banded": 1}  # the order of the names is another one
TRAIN = numbered(*IMAGES, of=NUMBERS, above="/")
VAL = "v_1.jpg 1\nv_2.jpg 0\n"
TABLE = "/banded 1\n/dotted 0\n"


@pytest.mark.parametrize(
    ("files", "table", "classes"),
    [
        # Places365, Caffe with ImageNet's directories of sides, and one list alone
        ({"data_256/": ("train_standard", TRAIN), "val_256/": ("val", VAL)}, TABLE, "told"),
        ({"data_256/": ("train_standard", TRAIN), "val_256/": ("val", VAL)}, "", "told"),
        ({"train/": ("train", TRAIN), "val/": ("val", VAL)}, "", "told"),
        ({"val/": ("val", VAL)}, TABLE, "told"),
        ({"val/": ("val", VAL)}, "", ""),
    ],
)
def test_lists_with_class_numbers(
    tmp_path: Path, files: dict[str, tuple[str, str]], table: str, classes: str
) -> None:
    content: dict[str, str | bytes | None] = {}
    for directory, (name, text) in files.items():
        content[f"places365_{name}.txt"] = text
        images = [line.rpartition(" ")[0].lstrip("/") for line in text.splitlines()]
        content |= {f"{directory}{image}": None for image in images}
    content |= {"categories_places365.txt": table} if table else {}
    root = write(tmp_path / "data", content)
    shutil.make_archive(str(root), "zip", root)
    for place in (root, root.with_suffix(".zip")):
        catalog, findings = read_source(make_source(str(place)))
        assert catalog.classes == (("dotted", "banded") if classes else None)
        rows = catalog.table.select("path", "cls", "side").rows()
        assert len(rows) == sum(len(text.splitlines()) for _, text in files.values())
        for path, number, side in rows:
            name = "banded" if "banded" in path or "v_1" in path else "dotted"
            assert (number, catalog.sides[side]) == (
                NUMBERS[name],
                "val" if "v_" in path else "train",
            )
        assert not [each for each in findings if each.kind == "left-over"]


def test_numbers_that_cannot_be_are_refused(tmp_path: Path) -> None:
    root = write(tmp_path / "data", FILES)
    wrong = TRAIN.replace("banded_3.jpg 1", "banded_3.jpg 0")
    cases = (
        (wrong, TABLE, (), "train.txt gives images/banded/banded_3.jpg the class 0, and it lies"),
        (wrong, "", (), "and the others of images/banded/ have the class 1"),
        (wrong + "banded/banded_3.jpg 1\n", "", (), "banded_3.jpg the classes 0 and 1"),
        (TRAIN, "/banded 1\n", (), "categories_places365.txt does not have the name of each class"),
        (TRAIN, "", ("dotted",), "has the number 1, and --classes 1 class"),
    )
    for text, table, classes, said in cases:
        (root / "train.txt").write_text(text)
        (root / "categories_places365.txt").write_text(table)
        if not table:
            (root / "categories_places365.txt").unlink()
        with pytest.raises(SourceError) as refused:
            read_source(make_source(str(root), classes=classes))
        assert said in refused.value.args[0]
        assert refused.value.args[1].endswith("--leave-out '*.txt'")
    found, _ = read_source(make_source(str(root), leave_out=("*.txt",)))
    assert found.classes == ("banded", "dotted")


def test_numbers_from_1_keep_the_names_of_directories(tmp_path: Path) -> None:
    texts = {"train": (0, 1), "val": (2, 3)}  # as TrashNet's `one-indexed-files-notrash_train.txt`
    lists = {
        f"one-indexed-files_{side}.txt": "".join(
            f"{name}_{at}.jpg {number}\n"
            for number, name in enumerate(("dotted", "banded"), 1)
            for at in own
        )
        for side, own in texts.items()
    }
    catalog, _ = read_source(make_source(str(write(tmp_path, FILES | lists))))
    assert catalog.classes == ("", "dotted", "banded")
    assert sides(tmp_path)["banded_2"] == "val"


def test_directories_that_are_sides_may_have_lists_with_numbers(tmp_path: Path) -> None:
    images = {f"train/{name}.jpg": None for name in IMAGES}
    more = {f"val/{name}.jpg": None for name in ("dotted/7", "odd/8")}
    root = write(tmp_path, {**images, **more, "train.txt": TRAIN})
    catalog, findings = read_source(make_source(str(root)))
    assert catalog.annotated is not None
    assert (len(catalog), [*catalog.annotated.places][-2:]) == (10, [(0,), (None,)])
    said = "\n".join(notes_of(findings))
    assert "1 image without a label, as no list names them" in said
    assert "to go on without these labels, --leave-out '*.txt'" in said
    (root / "train.txt").write_text(TRAIN.replace("/banded/banded_3.jpg 1\n", ""))
    catalog, findings = read_source(make_source(str(root)))
    lost = [each.path for each in findings if each.kind == "unlisted"]
    assert (len(catalog), lost) == (9, ["train/banded/banded_3.jpg"])
    (root / "train.txt").write_text(f"{TRAIN}\nbanded/banded_0.jpg\n")
    with pytest.raises(SourceError, match=r"train\.txt:10: 'banded/banded_0\.jpg' has no class"):
        read_source(make_source(str(root)))


def test_lists_may_have_tabs() -> None:
    begun = begun_list("val.txt", b"a/b c.jpg\t1\nd.jpg  2\n")
    assert begun == (["a/b c.jpg", "d.jpg"], True)


def test_other_names_and_forms_of_lists_of_sides(tmp_path: Path) -> None:
    root = write(tmp_path / "indoor", FILES)
    expected = {Path(name).stem: "test" if name.endswith("3") else "train" for name in IMAGES}
    parts = [name for name in IMAGES if not name.endswith("3")], IMAGES[3::4]
    for name, some in zip(("TrainImages.txt", "TestImages.txt"), parts, strict=True):
        (root / name).write_text(listed(*some))
    assert sides(root) == expected
    for path in root.glob("*.txt"):
        path.unlink()
    (root / "meta").mkdir()
    for name, some in zip(("train", "test"), parts, strict=True):
        by_class = {each: [at for at in some if at.startswith(each)] for each in NUMBERS}
        (root / f"meta/{name}.json").write_text(json.dumps(by_class))
    assert sides(root) == expected
    (root / "meta/train.json").write_text('{"a": ["' + "[" * 100_000)
    assert sides(root) == {}
