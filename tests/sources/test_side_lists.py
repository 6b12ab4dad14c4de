"""Lists such as `train.txt` tell the sides of images whose classes are directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dsprep
from dsprep.errors import SourceError
from dsprep.findings import notes_of
from dsprep.sources.reading import read_source
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
