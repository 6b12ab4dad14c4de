"""Samples of many parts: files that share a stem, and parallel folders."""

from __future__ import annotations

import io
import os
import pickle
import shlex
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.catalog import Catalog
from dsprep.errors import BadSample, OptionError, SourceError
from dsprep.findings import Finding
from dsprep.rows import Rows
from dsprep.sample import Sample
from dsprep.schema import Choice
from dsprep.sources.infer import with_schema
from dsprep.sources.reading import detect, read_source
from dsprep.sources.source import make_source
from tests.images import jpeg, png


def fill(root: Path, *names: str) -> None:
    """Make files that hold their own names."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def read(
    root: Path, pairs: Mapping[str, str] | None = None, classes: tuple[str, ...] | None = None
) -> tuple[Catalog, list[Finding]]:
    options = dict[str, Path]()
    if classes is not None:
        options["classes"] = root.with_name(f"{root.name}.classes.txt")
        options["classes"].write_text("".join(f"{name}\n" for name in classes))
    found = detect(make_source(root, kind="parts", pairs=pairs, **options))
    assert found is not None
    return found


def rows_of(catalog: Catalog) -> Rows:
    table, label = catalog.table, catalog.label_column
    columns = [table[name].to_list() for name in ("index", "path", "size")]
    return Rows(*columns, None if label is None else table[label].to_list())


def samples(catalog: Catalog) -> list[Sample | BadSample]:
    """What a worker reads."""
    reader = pickle.loads(pickle.dumps(catalog.reader))
    found = list(reader.read(catalog.rows()))
    assert all(isinstance(each, Sample | BadSample) for each in found)
    return found


def fields(catalog: Catalog) -> dict[str, dict[str, object]]:
    """The fields of all samples by key."""
    read = samples(catalog)
    assert [each.key for each in read if isinstance(each, Sample)] == catalog.keys().to_list()
    return {each.key: each.fields for each in read if isinstance(each, Sample)}


# Files that share a stem


def test_files_that_share_a_stem_are_a_sample(tmp_path: Path) -> None:
    fill(tmp_path, "0001.jpg", "0001.mask.png", "0001.json", "0002.jpg", "0002.mask.png")
    fill(tmp_path, "0002.json", "0010.json", "0010.mask.png", "0010.jpg")
    catalog, findings = read(tmp_path)
    assert findings == []
    assert catalog.classes is None
    size = len("0001.jpg" + "0001.mask.png" + "0001.json")
    assert catalog.table.select("index", "path", "size").rows() == [
        (0, "0001.jpg", size),
        (1, "0002.jpg", size),
        (2, "0010.jpg", size),
    ]
    for key, parts in fields(catalog).items():
        assert list(parts.items()) == [
            (name, f"{key}.{name}".encode()) for name in ("jpg", "json", "mask.png")
        ]
    newest = max(each.stat().st_mtime_ns for each in tmp_path.glob("0001.*"))
    assert catalog.table["mtime"][0] == newest


def test_the_order_of_fields(tmp_path: Path) -> None:
    names = ("json", "zip", "cls", "png", "jpg", "bin", "label.json", "a.txt")
    fill(tmp_path, *(f"1.{name}" for name in names))
    (found,) = fields(read(tmp_path)[0]).values()
    assert list(found) == ["jpg", "png", "a.txt", "bin", "cls", "json", "label.json", "zip"]


@pytest.mark.parametrize("pairs", [None, {"image": "*.JPG", "cls": "*.cls", "json": "*.json"}])
def test_parts_mean_what_members_of_shards_do(tmp_path: Path, pairs: dict[str, str] | None) -> None:
    for key, cls in (("a", b"3\n"), ("b", b"0")):
        (tmp_path / f"{key}.JPG").write_bytes(jpeg(0))
        (tmp_path / f"{key}.cls").write_bytes(cls)
        (tmp_path / f"{key}.json").write_bytes(b'{"x": 1}')
    catalog, _ = with_schema(read(tmp_path, pairs)[0], Choice(), False, map)
    assert samples(catalog) == [
        Sample(
            key,
            {"image": jpeg(0), "label": label, "json": b'{"x": 1}'},
            number,
            f"{key}.JPG",
            "image",
        )
        for number, (key, label) in enumerate({"a": 3, "b": 0}.items())
    ]


def test_samples_are_in_the_order_of_their_keys(tmp_path: Path) -> None:
    """Which is not that of their paths: a hyphen comes before a dot."""
    fill(tmp_path, "a.jpg", "a-1.jpg", "a/1.jpg", "ä.jpg", "Z.jpg")
    fill(tmp_path, *(name.replace(".jpg", ".txt") for name in ("a.jpg", "a-1.jpg", "Z.jpg")))
    (tmp_path / "a/1.jpg").unlink()
    catalog, _ = read(tmp_path)
    assert catalog.keys().to_list() == ["Z", "a", "a-1", "ä"]


def test_spellings(tmp_path: Path) -> None:
    fill(tmp_path, "1.JPG", "1.Mask.PNG", "2.jpeg", "2.mask.png", "3.TIFF", "3.mask.png")
    fill(tmp_path, "4.jpg", "4.mask.jpeg", "4.mask.png")
    catalog, findings = read(tmp_path)
    assert findings == []
    assert fields(catalog) == {
        "1": {"jpg": b"1.JPG", "mask.png": b"1.Mask.PNG"},
        "2": {"jpg": b"2.jpeg", "mask.png": b"2.mask.png"},
        "3": {"tif": b"3.TIFF", "mask.png": b"3.mask.png"},
        "4": {"jpg": b"4.jpg", "mask.jpeg": b"4.mask.jpeg", "mask.png": b"4.mask.png"},
    }
    assert catalog.table["path"].to_list() == ["1.JPG", "2.jpeg", "3.TIFF", "4.jpg"]


def test_two_files_for_one_part(tmp_path: Path) -> None:
    fill(tmp_path, "1.JPG", "1.jpg", "1.jpeg", "2.JPEG", "2.JPG")
    catalog, findings = read(tmp_path)
    assert fields(catalog) == {"1": {"jpg": b"1.jpg"}, "2": {"jpg": b"2.JPEG"}}
    assert catalog.table["size"].to_list() == [5, 6]
    assert findings == [
        Finding("no-part", path, "the sample has another file that is its jpg")
        for path in ("1.JPG", "1.jpeg", "2.JPG")
    ]


@pytest.mark.parametrize("name", ["v1.2/a", "a b/it's", "é/猫", "x/y\nz", "d.d/--", "~"])
def test_keys_end_at_the_first_dot_of_the_base_name(tmp_path: Path, name: str) -> None:
    fill(tmp_path, f"{name}.jpg", f"{name}.b.c.txt", f"{name}..jpg")
    (found,) = fields(read(tmp_path)[0]).items()
    assert found[0] == name
    assert found[1] == {
        "jpg": f"{name}.jpg".encode(),
        "b.c.txt": f"{name}.b.c.txt".encode(),
        ".jpg": f"{name}..jpg".encode(),
    }


def test_samples_without_images(tmp_path: Path) -> None:
    fill(tmp_path, "1.wav", "1.txt", "2.wav", "2.txt", "3.a.wav")
    catalog, findings = read(tmp_path)
    assert catalog.table["path"].to_list() == ["1", "2", "3"]
    assert fields(catalog)["2"] == {"txt": b"2.txt", "wav": b"2.wav"}
    assert findings == [Finding("incomplete", "3", "lacks txt, wav")]


def test_what_is_no_part(tmp_path: Path) -> None:
    fill(tmp_path, "1.jpg", "README", "end.", ".hidden.jpg", ".git/1.jpg", "Thumbs.db")
    os.mkfifo(tmp_path / "1.pipe")
    catalog, findings = read(tmp_path)
    assert fields(catalog) == {"1": {"jpg": b"1.jpg"}}
    assert findings == [
        Finding("hidden", ".git/"),
        Finding("hidden", ".hidden.jpg"),
        Finding("not-an-image", "1.pipe", "not a regular file"),
        Finding("no-part", "README", "its name has no extension"),
        Finding("hidden", "Thumbs.db"),
        Finding("no-part", "end.", "its name has no extension"),
    ]


def test_no_parts_at_all(tmp_path: Path) -> None:
    fill(tmp_path, "README", ".1.jpg")
    with pytest.raises(SourceError, match="no files that could be parts"):
        read(tmp_path)


def test_names_with_ever_other_endings_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, *(f"photo.{number}.jpg" for number in range(300)))
    with pytest.raises(SourceError, match=r"go on in 300 ways .*'0\.jpg', '1\.jpg', '10\.jpg'"):
        read(tmp_path)


# Parts that are missing


def test_what_most_samples_have_is_expected(tmp_path: Path) -> None:
    for number in range(4):
        fill(tmp_path, f"{number}.jpg", f"{number}.json", f"{number}.mask.png")
    fill(tmp_path, "4.jpg", "5.json", "5.mask.png", "6.png", "6.json", "6.mask.png", "6.extra.txt")
    catalog, findings = read(tmp_path)
    assert len(catalog) == 7
    assert findings == [
        Finding("incomplete", "4.jpg", "lacks json, mask.png"),
        Finding("incomplete", "5", "lacks image"),
    ]


def test_a_part_of_half_the_samples_is_not_expected(tmp_path: Path) -> None:
    fill(tmp_path, "1.jpg", "1.txt", "2.jpg", "3.png", "3.txt", "4.webp")
    assert read(tmp_path)[1] == []


def test_where_most_samples_have_several_images_each_is_expected(tmp_path: Path) -> None:
    fill(tmp_path, "1.jpg", "1.png", "2.jpg", "2.png", "3.jpg", "4.png", "5.jpg", "5.png")
    assert read(tmp_path)[1] == [
        Finding("incomplete", "3.jpg", "lacks png"),
        Finding("incomplete", "4.png", "lacks jpg"),
    ]


def test_parts_that_cannot_be_had(tmp_path: Path) -> None:
    """They are missing from a sample, or else a sample is lost, once."""
    fill(tmp_path, "1.jpg", "2.jpg", "3.jpg")
    for name in ("1.mask.png", "4.jpg", "4.mask.png", "directory"):
        (tmp_path / name).symlink_to("nowhere")
    for name in (b"2.m\xe9", b"caf\xe9.jpg", b"caf\xe9.txt"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()
    catalog, findings = read(tmp_path)
    assert list(fields(catalog)) == ["1", "2", "3"]
    broken = "a broken link: No such file or directory"
    assert findings == [
        Finding("incomplete", "1.jpg", f"lacks mask.png: {broken}"),
        Finding("incomplete", "2.jpg", "lacks m\\xe9: the name is not UTF-8"),
        Finding("missing", "4.jpg", broken),
        Finding("bad-name", "caf\\xe9.jpg", "the name is not UTF-8"),
        Finding("no-part", "directory", broken),
    ]


# Classes


def test_directories_are_classes(tmp_path: Path) -> None:
    fill(tmp_path, "dog/1.jpg", "dog/1.txt", "cat/1.jpg", "cat/2.txt", "birds/owl/1.jpg")
    catalog, findings = read(tmp_path)
    assert catalog.classes == ("birds/owl", "cat", "dog")
    assert catalog.table.select("path", "cls").rows() == [
        ("birds/owl/1.jpg", 0),
        ("cat/1.jpg", 1),
        ("cat/2", 1),
        ("dog/1.jpg", 2),
    ]
    assert findings == [Finding("incomplete", "cat/2", "lacks image")]
    assert fields(catalog)["dog/1"] == {"jpg": b"dog/1.jpg", "txt": b"dog/1.txt"}
    assert fields(catalog)["cat/2"] == {"txt": b"cat/2.txt"}


def test_what_lies_beside_the_classes_is_no_sample(tmp_path: Path) -> None:
    fill(tmp_path, "cat/1.jpg", "dog/1.jpg", "README.md", "notes/a.b.txt", "notes/a.md")
    catalog, findings = read(tmp_path)
    assert catalog.classes == ("cat", "dog")
    assert len(catalog) == 2
    assert findings == [
        Finding("no-part", path, "of no image, nor in the directory of a class")
        for path in ("README.md", "notes/a.b.txt", "notes/a.md")
    ]


@pytest.mark.parametrize(
    ("images", "others", "options"),
    [
        (
            "JPEGImages/{}.jpg",
            ("Annotations/{}.xml", "SegmentationClass/{}.png"),
            "'image=JPEGImages/*.jpg' --pair 'annotations.xml=Annotations/*.xml' "
            "--pair 'segmentationclass.png=SegmentationClass/*.png'",
        ),
        (
            "images/train/{}.jpg",
            ("labels/train/{}.txt",),
            "'image=images/**.jpg' --pair 'labels.txt=labels/**.txt'",
        ),
        ("{}.JPG", ("ann/{}.a.xml",), "'image=*.JPG' --pair 'ann.a.xml=ann/*.a.xml'"),
        ("a/{}.jpg", ("{}.json",), "'image=a/*.jpg' --pair 'json=*.json'"),
        ("a/{}.jpg", ("b's/{}.cls",), """'image=a/*.jpg' --pair 'bs.cls=b'"'"'s/*.cls'"""),
        ("a/{}.wav", ("b/{}.txt",), "'b.txt=b/*.txt'"),
    ],
)
def test_parts_in_different_directories_are_refused(
    tmp_path: Path, images: str, others: tuple[str, ...], options: str
) -> None:
    for number in range(4):
        fill(tmp_path, images.format(number))
        fill(tmp_path, *(each.format(number) for each in others if number % 2))
    fill(tmp_path, "ImageSets/train.md", others[0].format("of no image"))
    with pytest.raises(OptionError) as caught:
        read(tmp_path)
    message = str(caught.value)
    assert f"{others[0].format(1)} lies in another directory than {images.format(1)}" in message
    assert options in message
    pairs = [
        each.partition("=")
        for each in shlex.split(message.partition("name the parts instead: ")[2])
    ]
    catalog, _ = read(tmp_path, {name: pattern for name, _, pattern in pairs if pattern})
    assert len(catalog) == 2


@pytest.mark.parametrize(
    "names",
    [
        ("cat/{}.jpg", "cat/{}.json", "dog/{}.png", "dog/{}.json"),  # they share a kind of file
        ("cat/{}.jpg", "dog/{}.jpg", "notes/{}.txt"),  # of which image would that be a part?
        ("cat/{}.jpg", "dog/{}.jpg", "notes/n{}.txt"),
    ],
)
def test_classes_are_no_parts(tmp_path: Path, names: tuple[str, ...]) -> None:
    fill(tmp_path, *(name.format(number) for name in names for number in range(3)))
    catalog, findings = read(tmp_path)
    assert catalog.classes == ("cat", "dog")
    assert len(catalog) == 6
    assert {finding.kind for finding in findings} <= {"no-part"}


def test_a_cls_part_is_the_class(tmp_path: Path) -> None:
    fill(tmp_path, "cat/1.jpg", "cat/1.cls", "dog/1.jpg", "dog/1.cls", "2.jpg")
    catalog, _ = read(tmp_path, classes=("x", "y"))
    assert catalog.label_column is None
    assert catalog.classes == ("x", "y")
    assert fields(catalog)["cat/1"]["cls"] == b"cat/1.cls"


def test_given_classes(tmp_path: Path) -> None:
    fill(tmp_path, "cat/1.jpg", "dog/1.jpg")
    catalog, _ = read(tmp_path, classes=("dog", "ape", "cat"))
    assert catalog.table["cls"].to_list() == [2, 0]
    with pytest.raises(SourceError, match="'dog' is not among the 1 class"):
        read(tmp_path, classes=("cat",))
    fill(tmp_path, "3.jpg")
    with pytest.raises(SourceError, match=r"1 of 3 images lie in no directory.*'3\.jpg'"):
        read(tmp_path)


def test_classes_of_samples_without_images(tmp_path: Path) -> None:
    fill(tmp_path, "yes/1.wav", "no/1.wav", "no/2.wav")
    catalog, _ = read(tmp_path)
    assert catalog.classes == ("no", "yes")
    assert catalog.table["cls"].to_list() == [0, 0, 1]


# What has changed since


def test_parts_that_have_changed_are_rejects(tmp_path: Path) -> None:
    for number in range(5):
        fill(tmp_path, f"{number}.jpg", f"{number}.txt")
    catalog, _ = read(tmp_path)
    (tmp_path / "0.txt").unlink()
    (tmp_path / "1.jpg").write_bytes(b"longer than it was")
    (tmp_path / "2.jpg").unlink()
    (tmp_path / "2.txt").unlink()
    (tmp_path / "3.txt").unlink()
    os.mkfifo(tmp_path / "3.txt")
    read_now = samples(catalog)
    assert [str(each) for each in read_now[:4]] == [
        "has changed: its files had 10 bytes when they were listed",
        "has changed: its files had 10 bytes when they were listed",
        "is not on the disk any more",
        "has changed: its files had 10 bytes when they were listed",
    ]
    assert isinstance(read_now[4], Sample)


@pytest.mark.parametrize("pairs", [None, {"image": "a/*.jpg"}])
def test_a_source_that_is_gone_stops_the_run(tmp_path: Path, pairs: dict[str, str] | None) -> None:
    fill(tmp_path, "data/a/1.jpg")
    catalog, _ = read(tmp_path / "data", pairs)
    (tmp_path / "data").rename(tmp_path / "away")
    with pytest.raises(SourceError, match="is gone"):
        samples(catalog)


def test_digests(tmp_path: Path) -> None:
    fill(tmp_path, "1.jpg", "1.txt", "2.jpg")
    before = read(tmp_path)[0].digest()
    assert read(tmp_path)[0].digest() == before
    fill(tmp_path, "2.txt")
    assert read(tmp_path)[0].digest() != before


# Archives


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
@pytest.mark.parametrize("start", ["", "./", "top/"])
def test_members_of_a_sample_need_not_be_adjacent(tmp_path: Path, kind: str, start: str) -> None:
    names = [f"{stem}.{end}" for end in ("JPEG", "cls", "txt") for stem in ("c/b", "c/a", "d/a")]
    others = ["._a.jpg", "c/.hidden", "README"]
    path = tmp_path / f"x.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names + others:
                archive.writestr(f"{start}{name}", name)
    else:
        with tarfile.open(path, f"w:{kind.partition('.')[2]}") as tar:
            for name in names + others:
                info = tarfile.TarInfo(f"{start}{name}")
                info.size = len(name)
                tar.addfile(info, io.BytesIO(name.encode()))
    catalog, findings = read(path)
    assert catalog.table.select("path", "size").rows() == [
        (f"{stem}.JPEG", len(stem) * 3 + len(".JPEG.cls.txt")) for stem in ("c/a", "c/b", "d/a")
    ]
    assert fields(catalog) == {
        stem: {
            "jpg": f"{stem}.JPEG".encode(),
            "cls": f"{stem}.cls".encode(),
            "txt": f"{stem}.txt".encode(),
        }
        for stem in ("c/a", "c/b", "d/a")
    }
    shuffled = catalog.shuffle(1)
    assert samples(shuffled) == [samples(catalog)[each] for each in shuffled.table["index"]]
    told = {finding.kind for finding in findings}
    assert told == {"hidden", "no-part"}


def test_images_in_an_archive_have_the_classes_of_their_directories(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in ("cat/1.jpg", "cat/1.txt", "dog/1.jpg", "dog/1.txt"):
            archive.writestr(name, name)
    catalog, _ = read(tmp_path / "x.zip")
    assert catalog.classes == ("cat", "dog")
    assert catalog.table["cls"].to_list() == [0, 1]
    assert list(fields(catalog)) == ["cat/1", "dog/1"]


def test_a_tar_of_images_and_labels_that_are_apart_is_not_read_without_labels(
    tmp_path: Path,
) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for end, data in (("jpg", jpeg()), ("cls", b"1\n"), ("xml", b"<x/>")):
            for number in range(70):
                info = tarfile.TarInfo(f"{number:03}.{end}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    with pytest.raises(SourceError, match=r"not adjacent .*--from parts .*--from images"):
        read_source(make_source(str(tmp_path / "x.tar")))
    catalog, _ = read_source(make_source(str(tmp_path / "x.tar"), kind="parts"))
    assert list(catalog.settled.schema.by_name) == ["image", "label", "xml"]
    catalog, _ = read_source(make_source(str(tmp_path / "x.tar"), kind="images"))
    assert not catalog.is_labeled


# Parallel folders

PAIRS = {"image": "images/*.jpg", "mask": "masks/*.png"}


def test_parallel_folders(tmp_path: Path) -> None:
    fill(tmp_path, "images/2.jpg", "images/10.jpg", "masks/10.png", "masks/2.png")
    catalog, findings = read(tmp_path, PAIRS)
    assert findings == []
    assert catalog.classes is None
    size = len("images/2.jpg" + "masks/2.png")
    assert catalog.table.select("index", "path", "size").rows() == [
        (0, "10.jpg", size + 2),
        (1, "2.jpg", size),
    ]
    assert fields(catalog) == {
        key: {"jpg": f"images/{key}.jpg".encode(), "mask.png": f"masks/{key}.png".encode()}
        for key in ("10", "2")
    }


def test_the_image_is_what_its_bytes_are(tmp_path: Path) -> None:
    """Whatever its name promises, unless that is another part's field."""
    fill(tmp_path, "masks/1.png")
    (tmp_path / "images").mkdir()
    (tmp_path / "images/1.jpg").write_bytes(png())
    assert list(fields(read(tmp_path, PAIRS)[0])["1"]) == ["png", "mask.png"]
    pairs = {"image": "images/*.jpg", "png": "masks/*.png"}
    assert list(fields(read(tmp_path, pairs)[0])["1"]) == ["jpg", "png"]
    (tmp_path / "images/1.img").write_bytes(jpeg())
    (tmp_path / "images/2.img").write_bytes(b"P6")
    found = fields(read(tmp_path, {"image": "images/*.img"})[0])
    assert [list(found["1"]), list(found["2"])] == [["jpg"], ["bin"]]


