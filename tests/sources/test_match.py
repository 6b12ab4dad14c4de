"""Which path a name means: by which spelling, by how many directories, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

from dsprep.errors import SourceError
from dsprep.places.files import FILES, Files
from dsprep.places.match import MORE_THAN_NAMES, WITHOUT_ZEROS, Matches, find_elsewhere, match
from dsprep.sources.annotated.mask_files import find_masks, mask_files
from dsprep.sources.readers import FileReader
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source

PATHS = ["1.jpg", "a/1.jpg", "a/b/1.jpg", "a/2.jpg", "a/2.png", "c/3.x.jpg"]


def short(*names: str, paths: Sequence[str] = PATHS) -> Matches:
    return match(pl.Series(names), pl.Series(paths), MORE_THAN_NAMES)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/1.jpg", "a/1.jpg"),
        ("1", "1.jpg"),  # without its extension, before the stems of others
        ("1.jpg", "1.jpg"),
        ("2.png", "a/2.png"),
        ("3.x", "c/3.x.jpg"),
        ("2", None),
        ("b/1.jpg", None),  # directories start from the root
    ],
)
def test_the_first_spelling_that_has_a_name_counts(name: str, path: str | None) -> None:
    assert short(name).paths.to_list() == [path]


def test_numbers_may_lack_zeros() -> None:
    found = match(
        pl.Series(["1", "img10", "7"]), pl.Series(["0001.jpg", "img010.jpg"]), WITHOUT_ZEROS
    )
    assert found.paths.to_list() == ["0001.jpg", "img010.jpg", None]
    # A name with a directory means no file of another one.
    paths = pl.Series(["a/001.jpg", "b/001.jpg"])
    found = match(pl.Series(["a/1.png", "b/1", "train/1"]), paths, WITHOUT_ZEROS)
    assert found.paths.to_list() == ["a/001.jpg", "b/001.jpg", None]


def test_names_without_a_path_and_with_several_are_told_apart() -> None:
    found = short("2", "none", "1", "2", "a/2")
    assert found.missing.to_list() == ["none"]
    assert found.are_paths.to_list() == [False] * 5
    with pytest.raises(SourceError) as refused:
        found.refuse_several("x.csv", lambda one, two: ": choose", pl.Series([3, 4, 5, 6, 7]))
    said = "x.csv:3: '2' may mean 'a/2.jpg' or 'a/2.png': choose"
    assert str(refused.value) == f"{said} (2 more like this: line 6, 7)"
    with pytest.raises(SourceError) as refused:
        found.refuse_several("x.json")
    said = "x.json: '2' may mean 'a/2.jpg' or 'a/2.png' (1 more like this: a/2)"
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/home/me/a/b/1.jpg", "a/b/1.jpg"),  # the longest path that ends the name
        ("/home/me/x/a/1.jpg", "a/1.jpg"),
        ("b/1", "a/b/1.jpg"),
        ("./1", "1.jpg"),
        ("2.gif", None),
        ("x/1.jpg", None),
        ("x\\a\\0a1b2c3d-1.jpg", "a/1.jpg"),
        ("https://host/c/3.x.jpg?token=1", "c/3.x.jpg"),
    ],
)
def test_the_nearest_path_counts_for_what_was_written_elsewhere(
    name: str, path: str | None
) -> None:
    names = ["a/1.jpg", name]
    assert find_elsewhere(names, PATHS).paths.to_list() == ["a/1.jpg", path]
    assert names == ["a/1.jpg", name]


def test_an_image_of_a_directory_that_other_names_mean_is_not_taken_for_a_missing_one() -> None:
    paths = ["images/a/1.jpg", "images/a/2.jpg", "images/b/4.jpg", "c/5.jpg"]
    names = ["a/1.jpg", "b/2.jpg", "/home/a/2.jpg", "b/4", "x/5.jpg"]
    expected = ["images/a/1.jpg", None, "images/a/2.jpg", "images/b/4.jpg", "c/5.jpg"]
    assert find_elsewhere(names, paths).paths.to_list() == expected
    # Names without directories say nothing about those of others.
    assert find_elsewhere(["1.jpg", "x/2.jpg"], paths).paths.to_list() == paths[:2]


def test_directories_without_end_tell_paths_apart_by_the_last_ones() -> None:
    above = "b/" * 16_000
    paths = [f"x/{above}a/1.jpg", f"y/{above}c/1.jpg", f"z/{above}c/1.jpg"]
    found = find_elsewhere([f"q/{above}a/1.jpg", f"q/{above}c/1.jpg"], paths)
    assert found.paths.to_list() == [paths[0], None]
    with pytest.raises(SourceError) as caught:
        found.refuse_several("a.json")
    assert len(str(caught.value)) < 1000


def test_half_a_character_is_in_no_path() -> None:
    found = find_elsewhere(["\ud800.jpg", "c/\ud800", "1.jpg"], PATHS)
    assert found.paths.to_list() == [None, None, "1.jpg"]


def test_accents_may_be_characters_of_their_own() -> None:
    """A zip of macOS has `e` and an accent (NFD), a table `é` (NFC)."""
    written, stored = "caf\xe9", "cafe\u0301"
    paths = pl.Series([f"a/{stored}.jpg", f"{stored}/1.jpg", f"{stored}/2.jpg", "b/2.jpg", "c.jpg"])
    names = [f"a/{written}.jpg", f"{written}/1", f"{written}/2.jpg", written, "c.jpg", "\xe9"]
    found = match(pl.Series(names), paths, MORE_THAN_NAMES)
    assert found.paths.to_list() == [paths[0], paths[1], paths[2], paths[0], "c.jpg", None]
    again = match(pl.Series([paths[0], stored]), pl.Series(names[:2]), MORE_THAN_NAMES)
    assert again.paths.to_list() == [names[0], names[0]]
    both = match(
        pl.Series([written]), pl.Series([f"a/{stored}.jpg", f"b/{stored}.jpg"]), MORE_THAN_NAMES
    )
    with pytest.raises(SourceError, match="may mean"):
        both.refuse_several("table")
    elsewhere = find_elsewhere([f"/data/{written}/2.jpg"], paths)
    assert elsewhere.paths.to_list() == [paths[2]]


def test_lists_and_tables_name_accents_as_files_do_not(tmp_path: Path) -> None:
    for name in ("cafe\u0301.jpg", "b.jpg"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    (tmp_path / "a.lst").write_text("0\t1\tcaf\xe9.jpg\n1\t0\tb.jpg\n", encoding="utf-8")
    (tmp_path / "a.csv").write_text("path,label\ncaf\xe9.jpg,x\nb.jpg,y\n", encoding="utf-8")
    for options in ({"list_file": str(tmp_path / "a.lst")}, {"labels": str(tmp_path / "a.csv")}):
        found, _ = read_source(make_source(str(tmp_path), **options))  # type: ignore[arg-type]
        assert found.table["path"].to_list() == ["cafe\u0301.jpg", "b.jpg"]
    (tmp_path / "a.lst").write_text("0\t1\tcaf\xe9.jpg\n2\t1\tcaf\xe9.jpg\n", encoding="utf-8")
    with pytest.raises(SourceError, match="stands in line 1 already"):
        read_source(make_source(str(tmp_path), list_file=str(tmp_path / "a.lst")))


def test_columns_of_names_do_not_change() -> None:
    names = pl.Series(["/x/c/3.x.jpg", "1.jpg"])
    found = find_elsewhere(names, PATHS)
    assert names.to_list() == found.names.to_list() == ["/x/c/3.x.jpg", "1.jpg"]


def test_masks_have_the_names_of_images_and_maybe_an_ending(tmp_path: Path) -> None:
    for name in ("a/1.png", "a/1_mask.png", "b/2_gt.png", "b/2.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (4, 4), 1).save(tmp_path / name)
    source, images = make_source("images", masks=str(tmp_path)), FileReader("images")
    known = mask_files(source, Files(FILES.to_frame(), [], []), map)
    masks, others = find_masks(source, known, ["a/1.png", "x/3.jpg"], images)
    assert (masks.paths, others) == (("a/1.png", ""), ["a/1_mask.png", "b/2.png", "b/2_gt.png"])
    with pytest.raises(
        SourceError, match=r"the mask of 'x/2.jpg' may be 'b/2.png' or 'b/2_gt.png': "
    ):
        find_masks(source, known, ["x/2.jpg"], images)
