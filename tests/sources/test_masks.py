"""Files that are masks of others are no samples, wherever they lie."""

from __future__ import annotations

import json
import pickle
import re
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import pytest
from PIL import Image

import dsprep
from dsprep.cli.report import write_lines
from dsprep.errors import OptionError, SourceError
from dsprep.sample import Sample
from dsprep.sources.annotated.masks import named_colors_in
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.servers.bucket import Bucket

SIZE = (8, 6)


def write(root: Path, *names: str) -> Path:
    """Make masks of files called so, and photographs of others."""
    for at, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        noise = Random(at).randbytes(3 * SIZE[0] * SIZE[1])
        is_mask = "mask" in name
        picture = Image.new("L", SIZE, at) if is_mask else Image.frombytes("RGB", SIZE, noise)
        picture.save(root / name)
    return root


def members(out: Path) -> list[str]:
    with tarfile.open(out / "train-000000.tar") as shard:
        return sorted(shard.getnames())


NESTED = ("images/a.jpg", "images/b.jpg", "masks/a_mask.png", "masks/b_mask.png", "masks/c.png")


@pytest.mark.parametrize(
    ("names", "root", "masks", "samples"),
    [
        (NESTED, ".", "masks", ["images/a", "images/b"]),
        (("a.jpg", "b.jpg", "a_mask.png", "b_mask.png"), ".", ".", ["a", "b"]),
        (("a.png", "b.png", "a_mask.png", "b_mask.png"), ".", ".", ["a", "b"]),
        (("x/a.png", "x/b.png", "x/a_mask.png", "x/b_mask.png"), "x", ".", ["a", "b"]),
        (("a.png", "b.png", "mask_a.png", "mask_b.png"), ".", ".", ["a", "b"]),
        (("a.jpg", "b.jpg", "a_maskHO1.png", "b_maskHO1.png"), ".", ".", ["a", "b"]),
        (
            ("i/1_test.jpg", "i/2_test.jpg", "m/1_mask2.png", "m/2_mask2.png", "m/1_mask.png"),
            "i",
            "m/*_mask2.png",
            ["1_test", "2_test"],
        ),
    ],
    ids=[
        "below the images",
        "beside JPEGs",
        "beside PNGs",
        "above the images",
        "with a word before",
        "with an ending of any kind",
        "by a pattern",
    ],
)
def test_masks_are_no_samples(
    tmp_path: Path, names: tuple[str, ...], root: str, masks: str, samples: list[str]
) -> None:
    where, out = write(tmp_path / "set", *names), tmp_path / "out"
    asked, given = str(where / root), str(where / masks)
    dsprep.pack(asked, str(out), to="webdataset", masks=given, workers=1)
    ends = (".jpg", ".mask.png") if names[0].endswith("jpg") else (".mask.png", ".png")
    assert members(out) == [f"{sample}{end}" for sample in samples for end in ends]
    if root == ".":  # the manifest records masks that lie in SOURCE
        report = dsprep.verify(str(out), against=asked, workers=1)
        assert not report.problems
        assert not [note for note in report.notes if "do not hold all" in note]


def test_a_layout_names_the_masks_of_a_set(tmp_path: Path) -> None:
    root, out, layout = write(tmp_path / "set", *NESTED), tmp_path / "out", tmp_path / "set.toml"
    layout.write_text('dsprep_layout = 1\n\n[annotations]\nmasks = "masks"\n')
    report = dsprep.pack(str(root), str(out), to="webdataset", layout=str(layout), workers=1)
    assert (report.samples, members(out)[:2]) == (2, ["images/a.jpg", "images/a.mask.png"])


def test_a_directory_with_all_images_has_not_the_masks_alone(tmp_path: Path) -> None:
    root = write(tmp_path / "set", "x/a.jpg", "x/a_mask.png")
    with pytest.raises(OptionError, match="has all images of .*: if masks lie among the images, "):
        dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", masks=f"{root}/x")


def test_photographs_among_masks_are_told(tmp_path: Path) -> None:
    root = write(tmp_path / "set", *NESTED, "masks/d.jpg")
    report = dsprep.pack(str(root), str(tmp_path / "out"), to="webdataset", masks=f"{root}/masks")
    assert report.samples == 2
    assert any(note.startswith("1 image in ") and "masks/d.jpg" in note for note in report.notes)