@pytest.mark.parametrize(
    ("name", "glob", "field"),
    [
        ("mask", "x/*.png", "mask.png"),
        ("mask", "x/*.PNG", "mask.png"),
        ("mask", "x/*_mask.tar.gz", "mask.gz"),
        ("depth.raw", "x/*.png", "depth.raw"),
        ("json", "x/*.json", "json"),
        ("cls", "x/*.txt", "cls"),
        ("png", "x/*.png", "png"),
        ("label", "x/*.json", "label.json"),
    ],
)
def test_names_of_fields(tmp_path: Path, name: str, glob: str, field: str) -> None:
    fill(tmp_path, glob.replace("*", "1"))
    assert list(fields(read(tmp_path, {name: glob})[0])["1"]) == [field]


@pytest.mark.parametrize(
    ("image", "mask", "key"),
    [
        ("*.jpg", "*_mask.png", "a b"),
        ("left_*.jpg", "right_*.jpg", "7"),
        ("a/*/*.jpg", "b/*/*.png", "cat/1"),
        ("a/**/*.jpg", "b/**/*.png", "cat/of/mine/1"),
        ("a/**/*.jpg", "b/**/*.png", "1"),
        ("a/**.jpg", "b/**/*.png", "x/1"),
        ("./a/*.jpg", "b/*.x.png", "é"),
        ("a.b/*.jpg", "a.c/*.png", "(x|y)+$"),
    ],
)
def test_what_stars_stand_for(tmp_path: Path, image: str, mask: str, key: str) -> None:
    for glob in (image, mask):
        before, _, after = glob.rpartition("*")
        fill(tmp_path, before.split("*")[0].removeprefix("./") + key + after)
    catalog, findings = read(tmp_path, {"image": image, "mask": mask})
    assert findings == []
    assert list(fields(catalog)) == [key]
    assert len(fields(catalog)[key]) == 2


