"""Names of members and features that a training program fixes: `--rename`, judged by readers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import Finished
from tests.images import image_folder
from tests.missing import framework

Run = Callable[..., Finished]
CLASSES = ("cat", "dog")
SIZE = (16, 12)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("exact")
    image_folder(root / "images", CLASSES, 2, SIZE)
    image_folder(root / "more", CLASSES, 3, SIZE)
    return root


def members(dest: Path) -> list[dict[str, bytes]]:
    """The samples of a shard as webdataset has them."""
    (path,) = dest.glob("*.tar")
    shard = framework("webdataset").WebDataset(str(path), shardshuffle=False)
    return [{name: each[name] for name in each if name[0] != "_"} for each in shard]


def test_members(images: Path, run_here: Run, tmp_path: Path) -> None:
    dest, back = tmp_path / "shards", tmp_path / "back"
    names = ("--rename", "image=.image", "--rename", "label=.label", "--rename", "height=.h")
    args = (images / "images", dest, "--to", "webdataset", "--no-shuffle", *names)
    assert run_here("pack", *args, "-q") == (0, "", "")
    files = sorted((images / "images").rglob("*.jpg"))
    labels = [CLASSES.index(file.parent.name) for file in files]
    rows = zip(files, labels, strict=True)
    wanted = [{"image": f.read_bytes(), "label": b"%d" % n, "h": b"12"} for f, n in rows]
    assert members(dest) == wanted
    assert run_here("verify", dest, "--against", images / "images", "-q") == (0, "", "")

    assert run_here("convert", dest, back, "--to", "tfrecord", "-q") == (0, "", "")
    assert run_here("verify", back, "--against", images / "images", "-q") == (0, "", "")
    assert run_here("shard", "append", images / "more", dest, "-q").code == 4  # of the same keys

    (dest / "manifest.json").unlink()
    bare, told = tmp_path / "bare", ("--image-field", "image", "--label-field", "label")
    assert run_here("convert", dest, bare, "--to", "parquet", *told, "-q") == (0, "", "")
    schema = json.loads((bare / "manifest.json").read_text())["schema"]
    assert (schema["image"], schema["label"]) == ("image", "label")
    types = {each["name"]: each["type"] for each in schema["fields"]}
    assert (types["image"], types["label"]) == ("image", "class")


def test_an_image_whose_name_is_one_kind(images: Path, run_here: Run, tmp_path: Path) -> None:
    dest = tmp_path / "shards"
    args = ("--to", "webdataset", "--rename", "image=.jpeg", "--encode", "png", "-q")
    assert run_here("pack", images / "images", dest, *args).code == 0
    assert {*members(dest)[0]} == {"jpeg", "cls"}
    back = tmp_path / "back"
    assert run_here("convert", dest, back, "--to", "tfrecord", "--look", "all", "-q").code == 0
    assert run_here("verify", back, "--against", dest, "-q") == (0, "", "")


FEATURES = ("image=image_raw", "label=label", "height=height", "width=width", "channels=depth")


@pytest.mark.parametrize("encode", ["keep", "raw"])
def test_features(encode: str, images: Path, run_here: Run, tmp_path: Path) -> None:
    dest, tf = tmp_path / "records", framework("tensorflow")
    names = [word for each in FEATURES for word in ("--rename", each)]
    args = (images / "images", dest, "--to", "tfrecord", "--no-shuffle", *names)
    assert run_here("pack", *args, "--encode", encode, "-q").code == 0
    kinds = dict.fromkeys(("height", "width", "depth", "label"), tf.int64) | {
        "image_raw": tf.string
    }
    features = {name: tf.io.FixedLenFeature([], kind) for name, kind in kinds.items()}
    records = tf.data.TFRecordDataset(str(dest / "train-00000-of-00001.tfrecord"))
    parsed = [tf.io.parse_single_example(each, features) for each in records]
    assert [[int(each[name]) for name in kinds if name != "image_raw"] for each in parsed] == [
        [12, 16, 3, number] for number in (0, 0, 1, 1)
    ]
    first = next(iter(sorted((images / "images").rglob("*.jpg"))))
    pixels = tf.io.decode_jpeg(first.read_bytes()).numpy().tobytes()
    data = parsed[0]["image_raw"].numpy()
    assert data == first.read_bytes() if encode == "keep" else len(data) == len(pixels)

    back, small = tmp_path / "back", tmp_path / "small"
    assert run_here("convert", dest, back, "--to", "webdataset", "-q").code == 0
    assert members(back)[0]["cls"] == b"0"
    assert run_here("convert", dest, small, "--to", "webdataset", "--resize", "6", "-q").code == 0
    (kind,) = members(small)[0].keys() & {"jpg", "png"}
    assert tf.io.decode_image(members(small)[0][kind]).shape == (6, 8, 3)
    if encode == "keep":
        assert json.loads(members(small)[0]["json"]) == {"height": 6, "width": 8, "depth": 3}
    (dest / "manifest.json").unlink()
    told = ("--image-field", "image_raw", "--label-field", "label")
    assert run_here("convert", dest, back, "--to", "webdataset", *told, "--overwrite").code == 0
    assert members(back)[0]["cls"] == b"0"


@pytest.mark.parametrize("format", ["webdataset", "tfrecord", "parquet"])
def test_a_renamed_fact_is_made_again(
    format: str, images: Path, run_here: Run, tmp_path: Path
) -> None:
    one = tmp_path / "one"
    args = (images / "images", one, "--to", format, "--rename", "height=.rows", "-q")
    assert run_here("pack", *args) == (0, "", "")
    assert run_here("verify", one, "--against", images / "images", "-q") == (0, "", "")
    for to in (format, "tfrecord"):
        two, three = tmp_path / f"small {to}", tmp_path / f"back {to}"
        assert run_here("convert", one, two, "--to", to, "--resize", "6", "-q").code == 0
        assert run_here("convert", two, three, "--to", "parquet", "-q").code == 0
        (path,) = three.glob("*.parquet")
        assert pq.read_table(path, columns=["rows"])["rows"].to_pylist() == [6] * 4


@pytest.mark.parametrize(
    ("rename", "why"),
    [
        ("caption=text", "--rename caption: no sample has this field, and no fact"),
        ("label=.", "--rename label=.: gives no name"),
        ("label=.a b", "--rename: .a b is not what readers find behind a key"),
        ("label=.Label", "--rename: .Label is not what readers find"),
        ("label=.png", "--rename: the member .png may be that of the field 'image'"),
        ("label=a,image=b", "--rename label=a,image=b: give --rename again"),
        ("height=label", "--rename gives a field the name of another one"),
    ],
)
def test_what_is_refused(
    rename: str, why: str, images: Path, run_here: Run, tmp_path: Path
) -> None:
    args = (images / "images", tmp_path / "out", "--to", "webdataset", "--rename", rename, "-q")
    done = run_here("pack", *args)
    assert done.code == 2
    assert why in done.err
    assert not (tmp_path / "out").exists()


def test_a_name_that_changes_nothing_is_said(images: Path, run_here: Run, tmp_path: Path) -> None:
    names = ("--rename", "image=image", "--rename", "label=label")
    args = (images / "images", tmp_path / "out", "--to", "webdataset", *names, "--json")
    notes = json.loads(run_here("pack", *args).out)["notes"]
    assert notes[-2:] == [
        "--rename image: its member is .jpg, .png or the like; give .image for exactly that member",
        "--rename label: its member is .cls; give .label for exactly that member",
    ]
