"""`dsprep augment`: how many copies, the same bytes on any machine, and what reads them after."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image, ImageDraw, ImageOps

from tests.conftest import Finished
from tests.images import encode, image_folder, jpeg

RunHere = Callable[..., Finished]

OPS = (
    "crop=0.8,rotate=40,shift=0.2,shear=10,zoom=0.2,hflip,vflip,brightness=0.2,contrast=0.2,"
    "color=0.2,blur=1,noise=5,cutout=0.2"
)


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """Five images of a common bird and two of a rare one."""
    root = tmp_path / "birds"
    image_folder(root, ("crow",), 5)
    image_folder(root, ("owl",), 2)
    return root


def members(root: Path) -> dict[str, bytes]:
    """Return the members of all tars in a directory."""
    found = {}
    for path in sorted(root.glob("*.tar")):
        with tarfile.open(path) as tar:
            found |= {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    return found


def paint(data: bytes) -> np.ndarray:
    """Return where an image is white."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("L")) > 128


def files(root: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in root.iterdir() if each.is_file()}


def test_rare_classes_get_copies(run_here: RunHere, birds: Path, tmp_path: Path) -> None:
    asked = ("--to", "webdataset", "--op", OPS, "--balance")
    done = run_here("augment", birds, tmp_path / "out", *asked)
    assert done.code == 0, done.err
    assert "3 augmented copies of 2 samples" in done.out
    found = members(tmp_path / "out")
    keys = sorted(name[:-4] for name in found if name.endswith(".jpg"))
    owls = sorted(path.stem for path in (birds / "owl").iterdir())
    expected = [f"{owls[0]}_aug01", f"{owls[0]}_aug02", f"{owls[1]}_aug01"]
    assert [key for key in keys if "_aug" in key] == [f"owl/{each}" for each in expected]
    for path in birds.rglob("*.jpg"):  # originals keep their bytes
        assert found[str(path.relative_to(birds))] == path.read_bytes()
    assert {found[f"{key}.cls"] for key in keys if key.startswith("owl")} == {b"1"}
    table = pl.read_parquet(tmp_path / "out" / "augment.parquet")
    assert table["key"].to_list() == [f"owl/{each}" for each in expected]
    assert table["origin"].to_list() == [f"owl/{owls[at]}" for at in (0, 0, 1)]
    assert {"rotate", "shift_x", "noise", "cutout_y"} < {*table.columns}
    assert run_here("verify", tmp_path / "out", "--against", birds).code == 0
    again = run_here("augment", birds, tmp_path / "out", *asked)
    assert again.out.startswith(f"{tmp_path / 'out'}: already augmented")


def test_any_workers_and_parts_write_the_same_bytes(
    run_here: RunHere, birds: Path, tmp_path: Path
) -> None:
    asked = ("--to", "webdataset", "--op", OPS, "--per-image", "2", "--samples-per-shard", "4")
    for name, *more in (("one", "-j1"), ("four", "-j4")):
        assert run_here("augment", birds, tmp_path / name, *asked, *more).code == 0
    for part in range(3):
        done = run_here("augment", birds, tmp_path / "parts", *asked, "--part", f"{part}/3", "-j1")
        assert done.code == 0, done.err
    assert files(tmp_path / "one") == files(tmp_path / "four") == files(tmp_path / "parts")
    before = members(tmp_path / "one")
    (birds / "crow" / "0-new.jpg").write_bytes(jpeg(99))
    assert run_here("augment", birds, tmp_path / "more", *asked, "-j1").code == 0
    assert before.items() < members(tmp_path / "more").items()


@pytest.mark.parametrize("to", ["folder", "tfrecord", "recordio", "parquet", "mds"])
def test_formats_agree(run_here: RunHere, birds: Path, tmp_path: Path, to: str) -> None:
    asked = ("--op", OPS, "--per-class", "6", "-j1")
    assert run_here("augment", birds, tmp_path / "a", "--to", "webdataset", *asked).code == 0
    done = run_here("augment", birds, tmp_path / "b", "--to", to, *asked)
    assert done.code == 0, done.err
    again = run_here("convert", tmp_path / "b", tmp_path / "c", "--to", "webdataset", "-j1")
    assert again.code == 0, again.err
    images = [
        sorted(data for name, data in members(tmp_path / each).items() if name.endswith(".jpg"))
        for each in ("a", "c")
    ]
    assert len(images[0]) == 12
    assert images[0] == images[1]


