"""A transform moves what depends on the geometry of images, or is refused, wherever that is."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from PIL import Image

import dsprep
from dsprep.errors import OptionError
from dsprep.formats.tfrecord import TFRecord
from dsprep.images.header import read_header
from dsprep.images.transform import Transform
from dsprep.pipeline import dependent_fields, label_depends
from dsprep.sample import Blobs, Floats, Ints, Sample, Value
from tests.conftest import Finished
from tests.images import image_folder, jpeg, png

RunHere = Callable[..., Finished]

BOXES = "4\t5\t64\t48\t1\t0.1\t0.2\t0.6\t0.7"


@pytest.mark.parametrize(
    ("name", "value", "depends"),
    [
        ("label", 3, False),
        ("id", 7, False),
        ("score", Floats((0.5,)), False),
        ("index", Ints((5,)), False),
        ("x", 0.5, True),
        ("xmin", Ints((5,)), True),
        ("orig_width", Ints((500,)), True),
        ("image/object/bbox/ymax", Floats((0.5,)), True),
        ("embedding", (0.5, 0.25), True),
        ("image/object/class/label", Ints((1, 2)), True),
        ("image/object/class/text", Blobs((b"cat", b"dog")), False),
        ("masks", Blobs((png(), png())), True),
        ("mask", png(), True),
        ("json", b'{"caption": "a cat"}', True),
        ("xml", b"<annotation/>", True),
        ("npy", b"\x93NUMPY\x01\x00", True),
        ("text", "two dogs on a sofa in 2024, at 5 pm", False),
        ("text", "H\u00fcndin".encode(), False),
        ("text", "0 0.5 0.5 0.25 0.25\n1 0.1 0.1 0.05 0.05\n", True),
        ("text", "Car 0.00 0 -1.58 587.01 173.33 614.12 200.12", True),
        ("text", b"12 34\n", True),
        ("text", "3\n", False),
        ("text", "", False),
    ],
)
def test_what_depends_on_geometry_shows_in_the_value(
    name: str, value: Value, depends: bool
) -> None:
    sample = Sample("a", {"image": jpeg(), name: value}, image="image")
    assert dependent_fields(sample) == [name] * depends


def test_boxes_in_a_label_depend_on_geometry() -> None:
    assert label_depends((2.0, 5.0, 1.0, 0.1, 0.2, 0.6, 0.7))
    assert label_depends((4.0, 5.0, 64.0, 48.0))
    assert not label_depends((0.0, 1.0, 1.0, 0.0))
    assert not label_depends(None)


def test_without_an_image_nothing_is_moved() -> None:
    assert dependent_fields(Sample("a", {"json": b"{}"})) == []


def write_pairs(root: Path) -> None:
    for number in range(3):
        for place, data in (("img", jpeg(number)), ("mask", png(number))):
            (root / place).mkdir(parents=True, exist_ok=True)
            (root / place / f"{number}.{'jpg' if place == 'img' else 'png'}").write_bytes(data)


def write_parts(root: Path) -> None:
    root.mkdir()
    for number in range(3):
        (root / f"{number}.jpg").write_bytes(jpeg(number))
        (root / f"{number}.txt").write_text("0 0.5 0.5 0.25 0.25\n", "utf-8")


def write_list(root: Path) -> None:
    paths = image_folder(root / "images", ("a",), 3)
    rows = [f"{i}\t{BOXES}\t{path}\n" for i, path in enumerate(paths)]
    (root / "train.lst").write_text("".join(rows), "utf-8")


def write_shard(path: Path, samples: Mapping[str, Mapping[str, bytes]]) -> None:
    with tarfile.open(path, "w") as tar:
        for key, members in samples.items():
            for extension, data in members.items():
                member = tarfile.TarInfo(f"{key}.{extension}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


@pytest.fixture(scope="module")
def sources(run_here: RunHere, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data sets with boxes or masks, in each kind of source."""
    root = tmp_path_factory.mktemp("geometry")
    write_pairs(root / "pairs")
    write_parts(root / "parts")
    (root / "list").mkdir()
    write_list(root / "list")
    write_shard(
        root / "masks.tar", {str(n): {"jpg": jpeg(n), "mask.png": png(n)} for n in range(3)}
    )
    boxes = ("pack", root / "list" / "images", "--list", root / "list" / "train.lst", "-j1")
    for name in ("boxes.rec", "lists.tfrecord", "members.tar"):
        assert run_here(*boxes, root / name).code == 0
    with (root / "detection.tfrecord").open("wb") as file:
        for n in range(3):
            box = {"image/encoded": Blobs((jpeg(n),)), "image/object/bbox/xmax": Floats((0.5,))}
            file.writelines(TFRecord().encode(Sample(str(n), box, image="image/encoded")))
    for source, dest in (
        ("boxes.rec", ("rows.parquet",)),
        ("masks.tar", ("columns.parquet",)),
        ("boxes.rec", ("sagemaker", "--to", "augmented-manifest")),
    ):
        done = run_here("convert", root / source, root / dest[0], *dest[1:], "-j1")
        assert (done.code, done.err) == (0, "")
    return root