def test_one_star_stays_in_its_directory(tmp_path: Path) -> None:
    fill(tmp_path, "a/1.jpg", "a/b/2.jpg", "a.jpg")
    catalog, findings = read(tmp_path, {"image": "a/*.jpg"})
    assert list(fields(catalog)) == ["1"]
    assert findings == [Finding("no-part", "a.jpg"), Finding("no-part", "a/b/2.jpg")]


def test_a_stem_is_at_least_one_character(tmp_path: Path) -> None:
    fill(tmp_path, "a_b.jpg", "a_xb.jpg", "a_.jpg")
    catalog, findings = read(tmp_path, {"image": "a_*b.jpg"})
    assert catalog.keys().to_list() == ["x"]
    assert [each.path for each in findings] == ["a_.jpg", "a_b.jpg"]


def test_dots_in_stems(tmp_path: Path) -> None:
    fill(tmp_path, "images/a.b.jpg", "masks/a.b.png")
    catalog, _ = read(tmp_path, PAIRS)
    assert catalog.table["path"].to_list() == ["a.b.jpg"]
    assert fields(catalog) == {"a_b": {"jpg": b"images/a.b.jpg", "mask.png": b"masks/a.b.png"}}


def test_a_file_is_the_part_of_the_pattern_that_says_most(tmp_path: Path) -> None:
    fill(tmp_path, "1.png", "1_mask.png", "2.png", "2_mask.png")
    for pairs in ({"image": "*.png", "mask": "*_mask.png"}, {"mask": "*_mask.png", "x": "*.png"}):
        catalog, findings = read(tmp_path, pairs)
        assert findings == []
        assert catalog.keys().to_list() == ["1", "2"]


