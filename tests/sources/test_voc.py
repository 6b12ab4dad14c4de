"""Sets of Pascal VOC: boxes, classes, sides, judged by torchvision's reading of the XML."""

from __future__ import annotations

import filecmp
import shutil
import tarfile
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
from PIL import Image

import dsprep
from dsprep.annotations.voc import counts_from_0, objects_of, parse
from dsprep.errors import SourceError
from dsprep.sample import Sample
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.sources.boxes import (
    SIZE,
    boxes,
    kinds,
    notes,
    objects,
    read,
    sides,
    told,
    voc,
    voc_object,
    write,
)
from tests.sources.mask_sets import colored

CAT = voc_object("cat", (11, 6, 30, 15))
PLACE = ("cat", 10, 5, 30, 15)


def devkit(tmp_path: Path) -> Path:
    top = "VOCdevkit/VOC2012"
    mask = (Path(__file__).parent / "none").name.encode()
    return write(
        tmp_path,
        {
            f"{top}/JPEGImages/1.jpg": None,
            f"{top}/JPEGImages/2.jpg": None,
            f"{top}/JPEGImages/3.jpg": None,
            f"{top}/JPEGImages/4.jpg": None,
            f"{top}/SegmentationClass/1.png": mask,
            f"{top}/Annotations/1.xml": voc(CAT + voc_object("aardvark", (1, 1, 1, 1))),
            f"{top}/Annotations/2.xml": voc(voc_object("bird", (5.5, 2, 40, 20))),
            f"{top}/Annotations/3.xml": voc(),
            f"{top}/Annotations/4.xml": voc(CAT),
            f"{top}/ImageSets/Main/train.txt": "1\n2\n",
            f"{top}/ImageSets/Main/val.txt": "3\n",
            f"{top}/ImageSets/Main/trainval.txt": "1\n2\n3\n",
            f"{top}/ImageSets/Main/cat_train.txt": "1 1\n2 -1\n",
        },
    )


def test_directories_that_are_classes_of_objects_tell_labels(tmp_path: Path) -> None:
    """As ImageNet has them for localization: boxes for some images of each class."""
    top, dog = "Data/CLS-LOC", voc_object("dog", (1, 1, 9, 9))
    names = ["train/cat/1", "train/cat/2", "train/dog/3", "val/4", "val/5", "test/6"]
    xmls = {f"Annotations/CLS-LOC/{name}.xml": voc(CAT) for name in (names[0], names[3])}
    xmls |= {"Annotations/CLS-LOC/train/dog/3.xml": voc(dog)}
    files = {f"{top}/{name}.jpg": None for name in names}
    more = {"Annotations/CLS-LOC/val/5.xml": voc(CAT + dog)}
    catalog, findings = read(write(tmp_path, files | xmls | more))
    assert {path: len(own) for path, own in boxes(catalog).items()} == {
        f"{top}/{name}.jpg": count for name, count in zip(names, (1, 0, 1, 1, 2), strict=False)
    }
    labels = {path: each.get("label") for path, each in told(catalog).items()}
    assert [*labels.values()] == ["cat", "cat", "dog", "cat", None]
    assert {*sides(catalog).values()} == {"train", "val"}
    assert "1 image without an XML file, and so without objects" in notes(findings)
    assert len(read(tmp_path, unlisted="drop")[0]) == 4
    (tmp_path / "Annotations/CLS-LOC/train/dog/3.xml").write_text(voc(CAT))
    assert "label" not in read(tmp_path)[0].settled.schema.by_name


@pytest.mark.parametrize(
    ("cats", "dogs", "others", "labels"),
    [
        ("cat", "n02-Dog", ("masks/cat/1_mask.png",), {"cat", "dog"}),
        ("seq1", "seq2", ("images/seq1/2.jpg",), {None}),
    ],
)
def test_only_images_of_directories_of_classes_have_their_label(
    tmp_path: Path, cats: str, dogs: str, others: Sequence[str], labels: set[str | None]
) -> None:
    """Masks in directories of the same names, and sequences that show objects of one class."""
    dog = voc_object("dog", (1, 1, 9, 9))
    own = {f"images/{cats}/1.jpg": None, f"images/{dogs}/3.jpg": None}
    xmls = {f"annotations/{cats}/1.xml": voc(CAT), f"annotations/{dogs}/3.xml": voc(dog)}
    catalog, findings = read(write(tmp_path, {**own, **xmls, **dict.fromkeys(others)}))
    found = told(catalog)
    assert {*found} == {*own}
    assert {each.get("label") for each in found.values()} == labels
    assert {*others} <= {*kinds(findings)}