SIDES = tuple(
    f"{of}/{side}/{letter}{end}"
    for side, letters in (("train", "ab"), ("val", "ac"))
    for of, end in (("images", ".jpg"), ("masks", ".png"))
    for letter in letters
)

MASKS_OF_VAL = ("masks/val/a.png", "masks/val/b.png")


def archived(root: Path, suffix: str, top: str) -> Path:
    path = root.parent / f"packed.{suffix}"
    files = sorted(each for each in root.rglob("*") if each.is_file())
    if suffix == "zip":
        with zipfile.ZipFile(path, "w") as packed:
            for each in files:
                packed.write(each, f"{top}{each.relative_to(root)}")
    else:
        with tarfile.open(path, "w:gz") as compressed:
            for each in files:
                compressed.add(each, f"{top}{each.relative_to(root)}")
    return path


def pixels(path: Path | str, **options: Any) -> dict[str, tuple[bytes, bytes]]:
    """The bytes of each image, and the class numbers of its mask; empty without one."""
    catalog, _ = read_source(make_source(str(path), **options))
    reader = pickle.loads(pickle.dumps(catalog.reader))
    found = {}
    for sample in reader.read(catalog.rows()):
        mask = sample.fields.get("mask")
        numbers = Image.open(BytesIO(mask)).tobytes() if mask else b""
        found[sample.path] = sample.fields["image"], numbers
    return found


@pytest.mark.parametrize("top", ["", "set/"])
@pytest.mark.parametrize("suffix", ["zip", "tgz"])
def test_an_archive_and_its_layout_give_what_a_directory_gives(
    tmp_path: Path, suffix: str, top: str
) -> None:
    root, layout = write(tmp_path / "set", *SIDES), str(tmp_path / "set.toml")
    (root / "names.txt").write_text("sky\nroad\n")
    (root / "colors.txt").write_text("".join(f"{at} {at} {at}\n" for at in range(8)))
    path = archived(root, suffix, top)
    Path(layout).write_text(
        'dsprep_layout = 1\n[annotations]\nmasks = "masks"\nmask-classes = "names.txt"\n'
    )
    expected = pixels(root, masks=f"{root}/masks")
    assert len(expected) == 4
    assert pixels(root, layout=layout) == expected
    for named in ("masks", f"{path}/{top}masks", f"{top}masks"):
        assert pixels(path, masks=named) == expected
    assert pixels(path, layout=layout) == expected
    colors = f"{path}/colors.txt"
    assert pixels(path, masks="masks", mask_colors=colors) == expected
    below = {name.removeprefix("images/"): value for name, value in expected.items()}
    assert pixels(path / f"{top}images", masks=f"{path}/{top}masks") == below
    catalog, findings = read_source(make_source(str(path), layout=layout))
    assert catalog.settled.schema.by_name["mask"].names == ("sky", "road")
    assert catalog.sides == ("train", "val")
    assert [each.path for each in findings if each.kind == "left-over"] == ["colors.txt"]