def test_shards_become_copies_with_the_same_pixels(
    run_here: RunHere, birds: Path, tmp_path: Path
) -> None:
    asked = ("--to", "webdataset", "--op", OPS, "--per-image", "1", "-j1")
    assert run_here("augment", birds, tmp_path / "a", *asked).code == 0
    for to in ("webdataset", "tfrecord", "mds"):
        packed = run_here("pack", birds, tmp_path / to, "--to", to, "--no-shuffle", "-j1")
        assert packed.code == 0
        assert run_here("augment", tmp_path / to, tmp_path / f"of-{to}", *asked).code == 0
        own, other = members(tmp_path / "a"), members(tmp_path / f"of-{to}")
        assert other.items() >= own.items()
    done = run_here("augment", tmp_path / "a", tmp_path / "b", *asked)
    assert done.code == 4
    assert "some are copies already" in done.err


def test_only_the_training_side_is_augmented(run_here: RunHere, tmp_path: Path) -> None:
    for side in ("train", "test"):
        image_folder(tmp_path / "sides" / side, ("crow", "owl"), 2)
    asked = ("--to", "webdataset", "--op", "hflip", "--per-image", "1", "-j1")
    done = run_here("augment", tmp_path / "sides", tmp_path / "out", *asked)
    assert done.code == 0, done.err
    assert "not for training: test" in done.out
    copies = [name for name in members(tmp_path / "out") if "_aug" in name]
    assert len(copies) == 8
    assert not any("test" in name for name in copies)
    assert run_here("verify", tmp_path / "out", "--against", tmp_path / "sides").code == 0
    test = (tmp_path / "sides" / "test", tmp_path / "other", *asked)
    refused = run_here("augment", *test)
    assert refused.code == 4
    assert "--any-side" in refused.err
    assert run_here("augment", *test, "--any-side").code == 0
    packed = tmp_path / "packed" / "val"
    assert run_here("pack", *test[:1], packed, "--to", "webdataset", "--name", "test").code == 0
    for source in (packed, packed / "test-000000.tar"):  # a manifest, a shard
        refused = run_here("augment", source, tmp_path / "another", *asked)
        assert (refused.code, "--any-side" in refused.err) == (4, True), source
    nested = tmp_path / "nested"
    nested.mkdir()
    (tmp_path / "sides").rename(nested / "data")
    for name, depth in (("third", ()), ("fourth", ("--sides-from", 2))):
        done = run_here("augment", nested, tmp_path / name, *asked, *depth)
        assert (done.code, "not for training: test" in done.out) == (0, True)


@pytest.mark.parametrize("kept", ["--keep-originals", "--no-keep-originals"])
def test_split_keeps_copies_with_their_original(
    run_here: RunHere, birds: Path, tmp_path: Path, kept: str
) -> None:
    (birds / "owl" / "own_aug99.jpg").write_bytes(jpeg(50))
    out = tmp_path / "out"
    asked = ("--to", "webdataset", "--op", "rotate=9", "--per-image", "3", "-j1", kept)
    assert run_here("augment", birds, out, *asked).code == 0
    for number, to in enumerate(("folder", "tfrecord")):  # which has no table of copies
        done = run_here("convert", out, tmp_path / f"again{number}", "--to", to, "-j1")
        assert done.code == 0, done.err
    again = (tmp_path / "again0", tmp_path / "again1", tmp_path / "again0.lst")
    for number, source in enumerate((out, out / "train-000000.tar", *again)):
        lists, more = tmp_path / f"lists{number}", ["--stable"] * (number % 2)
        done = run_here("split", source, "-o", lists, "--ratio", "train=0.5,val=0.5", *more)
        assert done.code == 0, done.err
        assert "copies are kept" in done.out
        origins = [
            {line.split("\t")[-1].partition("_aug")[0] for line in path.read_text().splitlines()}
            for path in sorted(lists.glob("*.lst"))
        ]
        assert len(origins) == 2
        assert origins[0].isdisjoint(origins[1])