def test_devkit(tmp_path: Path) -> None:
    catalog, findings = read(devkit(tmp_path) / "VOCdevkit")
    top = "VOC2012/JPEGImages"
    assert boxes(catalog) == {
        f"{top}/1.jpg": [PLACE, ("aardvark", 0, 0, 1, 1)],
        f"{top}/2.jpg": [("bird", 4.5, 1, 40, 20)],
        f"{top}/3.jpg": [],
    }
    assert catalog.settled.schema.by_name["objects"].names == ("aardvark", "bird", "cat")
    assert sides(catalog) == dict.fromkeys((f"{top}/1.jpg", f"{top}/2.jpg"), "train") | {
        f"{top}/3.jpg": "val"
    }
    assert "count from 1" in notes(findings)
    found = kinds(findings)
    assert found[f"{top}/4.jpg"] == "unlisted"
    others = (
        "SegmentationClass/1.png",
        "ImageSets/Main/trainval.txt",
        "ImageSets/Main/cat_train.txt",
    )
    assert {found[f"VOC2012/{path}"] for path in others} == {"not-read"}


def test_masks_are_told_as_they_are_used(tmp_path: Path) -> None:
    mask, data = Image.new("P", SIZE), BytesIO()
    mask.putpalette([0, 0, 0, 128, 0, 0])
    mask.save(data, "PNG")
    top = "VOC2012/SegmentationClass"
    # The fourth image is on no side.
    masks = {f"VOCdevkit/{top}/{number}.png": data.getvalue() for number in range(1, 5)}
    root = write(devkit(tmp_path), masks) / "VOCdevkit"
    written = "3 masks written as gray PNG of the same class numbers"
    options: dict[str, Any] = {"masks": root / top, "workers": 1}
    report = dsprep.convert(root, tmp_path / "w", to="webdataset", **options)
    left_out = [found.path for found in report.skipped if found.kind == "unlisted"]
    assert left_out == ["VOC2012/JPEGImages/4.jpg"]
    assert written in report.notes
    report = dsprep.convert(root, tmp_path / "coco", to="coco", **options)
    assert not any("gray" in note for note in report.notes), report.notes
    assert "left out, because coco has no place for it: mask" in report.notes
    assert dsprep.convert(root, tmp_path / "voc", to="voc", **options).notes.count(written) == 1


def test_an_image_on_two_sides_is_told(tmp_path: Path) -> None:
    root = devkit(tmp_path) / "VOCdevkit"
    (root / "VOC2012/ImageSets/Main/val.txt").write_text("2\n3\n")
    catalog, findings = read(root)
    assert sides(catalog)["VOC2012/JPEGImages/2.jpg"] == "train"
    assert "val has images of train, which stay there, such as VOC2012/JPEGImages/2" in notes(
        findings
    )


def test_images_that_lists_name_in_vain_are_counted(tmp_path: Path) -> None:
    root = devkit(tmp_path) / "VOCdevkit"
    main = root / "VOC2012/ImageSets/Main"
    main.joinpath("val.txt").write_text("3\n4\n8\n9\n")
    (root / "VOC2012/Annotations/4.xml").unlink()
    (root / "VOC2012/Annotations/9.xml").write_text(voc(CAT))
    catalog, findings = read(root)
    assert sides(catalog)["VOC2012/JPEGImages/3.jpg"] == "val"
    missing = {path for path, kind in kinds(findings).items() if kind == "missing"}
    assert missing == {"VOC2012/JPEGImages/8", "9"}
    assert "1 image without an XML file, and so left out" in notes(findings)
    assert "VOC2012/ImageSets/Main/val.txt" not in kinds(findings)


