"""Labels, tags and texts of whole images that a kind of annotations tells, in any output."""

from __future__ import annotations

import json
import re
import tarfile
import zipfile
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.errors import DsprepError, SourceError
from dsprep.sources import annotation_kinds
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.boxes import TableBoxes
from dsprep.sources.annotated.image_values import ImageValues, class_of_images, tags_of_images
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.kind import Claim, Sure
from dsprep.sources.kinds import KnownKinds
from dsprep.sources.reading import read_source
from dsprep.sources.source import Source, make_source
from tests.servers.bucket import Bucket
from tests.sources.boxes import notes, read, sides, told, write

NAME = "toy.json"


class ToyKind(AnnotationKind):
    """A JSON with a row for each image: its name and, if told, class, tags, texts, box and side."""

    names = ("toy",)
    words = "the toy"
    help = "toy.json"
    texts = re.compile(NAME)

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        return Claim(Sure.MARKED, NAME) if NAME in place.others else None

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        return [NAME]

    def scan(self, source: Source, place: AnnotatedPlace, run_all: Any) -> Scan:
        text = place.files.text(source.root, f"{source.root}/{NAME}") or ""
        rows: list[dict[str, Any]] = json.loads(text)
        names = [row["name"] for row in rows]
        values = ImageValues()
        if any("class" in row for row in rows):
            values = class_of_images([row.get("class") for row in rows], source, NAME)
        if any("tags" in row for row in rows):
            values = tags_of_images([row.get("tags") for row in rows], source, NAME, ["zebra"])
        for name, kind in (("captions", "list<text>"), ("place", "text"), ("label", "text")):
            if any(name in row for row in rows):
                values = values.with_field(name, kind, [row.get(name) for row in rows])
        found = [row for row in rows if "box" in row]
        boxes, counts = None, [int("box" in row) for row in rows]
        if found:
            starts = [sum(counts[:at]) for at in range(len(rows) + 1)]
            edges = array("d", [edge for row in found for edge in row["box"]])
            numbers = array("i", [0] * len(found))
            boxes = TableBoxes(array("q", starts), edges, numbers, (), (None,) * len(rows))
        classes = ("face",) if found else ()
        sides = [row.get("side", "") for row in rows]
        return Scan(
            *(boxes, names, counts if found else (), [9] * len(rows) if found else (), classes),
            *((), "digest of " + text, NAME),
            sides=sides if any(sides) else (),
            used=[NAME],
            values=values,
        )


@pytest.fixture(autouse=True)
def toy_kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    known = annotation_kinds.own_annotation_kinds()
    more = KnownKinds((*known.kinds, ToyKind))
    for module in ("annotated.recognized", "reading", "annotation_kinds"):
        monkeypatch.setattr(f"dsprep.sources.{module}.all_annotation_kinds", lambda: more)
    yield


CAT = {
    "name": "a.jpg",
    "class": "cat",
    "box": [1, 2, 3, 4],
    "captions": ["x", "y"],
    "side": "train",
}
ANT = {"name": "b.jpg", "class": "ant", "place": "ü", "captions": [], "side": "val"}
FACE = ("face", 1, 2, 3, 4)


def make(root: Path, *rows: dict[str, Any], more: Sequence[str] = ()) -> Path:
    names = [*(row["name"] for row in rows), *more]
    return write(root, {**dict.fromkeys(names), NAME: json.dumps(rows, ensure_ascii=False)})


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]


def pack(root: Path, out: Path, to: str, **options: Any) -> Any:
    return dsprep.pack(root, out, to=to, workers=1, shuffle=False, **options)


def problems(out: Path, root: Path) -> Sequence[Any]:
    return dsprep.verify(out, against=root, workers=1).problems