@pytest.mark.parametrize(
    ("asked", "code", "reason"),
    [
        (["--op", "wave=3", "--per-image", "1"], 2, "no such operation"),
        (["--op", "shift=1", "--per-image", "1"], 2, "give a number from 0.001 to 0.99"),
        (["--op", "hflip", "--op", "hflip", "--per-image", "1"], 2, "given twice"),
        (["--op", "hflip"], 2, "give one of --per-image"),
        (["--op", "hflip", "--balance", "--per-image", "1"], 2, "leave one of them out"),
        (["--op", "hflip", "--balance", "--split", "a=1,b=1"], 2, "divide the originals first"),
        (["--op", "noise=3", "--balance", "--fill", "wrap"], 2, "no operation"),
        (["--op", "hflip", "--balance", "--mask-fill", "9"], 2, "no masks"),
        (["--op", "hflip", "--per-image", "1", "--key", "index"], 2, "keys of copies"),
        (["--op", "hflip", "--per-class", "2", "--classes", "names.txt"], 4, "without images"),
        (["--op", "hflip", "--per-image", "15000000"], 2, "give fewer"),
        (["--op", "hflip", "--per-image", f"1{'0' * 20}"], 2, "is more than"),
        (["--op", "hflip", "--per-class", f"1{'0' * 15}"], 2, "give fewer"),
        (["--op", "hflip", "--per-class", "1"], 2, "no sample gets a copy"),
    ],
)
def test_what_is_refused(
    run_here: RunHere, birds: Path, tmp_path: Path, asked: list[str], code: int, reason: str
) -> None:
    (tmp_path / "names.txt").write_text("crow\nowl\nheron\n")
    asked = [str(tmp_path / each) if each == "names.txt" else each for each in asked]
    done = run_here("augment", birds, tmp_path / "out", "--to", "webdataset", *asked)
    assert (done.code, reason in done.err) == (code, True), done.err
    assert not (tmp_path / "out").exists()