def test_a_sample_that_lacks_a_part_is_lost(tmp_path: Path) -> None:
    fill(tmp_path, "images/1.jpg", "masks/1.png", "depth/1.bin", "images/2.jpg", "depth/3.bin")
    (tmp_path / "images/4.jpg").symlink_to("nowhere")
    fill(tmp_path, "masks/4.png", "depth/4.bin")
    (tmp_path / "depth/5.bin").symlink_to("nowhere")
    catalog, findings = read(tmp_path, PAIRS | {"depth": "depth/*.bin"})
    assert catalog.keys().to_list() == ["1"]
    assert findings == [
        Finding("missing", "2.jpg", "mask.png, depth.bin"),
        Finding("missing", "3.jpg", "jpg, mask.png"),
        Finding("missing", "4.jpg", "jpg"),
        Finding("missing", "5.jpg", "jpg, mask.png, depth.bin"),
    ]


def test_files_that_are_no_part(tmp_path: Path) -> None:
    fill(tmp_path, "images/1.jpg", "masks/1.png", "images/1.txt", "README", "images/.x.jpg")
    (tmp_path / "broken").symlink_to("nowhere")
    for name in (b"images/\xe9.jpg", b"masks/\xe9.png", b"\xe9.txt"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()
    catalog, findings = read(tmp_path, PAIRS)
    assert list(fields(catalog)) == ["1"]
    not_utf8 = "the name is not UTF-8"
    assert sorted(findings) == [
        Finding("bad-name", "images/\\xe9.jpg", not_utf8),
        Finding("hidden", "images/.x.jpg"),
        Finding("no-part", "README"),
        Finding("no-part", "\\xe9.txt", not_utf8),
        Finding("no-part", "broken", "a broken link: No such file or directory"),
        Finding("no-part", "images/1.txt"),
    ]


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [
        ({"Mask": "*.png"}, "--pair Mask=.*made of a-z"),
        ({"": "*.png"}, "made of a-z"),
        ({"../x": "*.png"}, "made of a-z"),
        ({"mask": "a.png"}, r"one \* stands for"),
        ({"mask": "*/x/*.png"}, r"one \* stands for"),
        ({"mask": "a?/*.png"}, r"one \* stands for"),
        ({"mask": "[ab]/*.png"}, r"one \* stands for"),
        ({"mask": ""}, r"one \* stands for"),
        ({"mask": "***.png"}, r"one \* stands for"),
        ({"mask": "images/*"}, "end in an extension"),
        ({"mask": "*.x/y"}, "end in an extension"),
        ({"mask": "*.png", "mask.png": "*.x.png"}, "both the part mask.png"),
        ({"mask": "a/*.png", "depth": "./a/*.png"}, "the same files"),
        ({"image": "images/*.jpg", "mask": "mask/*.png"}, r"--pair mask=mask/\*\.png: no file"),
        ({"image": "/images/*.jpg"}, "no file below"),
        ({"image": "../*/images/*.jpg"}, r"one \* stands for"),
        ({"image": "../*.jpg"}, "no file below"),
    ],
)
def test_pairs_that_make_no_sense_are_refused(
    tmp_path: Path, pairs: dict[str, str], problem: str
) -> None:
    fill(tmp_path, "x.jpg", "root/images/1.jpg", "root/masks/1.png")
    with pytest.raises(OptionError, match=problem):
        read(tmp_path / "root", pairs)