def test_sides_of_images_in_another_directory(tmp_path: Path) -> None:
    files = {"images/1.jpg": None, "annotations/1.xml": voc(CAT), "ImageSets/Main/val.txt": "1"}
    catalog, _ = read(write(tmp_path, files))
    assert sides(catalog) == {"images/1.jpg": "val"}


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ({"images/1.jpg": None, "annotations/1.xml": voc(CAT)}, "images/1.jpg"),
        ({"train/1.jpg": None, "train/1.xml": voc(CAT)}, "train/1.jpg"),
        ({"a/1.jpg": None, "a/1.xml": voc(CAT), "b/1.jpg": None, "b/1.xml": voc()}, "a/1.jpg"),
    ],
)
def test_other_layouts(tmp_path: Path, files: dict[str, Any], path: str) -> None:
    catalog, _ = read(write(tmp_path, files))
    assert boxes(catalog)[path] == [PLACE]


def test_named(tmp_path: Path) -> None:
    files = {"img/1.jpg": None, "xml/1.xml": voc(CAT), "xml/2.xml": voc()}
    root = write(tmp_path, files)
    catalog, findings = read(root / "img", annotations=[str(root / "xml")])
    assert boxes(catalog) == {"1.jpg": [PLACE]}
    assert kinds(findings) == {"2": "missing"}


def test_origin(tmp_path: Path) -> None:
    zero = {"1.jpg": None, "1.xml": voc(CAT), "2.jpg": None}
    zero["2.xml"] = voc(voc_object("cat", (0, 3, 4, 5)))
    root = write(tmp_path, zero)
    catalog, findings = read(root)
    assert boxes(catalog)["1.jpg"] == [("cat", 11, 6, 30, 15)]
    assert "count from 0" in notes(findings)
    catalog, findings = read(root, voc_origin=1)
    assert boxes(catalog)["1.jpg"] == [PLACE]
    assert "count from" not in notes(findings)


def test_flags_and_parts(tmp_path: Path) -> None:
    part = "<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part>"
    more = f"<pose>Left</pose><difficult>1</difficult><truncated>0</truncated>{part}"
    files = {"1.jpg": None, "1.xml": voc(voc_object("cat", (11, 6, 30, 15), more))}
    catalog, findings = read(write(tmp_path, files))
    (found,) = objects(catalog)["1.jpg"].items
    assert (found.flags, found.more) == ({"difficult"}, {"pose": "Left"})
    assert "1 <part> of objects left out" in notes(findings)


BOMB = '<!DOCTYPE a [<!ENTITY a "b"><!ENTITY c "&a;&a;">]>'


@pytest.mark.parametrize(
    ("xml", "why"),
    [
        (BOMB + voc(CAT), "declares entities"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + voc(CAT), "declares entities"),
        (voc(CAT)[:-5], "is no XML"),
        (voc("<object><bndbox/></object>"), "an object has no name"),
        (voc("<object><name>cat</name></object>"), "'cat' has no xmin"),
        (voc(voc_object("cat", (1, 1, "nan", 5))), "xmax is 'nan'"),
        (voc(voc_object("cat", (9, 1, 5, 5))), "ends before it begins"),
        ("<a>" * 4 + "</a>" * 4, "no annotation of VOC's"),
        (voc("<a>" * 40 + "</a>" * 40), "has more than 32 elements in one another"),
    ],
)
def test_refused(tmp_path: Path, xml: str, why: str) -> None:
    files: dict[str, Any] = {f"JPEGImages/{number}.jpg": None for number in range(5)}
    files |= {f"Annotations/{number}.xml": xml for number in range(5)}
    root = write(tmp_path, files)
    named = {"annotations": [str(root / "Annotations")]} if xml.startswith("<a>") else {}
    with pytest.raises(SourceError) as refused:
        read(root, **named)
    said = str(refused.value)
    assert "5 files" in said
    assert said.count(why) == 3


def test_classes_in_the_order_of_a_file(tmp_path: Path) -> None:
    root = devkit(tmp_path)
    names = write(tmp_path, {"names.txt": "cat\nbird\naardvark\ndog\n"}) / "names.txt"
    catalog, _ = read(root / "VOCdevkit", classes=str(names))
    assert catalog.settled.schema.by_name["objects"].names == ("cat", "bird", "aardvark", "dog")
    names.write_text("cat\n")
    with pytest.raises(SourceError, match="'aardvark', 'bird'"):
        read(root / "VOCdevkit", classes=str(names))


