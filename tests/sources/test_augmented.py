"""Augmented manifests: read as Ground Truth writes them, matched with the disk, and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsprep
from dsprep.catalog import Catalog
from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.formats.augmented import format_augmented, parse_augmented
from dsprep.sources.annotated.augmented import read_augmented
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source


def line(ref: str, label: Any = "0", name: str | None = None, **more: Any) -> str:
    """A line as Ground Truth writes it."""
    metadata = {"type": "groundtruth/image-classification", "human-annotated": "yes"}
    metadata |= {"class-name": name} if name is not None else {}
    metadata |= {"creation-date": "2018-10-18T22:18:13.527256", "confidence": 0.8, **more}
    return json.dumps({"source-ref": ref, "class": label, "class-metadata": metadata})


BOXES = {
    "image_size": [{"width": 640, "height": 480, "depth": 3}],
    "annotations": [
        {"class_id": 1, "top": 251, "left": 399, "width": 155, "height": 101},
        {"class_id": 0, "top": 65, "left": 86, "width": 220, "height": 334},
    ],
}
BOX_LABEL = [
    *(4, 5, 640, 480),
    *(1, 399 / 640, 251 / 480, 554 / 640, 352 / 480),
    *(0, 86 / 640, 65 / 480, 306 / 640, 399 / 480),
]


def read(root: Path, *lines: str, **options: Any) -> tuple[Catalog, list[Finding]]:
    path = root / "output.manifest"
    path.write_text("\n".join(lines) + "\n")
    if names := options.pop("classes", None):
        options["classes"] = root / "classes.txt"
        options["classes"].write_text("".join(f"{name}\n" for name in names))
    return read_augmented(make_source(root / "images", list_file=path, **options))


def paths(root: Path, *refs: str) -> list[str]:
    return read(root, *map(line, refs))[0].table["path"].to_list()


def refusal(root: Path, *lines: str, **options: Any) -> str:
    with pytest.raises(SourceError) as caught:
        read(root, *lines, **options)
    return str(caught.value).removeprefix(f"{root}/output.manifest")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory whose `images` holds cat/a.jpg, cat/b.jpg, dog/a.jpg and c.jpg."""
    for name in ("cat/a.jpg", "cat/b.jpg", "dog/a.jpg", "c.jpg"):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path


ALL = ("dog/a.jpg", "cat/a.jpg", "cat/b.jpg", "c.jpg")


def test_order_labels_and_classes_are_the_manifests(root: Path) -> None:
    catalog, findings = read(
        root, *(line(ref, n % 2, "cat" if n % 2 else "dog") for n, ref in enumerate(ALL))
    )
    assert findings == []
    assert catalog.classes == ("dog", "cat")
    assert catalog.table.select("index", "path", "size", "cls").rows() == [
        (0, "dog/a.jpg", 9, 0),
        (1, "cat/a.jpg", 9, 1),
        (2, "cat/b.jpg", 9, 0),
        (3, "c.jpg", 5, 1),
    ]


@pytest.mark.parametrize(
    "start",
    [
        "",
        "./",
        "s3://bucket/",
        "s3://bucket/some/where/",
        "s3://bucket/images/",
        "S3://bucket//",
        "{root}/images/",
        "{root}//images/./",
        "file://{root}/images/",
        "file://localhost{root}/images/",
    ],
)
def test_where_images_may_be(root: Path, start: str) -> None:
    assert paths(root, *(start.format(root=root) + ref for ref in ALL)) == list(ALL)


def test_a_file_url_is_unescaped(root: Path) -> None:
    (root / "images/a b%.jpg").write_bytes(b"")
    assert paths(root, f"file://{root}/images/a%20b%25.jpg") == ["a b%.jpg"]


def test_an_s3_url_is_not_unescaped(root: Path) -> None:
    (root / "images/a%20b.jpg").write_bytes(b"")
    assert paths(root, "s3://bucket/x/a%20b.jpg") == ["a%20b.jpg"]


def test_buckets_may_differ(root: Path) -> None:
    assert paths(root, "s3://one/x/cat/a.jpg", "s3://two/y/z/dog/a.jpg") == [
        "cat/a.jpg",
        "dog/a.jpg",
    ]