def test_s3_and_parts_give_what_a_directory_gives(
    tmp_path: Path, localstack: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
    root, layout = write(tmp_path / "set", *SIDES), str(tmp_path / "set.toml")
    Path(layout).write_text('dsprep_layout = 1\n[annotations]\nmasks = "masks"\n')
    for name in SIDES:
        localstack.put(f"set/{name}", (root / name).read_bytes())
    archive = archived(root, "zip", "")
    localstack.put("set.zip", archive.read_bytes())
    expected = pixels(root, layout=layout)
    assert pixels(f"{localstack.url}/set", layout=layout) == expected
    assert pixels(f"{localstack.url}/set.zip", layout=layout) == expected
    outs = []
    for parts in (("0/1",), ("0/2", "1/2")):
        outs.append(tmp_path / f"out{len(parts)}")
        options: Any = {"to": "webdataset", "workers": 1, "masks": "masks", "shards": 2}
        for part in parts:
            dsprep.pack(str(archive), str(outs[-1]), part=part, **options)
    one, two = ({each.name: each.read_bytes() for each in out.glob("*.tar")} for out in outs)
    assert len(one) == 4
    assert one == two


@pytest.mark.parametrize(
    ("names", "masks", "expected"),
    [
        (SIDES, ".", 4),
        (tuple("/".join(reversed(each.split("/")[:2])) + each[-6:] for each in SIDES), ".", 4),
        (tuple(each.replace("masks/train", "trainmask/x") for each in SIDES), "trainmask", 2),
        (("train/a.jpg", "train_mask/a.png", "val/a.jpg", "val_mask/a.png"), ".", 2),
        (
            ("images/train/a.jpg", "images/val/b.jpg", "masks/val/a.png", "masks/val/b.png"),
            "masks",
            1,
        ),
    ],
    ids=["sides below", "sides above", "of others", "companions", "of another side"],
)
def test_sides_do_not_mix(
    tmp_path: Path, names: tuple[str, ...], masks: str, expected: int
) -> None:
    root = write(tmp_path / "set", *names)
    found = pixels(root, masks=str(root / masks))
    own = {path: numbers for path, (_, numbers) in found.items() if numbers}
    assert len(own) == expected
    for path, numbers in own.items():
        side = "train" if "train" in path else "val"
        theirs = [each for each in names if re.search(f"mask.*{side}|{side}.*mask", each)]
        same = next(each for each in theirs if each.endswith(f"/{Path(path).stem}.png"))
        assert numbers == bytes([names.index(same)]) * 48


def test_several_masks_of_an_image_have_patterns(tmp_path: Path) -> None:
    names = [f"{image}{end}" for image in "ab" for end in (".jpg", "_maskHO1.png", "_maskHO2.png")]
    root, out = str(write(tmp_path / "set", *names)), str(tmp_path / "out")
    with pytest.raises(OptionError) as refused:
        dsprep.pack(root, out, to="webdataset", masks=root)
    one, other = (f"{root}/*_maskHO{number}.png" for number in (1, 2))
    assert one in str(refused.value) and other in str(refused.value)
    report = dsprep.pack(root, out, to="webdataset", masks=one, leave_out=["*_maskHO2.png"])
    assert report.samples == 2
    assert members(tmp_path / "out") == ["a.jpg", "a.mask.png", "b.jpg", "b.mask.png"]


@pytest.mark.parametrize("value", [-1, 70_000])
def test_values_beyond_16_bits_are_not_offered_to_mask_values(tmp_path: Path, value: int) -> None:
    root = write(tmp_path, "images/1.jpg", "images/2.jpg")
    (root / "masks").mkdir()
    for number in (1, 2):
        Image.new("I", (4, 4), value).save(root / f"masks/{number}.tif")
    with pytest.raises(SourceError, match=f"the values {value}, .*: write it with 8 bits"):
        read_source(make_source(str(root / "images"), masks=str(root / "masks")))


def test_other_masks_are_no_samples(tmp_path: Path) -> None:
    root, masks = write(tmp_path / "set", *SIDES), write(tmp_path / "other", *SIDES) / "masks"
    options: Any = {"to": "webdataset", "masks": str(masks), "overwrite": True}
    for path in (root, archived(root, "zip", "")):
        report = dsprep.pack(str(path), str(tmp_path / "out"), **options)
        assert report.samples == 4
        assert report.skipped_counts["not-read"] == {".png": 4}
        assert any("4 likely masks not read, such as masks/train" in each for each in report.notes)


def test_a_directory_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path / "set", *SIDES)
    path, out = archived(root, "zip", ""), str(tmp_path / "out")
    for source, masks, said in (
        (root, path, "lies in an archive, and the images in another place"),
        (root, root / "names.txt", "is not a directory"),
        (path, "mask", "does not exist, neither on the disk nor in "),
        (path, "val", r"may be images/val or masks/val of "),
    ):
        with pytest.raises(SourceError, match=f"--masks .*{said}"):
            dsprep.pack(str(source), out, to="webdataset", masks=str(masks))


CLASSED = tuple(
    f"{of}/{name}/{at}{end}"
    for of, end in (("images", ".jpg"), ("masks", ".png"))
    for name in "ab"
    for at in range(2)
)
BESIDE = tuple(
    f"{name}/{name}{at}{end}.png" for name in "ab" for at in range(2) for end in ("", "_mask")
)