def torchvision_tree(node: Element) -> dict[str, Any]:
    """``VOCDetection.parse_voc_xml`` of torchvision 0.29, written out."""
    found: dict[str, Any] = {}
    children = list(node)
    if children:
        lists: dict[str, list[Any]] = {}
        for tree in map(torchvision_tree, children):
            for name, value in tree.items():
                lists.setdefault(name, []).append(value)
        if node.tag == "annotation":
            lists["object"] = [lists.get("object", [])]
        found = {node.tag: {name: v[0] if len(v) == 1 else v for name, v in lists.items()}}
    if node.text:
        text = node.text.strip()
        if not children:
            found[node.tag] = text
    return found


def test_as_torchvision_reads_it() -> None:
    more = "<part><name>hand</name><bndbox><xmin>0</xmin></bndbox></part><difficult>1</difficult>"
    text = voc(CAT + voc_object("dog", (2.5, 3, 4, 5), more))
    read_voc = parse(text.encode())
    assert not counts_from_0(read_voc)
    found = objects_of(read_voc, {"cat": 0, "dog": 1}, 1)
    tree = torchvision_tree(fromstring(text))["annotation"]
    assert found.extent == (int(tree["size"]["width"]), int(tree["size"]["height"]))
    for own, other in zip(found.items, tree["object"], strict=True):
        assert other["name"] == ("cat", "dog")[own.number]
        xmin, ymin, xmax, ymax = (
            float(other["bndbox"][side]) for side in ("xmin", "ymin", "xmax", "ymax")
        )
        assert own.box == (xmin - 1, ymin - 1, xmax, ymax)
        assert ("difficult" in own.flags) == (other.get("difficult") == "1")


LABELME = "<annotation><object><name>cat</name><polygon><pt><x>1</x></pt></polygon></object>"


@pytest.mark.parametrize(
    "names",
    [
        ("JPEGImages/{}.jpg", "xml/{}.xml"),
        ("Images/n1-cat/{}.jpg", "Annotation/n1-cat/{}"),  # as the Stanford Dogs have it
        ("{}.jpg", "{}.xml"),
        ("a/images/{}.jpg", "a/annotations/xmls/{}.XML"),
    ],
)
def test_content_decides(tmp_path: Path, names: tuple[str, str]) -> None:
    image, xml = names
    files: dict[str, Any] = {image.format(at): None for at in range(9)}
    files |= {xml.format(at): voc(CAT if at == 6 else "") for at in range(9)}
    others = {"pom.xml": "<project/>", "notes": "some notes", "labelme/0.xml": LABELME}
    root = write(tmp_path / "set", files | others)
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for name in files | others:
            archive.write(root / name, f"set/{name}")
    for place in (root, tmp_path / "set.zip"):
        catalog, findings = read(place, leave_out=["labelme"])
        assert boxes(catalog) == {image.format(at): [PLACE] * (at == 6) for at in range(9)}
        statuses = {"pom.xml": "left-over", "notes": "left-over", "labelme/0.xml": "left-out"}
        assert kinds(findings) == statuses
    assert read(root, leave_out=["*"])[0].annotated is None
    assert read(write(tmp_path / "other", {"a.jpg": None, "a.xml": LABELME}))[0].annotated is None


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        (("Main/Train", "Main/Validation"), ["train", "val"]),  # as CVAT calls its subsets
        (("Main/trainval", "Main/test"), ["trainval", "test"]),
        (("train", "val"), ["train", "val"]),
        (("Segmentation/train", "Segmentation/val"), []),
        (("Main/trainval", "Main/cat_train"), []),
    ],
)
def test_lists_that_tell_sides(tmp_path: Path, lists: tuple[str, str], expected: Any) -> None:
    files: dict[str, Any] = {f"JPEGImages/{at}.jpg": None for at in range(2)}
    files |= {f"Annotations/{at}.xml": voc(CAT) for at in range(2)}
    files |= {f"ImageSets/{name}.txt": f"# a comment\n{at}\n" for at, name in enumerate(lists)}
    catalog, findings = read(write(tmp_path, files))
    assert len(catalog) == 2
    assert [*sides(catalog).values()] == expected if expected else not catalog.sides
    assert len(kinds(findings)) == (0 if expected else 2)
    assert not read(tmp_path, leave_out=["ImageSets"])[0].sides


