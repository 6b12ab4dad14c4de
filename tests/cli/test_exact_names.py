"""Names of members and features that a training program fixes: `--rename`, judged by readers."""

from __future__ import annotations

import json
import tarfile
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


def walked(path: Path) -> list[str]:
    """The members of a shard in their order, as programs have them that read one after another."""
    with tarfile.open(path) as tar:
        return [member.name for member in tar]


class TestOrder:
    def test_the_label_first(self, images: Path, run_here: Run, tmp_path: Path) -> None:
        dest, again = tmp_path / "shards", tmp_path / "again"
        args = ("--to", "webdataset", "--order", "label,image", "--no-shuffle", "-q")
        assert run_here("pack", images / "images", dest, *args, "--metadata").code == 0
        found = walked(dest / "train-000000.tar")
        assert found[:3] == ["cat/000.cls", "cat/000.jpg", "cat/000.json"]
        assert [*members(dest)[0]] == ["cls", "jpg", "json"]
        assert run_here("verify", dest, "--against", images / "images", "-q") == (0, "", "")
        # Copies keep it, and so do samples that are added.
        assert run_here("shard", dest, again, "--shards", 2, "-q").code == 0
        assert walked(again / "train-000000.tar")[:3] == found[:3]
        image_folder(tmp_path / "new", ("cat",), 1, SIZE)
        (tmp_path / "new/cat/000.jpg").rename(tmp_path / "new/cat/new.jpg")
        assert run_here("shard", "append", tmp_path / "new", dest, "-q").code == 0
        assert walked(dest / "train-000001.tar") == ["cat/new.cls", "cat/new.jpg", "cat/new.json"]

    def test_fields_in_json_and_of_copies(
        self, images: Path, run_here: Run, tmp_path: Path
    ) -> None:
        table = "".join(f"{name}/{n:03},7,text\n" for name in CLASSES for n in range(2))
        (tmp_path / "t.csv").write_text(f"path,age,caption\n{table}")
        dest, other = tmp_path / "shards", tmp_path / "other"
        args = ("--labels", tmp_path / "t.csv", "--fields", "age,caption", "--to", "webdataset")
        order = ("--order", "caption,age", "--no-shuffle", "-q")
        assert run_here("pack", images / "images", dest, *args, *order).code == 0
        found = [name.partition(".")[2] for name in walked(dest / "train-000000.tar")[:3]]
        assert found == ["caption.txt", "json", "jpg"]
        args = (dest, other, "--to", "webdataset", "--order", "image", "-q")
        assert run_here("convert", *args).code == 0
        (path,) = other.glob("*.tar")
        found = [name.partition(".")[2] for name in walked(path)[:3]]
        assert found == ["jpg", "caption.txt", "json"]
        assert run_here("verify", other, "--against", dest, "-q") == (0, "", "")

    def test_what_is_refused(self, images: Path, run_here: Run, tmp_path: Path) -> None:
        args = (images / "images", tmp_path / "out", "--order", "labl", "--to")
        done = run_here("pack", *args, "webdataset")
        assert (done.code, "--order labl: no sample has this field" in done.err) == (2, True)
        twice = run_here("pack", *args[:3], "label,image,label", "--to", "webdataset")
        told = "--order label,image,label: label is there twice; name each field once"
        assert (twice.code, told in twice.err, (tmp_path / "out").exists()) == (2, True, False)
        done = run_here("pack", *args, "tfrecord")
        assert (done.code, "it goes with webdataset, not with tfrecord" in done.err) == (2, True)


class TestShardNames:
    @pytest.mark.parametrize(
        ("name", "first", "pattern"),
        [
            ("", "000000.tar", "{000000..000003}.tar"),
            ("{i}", "0.tar", "{0..3}.tar"),
            ("a_{i:03d}_z", "a_000_z.tar", "a_{000..003}_z.tar"),
        ],
    )
    def test_names(
        self, name: str, first: str, pattern: str, images: Path, run_here: Run, tmp_path: Path
    ) -> None:
        dest, number = tmp_path / "shards", first.replace("0_z", "4_z").replace("0.", "4.")
        image_folder(tmp_path / "more", ("cat",), 1, SIZE)
        (tmp_path / "more/cat/000.jpg").rename(tmp_path / "more/cat/new.jpg")
        args = (images / "images", dest, "--to", "webdataset", "--name", name, "--shards", 4, "-q")
        assert run_here("pack", *args).code == 0
        assert (dest / first).exists()
        read = framework("webdataset").WebDataset(str(dest / pattern), shardshuffle=False)
        assert len(list(read)) == 4
        index = "a__z.json" if "z" in name else "shards.json"
        urls = [each["url"] for each in json.loads((dest / index).read_text())["shardlist"]]
        assert urls == sorted(path.name for path in dest.glob("*.tar"))
        assert run_here("verify", dest, "--against", images / "images", "-q") == (0, "", "")
        (dest / index).unlink()
        assert run_here("shard", "index", dest, "-q").code == 0
        assert (dest / index).exists()
        assert run_here("shard", "append", tmp_path / "more", dest, "-q") == (0, "", "")
        assert (dest / number).exists()

    @pytest.mark.parametrize("name", ["{x}", "{i}{i}", "{i:3}", "a}"])
    def test_other_braces_are_refused(self, name: str, images: Path, run_here: Run) -> None:
        args = (images / "images", images / "out", "--to", "webdataset", "--name", name)
        done = run_here("pack", *args)
        assert (done.code, "braces only hold the number, as in {i}" in done.err) == (2, True)

    def test_of_sides(self, images: Path, run_here: Run, tmp_path: Path) -> None:
        args = (images / "images", "--to", "webdataset", "--split", "train=0.5,val=0.5", "-q")
        for name, wanted in (("{i}", ("train-0.tar", "val-0.tar")), ("", ("train-000000.tar",))):
            dest = tmp_path / f"of {len(wanted)}"
            done = run_here("pack", args[0], dest, *args[1:], "--name", name)
            assert done.code == 0, done.err
            assert {*wanted, "train.json", "val.json"} <= {path.name for path in dest.iterdir()}
            assert run_here("verify", dest, "-q").code == 0