def test_a_folder_an_archive_and_s3_tell_the_same(
    tmp_path: Path, localstack: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
    root = make(tmp_path / "set", CAT, ANT)
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for path in sorted(root.iterdir()):
            archive.write(path, path.name)
            localstack.put(f"toy/{path.name}", path.read_bytes())
    for place in (root, tmp_path / "set.zip", f"{localstack.url}/toy"):
        catalog, _ = read_source(make_source(str(place)))
        assert told(catalog) == {
            "a.jpg": {"label": "cat", "objects": [FACE], "captions": ("x", "y")},
            "b.jpg": {"label": "ant", "objects": [], "captions": (), "place": "ü"},
        }
        assert sides(catalog) == {"a.jpg": "train", "b.jpg": "val"}
        assert (catalog.classes, catalog.samples_per_class()) == (("ant", "cat"), {0: 1, 1: 1})
        schema = catalog.settled.schema
        assert {each.name: (each.type, each.missing) for each in schema.fields} == {
            "image": ("image", False),
            "label": ("class", False),
            "objects": ("objects", False),
            "captions": ("list<text>", False),
            "place": ("text", True),
        }


@pytest.mark.parametrize("to", ["webdataset", "tfrecord", "parquet", "folder"])
def test_each_output_has_them(tmp_path: Path, to: str) -> None:
    root = make(tmp_path / "set", CAT, ANT)
    out = tmp_path / "out"
    report = pack(root, out, to)
    assert report.samples == 2 and not report.rejects
    assert not problems(out, root)
    if to != "folder":
        assert (out / "classes.txt").read_text() == "ant\ncat\n"
    if to == "webdataset":
        own = members(out / "train-000000.tar")
        assert own["a.cls"] == b"1"
        assert json.loads(own["a.json"])["captions"] == ["x", "y"]


def test_recordio_has_the_class_or_the_objects(tmp_path: Path) -> None:
    root = make(tmp_path / "set", CAT, {**ANT, "box": [1, 1, 2, 2]})
    for dropped, width in (("label", 10), ("objects", 1)):
        out = tmp_path / dropped
        report = pack(root, out, "recordio", drop=(dropped, "captions", "place"))
        assert report.samples == 2
        assert not problems(out, root)
        line = (out / "train-00000.lst").read_text().split("\t")
        assert len(line) >= width
    with pytest.raises(DsprepError, match="a record holds a label or objects"):
        pack(root, tmp_path / "out", "recordio", drop=("captions", "place"))


def test_labels_alone_make_the_catalog_of_a_folder_of_classes(tmp_path: Path) -> None:
    rows = [{"name": f"{at}.jpg", "class": name} for at, name in enumerate(("c10", "c9", "c10"))]
    root = make(tmp_path / "set", *rows, more=["left.jpg"])
    catalog, findings = read(root)
    assert catalog.tells_all and catalog.classes == ("c10", "c9")
    assert [each.path for each in findings if each.kind == "unlisted"] == ["left.jpg"]
    for named in ((), (f"{root}/{NAME}",)):
        options = {"annotations": named, "annotation_format": "toy" if named else None}
        assert read(root, class_order="natural", **options)[0].classes == ("c9", "c10")
    assert read(root, classes=["x", "c9", "c10"])[0].table["cls"].to_list() == [2, 1, 2]
    with pytest.raises(SourceError, match="toy.json: no class of --classes: 'c10'"):
        read(root, classes=["x", "c9"])
    (tmp_path / "keep.txt").write_text("c10\n")
    kept, _ = read(root, keep_classes=str(tmp_path / "keep.txt"))
    assert (kept.classes, len(kept)) == (("c10",), 2)
    text, _ = read(root, label_type="text")
    assert text.settled.schema.by_name["label"].type == "text"
    for to in ("recordio", "tfrecord", "parquet", "webdataset"):
        report = pack(root, tmp_path / to, to)
        assert (report.samples, report.classes) == (3, ("c10", "c9"))
        assert not problems(tmp_path / to, root)


def test_keep_classes_goes_by_the_label_of_images_with_objects(tmp_path: Path) -> None:
    root = make(tmp_path / "set", CAT, {**ANT, "side": "train"})
    (tmp_path / "keep.txt").write_text("cat\n")
    kept, _ = read(root, keep_classes=str(tmp_path / "keep.txt"))
    assert told(kept) == {"a.jpg": {"label": "cat", "objects": [FACE], "captions": ("x", "y")}}


def test_tags_with_boxes(tmp_path: Path) -> None:
    rows = [
        {"name": "a.jpg", "tags": ["red", "big"], "box": [1, 2, 3, 4]},
        {"name": "b.jpg", "tags": []},
    ]
    root = make(tmp_path / "set", *rows)
    catalog, _ = read(root)
    assert catalog.classes == ("big", "red", "zebra")
    assert told(catalog) == {
        "a.jpg": {"label": ("big", "red"), "objects": [FACE]},
        "b.jpg": {"label": (), "objects": []},
    }
    for to in ("webdataset", "tfrecord", "parquet"):
        report = pack(root, tmp_path / to, to, target_size="20KB")
        assert report.samples == 2
        assert not problems(tmp_path / to, root)
    own = members(tmp_path / "webdataset/train-000000.tar")
    assert json.loads(own["a.label.json"]) == [1, 1, 0]
    alone = make(tmp_path / "alone", *({**row, "box": [0, 0, 1, 1]} for row in rows))
    report = pack(alone, tmp_path / "rec", "recordio", drop=("label",))
    assert report.samples == 2  # with objects, as tags are dropped


def test_some_images_have_no_label(tmp_path: Path) -> None:
    root = make(tmp_path / "set", CAT, {"name": "b.jpg"}, more=["c.jpg"])
    assert notes(read(root)[1]).count("without a label") == 0  # b.jpg is of no side
    plain = [{"name": "a.jpg", "class": "cat"}, {"name": "b.jpg"}]
    root = make(tmp_path / "plain", *plain, more=["c.jpg"])
    catalog, findings = read(root)
    assert told(catalog) == {"a.jpg": {"label": "cat"}, "b.jpg": {}}
    assert "1 image without a label" in notes(findings)
    assert told(read(root, label_type="text")[0])["a.jpg"] == {"label": "cat"}
    assert told(read(root, unlisted="keep")[0]).keys() == {"a.jpg", "b.jpg", "c.jpg"}
    report = pack(root, tmp_path / "out", "webdataset")
    assert {*members(tmp_path / "out/train-000000.tar")} >= {"a.cls", "b.jpg"}
    assert not problems(tmp_path / "out", root)
    assert report.samples == 2
    with pytest.raises(SourceError, match="some samples have no label, and recordio holds none"):
        pack(root, tmp_path / "rec", "recordio")


def test_a_field_cannot_take_the_place_of_the_label(tmp_path: Path) -> None:
    root = make(tmp_path / "set", {"name": "a.jpg", "label": "x"})
    with pytest.raises(SourceError, match="toy.json: a field called 'label' is what the label of"):
        read(root)