PAIRS = ("pairs", "--pair", "image=img/*.jpg", "--pair", "mask.png=mask/*.png")


@pytest.mark.parametrize(
    ("args", "field"),
    [(("parts", "--parts"), "text"), (("detection.tfrecord",), "image/object/bbox/xmax")],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_refused_before_anything_is_written(
    run_here: RunHere, sources: Path, tmp_path: Path, args: tuple[str, ...], field: str
) -> None:
    source = [sources / each if "train" in each else each for each in args[1:]]
    call = ("convert", sources / args[0], *source, tmp_path / "out", "--to", "webdataset", "-j1")
    done = run_here(*call, "--resize", "24")
    assert done.code == 2, done.out
    assert f"--resize changes the geometry of images, but not {field} (3 samples)" in done.err
    assert f"give --keep-fields {field}" in done.err
    assert f"not depend on it, or --drop {field}" in done.err
    assert not (tmp_path / "out").exists()


def mask_of(tar_file: Path, key: str) -> Image.Image:
    with tarfile.open(tar_file) as tar:
        file = tar.extractfile(f"{key}.mask.png")
        assert file is not None
        return Image.open(io.BytesIO(file.read()))


@pytest.mark.parametrize("args", [PAIRS, ("masks.tar",), ("columns.parquet",)])
@pytest.mark.parametrize("to", ["webdataset", "parquet"])
def test_a_further_image_that_may_be_a_mask_moves_as_one(
    run_here: RunHere, sources: Path, tmp_path: Path, args: tuple[str, ...], to: str
) -> None:
    how = ("--resize", "24", "--crop", "20", "--encode", "jpeg", "-j1")
    done = run_here("convert", sources / args[0], *args[1:], tmp_path / "out", "--to", to, *how)
    assert (done.code, done.err) == (0, "")
    assert "3 images 'mask' changed by nearest neighbor and written as PNG, in case" in done.out
    out = tmp_path / "out"
    if to == "parquet":
        out = tmp_path / "again"
        assert run_here("convert", tmp_path / "out", out, "--to", "webdataset").code == 0
    with Image.open(io.BytesIO(png(1))) as before:
        whole = before.resize((32, 24), Image.Resampling.NEAREST).crop((6, 2, 26, 22))
    moved = mask_of(next(out.glob("*.tar")), "1")
    assert (moved.format, moved.mode, moved.tobytes()) == ("PNG", whole.mode, whole.tobytes())


def deep() -> bytes:
    """A PNG of 64 x 48 with 16 bits a color."""
    rows = zlib.compress((b"\0" + bytes(64 * 6)) * 48)
    chunks = (b"IHDR", struct.pack(">IIBBBBB", 64, 48, 16, 2, 0, 0, 0)), (b"IDAT", rows)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (*chunks, (b"IEND", b""))
    )


@pytest.mark.parametrize(
    ("image", "other", "why"),
    [
        (jpeg(), png(size=(32, 24)), "its mask has 32x24 pixels, and its image 64x48: give --keep"),
        (jpeg(orientation=3), png(), "its EXIF orientation turns the image, and nothing tells"),
        (jpeg(), deep(), "its mask has colors of 16 bits, which cannot be resized"),
    ],
)
def test_a_further_image_that_cannot_move_is_a_reject(
    run_here: RunHere, tmp_path: Path, image: bytes, other: bytes, why: str
) -> None:
    good = {"jpg": jpeg(), "mask.png": png()}
    write_shard(tmp_path / "x.tar", {"good": good, "bad": {"jpg": image, "mask.png": other}})
    call = ("convert", tmp_path / "x.tar", "--to", "webdataset", "--resize", "24", "-j1")
    assert run_here(*call, tmp_path / "out").code == 3
    (reject,) = (tmp_path / "out" / "rejects.jsonl").read_text("utf-8").splitlines()
    assert why in json.loads(reject)["reason"]
    for way in ("--keep-fields", "--drop"):
        assert run_here(*call, tmp_path / way[2:], way, "mask").code == 0