def test_what_is_not_there_is_named_by_where_it_should_be(root: Path) -> None:
    catalog, findings = read(root, line("s3://bucket/x/cat/a.jpg"), line("s3://bucket/x/owl/a.jpg"))
    assert catalog.table["path"].to_list() == ["cat/a.jpg"]
    assert Finding("missing", "owl/a.jpg", "output.manifest:2") in findings
    assert Finding("unlisted", "c.jpg") in findings


def test_it_has_to_be_clear_which_file_is_meant(root: Path) -> None:
    assert refusal(
        root, line("s3://bucket/x/cat/a.jpg"), line("s3://bucket/x/owl/c.jpg")
    ).startswith(":2: 's3://bucket/x/owl/c.jpg' may mean 'c.jpg' or, like other lines, 'owl/c.jpg'")
    assert refusal(root, line("s3://one/c.jpg"), line("s3://two/c.jpg")).startswith(
        ":2: 's3://two/c.jpg' would be 'c.jpg', as 's3://one/c.jpg' is"
    )


def test_the_same_image_twice_is_noted(root: Path) -> None:
    twice = line("s3://b/c.jpg"), line("s3://b/c.jpg")
    assert refusal(root, *twice).startswith(":2: 'c.jpg' stands in line 1 already (1 row like")
    catalog, findings = read(root, *twice, duplicates="keep")
    assert len(catalog) == 2
    assert findings[0].kind == "duplicate"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("0", 0),
        (7, 7),
        (7.0, 7),
        (" 3 ", 3),
        ("0.5", [0.5]),
        (-1, -1),
        ([2, 0], [2, 0]),
        ("[1, 0, 1]", [1, 0, 1]),
        ([5], 5),
    ],
)
def test_labels(root: Path, text: Any, label: Any) -> None:
    catalog, _ = read(root, line("c.jpg", text))
    column = catalog.label_column
    assert column is not None
    assert catalog.table[column].to_list() == [label]