def test_samples_without_an_image_get_no_copies(run_here: RunHere, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=np.zeros((4, 8, 8, 3), "f4"), y=np.arange(4))
    asked = ("--op", "hflip", "--per-image", "1", "-j1")
    done = run_here("augment", tmp_path / "rows.npz", tmp_path / "a", "--to", "webdataset", *asked)
    assert (done.code, "no image to augment" in done.err) == (4, True), done.err
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for name, data in (("a.jpg", jpeg(1)), ("a.txt", b"one"), ("b.txt", b"two")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    done = run_here("augment", tmp_path / "s.tar", tmp_path / "b.tar", "--no-image", *asked)
    assert (done.code, "b_aug01: has no image" in done.out) == (3, True), done.out + done.err


def test_bad_images_are_counted(run_here: RunHere, birds: Path, tmp_path: Path) -> None:
    (birds / "owl" / "bad.jpg").write_bytes(jpeg(3)[:400])
    asked = ("--to", "webdataset", "--op", "hflip", "--per-image", "2", "-j1")
    done = run_here("augment", birds, tmp_path / "out", *asked)
    assert done.code == 3
    lines = (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()
    paths = [json.loads(line)["path"] for line in lines]
    assert paths == ["owl/bad.jpg", "owl/bad_aug01.jpg", "owl/bad_aug02.jpg"]
    copies = pl.read_parquet(tmp_path / "out" / "augment.parquet")["key"].to_list()
    assert sorted(copies) == sorted(
        name[:-4] for name in members(tmp_path / "out") if "_aug" in name and name.endswith(".jpg")
    )


def test_boxes_and_masks_move_in_shards(run_here: RunHere, tmp_path: Path) -> None:
    images, masks = tmp_path / "images", tmp_path / "masks"
    images.mkdir()
    masks.mkdir()
    told = []
    for number in range(3):
        picture = Image.new("RGB", (80, 60))
        left, top = 20 + 5 * number, 15
        ImageDraw.Draw(picture).rectangle((left, top, left + 29, top + 19), fill="white")
        orientation = (0, 6, 3)[number]
        (images / f"{number}.jpg").write_bytes(
            encode(picture, "JPEG", quality=98, orientation=orientation)
        )
        size = (60, 80) if orientation == 6 else (80, 60)
        upright = ImageOps.exif_transpose(Image.open(images / f"{number}.jpg"))
        mask = upright.convert("L").point(lambda level: int(level > 128))
        assert mask.size == size
        mask.save(masks / f"{number}.png")
        x0, y0, x1, y1 = mask.getbbox() or (0, 0, 0, 0)
        told.append((f"{number}.jpg", size, [x0, y0, x1 - x0, y1 - y0]))
    coco = {
        "images": [
            {"id": n, "file_name": name, "width": size[0], "height": size[1]}
            for n, (name, size, _) in enumerate(told)
        ],
        "annotations": [
            {"id": 1 + n, "image_id": n, "category_id": 1, "bbox": box, "iscrowd": 0}
            for n, (*_, box) in enumerate(told)
        ],
        "categories": [{"id": 1, "name": "bird"}],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(coco))
    ops = ("--op", "rotate=30,shift=0.1,zoom=0.1,hflip", "--fill", "constant", "--mask-fill", "9")
    asked = ("--to", "webdataset", "--per-image", "4", "--encode", "png", *ops, "-j1")
    boxes = ("--annotations", tmp_path / "boxes.json")
    assert (done := run_here("augment", images, tmp_path / "b", *asked, *boxes)).code == 0, done.err
    found = members(tmp_path / "b")
    copies = [name for name in found if "_aug" in name and name.endswith(".png")]
    assert len(copies) == 12
    for name in copies:
        rows, columns = np.nonzero(
            np.asarray(Image.open(io.BytesIO(found[name])).convert("L")) > 128
        )
        values = json.loads(found[name.replace(".png", ".json")])
        (each,) = values if isinstance(values, list) else values["objects"]
        x0, y0, x1, y1 = each["box"]
        assert x0 - 1.5 <= columns.min() <= columns.max() + 1 <= x1 + 1.5
        assert y0 - 1.5 <= rows.min() <= rows.max() + 1 <= y1 + 1.5
    lying = ("--masks", masks)
    assert (done := run_here("augment", images, tmp_path / "m", *asked, *lying)).code == 0, done.err
    found = members(tmp_path / "m")
    for name in copies:
        mask = np.asarray(Image.open(io.BytesIO(found[name.replace(".png", ".mask.png")])))
        assert {*np.unique(mask)} <= {0, 1, 9}
        assert ((mask == 1) != paint(found[name])).sum() < 60
    assert run_here("verify", tmp_path / "m", "--against", images, *lying).code == 0
    assert run_here("verify", tmp_path / "b", "--against", images, *boxes).code == 0


def test_nothing_is_appended_to_copies(run_here: RunHere, birds: Path, tmp_path: Path) -> None:
    asked = ("--to", "webdataset", "--op", "hflip", "--per-image", "1", "-j1")
    assert run_here("augment", birds, tmp_path / "out", *asked).code == 0
    image_folder(tmp_path / "more", ("owl",), 1)
    done = run_here("shard", "append", tmp_path / "more", tmp_path / "out")
    assert (done.code, "would get none" in done.err) == (5, True), done.err


def test_stdout_is_no_destination(run_here: RunHere, birds: Path) -> None:
    done = run_here("augment", birds, "-", "--to", "webdataset", "--op", "hflip", "--balance")
    assert (done.code, "writes to stdout" in done.err) == (2, True), done.err


def test_quality_and_visible_share_of_copies(
    run_here: RunHere, birds: Path, tmp_path: Path
) -> None:
    asked = ("--op", "shift=0.5", "--per-image", "4", "-j1", "--to", "webdataset")
    assert run_here("augment", birds, tmp_path / "90", *asked).code == 0
    done = run_here("augment", birds, tmp_path / "20", *asked, "--quality", "20")
    assert done.code == 0, done.err
    usual, small = members(tmp_path / "90"), members(tmp_path / "20")
    assert usual.keys() == small.keys()
    for name in usual:
        is_copy = "_aug" in name and name.endswith(".jpg")
        assert len(small[name]) < len(usual[name]) if is_copy else small[name] == usual[name]
    assert run_here("verify", tmp_path / "20", "--against", birds).code == 0
    table = tmp_path / "boxes.csv"
    rows = (f"{path.relative_to(birds)},20,15,44,33,bird" for path in sorted(birds.rglob("*.jpg")))
    table.write_text("\n".join(("path,xmin,ymin,xmax,ymax,class", *rows)))
    boxes = ("--annotations", table, "--box", "xyxy", "--box-columns", "xmin,ymin,xmax,ymax")
    objects = []
    for least in ("0.01", "0.9"):
        named = ("--min-visible", least, "--resize", "40")
        done = run_here("augment", birds, tmp_path / least, *asked, *boxes, *named, "--json")
        assert done.code == 0, done.err
        objects.append(json.loads(done.out)["objects"]["objects"])
    assert objects[0] > objects[1]
    asked = ("--op", "noise=3", "--per-image", "1", "--to", "webdataset", "--min-visible", "0.5")
    done = run_here("augment", birds, tmp_path / "no", *asked)
    assert (done.code, "--min-visible 0.5 has no effect" in done.err) == (2, True)
    for option in (("--quality", "20"), ("--min-visible", "0.5")):
        done = run_here("pack", birds, tmp_path / "no", "--to", "webdataset", *option)
        assert (done.code, "has no effect" in done.err) == (2, True)


def test_ids_of_coco_stay_and_copies_get_their_own(run_here: RunHere, tmp_path: Path) -> None:
    image_folder(tmp_path, ("images",), 2)
    names = sorted(path.name for path in (tmp_path / "images").iterdir())
    coco = {
        "images": [
            {"id": id, "file_name": name, "width": 64, "height": 48}
            for id, name in zip((7, 391895), names, strict=True)
        ],
        "annotations": [
            {"id": 5 + id % 7, "image_id": id, "category_id": 1, "bbox": [9, 9, 20, 20]}
            for id in (7, 391895)
        ],
        "categories": [{"id": 1, "name": "bird"}],
    }
    (tmp_path / "boxes.json").write_text(json.dumps(coco))
    boxes = ("--annotations", tmp_path / "boxes.json", "--annotation-size", "listed")
    asked = ("--op", "hflip=1", "--per-image", "2", "-j1")
    for to in ("coco", "webdataset"):
        done = run_here("augment", tmp_path / "images", tmp_path / to, "--to", to, *asked, *boxes)
        assert done.code == 0, done.err
    assert (
        run_here("convert", tmp_path / "webdataset", tmp_path / "again", "--to", "coco").code == 0
    )
    for name in ("coco", "again"):
        made = json.loads((tmp_path / name / "annotations" / "instances.json").read_text())
        ids = {each["id"]: each["file_name"] for each in made["images"]}
        copies = [1_000_000_007, 2_000_000_007, 1_000_391_895, 2_000_391_895]
        assert sorted(ids) == sorted([7, 391895, *copies])
        assert ids[2_000_000_007] == names[0].replace(".", "_aug02.")
        own = [each["id"] for each in made["annotations"]]
        assert len({*own}) == 6
        assert {5, 5 + 391895 % 7} <= {*own}


def test_pack_shuffles_copies_with_the_others(
    run_here: RunHere, birds: Path, tmp_path: Path
) -> None:
    asked = ("--per-image", "3", "--no-keep-originals", "-j1", "--to", "webdataset")
    assert run_here("augment", birds, tmp_path / "a", "--op", OPS, *asked).code == 0
    done = run_here("pack", birds, tmp_path / "p", "--augment", OPS, *asked)
    assert done.code == 0, done.err
    assert "21 augmented copies of 7 samples" in done.out
    own, other = members(tmp_path / "a"), members(tmp_path / "p")
    assert own == other
    assert [*own] != [*other]
    assert run_here("verify", tmp_path / "p", "--against", birds).code == 0
    part = ("--part", "0/2", "--samples-per-shard", "4")
    done = run_here("pack", birds, tmp_path / "half", "--augment", "hflip", *asked, *part)
    assert done.code == 0, done.err
    told = run_here("status", tmp_path / "half").out
    assert "--augment hflip" in told
    assert "--no-keep-originals" in told
    for more, reason in ((("--balance",), "give --augment"), (("--augment", "hflip"), "give one")):
        done = run_here("pack", birds, tmp_path / "no", "--to", "webdataset", *more)
        assert (done.code, reason in done.err) == (2, True), done.err


def test_a_preview_is_a_picture(run_here: RunHere, birds: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    asked = ("--to", "webdataset", "--op", OPS, "--per-image", "2", "--dry-run", "--preview")
    done = run_here("augment", birds, tmp_path / "out", *asked, sheet)
    assert done.code == 0, done.err
    with Image.open(sheet) as picture:
        assert picture.size == (3 * 164 + 4, 7 * 164 + 4)
    done = run_here("augment", birds, tmp_path / "out", *asked, "s3://bucket/a.png")
    assert (done.code, "s3://bucket/a.png" in done.err) == (2, True), done.err
    assert not (tmp_path / "out").exists()
    photo = next(birds.rglob("*.jpg"))
    before = photo.read_bytes()
    done = run_here("augment", birds, tmp_path / "out", *asked, photo)
    assert (done.code, "give a file that ends in .png" in done.err) == (2, True)
    assert photo.read_bytes() == before
    tree = ("--to", "folder", "--op", "hflip", "--per-image", "1", "--dry-run")
    assert "units/" not in run_here("augment", birds, tmp_path / "out", *tree).out
    new = tmp_path / "new" / "sheet.png"
    done = run_here("augment", birds, tmp_path / "out", *asked, new)
    assert (done.code, [*new.parent.iterdir()]) == (0, [new])


@pytest.mark.parametrize(
    "change",
    [
        {"ops": {"wave": 1.0}},
        {"ops": {"hflip": "0.5,vflip=0.5"}},
        {"ops": None},
        {"per_image": "2"},
        {"per_image": 0},
        {"balance": True},
        {"fill": "mirror"},
        {"mask_fill": 300},
        {"more": 1},
    ],
)
def test_a_manifest_that_lies_is_refused(
    run_here: RunHere, birds: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    asked = ("--to", "webdataset", "--op", "hflip", "--per-image", "1", "-j1", "-q")
    assert run_here("augment", birds, tmp_path / "out", *asked).code == 0
    manifest = tmp_path / "out" / "manifest.json"
    values = json.loads(manifest.read_text())
    values["options"]["augment"] |= change
    manifest.write_text(json.dumps(values))
    done = run_here("verify", tmp_path / "out", "--against", birds)
    assert done.code in (3, 4), done.err
    assert "its options are not those of this version of dsprep" in done.out + done.err


def test_verify_makes_copies_again(run_here: RunHere, birds: Path, tmp_path: Path) -> None:
    asked = ("--to", "webdataset", "--op", "noise=5", "--per-image", "1", "-j1", "-q")
    assert run_here("augment", birds, tmp_path / "out", *asked).code == 0
    manifest = tmp_path / "out" / "manifest.json"
    values = json.loads(manifest.read_text())
    values["options"]["augment"]["seed"] = 1
    manifest.write_text(json.dumps(values))
    done = run_here("verify", tmp_path / "out", "--against", birds)
    assert done.code == 3
    assert (done.out + done.err).count("its image is not that of") == 7
    assert all(f"{path.stem}_aug01" in done.out + done.err for path in birds.rglob("*.jpg"))


def test_verify_makes_some_copies_again_or_all(
    run_here: RunHere, birds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("--op", "hflip=1", "--per-image", "3", "-j1", "-q")
    wrong = {"options": {"augment": {"seed": 1}}}
    for to in ("webdataset", "tfrecord", "recordio"):
        out = tmp_path / to
        assert run_here("augment", birds, out, "--to", to, *asked, "--op", "noise=9").code == 0
        monkeypatch.setattr("dsprep.verifying.comparison._REMADE", 5)
        done = run_here("verify", out, "--against", birds)
        assert (done.code, "5 of 21 augmented copies made again" in done.out) == (0, True), done.out
        assert "made again" not in run_here("verify", out, "--against", birds, "--decode").out
        manifest = out / "manifest.json"
        values = json.loads(manifest.read_text())
        values["options"]["augment"] |= wrong["options"]["augment"]
        manifest.write_text(json.dumps(values))
        for more, count in (((), 5), (("--decode",), 21)):
            done = run_here("verify", out, "--against", birds, *more, "--json")
            assert done.code == 3
            assert len(json.loads(done.out)["problems"]) == count, done.out
    path = next(birds.rglob("*.jpg"))
    path.rename(path.with_name("other.jpg"))  # whose copies are not there
    done = run_here("verify", tmp_path / "webdataset", "--against", birds, "--json")
    problems = [each["message"] for each in json.loads(done.out)["problems"]]
    assert sum("holds no such sample" in each for each in problems) == 4
    assert sum("neither in a shard nor rejected" in each for each in problems) == 4


def test_shards_stay_in_their_format(run_here: RunHere, birds: Path, tmp_path: Path) -> None:
    asked = ("--op", "hflip", "--per-image", "1")
    assert run_here("pack", birds, tmp_path / "rec", "--to", "recordio").code == 0
    for dest, said in (("out", "recordio"), ("out.tar", "webdataset")):
        done = run_here("augment", tmp_path / "rec", tmp_path / dest, *asked)
        assert f"augmented as {said}" in done.out, done
    done = run_here("augment", birds, tmp_path / "none", *asked)
    assert (done.code, "give --to FORMAT" in done.err) == (2, True)