def test_sides_of_directories_with_xml_files(tmp_path: Path) -> None:
    """As Roboflow exports it."""
    names = ("train/a", "train/b", "valid/c")
    files = {f"{name}.jpg": None for name in names} | {f"{name}.xml": voc(CAT) for name in names}
    catalog, _ = read(write(tmp_path, files))
    assert sides(catalog) == {f"{name}.jpg": name.rpartition("/")[0] for name in names}


def png(mode: str) -> bytes:
    mask, data = Image.new("P", SIZE, 1), BytesIO()
    mask.putpalette([0, 0, 0, 128, 0, 0])
    mask.convert(mode).save(data, "PNG")
    return data.getvalue()


def test_masks_are_taken_where_the_output_has_a_place_for_them(tmp_path: Path) -> None:
    files: dict[str, Any] = {f"JPEGImages/{at}.jpg": None for at in range(2)}
    files |= {f"Annotations/{at}.xml": voc(CAT) for at in range(2)}
    files |= {"ImageSets/Segmentation/train.txt": "0", "SegmentationObject/0.png": png("P")}
    files |= {"SegmentationClass/0.png": png("P")}
    root = write(tmp_path / "set", files)
    report = dsprep.pack(root, tmp_path / "w", to="webdataset", workers=1)
    with tarfile.open(tmp_path / "w" / "train-000000.tar") as tar:
        (name,) = (name for name in tar.getnames() if name.endswith(".mask.png"))
    assert report.samples == 2
    assert report.skipped_counts == {"not-read": {".png": 1, ".txt": 1}}
    assert not dsprep.verify(tmp_path / "w", against=str(root)).problems
    for suffix, form in (("zip", "zip"), ("tar.gz", "gztar")):
        archive = shutil.make_archive(str(tmp_path / "set"), form, tmp_path, "set")
        assert archive.endswith(suffix)
        assert dsprep.pack(archive, tmp_path / suffix, to="webdataset", workers=1).samples == 2
        same = filecmp.cmp(tmp_path / "w/train-000000.tar", tmp_path / suffix / "train-000000.tar")
        assert same
    report = dsprep.pack(root, tmp_path / "x.rec", workers=1)
    assert report.skipped_counts == {"not-read": {".png": 2, ".txt": 1}}
    said = "1 mask not read, such as SegmentationClass/0.png: the output has no place for masks"
    assert said in report.notes
    source = make_source(str(root)).replace(takes_masks=True)
    # In color, they have the colors of VOC's palette, or those of the table that CVAT writes.
    write(root, {"SegmentationClass/0.png": png("RGB")})
    catalog, findings = read_source(source)
    said = "the colors of masks have the class numbers of Pascal VOC, as no labelmap.txt names them"
    assert said in notes(findings)
    (sample, _) = catalog.reader.read(catalog.rows())
    assert isinstance(sample, Sample)
    data: Any = sample.fields["mask"]
    assert {*Image.open(BytesIO(data)).tobytes()} == {1}
    write(root, {"SegmentationClass/0.png": colored((1, 2, 3))})
    assert "its mask has colors" in notes(read_source(source)[1])
    strange = {"SegmentationClass/0.png": png("RGB"), "SegmentationClass/1.png": colored((1, 2, 3))}
    _, findings = read_source(
        make_source(str(write(tmp_path / "strange", {**files, **strange}))).replace(
            takes_masks=True
        )
    )
    assert "2 masks not read" in notes(findings)
    write(root, {"SegmentationClass/0.png": png("RGB")})
    write(root, {"labelmap.txt": "# label:color\nbackground:0,0,0::\ncat:128,0,0::\n"})
    catalog, findings = read_source(source)
    assert catalog.settled.schema.by_name["mask"].names == ("background", "cat")
    assert "labelmap.txt" not in kinds(findings)
    assert said not in notes(findings)