@pytest.mark.parametrize(("names", "masks"), [(CLASSED, "masks"), (BESIDE, ".")])
def test_directories_tell_classes_beside_masks(
    tmp_path: Path, names: tuple[str, ...], masks: str
) -> None:
    root = write(tmp_path / "set", *names)
    for path in (root, archived(root, "zip", "set/")):
        given = masks if masks != "." and path != root else str(path / masks)
        catalog, _ = read_source(make_source(str(path), masks=given))
        assert catalog.classes == ("a", "b")
        assert catalog.table["cls"].to_list() == [0, 0, 1, 1]
        assert "mask" in catalog.settled.schema.by_name
    out = tmp_path / "out"
    report = dsprep.pack(str(root), str(out), to="webdataset", masks=str(root / masks), workers=1)
    assert (report.samples, report.classes) == (4, ("a", "b"))
    assert not dsprep.verify(str(out), against=str(root), workers=1).problems


def test_names_of_files_tell_classes_beside_masks(tmp_path: Path) -> None:
    root = write(tmp_path / "set", *CLASSED)
    found, _ = read_source(make_source(str(root), masks=f"{root}/masks", label_regex=r"^\d"))
    assert (found.classes, found.table["cls"].to_list()) == (("0", "1"), [0, 1, 0, 1])
    with pytest.raises(SourceError, match="--label-regex 'x' finds no class"):
        read_source(make_source(str(root), masks=f"{root}/masks", label_regex="x"))
    (root / "coco.json").write_text('{"images": [], "annotations": [], "categories": []}')
    options: Any = {"masks": f"{root}/masks", "label_regex": r"^\d"}
    found, findings = read_source(make_source(str(root), **options))
    assert found.classes == ("0", "1")
    assert ("left-over", "coco.json") in {(each.kind, each.path) for each in findings}


def test_directories_without_classes_are_told_beside_masks(tmp_path: Path) -> None:
    root = write(tmp_path / "set", "images/c.jpg", "masks/c.png", *CLASSED)
    found, findings = read_source(make_source(f"{root}/images", masks=f"{root}/masks"))
    assert (found.classes, found.table.height) == (None, 5)
    notes = [each.detail for each in findings if each.kind == "note"]
    assert any(note.startswith("no labels: 1 of 5 images lie in no directory") for note in notes)
    with pytest.raises(SourceError, match="1 of 5 images lie in no directory"):
        read_source(make_source(f"{root}/images", masks=f"{root}/masks", classes=["a", "b"]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("class_dict.csv", "name, r, g, b\nsky blue, 0, 0, 0\nroad, 9, 9, 9\n"),
        ("label_colors.txt", "0 0 0 sky blue\n9 9 9\troad\n"),
        ("labelmap.txt", "# label:color_rgb:parts:actions\nsky blue:0,0,0::\nroad:9,9,9::\n"),
        (
            "dataset_meta.json",
            '{"label_map": {"0": "sky blue", "1": "road"}, '
            '"segmentation_colors": [[0, 0, 0], [9, 9, 9]]}',
        ),
    ],
)
def test_a_table_of_colors_beside_masks_is_read(tmp_path: Path, name: str, text: str) -> None:
    root = write(tmp_path / "set", "images/a.jpg", "masks/a.png")
    mask = Image.new("RGB", (8, 6), (9, 9, 9))
    mask.save(root / "masks" / "a.png")
    (root / name).write_text(text)
    for source in (root, root / "images"):
        source_of = make_source(str(source), masks=f"{root}/masks").replace(takes_masks=True)
        catalog, findings = read_source(source_of)
        assert catalog.settled.schema.by_name["mask"].names == ("sky blue", "road")
        assert not [each for each in findings if each.path == name]
        (sample,) = catalog.reader.read(catalog.rows())
        assert isinstance(sample, Sample)
        data: Any = sample.fields["mask"]
        assert {*Image.open(BytesIO(data)).tobytes()} == {1}
    (root / name).write_text(f"{text}\nnothing")
    with pytest.raises(SourceError, match="its mask has colors: give --mask-colors FILE"):
        read_source(make_source(str(root), masks=f"{root}/masks"))