@pytest.mark.parametrize(("size", "code"), [((64, 48), 0), ((128, 96), 0), ((96, 48), 3)])
def test_a_further_jpeg_gets_the_window_of_the_image(
    run_here: RunHere, tmp_path: Path, size: tuple[int, int], code: int
) -> None:
    members = {"jpg": jpeg(size=(64, 48)), "right.jpg": jpeg(size=size)}
    write_shard(tmp_path / "x.tar", {"a": members, "b": {"jpg": jpeg(), "right.jpg": jpeg()}})
    call = ("convert", tmp_path / "x.tar", "--to", "webdataset", "-j1", "--resize", "24")
    assert run_here(*call, tmp_path / "resized").code == 0
    assert run_here(*call, tmp_path / "out", "--crop", "20").code == code
    if code:
        reject = json.loads((tmp_path / "out" / "rejects.jsonl").read_text("utf-8"))
        assert reject["reason"].startswith("its right has another size than its image, so that --")
        kept = (tmp_path / "kept", "--crop", "20", "--keep-fields", "right")
        assert run_here(*call, *kept).code == 0


def test_objects_and_masks_that_are_kept_stay_as_they_are(
    run_here: RunHere, tmp_path: Path
) -> None:
    for place, data in (("images/a.jpg", jpeg(size=(64, 48))), ("masks/a.png", palette())):
        (tmp_path / place).parent.mkdir()
        (tmp_path / place).write_bytes(data)
    item = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [8, 6, 16, 12], "area": 192}
    parts = {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [item | {"iscrowd": 0}]}
    parts |= {"categories": [{"id": 1, "name": "cat"}]}
    (tmp_path / "a.json").write_text(json.dumps(parts))
    call = ("pack", tmp_path / "images", "--annotations", tmp_path / "a.json")
    call = (*call, "--masks", tmp_path / "masks", "--resize", "24", "--crop", "20", "-j1")
    kept = ("--keep-fields", "objects,mask")
    done = run_here(*call, tmp_path / "w", *kept, "--format", "webdataset")
    assert (done.code, done.err) == (0, "")
    with tarfile.open(next((tmp_path / "w").glob("*.tar"))) as tar:
        file = tar.extractfile("a.json")
        assert file is not None
        (found,) = json.loads(file.read())["objects"]
    assert (found["box"], found["area"]) == ([8, 6, 24, 18], 192)
    mask = mask_of(next((tmp_path / "w").glob("*.tar")), "a")
    assert (mask.size, mask.mode) == ((64, 48), "L")  # other readers take a palette for colors
    done = run_here(*call, tmp_path / "x.rec", "--keep-fields", "objects", "--drop", "mask")
    assert (done.code, done.err) == (0, "")
    row = (tmp_path / "x.lst").read_text().split("\t")
    assert [*map(float, row[1:10])] == [4, 5, 64, 48, 0, 0.125, 0.125, 0.375, 0.375]


def palette() -> bytes:
    mask, out = Image.new("P", (64, 48), 1), io.BytesIO()
    mask.putpalette([0, 0, 0, 90, 0, 0])
    mask.save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize(
    "args",
    [
        ("list/images", "--list", "list/train.lst"),
        ("boxes.rec",),
        ("members.tar",),
        ("lists.tfrecord",),
        ("rows.parquet",),
        ("sagemaker.manifest",),
    ],
    ids=lambda value: value[0],
)
def test_boxes_of_labels_move(
    run_here: RunHere, sources: Path, tmp_path: Path, args: tuple[str, ...]
) -> None:
    source = [sources / each if "train" in each else each for each in args[1:]]
    call = ("convert", sources / args[0], *source, "--to", "webdataset", "-j1")
    found = []
    for name, options in (("same", ()), ("half", ("--resize", "24"))):
        done = run_here(*call, tmp_path / name, *options)
        assert (done.code, done.err) == (0, "")
        with tarfile.open(next((tmp_path / name).glob("*.tar"))) as tar:
            texts = [tar.extractfile(each) for each in tar if each.name.endswith(".json")]
            found.append([json.loads(each.read()) for each in texts if each])
    same, half = found
    assert len(same) == len(half) == 3
    for one, other in zip(same, half, strict=True):
        share = other["width"] / one["width"]
        for box, moved in zip(one["objects"], other["objects"], strict=True):
            assert moved["box"] == pytest.approx([side * share for side in box["box"]], abs=0.5)


