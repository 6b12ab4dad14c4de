"""Images that a `metadata.jsonl` or a `metadata.csv` describes, as `imagefolder` has them."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from math import isnan
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.catalog import Catalog
from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.formats.listing import LISTING
from dsprep.sample import Sample
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.images import jpeg, png

FILES = {"a.jpg": jpeg(1), "x/b.jpg": jpeg(2), "x/m.png": png(3), "c.JPEG": jpeg(4)}


def fill(root: Path, metadata: str, text: str | bytes) -> Path:
    """Make images, and a file of metadata."""
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / metadata).write_bytes(text.encode() if isinstance(text, str) else text)
    return root


def read(root: Path, kind: str | None = None) -> tuple[Catalog, list[Finding]]:
    return read_source(make_source(str(root), kind=kind))


def samples(catalog: Catalog) -> list[Sample | BadSample]:
    """What a worker reads, in order and shuffled."""
    reader = pickle.loads(pickle.dumps(catalog.reader))
    found = list(reader.read(catalog.rows()))
    shuffled = catalog.shuffle(3)
    again = list(reader.read(shuffled.rows()))
    if all(isinstance(each, Sample) for each in found):
        assert again == [found[number] for number in shuffled.table["index"]]
    return found


def fields(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """The fields of all samples by path, without the image."""
    found = {each.path: each.fields for each in samples(catalog) if isinstance(each, Sample)}
    for path, values in found.items():
        assert values.pop("image") == FILES[path]
    return found


def types(catalog: Catalog) -> dict[str, str]:
    return {each.name: each.type for each in catalog.settled.schema.fields}


def test_lines_of_json(tmp_path: Path) -> None:
    lines = [
        {"file_name": "x/b.jpg", "label": "dog", "n": 1, "mask_file_name": "x/m.png", "t": ["ä"]},
        {"file_name": "./a.jpg", "label": "cat", "n": 2, "objects": {"bbox": [[1, 2, 3, 4.5]]}},
        {"file_name": "c.JPEG", "label": "cat", "n": None, "mask_file_name": None},
    ]
    text = "\ufeff" + "\r\n\n".join(map(json.dumps, lines))
    catalog, findings = read(fill(tmp_path, "metadata.jsonl", text))
    assert findings == []
    assert catalog.classes == ("cat", "dog")
    assert catalog.table["path"].to_list() == ["x/b.jpg", "a.jpg", "c.JPEG"]
    assert catalog.table["size"][0] == len(FILES["x/b.jpg"]) + len(FILES["x/m.png"])
    assert fields(catalog) == {
        "x/b.jpg": {"label": 1, "n": 1, "mask": FILES["x/m.png"], "t": ("ä",)},
        "a.jpg": {"label": 0, "n": 2, "objects": b'{"bbox":[[1,2,3,4.5]]}'},
        "c.JPEG": {"label": 0},
    }


def test_a_table(tmp_path: Path) -> None:
    text = (
        "file_name,label,text,n,score,id,ok\r\n"
        'a.jpg,3,"two ""lines""\nof text",1,1,007,True\r\n'
        "\r\n"
        "x/b.jpg,4,,-2,0.5,8,False\r\n"
    )
    catalog, findings = read(fill(tmp_path, "metadata.csv", text))
    assert findings == [Finding("unlisted", "c.JPEG"), Finding("unlisted", "x/m.png")]
    assert types(catalog) == {
        "image": "image",
        "label": "class",
        "text": "text",
        "n": "int",
        "score": "float64",
        "id": "text",
        "ok": "bool",
    }
    assert fields(catalog) == {
        "a.jpg": {
            "label": 3,
            "text": 'two "lines"\nof text',
            "n": 1,
            "score": 1.0,
            "id": "007",
            "ok": True,
        },
        "x/b.jpg": {"label": 4, "n": -2, "score": 0.5, "id": "8", "ok": False},
    }


@pytest.mark.parametrize("text", ["one\u2028two", "one\x0btwo", "one\x85two"])
def test_characters_that_only_python_takes_for_line_breaks(tmp_path: Path, text: str) -> None:
    catalog, _ = read(fill(tmp_path, "metadata.csv", f"file_name,text\na.jpg,{text}\n"))
    assert fields(catalog)["a.jpg"] == {"text": text}


def test_a_table_with_nan(tmp_path: Path) -> None:
    text = "file_name,n,word\na.jpg,1,nan\nx/b.jpg,nan,one\n"
    catalog, _ = read(fill(tmp_path, "metadata.csv", text))
    assert types(catalog) == {"image": "image", "n": "float64", "word": "text"}
    first, second = catalog.reader.read(catalog.rows())
    assert isinstance(first, Sample)
    assert isinstance(second, Sample)
    assert (first.fields["n"], first.fields["word"]) == (1.0, "nan")
    assert isnan(second.fields["n"])


def test_metadata_in_directories(tmp_path: Path) -> None:
    fill(tmp_path, "x/metadata.csv", "file_name,text\nb.jpg,one\n")
    (tmp_path / "y").mkdir()
    (tmp_path / "y/a.jpg").write_bytes(FILES["a.jpg"])
    (tmp_path / "y/metadata.jsonl").write_text('{"file_name": "a.jpg", "text": "two"}')
    catalog, _ = read(tmp_path)
    found = {each.path: each.fields["text"] for each in samples(catalog)}  # type: ignore[union-attr]
    assert found == {"x/b.jpg": "one", "y/a.jpg": "two"}
    # A repository of Hugging Face has them in `data/`.
    for side in "xy":
        (tmp_path / "set/data").mkdir(parents=True, exist_ok=True)
        (tmp_path / side).rename(tmp_path / "set/data" / side)
    catalog, _ = read(tmp_path / "set")
    found = {each.path: each.fields["text"] for each in samples(catalog)}  # type: ignore[union-attr]
    assert found == {"data/x/b.jpg": "one", "data/y/a.jpg": "two"}


def test_objects_with_names_of_classes(tmp_path: Path) -> None:
    boxes = [[1, 2, 3, 4], [5, 5, 5, 5]]
    lines = [
        {"file_name": "a.jpg", "objects": {"bbox": boxes, "categories": ["dog", "cat"]}},
        {"file_name": "x/b.jpg", "objects": {"bbox": [], "categories": []}},
        {"file_name": "c.JPEG", "objects": [{"bbox": boxes[0], "category": "emu"}]},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    root = fill(tmp_path, "metadata.jsonl", text)
    catalog, _ = read(root)
    numbers = [[item.number for item in own["objects"].items] for own in fields(catalog).values()]
    assert numbers == [[1, 0], [], [2]]
    assert catalog.settled.schema.by_name["objects"].names == ("cat", "dog", "emu")
    given = make_source(str(root), classes=("emu", "dog", "cat", "yak"))
    numbers = [
        [item.number for item in own["objects"].items]
        for own in fields(read_source(given)[0]).values()
    ]
    assert numbers == [[1, 2], [], [0]]
    with pytest.raises(SourceError, match="no class of --classes: 'cat', 'emu'"):
        read_source(make_source(str(root), classes=("dog",)))
    fill(tmp_path, "metadata.jsonl", text.replace('"a.jpg"', '"a.jpg", "label": 1'))
    with pytest.raises(SourceError, match="write the numbers of the classes into the objects"):
        read(root)


@pytest.mark.parametrize(
    "objects",
    [
        {"bbox": [[1, 2, 3, 4]], "categories": [["dog"]]},
        {"bbox": [[1, 2, 3, 4]], "categories": ["dog", "cat"]},
        {"bbox": 5, "categories": ["dog"]},
        [{"bbox": [1, 2, 3, 4], "category": None}],
    ],
)
def test_objects_with_names_of_classes_that_are_wrong_are_rejects(
    tmp_path: Path, objects: object
) -> None:
    good = {"bbox": [[1, 2, 3, 4]], "categories": ["dog"]}
    lines = [{"file_name": "a.jpg", "objects": good}, {"file_name": "c.JPEG", "objects": objects}]
    root = fill(tmp_path / "set", "metadata.jsonl", "".join(f"{json.dumps(x)}\n" for x in lines))
    report = dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1, max_errors=1)
    (reject,) = report.rejects
    assert reject.path == "c.JPEG"
    assert "its objects" in reject.reason


def test_an_archive_is_to_be_unpacked(tmp_path: Path) -> None:
    root = fill(tmp_path / "set", "metadata.csv", "file_name,text\na.jpg,one\nc.JPEG,two\n")
    shutil.rmtree(root / "x")
    path = shutil.make_archive(str(tmp_path / "set"), "zip", root)
    with pytest.raises(SourceError, match="unpack the archive: imagefolder is read from a"):
        dsprep.pack(path, str(tmp_path / "out"), to="webdataset")


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ("metadata.csv", "image_id,label\na,1\n"),
        ("metadata.jsonl", '{"name": "a.jpg"}\n'),
        ("metadata.jsonl", "[1]\n"),
        ("metadata.jsonl", "no json\n"),
        ("metadata.csv", b"\xff\xfe"),
        ("metadata.json", '{"file_name": "a.jpg"}\n'),
    ],
)
def test_what_names_no_files_is_not_metadata(
    tmp_path: Path, metadata: str, text: str | bytes
) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/a.jpg").write_bytes(FILES["a.jpg"])
    (tmp_path / metadata).write_bytes(text.encode() if isinstance(text, str) else text)
    catalog, _ = read(tmp_path)
    assert not catalog.reader.reads_samples
    assert catalog.classes == ("x",)
    with pytest.raises(SourceError, match="holds nothing that --from imagefolder reads"):
        read(tmp_path, "imagefolder")


def test_images_can_be_taken_alone(tmp_path: Path) -> None:
    fill(tmp_path / "x", "metadata.csv", "file_name,text\na.jpg,one\n")
    catalog, _ = read(tmp_path / "x", "imagefolder")
    assert list(types(catalog)) == ["image", "text"]
    (tmp_path / "x/x").rename(tmp_path / "x/y")
    for name in ("a.jpg", "c.JPEG"):
        (tmp_path / "x" / name).rename(tmp_path / "x/y" / name)
    catalog, _ = read(tmp_path / "x", "images")
    assert catalog.classes == ("y",)


@pytest.mark.parametrize(
    ("metadata", "text", "message"),
    [
        ("metadata.jsonl", '{"file_name":"../a.jpg"}', r":1: 'file_name' is '\.\./a\.jpg'"),
        ("metadata.jsonl", '{"file_name":"/a.jpg"}', ":1: 'file_name' is '/a.jpg'"),
        ("metadata.jsonl", '{"file_name":"a.jpg"}\n{"file_name":3}', ":2: 'file_name' is 3"),
        ("metadata.jsonl", '{"file_name":"a.jpg"}\n{"n":3}', ":2: names no file"),
        ("metadata.jsonl", '{"file_name":"a.jpg"}\n{', ":2: is not a JSON object"),
        ("metadata.jsonl", '{"file_name":"a.jpg"}\n{"file_name":"a.jpg"}', ":2: names 'a.jpg' aga"),
        ("metadata.csv", "file_name,n\na.jpg\n", ":2: has 1 cells, the first row 2"),
        ("metadata.csv", 'file_name,n\na.jpg,"b', "is not CSV"),
        ("metadata.csv", b"file_name,n\na.jpg,\xff\n", ":2: is not CSV"),
        ("metadata.csv", "file_name,n\nnone.jpg,1\n", "names no file that is there"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, metadata: str, text: str | bytes, message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        read(fill(tmp_path, metadata, text))


def test_files_that_are_not_there_are_lost(tmp_path: Path) -> None:
    text = 'file_name,m_file_name\na.jpg,\nnone.jpg,\nx/b.jpg,none.png\n"c.JPEG",x/m.png\n'
    catalog, findings = read(fill(tmp_path, "metadata.csv", text))
    assert findings == [
        Finding("missing", "none.jpg", "metadata.csv:3"),
        Finding("missing", "x/b.jpg", "metadata.csv:4, for none.png"),
    ]
    assert fields(catalog) == {"a.jpg": {}, "c.JPEG": {"m": FILES["x/m.png"]}}


def test_files_that_have_changed_are_rejects(tmp_path: Path) -> None:
    names = ("a.jpg", "c.JPEG", "x/b.jpg")
    lines = [{"file_name": name, "n": 1} for name in names]
    text = "\n".join(map(json.dumps, lines))
    catalog, _ = read(fill(tmp_path, "metadata.jsonl", text))
    os.truncate(tmp_path / "a.jpg", 3)
    (tmp_path / "metadata.jsonl").write_text(text.replace('"c.JPEG"', "[123456]"))
    first, second, third = samples(catalog)
    assert str(first).startswith("has changed: it had")
    assert str(second) == "has changed: its line in the metadata is another one"
    assert isinstance(third, Sample)


def test_other_metadata_is_another_source(tmp_path: Path) -> None:
    root = tmp_path / "images"
    root.mkdir()
    lines = [json.dumps({"file_name": name, "label": 1}) + "\n" for name in FILES]
    read_first = read(fill(root, "metadata.jsonl", "".join(lines)))[0]
    (root / "metadata.jsonl").write_text("".join(lines).replace("1}", "2}"))
    assert read(root)[0].digest() != read_first.digest()
    dsprep.convert(str(root), str(tmp_path / "made"), to="folder", workers=1)
    before, _ = read(tmp_path / "made")
    listing = tmp_path / f"made.{LISTING}"
    assert "2" in (text := listing.read_text())
    listing.write_text(text.replace('"label": 2', '"label": 3'))
    assert listing.read_text() != text
    assert read(tmp_path / "made")[0].digest() != before.digest()


def test_a_folder_that_dsprep_wrote_is_known_from_inside_and_by_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"file_name": name, "caption": f"of {name}"} for name in ("a.jpg", "x/b.jpg")]
    text = "\n".join(json.dumps(line) for line in lines)
    fill(tmp_path / "mine", "metadata.jsonl", text)
    made = tmp_path / "made"
    dsprep.convert(str(tmp_path / "mine"), str(made), to="folder", workers=1)
    (tmp_path / "link").symlink_to(made)
    monkeypatch.chdir(made)
    named = [read_source(make_source(root)) for root in (str(made), str(tmp_path / "link"), ".")]
    known = {catalog.described for catalog, _ in named}
    assert (len(known), [findings for _, findings in named]) == (1, [[]] * 3)