def test_words_in_names_are_no_part_of_them(tmp_path: Path) -> None:
    """``image_1.jpg`` has ``gt_1.png``, if each name without such words is there once."""
    names = [f"{side}/images/image_{at}.jpg" for side in ("train", "val") for at in (1, 2)]
    masks = [name.replace("images/image", "masks/gt").replace("jpg", "png") for name in names]
    root = write(tmp_path / "set", *names, *masks[:3])
    found, _ = read_source(make_source(str(root / "train"), masks=f"{root}/train/masks"))
    reader: Any = found.reader
    assert reader.masks.paths == ("gt_1.png", "gt_2.png")
    write(root, "train/masks/label_1.png")
    with pytest.raises(SourceError, match="is called like an image"):
        read_source(make_source(str(root / "train"), masks=f"{root}/train/masks"))
    # directories of classes differ: no mask is that of an image of another class
    for of in ("cat", "dog"):
        root = write(tmp_path / of, "images/cat/image_1.jpg", f"masks/{of}/gt_1.png")
        source = make_source(str(root / "images"), masks=f"{root}/masks")
        if of == "cat":
            reader = read_source(source)[0].reader
            assert reader.masks.paths == ("cat/gt_1.png",)
            continue
        with pytest.raises(SourceError, match="is called like an image"):
            read_source(source)


def test_sides_and_classes_go_together_beside_masks(tmp_path: Path) -> None:
    names = [f"{side}/{each}" for side in ("train", "val") for each in CLASSED]
    root = write(tmp_path / "set", *names)
    found, _ = read_source(make_source(str(root), masks=str(root)))
    assert (found.classes, found.sides) == (("a", "b"), ("train", "val"))
    assert [found.table[name].to_list() for name in ("cls", "side")] == [
        [0, 0, 1, 1, 0, 0, 1, 1],
        [0, 0, 0, 0, 1, 1, 1, 1],
    ]


def test_further_masks_of_an_image_are_told(tmp_path: Path) -> None:
    root = write(tmp_path / "set", *BESIDE, "a/a0_mask_1.png", "b/c_mask_1.png")
    _, findings = read_source(make_source(str(root), masks=str(root)))
    notes = [each.detail for each in findings if each.kind == "note"]
    assert [note.partition(f" in {root} ")[::2] for note in notes] == [
        ("1 file", "without an image: b/c_mask_1.png"),
        (
            "1 file",
            f"not read, as a sample has one mask; --masks '{root}/*_mask*.png' joins them: "
            "a/a0_mask_1.png",
        ),
    ]


def test_a_pattern_joins_the_masks_of_an_image(tmp_path: Path) -> None:
    root = tmp_path / "busi"
    root.mkdir()
    for at, name in enumerate(("benign (1)", "benign (2)")):
        Image.frombytes("RGB", SIZE, Random(at).randbytes(3 * 48)).save(root / f"{name}.png")
    pixels = {"(1)_mask": (0, 1), "(1)_mask_1": (2, 1), "(1)_mask_2": (4, 1), "(2)_mask": (0, 1)}

    def mask(name: str, column: int, value: int) -> None:
        picture = Image.new("L", SIZE)
        picture.putpixel((column, 0), value)
        picture.save(root / f"benign {name}.png")

    for name, (column, value) in pixels.items():
        mask(name, column, value)
    options: Any = {"to": "webdataset", "workers": 1}
    for place in (root, archived(root, "zip", "")):
        out = tmp_path / f"out-{Path(place).suffix}"
        report = dsprep.pack(place, out, masks=f"{place}/*_mask*.png", **options)
        assert "1 image with several masks, which are joined" in report.notes
        assert "  masks     in all samples" in [*write_lines(report)]
        with tarfile.open(out / "train-000000.tar") as shard:
            found = shard.extractfile("benign (1).mask.png")
            assert found is not None
            assert Image.open(BytesIO(found.read())).tobytes() == bytes([1, 0, 1, 0, 1, *[0] * 43])
            plain = shard.extractfile("benign (2).mask.png")
            assert plain is not None
            assert plain.read() == (root / "benign (2)_mask.png").read_bytes()
    # files that the pattern does not mean are no samples
    report = dsprep.pack(root, tmp_path / "few", masks=f"{root}/*_mask.png", **options)
    assert report.samples == 2
    assert any("2 files called like masks and not in " in note for note in report.notes)
    mask("(1)_mask_1", 2, 3)
    with pytest.raises(SourceError, match="its 3 masks have pixels of the classes 1, 3, and only"):
        dsprep.pack(root, tmp_path / "bad", masks=f"{root}/*_mask*.png", **options)