@pytest.mark.parametrize("name", ["mask", "mask.png"])
@pytest.mark.parametrize("to", ["webdataset", "tfrecord"])
def test_a_field_is_kept_by_its_name_and_by_that_of_its_member(
    run_here: RunHere, sources: Path, tmp_path: Path, name: str, to: str
) -> None:
    args = ("convert", sources / "masks.tar", tmp_path / "out", "--to", to, "--resize", "24", "-j1")
    done = run_here(*args, "--keep-fields", name, "--json")
    assert (done.code, json.loads(done.out)["samples"]) == (0, 3)
    assert "--keep-fields" not in done.out


@pytest.mark.parametrize("way", ["--keep-fields", "--drop"])
@pytest.mark.parametrize("command", ["pack", "convert"])
def test_both_ways_out(
    run_here: RunHere, sources: Path, tmp_path: Path, command: str, way: str
) -> None:
    to = ("--format" if command == "pack" else "--to", "webdataset")
    pairs = (sources / "pairs", *PAIRS[1:], tmp_path / "b", *to, "--resize", "24", way, "mask.png")
    done = run_here(command, *pairs, "-j1")
    assert (done.code, done.err) == (0, "")
    with tarfile.open(tmp_path / "b" / "train-000000.tar") as tar:
        names = tar.getnames()
    assert len(names) == (6 if way == "--keep-fields" else 3)
    assert any(name.endswith("mask.png") for name in names) is (way == "--keep-fields")


@pytest.mark.parametrize("labels", ["3", "0\t1\t1\t0\t0\t1\t1", "0.25\t0.75\t1.5"])
def test_labels_that_do_not_depend_on_geometry(
    run_here: RunHere, tmp_path: Path, labels: str
) -> None:
    image_folder(tmp_path / "images", ("a",), 2)
    rows = [f"{i}\t{labels}\ta/00{i}.jpg\n" for i in range(2)]
    (tmp_path / "train.lst").write_text("".join(rows), "utf-8")
    done = run_here(
        *("pack", tmp_path / "images", tmp_path / "x.rec", "--list", tmp_path / "train.lst"),
        *("--resize", "24", "-j1"),
    )
    assert (done.code, done.err) == (0, "")


def test_a_field_that_the_look_did_not_find_stops_the_run(
    run_here: RunHere, tmp_path: Path
) -> None:
    image = jpeg()
    samples = {f"{n:03}": {"jpg": image, "cls": b"1"} for n in range(100)}
    samples["002"]["json"] = b'{"boxes": [[1, 2, 3, 4]]}'
    write_shard(tmp_path / "x.tar", samples)
    done = run_here(
        *("convert", tmp_path / "x.tar", tmp_path / "y.tfrecord", "--resize", "24", "-j1")
    )
    assert done.code == 2
    assert "--resize changes the geometry of images, but not json (as in the sample '002')" in (
        done.err
    )
    assert not (tmp_path / "y.tfrecord").exists()


def test_a_stream_stops_at_the_first_such_sample(tmp_path: Path) -> None:
    write_shard(tmp_path / "x.tar", {"0": {"jpg": jpeg(), "json": b'{"boxes": [1]}'}})

    def convert(keep_fields: tuple[str, ...] = (), drop: tuple[str, ...] = ()) -> bytes:
        with (tmp_path / "x.tar").open("rb") as file:
            return dsprep.convert_stream(
                file,
                source="webdataset",
                to="webdataset",
                transform=Transform(resize=24),
                keep_fields=keep_fields,
                drop=drop,
            ).read()

    with pytest.raises(OptionError, match="--resize changes .*as in the sample '0'"):
        convert()
    assert b"0.json" in convert(keep_fields=("json",))
    assert b"0.json" not in convert(drop=("json",))