def test_no_whole_sample(tmp_path: Path) -> None:
    fill(tmp_path, "images/1.jpg", "masks/2.png")
    with pytest.raises(SourceError, match=r"no sample has all .*: 1\.jpg lacks mask\.png"):
        read(tmp_path, PAIRS)


def test_classes_of_pairs(tmp_path: Path) -> None:
    fill(tmp_path, "images/1.jpg", "masks/1.png", "labels/1.txt")
    with pytest.raises(OptionError, match=r"--pair cls=labels/\*\.cls"):
        read(tmp_path, PAIRS, ("cat",))
    catalog, _ = read(tmp_path, PAIRS | {"cls": "labels/*.txt"}, ("cat",))
    assert catalog.classes == ("cat",)


def test_parts_of_pairs_that_have_changed_are_rejects(tmp_path: Path) -> None:
    for number in range(3):
        fill(tmp_path, f"images/{number}.jpg", f"masks/{number}.png")
    (tmp_path / "masks/0.png").write_bytes(b"")
    catalog, _ = read(tmp_path, PAIRS)
    (tmp_path / "masks/0.png").unlink()
    (tmp_path / "masks/1.png").write_bytes(b"now it is longer")
    found = samples(catalog)
    assert [str(each) for each in found[:2]] == [
        "its part mask.png is not on the disk any more",
        "has changed: its files had 23 bytes when they were listed",
    ]
    assert isinstance(found[2], Sample)


# Any names

NAMES = st.text("ab.A_é ", min_size=1, max_size=5).filter(lambda name: name[0] not in ". ")


@given(st.sets(NAMES.map(lambda name: name + ".jpg") | NAMES, min_size=1, max_size=12))
def test_every_file_is_in_a_sample_or_reported(
    tmp_path_factory: pytest.TempPathFactory, names: set[str]
) -> None:
    root = tmp_path_factory.mktemp("parts")
    fill(root, *names)
    try:
        catalog, findings = read(root)
    except SourceError:
        assert not any("." in name.rstrip(".") for name in names)
        return
    packed = [value for parts in fields(catalog).values() for value in parts.values()]
    reported = [finding.path.encode() for finding in findings if finding.kind == "no-part"]
    assert sorted(packed + reported) == sorted(name.encode() for name in names)
    assert sum(catalog.table["size"]) == sum(map(len, packed))