def black_and_white(root: Path) -> Path:
    """Make images whose masks have 8 bits or 1, of 0 and 255 alone."""
    write(root, *(f"images/{at}.jpg" for at in range(66)))
    (root / "masks").mkdir()
    for at in range(66):
        mask = Image.new("L", SIZE, 255 * (at == 1))
        mask.putpixel((at % 8, 0), 255)
        mask.convert("L" if at % 2 else "1").save(root / f"masks/{at:02}.png")
        (root / f"images/{at}.jpg").rename(root / f"images/{at:02}.jpg")
    return root


def test_masks_of_black_and_white_have_class_1(tmp_path: Path) -> None:
    root = black_and_white(tmp_path / "set")
    images, given = f"{root}/images", {"masks": f"{root}/masks"}
    note = "of 0 and 255 alone: 255 is taken for class 1; "
    for path in (Path(images), archived(root, "zip", "") / "images"):
        asked: Any = {"masks": str(path).replace("images", "masks")}
        assert pixels(path, **asked) == pixels(path, **asked, mask_values={"255": "1"})
        _, findings = read_source(make_source(str(path), **asked))
        assert [each.kind for each in findings if note in each.detail] == ["note"]
    kept = pixels(images, **given, mask_values={"255": "255"})
    assert {*kept["01.jpg"][1]} == {255}
    _, findings = read_source(make_source(images, **given, mask_values={"255": "255"}))
    assert not any(note in each.detail for each in findings)
    with pytest.raises(SourceError, match="are 0 and 255, .*: give --mask-values 255=1"):
        read_source(make_source(images, **given, mask_values={"1": "0"}))


def test_other_values_among_masks_of_black_and_white_are_rejects(tmp_path: Path) -> None:
    root = black_and_white(tmp_path / "set")
    options: Any = {"to": "webdataset", "masks": f"{root}/masks", "on_error": "skip"}
    other = root / "masks/65.png"  # behind those that are looked at
    Image.new("L", SIZE, 7).save(other)
    outs = []
    for parts in (("0/1",), ("0/2", "1/2")):
        outs.append(tmp_path / f"out{len(parts)}")
        for part in parts:
            report = dsprep.pack(f"{root}/images", outs[-1], part=part, shards=2, **options)
        (reject,) = report.rejects
        assert "has the values 7, and 255 was taken for class 1" in reject.reason
        assert "give --mask-values 255=255 if" in reject.reason
    one, two = ({each.name: each.read_bytes() for each in out.glob("*.tar")} for out in outs)
    assert len(one) == 2
    assert one == two
    # one among those that are looked at: they are numbers of classes
    other.rename(root / "masks/03.png")
    with pytest.raises(SourceError, match="its mask has 1 bit"):
        read_source(make_source(f"{root}/images", masks=f"{root}/masks"))