def test_sizes_are_made_new(run_here: RunHere, tmp_path: Path) -> None:
    image_folder(tmp_path / "images", ("a",), 2)
    records = tmp_path / "x.tfrecord"
    call = ("pack", tmp_path / "images", records, "--features", "inception", "-j1")
    assert run_here(*call).code == 0
    call = ("convert", records, tmp_path / "y.tar", "--metadata", "--resize", "24", "-j1")
    assert run_here(*call).code == 0
    with tarfile.open(tmp_path / "y.tar") as tar:
        files = {each.name: (tar.extractfile(each) or io.BytesIO()).read() for each in tar}
    told = json.loads(files["a/000.json"])
    image = read_header(files["a/000.jpg"])
    assert (told["width"], told["height"]) == (image.width, image.height) == (32, 24)


@pytest.mark.parametrize("options", [("--encode", "png"), ("--color", "gray")])
def test_an_image_that_exif_turns_is_rejected_with_its_mask(
    run_here: RunHere, tmp_path: Path, options: tuple[str, ...]
) -> None:
    samples = {
        "plain": {"jpg": jpeg(), "mask.png": png()},
        "turned": {"jpg": jpeg(orientation=6), "mask.png": png()},
        "alone": {"jpg": jpeg(orientation=6)},
    }
    write_shard(tmp_path / "x.tar", samples)
    call = ("convert", tmp_path / "x.tar", "--to", "webdataset", *options, "-j1")
    done = run_here(*call, tmp_path / "out")
    assert done.code == 3
    (reject,) = (tmp_path / "out" / "rejects.jsonl").read_text("utf-8").splitlines()
    assert json.loads(reject)["path"] == "turned"
    assert "EXIF orientation turns the image, but not mask," in reject
    done = run_here(*call, tmp_path / "again", "--keep-fields", "mask.png")
    assert (done.code, done.err) == (0, "")


def test_an_image_with_boxes_leaves_upright(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for number, orientation in enumerate((0, 8)):
        data = jpeg(number, orientation=orientation)
        (tmp_path / "images" / f"{number}.jpg").write_bytes(data)
    rows = [f"{i}\t{BOXES}\t{i}.jpg\n" for i in range(2)]
    (tmp_path / "train.lst").write_text("".join(rows), "utf-8")
    args = ("--list", tmp_path / "train.lst", "--encode", "jpeg", "-j1")
    done = run_here("pack", tmp_path / "images", tmp_path / "x.rec", *args)
    assert (done.code, done.err) == (0, "")
    lines = (tmp_path / "x.lst").read_text("utf-8").splitlines()
    sizes = {tuple(map(float, line.split("\t")[3:5])) for line in lines}
    assert len(sizes) == 2
    assert sizes == {size[::-1] for size in sizes}


def test_samples_that_are_appended(run_here: RunHere, sources: Path, tmp_path: Path) -> None:
    first, out = tmp_path / "first.tar", tmp_path / "out"
    write_shard(first, {f"first-{n}": {"jpg": jpeg(n), "mask.png": png(n)} for n in range(2)})
    args = ("--to", "webdataset", "--encode", "png", "-j1")
    assert run_here("convert", first, out, *args).code == 0
    done = run_here("shard", "append", sources / "pairs", out, *PAIRS[1:], "-j1")
    assert (done.code, done.err) == (0, "")
    with tarfile.open(out / "train-000001.tar") as tar:
        assert sorted(tar.getnames())[:2] == ["0.mask.png", "0.png"]
    resized = tmp_path / "resized"
    args = ("--to", "webdataset", "--resize", "24", "--keep-fields", "mask", "-j1")
    assert run_here("convert", first, resized, *args).code == 0
    done = run_here("shard", "append", sources / "parts", resized, "--parts", "-j1")
    assert done.code == 4
    assert "give --rename OLD=mask" in done.err


def test_the_image_is_not_kept(sources: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--keep-fields image: the image is what"):
        dsprep.convert(
            str(sources / "masks.tar"),
            str(tmp_path / "x.tar"),
            keep_fields=["image"],
            transform=Transform(resize=24),
        )


def test_why_no_image_can_be_packed_is_said(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.jpg").write_bytes(jpeg(orientation=8))
    (tmp_path / "in" / "0.json").write_text('{"boxes": [[1, 2, 3, 4]]}')
    pack = ("pack", tmp_path / "in", tmp_path / "out", "--format", "webdataset", "-j1", "--parts")
    done = run_here(*pack, "--encode", "png")
    assert done.code == 4
    assert "no image can be packed of 1 that dsprep tried: its EXIF orientation turns" in done.err
    assert "--keep-fields json" in done.err
