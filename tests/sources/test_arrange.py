"""Tables without a plain header line, as old data sets have them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import OptionError, SourceError
from dsprep.sources.labels.arrange import arranged
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.sources.boxes import notes, read, write

NAMES = ("1.jpg", "2.jpg", "b/3.jpg")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "in", dict.fromkeys(NAMES))


def labeled(root: Path, text: str, **options: Any) -> tuple[dict[str, Any], str]:
    """Return the label of each image, the name of its class if it has one, and notes."""
    path = root.parent / "t.txt"
    path.write_text(text)
    catalog, findings = read(root, labels=str(path), **options)
    label = catalog.label_column or ""
    names = catalog.classes if label == "cls" else None
    values = catalog.table[label].to_list()
    labels = [names[value] if names else value for value in values]
    return dict(zip(catalog.table["path"], labels, strict=True)), notes(findings)


CLEAR = {
    "blanks": "1.jpg cat\n2.jpg  dog\nb/3.jpg\tcat\n".replace("\t", " "),
    "tabs": "1.jpg\tcat\n2.jpg\tdog\nb/3.jpg\tcat\n",
    "commas": "1.jpg,cat\n2.jpg,dog\nb/3.jpg,cat\n",
    "class first": "cat;1.jpg\ndog;2.jpg\ncat;b/3.jpg\n",
    "stems": "1 cat\n2 dog\n3 cat\n",
    "stems with commas": "1,cat\n2,dog\n3,cat\n",
    "count": "3\n1.jpg cat\n2.jpg dog\nb/3.jpg cat\n",
    "count and commas": "3\n1.jpg,cat\n2.jpg,dog\nb/3.jpg,cat\n",
    "count, commas and header": "3\nid,label\n1.jpg,cat\n2.jpg,dog\nb/3.jpg,cat\n",
    "count and header": "3\nimage_id label\n1.jpg cat\n2.jpg dog\nb/3.jpg cat\n",
    "header with blanks": "filename   class\n1.jpg   cat\n2.jpg   dog\n3.jpg   cat\n",
    "comments": "# the pets\n#\n1.jpg cat\n2.jpg dog\n3.jpg cat\n",
    "numbered": "1.jpg#0\tcat\n2.jpg#0\tdog\n3.jpg#0\tcat\n",
    "last line without a break": "1.jpg cat\n2.jpg dog\nb/3.jpg cat",
    "quotes behind blanks": '1.jpg, "cat"\n2.jpg, "dog"\nb/3.jpg, "cat"\n',
    "windows": "1.jpg cat\r\n2.jpg dog\r\nb/3.jpg cat\r\n",
}


@pytest.mark.parametrize("text", CLEAR.values(), ids=CLEAR)
def test_what_is_clear_is_read(root: Path, text: str) -> None:
    found, said = labeled(root, text)
    assert found == {"1.jpg": "cat", "2.jpg": "dog", "b/3.jpg": "cat"}
    has_header = "class\n" in text or "label\n" in text
    assert ("no line names its columns" in said) != has_header
    assert ("its first line, 3, is the number of rows" in said) == text.startswith("3")


def test_names_of_classes_with_blanks(root: Path) -> None:
    found, _ = labeled(root, "1.jpg golden retriever\n2.jpg pug\n3.jpg golden retriever\n")
    assert found["1.jpg"] == "golden retriever"
    found, _ = labeled(root, "id breed\n1 golden retriever\n2 pug\n3 golden retriever\n")
    assert found["b/3.jpg"] == "golden retriever"


def test_a_class_with_blanks_before_the_last_column_is_refused(root: Path) -> None:
    plain = "image class split\n1.jpg cat train\n2.jpg dog train\n"
    assert labeled(root, f"{plain}3.jpg cat val\n")[0]["b/3.jpg"] == "cat"
    with pytest.raises(SourceError, match=r"t\.txt:4: 4 words, .* put commas or tabs between"):
        labeled(root, f"{plain}3.jpg golden retriever val\n")
    with pytest.raises(SourceError, match=r"t\.txt:4: 4 words, "):
        text = f"{plain}3.jpg golden retriever val\n".replace("class", "kind")
        labeled(root, text, label_columns=["kind"])
    last = "image split class\n1.jpg a cat\n2.jpg b dog\n3.jpg a golden retriever\n"
    assert labeled(root, last)[0]["b/3.jpg"] == "golden retriever"
    last = "image label_id note\n1.jpg 0 x\n2.jpg 1 x\n3.jpg 0 x or y\n"
    assert labeled(root, last)[0].keys() == {*NAMES}


@pytest.mark.parametrize("mark", [" ", ","])
@pytest.mark.parametrize("word", ["y", "name"])
def test_a_class_called_like_a_column(root: Path, mark: str, word: str) -> None:
    found, said = labeled(root, f"1{mark}{word}\n2{mark}n\n3{mark}{word}\n")
    assert found == {"1.jpg": word, "2.jpg": "n", "b/3.jpg": word}
    assert "no line names its columns" in said


def test_a_class_called_like_a_column_before_the_image(tmp_path: Path) -> None:
    root = write(tmp_path / "in", dict.fromkeys(("a.jpg", "b.jpg", "c.jpg")))
    assert labeled(root, "y,a\nn,b\ny,c\n")[0] == {"a.jpg": "y", "b.jpg": "n", "c.jpg": "y"}


def test_rows_are_counted_from_the_first_line_of_the_file(root: Path) -> None:
    for text in ("3\n1.jpg cat\n2.jpg dog\n1.jpg cat\n", "#\n1.jpg cat\n2.jpg dog\n1.jpg cat\n"):
        with pytest.raises(Exception, match=r"t\.txt:4: '1\.jpg' stands in line 2 already"):
            labeled(root, text)


@pytest.mark.parametrize(
    "text",
    [
        "1.jpg 1 5 2\n2.jpg 2 5 1\n3.jpg 1 5 2\n",
        "1.jpg,cat,9\n2.jpg,dog,8\n3.jpg,cat,7\n",
        "1.jpg golden retriever\n2.jpg german shepherd\n3.jpg golden retriever\n",
        "0\t1.jpg\tx\n1\t2.jpg\ty\n0\t3.jpg\ty\n",
    ],
)
def test_what_is_not_clear_is_asked_with_a_command_that_works(root: Path, text: str) -> None:
    with pytest.raises(OptionError, match="has to name the columns, but looks like data:") as told:
        labeled(root, text)
    (columns,) = re.findall(r"Give --columns (\S+), or put", str(told.value))
    found, _ = labeled(root, text, columns=columns.split(","))
    assert found.keys() == {*NAMES}


def test_named_columns_of_blanks_end_with_all_the_rest(root: Path) -> None:
    text = "1.jpg golden retriever\n2.jpg german shepherd\n3.jpg golden retriever\n"
    found, _ = labeled(root, text, columns=["path", "label"])
    assert found["2.jpg"] == "german shepherd"


def test_attributes_of_faces(root: Path) -> None:
    text = "3\nBald Young Big_Nose\n1.jpg -1  1 -1\n2.jpg  1 -1  1\n3.jpg -1  1  1\n"
    with pytest.raises(OptionError, match="name its column of labels") as told:
        labeled(root, text)
    option, columns, *more = shlex.split(str(told.value).partition("tags: give ")[2])
    assert (option, more) == ("--label-column", ["--label-type", "multi"])
    found, _ = labeled(root, text, label_columns=columns.split(","), label_type="multi")
    assert found == {"1.jpg": [0, 1, 0], "2.jpg": [1, 0, 1], "b/3.jpg": [0, 1, 1]}
    found, _ = labeled(root, text, label_columns=["Bald"])
    assert set(found.values()) <= {"-1", "1", -1, 1, (-1.0,), (1.0,)} or found


def test_the_header_in_a_comment(root: Path) -> None:
    text = "#Image CLASS-ID SPECIES BREED\n#ID: 1:37\n1 1 1 1\n2 2 1 2\n3 2 2 1\n"
    found, _ = labeled(root, text, label_columns=["SPECIES"], label_type="class")
    assert found.keys() == {*NAMES}


def test_the_column_whose_cells_are_names_of_images(root: Path) -> None:
    rows = "a,1.jpg\nb,2.jpg\na,3.jpg\n"
    found, _ = labeled(root, f"what,picture\n{rows}")
    assert found == {"1.jpg": "a", "2.jpg": "b", "b/3.jpg": "a"}
    with pytest.raises(OptionError, match="--path-column"):  # numbers may be anything
        labeled(root, "what,picture,x\na,1,1\nb,2,2\na,3,3\n")
    with pytest.raises(OptionError, match="--path-column"):  # two columns
        labeled(root, "one,two,x\n1.jpg,2.jpg,1\n2.jpg,1.jpg,2\n")


def test_two_files_a_row_are_no_classes(root: Path) -> None:
    for text in ("1.jpg 1.png\n2.jpg 2.png\n", "1.jpg,a/1.xml\n2.jpg,a/2.xml\n"):
        with pytest.raises(OptionError, match="name two files each"):
            labeled(root, text)


def test_captions_are_several_rows_of_an_image(root: Path) -> None:
    text = "".join(f"{name}#{at}\ta cat, {at} times\n" for name in NAMES for at in range(2))
    with pytest.raises(Exception, match="--duplicates first"):
        labeled(root, text, label_type="text")
    path = root.parent / "t.txt"
    source = make_source(str(root), labels=str(path), label_type="text", duplicates="keep")
    assert len(read_source(source)[0]) == 6


def test_what_is_no_such_table_stays_as_it_is() -> None:
    for text in ("#id,label\n1,cat\n2,dog\n", "2\n1\n2\n", '"a b",c\n1,2\n', "", "\n\n", "# x\n"):
        assert arranged(text, "t.csv", (), {"label"}, lambda _: ()) == (text, (), "", "")