def test_the_masks_of_other_images_are_not_joined(tmp_path: Path) -> None:
    root = write(tmp_path / "set", *(f"images/{name}.jpg" for name in ("a", "a_1", "a_1_2")))
    for name in ("a", "a_1", "a_1_2", "a_3"):
        (root / "masks").mkdir(exist_ok=True)
        Image.new("L", SIZE, 1).save(root / f"masks/{name}.png")
    catalog, findings = read_source(
        make_source(str(root / "images"), masks=f"{root}/masks/*.png").replace(takes_masks=True)
    )
    reader: Any = catalog.reader
    assert reader.masks.paths == ("a.png", "a_1.png", "a_1_2.png")
    assert [each.paths for each in reader.masks.further] == [("a_3.png", "", "")]
    assert "1 image with several masks, which are joined" in {each.detail for each in findings}


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (("i_001.png", "i_002.png", "i_001_1.png"), "*.png"),
        (("i_001.png", "i_002.gif", "i_001_1.png"), "*"),
        (("1.png", "2.png", "1_1.png"), "*.png"),
        (("1_mask.png", "2_mask.png", "1_mask_1.png"), "*_mask*.png"),
    ],
)
def test_a_pattern_that_is_offered_loses_no_mask(
    tmp_path: Path, names: tuple[str, ...], pattern: str
) -> None:
    images = [name.partition(".")[0].removesuffix("_mask") for name in names[:2]]
    root = write(tmp_path / "set", *(f"images/{name}.jpg" for name in images))
    (root / "masks").mkdir()
    for name in names:
        Image.new("L", SIZE, 1).save(root / "masks" / name)
    source = make_source(str(root / "images"), masks=f"{root}/masks").replace(takes_masks=True)
    _, (note,) = read_source(source)
    assert f"--masks '{root}/masks/{pattern}' joins them" in note.detail
    catalog, _ = read_source(source.replace(masks=f"{root}/masks/{pattern}"))
    reader: Any = catalog.reader
    assert reader.masks.paths == names[:2]
    assert [each.paths for each in reader.masks.further] == [(names[2], "")]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({0: "a", 1: "b\nc"}, "does not fit on a line of mask.classes.txt"),
        ({0: "a", 1: "a"}, "several classes have one name: 'a'"),
        ({0: "a", 1: "\ud800"}, "has half a character"),
    ],
)
def test_names_of_masks_are_lines(tmp_path: Path, names: dict[int, str], said: str) -> None:
    root = write(tmp_path / "set", "images/a.jpg", "masks/a.png")
    Image.new("RGB", SIZE, (9, 9, 9)).save(root / "masks/a.png")
    told = {"label_map": names, "segmentation_colors": [[0, 0, 0], [9, 9, 9]]}
    (root / "dataset_meta.json").write_text(json.dumps(told))
    source = make_source(str(root / "images"), masks=f"{root}/masks").replace(takes_masks=True)
    with pytest.raises(SourceError, match=f"dataset_meta.json: .*{said}"):
        read_source(source)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("1 2 3 big cat", "big cat"),
        ("1,2,3,cat", "cat"),
        ('"cat", 1, 2, 3', "cat"),
        ("cat,1,2,3,more", "cat"),
        ("big, cat:1,2,3::", "big, cat"),
        ("7:1,2,3::", "7"),
        ("7,1,2,3", ""),  # a number and a color, or a color and a name
        ("1 2 300 cat", ""),
        ("1 2 3", ""),
        ("1 2 3 cat\n1 2 3 dog", ""),
        ('{"label_map": {"0": "cat"}, "segmentation_colors": [[1, 2, 3]]}', "cat"),
        ('{"label_map": {"0": "cat"}, "segmentation_colors": [[1e999, 2, 3]]}', ""),
        ('{"label_map": {"0": "cat"}, "segmentation_colors": [[300, 2, 3]]}', ""),
    ],
)
def test_tables_of_colors(line: str, name: str) -> None:
    assert named_colors_in(line) == ({(1, 2, 3): name} if name else {})
    assert named_colors_in(f"name,r,g,b\n{line}") == named_colors_in(line) or line[0] == "{"


@pytest.mark.parametrize("text", ["a", "a,", "1 ", "1,", "a:", ":", "1 1 1 ", " "])
def test_long_lines_of_tables_of_colors_are_read_fast(text: str) -> None:
    begin = process_time()
    assert not named_colors_in("0" + 20_000 * text + "\n!")
    assert process_time() - begin < 0.5


@pytest.mark.parametrize("options", [{"masks": "masks"}, {"annotations": "boxes.csv"}])
def test_shards_take_no_masks_or_boxes_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.chdir(write(tmp_path, "images/a.jpg", "masks/a_mask.png"))
    Path("boxes.csv").write_text("image,label,xmin,ymin,xmax,ymax\na.jpg,cat,1,1,3,3\n")
    dsprep.pack("images", "shards", format="webdataset")
    with pytest.raises(SourceError, match="shards: holds no image files"):
        dsprep.shard("shards", "out", **options)