def test_which_attribute_labels(root: Path) -> None:
    two = '{"source-ref":"c.jpg","x":5,"a":1,"a-metadata":{},"b":2,"b-metadata":{}}'
    assert read(root, two)[0].table["cls"].to_list() == [1]
    assert read(root, '{"source-ref":"c.jpg","x":5}')[0].table["cls"].to_list() == [5]
    assert read(root, '{"source-ref":"c.jpg"}')[0].label_column is None
    several = '{"source-ref":"c.jpg","x":5,"y":6}'
    assert refusal(root, several) == (
        ":1: several attributes may be the label: 'x', 'y': give --label-field NAME"
    )
    chosen = dsprep.make_source(
        root / "images", list_file=root / "output.manifest", label_field="y"
    )
    assert read_augmented(chosen)[0].table["cls"].to_list() == [6]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["cat"], ":1: is no JSON"),
        (["", "[]"], ":2: is no JSON object"),
        (['{"source": ["a text"]}'], ":1: has no 'source-ref'"),
        (['{"source": "a text"}'], ": its lines are texts, and no images: give it as SOURCE"),
        ([line("c.jpg"), '{"source": "a"}'], ":2: has 'source', but the first line has"),
        (['{"source": "a", "label": {}}'], ":1: the label 'label' is neither a number nor a list"),
        (['{"source-ref": ""}'], ":1: has no 'source-ref'"),
        (['{"source-ref": 7}'], ":1: has no 'source-ref'"),
        (['{"source-ref": "\\ud800.jpg"}'], ":1: has no 'source-ref'"),
        ([line("c.jpg", "cat")], ":1: 'cat' is no number"),
        ([line("c.jpg", None)], ":1: None is no number"),
        ([line("c.jpg", True)], ":1: True is no number"),
        ([line("c.jpg", float("nan"))], ":1: nan is no number"),
        ([line("c.jpg", "1_0")], ":1: '1_0' is no number"),
        ([line("c.jpg", "٣")], ":1: '٣' is no number"),
        ([line("c.jpg", 2**53)], ":1: 9007199254740992 is too large"),
        ([line("c.jpg", [])], ":1: the label 'class' is empty"),
        ([line("c.jpg", [1, [2]])], ":1: [2] is no number"),
        ([line("c.jpg", "[1, ")], ":1: the label '[1, ' is no list"),
        ([line("c.jpg", {})], ":1: the label is an object without"),
        ([line("c.jpg", BOXES | {"annotations": [3]})], ":1: an annotation is no object"),
        ([line("c.jpg", BOXES | {"annotations": [{}]})], ":1: None is no number"),
        ([line("c.jpg", BOXES | {"image_size": [{"width": 0, "height": 9}]})], ":1: the image's"),
        ([line("c.jpg"), line("cat/a.jpg", [1, 2])], ":2: the label is a list, but that of the"),
        ([line("c.jpg"), '{"source-ref": "cat/a.jpg"}'], ":2: has no label 'class'"),
        (['{"source-ref": "c.jpg"}', line("cat/a.jpg")], ":2: has a label, but the first line"),
        ([line("../c.jpg")], ":1: '../c.jpg' is not a path below"),
        ([line("a\0.jpg")], ":1: 'a\\x00.jpg' is not a path below"),
        ([line("s3://b/../c.jpg"), line("s3://b/x/../d.jpg")], ":2: 'x/../d.jpg' is not a path"),
        ([line("/etc/passwd")], ":1: '/etc/passwd' is not below the folder"),
        ([line("file:///etc/passwd")], ":1: 'file:///etc/passwd' is not below the folder"),
        ([line("file://host/c.jpg")], ":1: 'file://host/c.jpg' is on another machine"),
        ([line("https://host/c.jpg")], ":1: 'https://host/c.jpg' is no path, and no file://"),
        ([line("s3://bucket")], ":1: 's3://bucket' names no object"),
        ([line("s3://bucket/")], ":1: 's3://bucket/' names no object"),
        ([line("owl.jpg")], ": not one of the 1 files"),
        ([""], ": names no images"),
        ([line("c.jpg", 0, "x"), line("cat/a.jpg", 0, "y")], ":2: the class 0 is called 'y', but"),
        ([line("c.jpg", 0, "x"), line("cat/a.jpg", 1, "x")], ":2: 'x' is what class 0 is called"),
        ([line("c.jpg", 0, "x"), line("cat/a.jpg", 2, "y")], ": tells no name of class 1"),
        ([line("c.jpg", 0, "x"), line("cat/a.jpg", 1)], ":2: 1 is none of the 1 classes"),
        ([line("c.jpg", 0, "x\ny")], ": the class name 'x\\ny' does not fit"),
        (
            [line("c.jpg", BOXES, **{"class-map": {"0": "x"}})],
            ": 1 class without a name in any class",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_line(root: Path, lines: list[str], problem: str) -> None:
    assert refusal(root, *lines).startswith(problem)


def test_classes_that_are_fixed(root: Path) -> None:
    catalog, _ = read(root, line("c.jpg", 1, "dog"), classes=("cat", "dog", "owl"))
    assert catalog.classes == ("cat", "dog", "owl")
    assert "is called 'cat', but is called 'dog' elsewhere" in refusal(
        root, line("c.jpg", 1, "cat"), classes=("cat", "dog")
    )
    assert "is none of the classes" in refusal(root, line("c.jpg", 7, "owl"), classes=("cat",))


def test_how_a_manifest_is_written() -> None:
    rows = [("cat/a.jpg", 0, "cat"), ("dog/ü.jpg", 1, "dog"), ("c.jpg", 2, None)]
    text = format_augmented(rows, "s3://bucket/data")
    assert [json.loads(each) for each in text.splitlines()] == [
        {
            "source-ref": "s3://bucket/data/cat/a.jpg",
            "class": "0",
            "class-metadata": {
                "class-name": "cat",
                "human-annotated": "yes",
                "type": "groundtruth/image-classification",
            },
        },
        {
            "source-ref": "s3://bucket/data/dog/ü.jpg",
            "class": "1",
            "class-metadata": {
                "class-name": "dog",
                "human-annotated": "yes",
                "type": "groundtruth/image-classification",
            },
        },
        {
            "source-ref": "s3://bucket/data/c.jpg",
            "class": "2",
            "class-metadata": {
                "human-annotated": "yes",
                "type": "groundtruth/image-classification",
            },
        },
    ]
    assert text == format_augmented(iter(rows), "s3://bucket/data/")
    assert format_augmented([("c.jpg", None, None)], "") == '{"source-ref": "c.jpg"}\n'


def test_boxes_are_written_as_they_were_read() -> None:
    text = format_augmented(
        [("c.jpg", tuple(BOX_LABEL), None), ("d.jpg", (4.0, 5.0, 8.0, 9.0), None)],
        "",
        ("Echo", "Echo Dot", "neither"),
    )
    first, second = map(json.loads, text.splitlines())
    assert first["class"] == BOXES
    assert first["class-metadata"] == {
        "class-map": {"0": "Echo", "1": "Echo Dot"},
        "human-annotated": "yes",
        "objects": [{"confidence": 1}, {"confidence": 1}],
        "type": "groundtruth/object-detection",
    }
    assert second["class"] == {
        "image_size": [{"width": 8, "height": 9, "depth": 3}],
        "annotations": [],
    }


def test_several_classes_are_written_with_their_names() -> None:
    text = format_augmented([("c.jpg", (2.0, 0.0), None)], "", classes=("a", "b", "c"))
    values = json.loads(text)
    assert values["class"] == [2, 0]
    assert values["class-metadata"]["class-map"] == {"0": "a", "2": "c"}
    assert values["class-metadata"]["type"] == "groundtruth/image-classification-multilabel"


@pytest.mark.parametrize(
    "label",
    [
        (2.0, 5.0, 1.0, 0.1, 0.2, 0.3, 0.4),
        (4.0, 5.0, 0.0, 9.0, 1.0, 0.1, 0.2, 0.3, 0.4),
        (4.0, 6.0, 9.0, 9.0, 1.0, 0.1, 0.2, 0.3, 0.4, 0.0),
        (4.0, 5.0, 9.0, 9.0, 1.5, 0.1, 0.2, 0.3, 0.4),
        (float("nan"),),
        (1.0, float("inf")),
    ],
)
def test_labels_that_a_manifest_cannot_hold(label: tuple[float, ...]) -> None:
    with pytest.raises(BadSample, match=r"^c\.jpg: "):
        format_augmented([("c.jpg", label, None)], "")


pixels = st.integers(0, 10_000)
boxes = st.tuples(st.integers(0, 9), pixels, pixels, pixels, pixels)


@given(st.lists(boxes, min_size=1, max_size=5), st.integers(1, 20_000), st.integers(1, 20_000))
def test_boxes_in_whole_pixels_come_back(
    objects: list[tuple[int, ...]], width: int, height: int
) -> None:
    annotations = [
        {
            "class_id": number,
            "left": min(left, width),
            "top": min(top, height),
            "width": min(across, width - min(left, width)),
            "height": min(down, height - min(top, height)),
        }
        for number, left, top, across, down in objects
    ]
    size = {"width": width, "height": height, "depth": 3}
    value = {"image_size": [size], "annotations": annotations}
    (parsed,) = parse_augmented(line("c.jpg", value), "manifest")
    assert parsed.label is not None
    scales = (1, width, height, width, height)
    shares = (each / scales[at % 5] for at, each in enumerate(parsed.label[2:]))
    text = format_augmented([("c.jpg", (4.0, 5.0, *parsed.label[:2], *shares), None)], "")
    assert json.loads(text)["class"] == value


numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e6, 1e6)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@given(
    st.lists(st.tuples(names, numbers), min_size=1)
    | st.lists(
        st.tuples(names, st.lists(st.floats(-1e6, -0.5), min_size=2, max_size=9)), min_size=1
    )
)
def test_what_is_written_is_read_again(rows: list[tuple[str, Any]]) -> None:
    labels = [
        tuple(map(float, label)) if isinstance(label, list) else (float(label),)
        for _, label in rows
    ]
    written = [(path, label, None) for (path, _), label in zip(rows, labels, strict=True)]
    parsed = list(parse_augmented(format_augmented(written, "s3://b/p"), "manifest"))
    assert [each.ref for each in parsed] == [f"s3://b/p/{path}" for path, _ in rows]
    assert [each.label for each in parsed] == labels


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        list(parse_augmented(text, "manifest"))
    except SourceError as error:
        assert str(error).startswith("manifest:")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["image_size", "annotations", "width", "height", "class_id", "left", "top", "0"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(json_values, json_values, json_values)
def test_any_label_is_read_or_refused(label: Any, metadata: Any, names: Any) -> None:
    metadata = {"class-map": metadata, "class-name": names} if names is not None else metadata
    text = json.dumps({"source-ref": "a.jpg", "a": label, "a-metadata": metadata})
    try:
        (parsed,) = parse_augmented(text, "manifest")
    except SourceError as error:
        assert str(error).startswith("manifest:1:")
    else:
        assert parsed.label


@pytest.mark.parametrize(
    ("others", "attributes"),
    [
        ({"mask.png": "0.mask.png"}, ["mask-ref"]),
        ({"json": "0.json", "label.json": "0.label.json"}, ["json-ref", "label.json-ref"]),
        ({"mask.png": "0.mask.png", "mask.jpg": "0.mask.jpg"}, ["mask-ref", "mask.jpg-ref"]),
        ({"source.png": "0.source.png", "png": "0.png"}, ["source.png-ref", "png-ref"]),
    ],
)
def test_other_files_are_referred_to(others: dict[str, str], attributes: list[str]) -> None:
    text = format_augmented([("0.jpg", 3, "cat", others)], "s3://b/")
    values = json.loads(text)
    assert list(values) == ["source-ref", *attributes, "class", "class-metadata"]
    assert [values[name] for name in attributes] == [f"s3://b/{path}" for path in others.values()]
    (read,) = parse_augmented(text, "manifest")
    assert (read.ref, read.label, read.others) == ("s3://b/0.jpg", (3.0,), tuple(attributes))


def test_references_that_are_not_read_are_said(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.jpg").write_bytes(b"x")
    line = {"source-ref": "a.jpg", "out-ref": "s3://b/a.png", "out-ref-metadata": {"x": 1}}
    (tmp_path / "train.manifest").write_text(json.dumps(line), "utf-8")
    catalog, findings = read_augmented(make_source(tmp_path / "train.manifest"))
    assert catalog.label_column is None
    assert findings == [Finding("unlisted", "out-ref", "1 reference to files that are not read")]


def test_tags_are_lists_of_classes_and_come_back(tmp_path: Path) -> None:
    classes = ("a", "b", "c", "d")
    tags = [(0.0, 1.0, 0.0, 1.0), (1.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.0)]
    names = ["0.jpg", "1.jpg", "2.jpg"]
    rows = [(name, label, None) for name, label in zip(names, tags, strict=True)]
    text = format_augmented(rows, "", classes=classes)
    first, _, last = map(json.loads, text.splitlines())
    assert first["class"] == [1, 3]
    assert first["class-metadata"] == {
        "class-map": {"1": "b", "3": "d"},
        "human-annotated": "yes",
        "type": "groundtruth/image-classification-multilabel",
    }
    assert (last["class"], last["class-metadata"]["class-map"]) == ([], {})
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "x.manifest").write_text(text)
    catalog, _ = read_source(make_source(str(tmp_path / "x.manifest")))
    assert catalog.classes == classes
    assert [tuple(label) for label in catalog.table["label"].to_list()] == tags
    for wrong, message in (
        ('"1": "b", "3": "d"', "tells no name of class 1"),
        ("[1, 3]", "5 is none of the 4 classes"),
    ):
        changed = '"3": "d"' if ":" in wrong else "[1, 5]"
        (tmp_path / "x.manifest").write_text(text.replace(wrong, changed))
        with pytest.raises(SourceError, match=message):
            read_source(make_source(str(tmp_path / "x.manifest")))


def test_flags_without_names_are_no_list_of_classes() -> None:
    rows = [("0.jpg", (1.0, 0.0, 0.0), None), ("1.jpg", (1.0, 2.0, 0.0), None)]
    first, second = map(json.loads, format_augmented(rows, "").splitlines())
    assert (first["class"], second["class"]) == ([1, 0, 0], [1, 2, 0])
    for each in (first, second):
        assert each["class-metadata"] == {"human-annotated": "yes"}
