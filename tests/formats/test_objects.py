"""Boxes in the formats of shards: what is kept, what is counted, and what the frameworks read."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dsprep.annotations import hugging_face, mxnet, tensorflow
from dsprep.annotations.geometry import measured_on
from dsprep.annotations.masks import mask_of_polygons, runs_of
from dsprep.annotations.objects import APART, FLAGS, PARTS, SHARES, Object, Objects, Rle, fitted
from dsprep.errors import BadSample, LeftOut
from dsprep.formats import FORMATS
from dsprep.formats.arrow import arrow_schema
from dsprep.formats.base import Format
from dsprep.formats.recordio import RecordIO
from dsprep.formats.stream import ShardStream
from dsprep.formats.tfrecord import TFRecord
from dsprep.sample import Sample
from dsprep.schema import Field, Reading, Schema
from tests.conftest import Finished
from tests.images import jpeg, png
from tests.missing import framework
from tests.parquet_files import IMAGE, images, write_table

NAMES, IDS = ("cat", 'dog, "big"', "ねこ"), (3, 18, 44)
SIZE = (64, 48)
IMAGES = {"a/1.png": (64, 48), "a/2.png": (40, 60), "b/0012.png": (33, 33)}
SHARDS = ("webdataset", "tfrecord", "recordio", "parquet", "mds")
Cli = Callable[..., Finished]

sides = st.floats(0, 30, width=32)
extents = st.floats(0.5, 18, width=32)
counts = st.integers(0, SIZE[0] * SIZE[1])


@st.composite
def objects(draw: st.DrawFn) -> Objects:
    """Objects of an image of `SIZE`, with all that they may have."""
    items = []
    for number in draw(st.lists(st.integers(0, len(NAMES) - 1), max_size=4)):
        x, y, width, height = (draw(each) for each in (sides, sides, extents, extents))
        corners = (x, y, x + width, y, x + width, y + height)
        outside = draw(counts)
        runs = Rle(SIZE[1], SIZE[0], (outside, SIZE[0] * SIZE[1] - outside))
        items.append(
            Object(
                (x, y, x + width, y + height),
                number,
                frozenset(draw(st.sets(st.sampled_from(FLAGS)))),
                (corners,) if draw(st.booleans()) else (),
                runs if draw(st.booleans()) else None,
                (x, y, 2.0) if draw(st.booleans()) else (),
                draw(st.none() | st.integers(0, 1 << 40)),
                draw(st.none() | st.floats(0, 1e6, width=32)),
                {"note": "späť"} if draw(st.booleans()) else {},
            )
        )
    return Objects(tuple(items), SIZE)


def schema_of(flags: bool) -> Schema:
    field = Field("objects", "objects", names=NAMES, ids=IDS, flags=flags)
    return Schema((Field("image", "image"), field), "image")


def written_and_read(layout: Format, sample: Sample, directory: Path) -> Sample:
    """Write a sample of a schema, and read it back by the places that its fields have there."""
    shard = directory / f"shard{layout.suffix}"
    if layout.concatenative:
        parts = layout.encode(sample)
        data = b"".join(parts)
        shard.write_bytes(data + layout.trailer(len(data)))
    else:
        with closing(layout.open_writer(str(shard), "", 9)) as writer:
            writer.add(sample)
            writer.finish()
    with ShardStream(str(shard)) as stream:
        (entry,) = layout.read(stream)
    table = FORMATS[layout.name]()
    return Reading(layout.written, table)(entry.sample)


@given(value=objects(), flags=st.booleans())
@pytest.mark.parametrize("name", SHARDS)
def test_what_a_format_keeps_comes_back_and_the_rest_is_counted(
    name: str, value: Objects, flags: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("shard")
    layout, _ = FORMATS[name]().with_options(empty="mark").arranged(schema_of(flags))
    effects = Counter[str]()
    kept = fitted(value, layout.kept_parts(), False, name, effects)
    fields = {"image": png(1), "objects": kept, "width": SIZE[0], "height": SIZE[1]}
    back = written_and_read(layout, Sample("a", fields, 7, "a.png", "image"), directory)
    found = measured_on(back.fields["objects"], SIZE).items
    assert [each.number for each in found] == [each.number for each in kept.items]
    for one, other in zip(kept.items, found, strict=True):
        assert one.box == pytest.approx(other.box, abs=0.01)
        if name == "recordio":
            assert bool(other.flags) == (flags and not one.flags.isdisjoint(APART))
        else:
            assert one.flags == other.flags
        for part in PARTS:
            if name in ("webdataset", "parquet") and (part != "area" or one.area is not None):
                assert getattr(one, part) == getattr(other, part)
    has = Counter[str]()
    for each in value.items:
        gone = each.flags & APART - layout.kept_parts()
        has["dropped"] += bool(gone)
        for part in () if gone else PARTS:
            lost = part not in layout.kept_parts() and getattr(each, part) not in (None, (), {})
            has[part] += lost
    words = {"rle": "runs", "more": "other attributes"}
    for part in PARTS:
        told = [n for text, n in effects.items() if f"without {words.get(part, part)}," in text]
        assert sum(told) == has[part]
    assert sum(n for text, n in effects.items() if "dropped" in text) == (has["dropped"])


@given(value=objects(), letters=st.lists(st.integers(0, 255), min_size=3, max_size=9))
@pytest.mark.parametrize("name", ["webdataset", "tfrecord", "recordio", "parquet"])
def test_no_sample_weighs_more_than_is_planned(
    name: str, value: Objects, letters: list[int]
) -> None:
    import polars as pl

    layout, _ = FORMATS[name]().with_options(empty="mark").arranged(schema_of(True))
    key = "".join(map("{:03d}".format, letters))
    fields = {"image": png(1), "objects": value, "width": SIZE[0], "height": SIZE[1]}
    sample = Sample(key, fields, 7, f"{key}.png", "image")
    texts = len(json.dumps(hugging_face.write(value)))
    rows = pl.DataFrame(
        {
            "index": [7],
            "path": [sample.path],
            "image": [len(png(1))],
            "objects": [len(value.items)],
            "texts": [texts],
        }
    )
    (most,) = layout.weights(rows)
    if layout.concatenative:
        assert sum(map(len, layout.encode(sample))) <= most


def test_flags_that_a_format_has_no_mark_for() -> None:
    given = Objects((Object((0, 0, 1, 1), 0, frozenset({"crowd"})), Object((0, 0, 2, 2), 0)), SIZE)
    effects = Counter[str]()
    assert len(fitted(given, (), False, "x", effects).items) == 1
    assert effects == {
        "object marked crowd dropped, as x has no such mark: --crowd keep keeps such objects": 1
    }
    effects.clear()
    assert len(fitted(given, (), True, "x", effects).items) == 2
    assert effects == {"object kept without its mark: crowd": 1}
    assert (
        not (effects := Counter[str]()) and fitted(given, {"crowd"}, False, "x", effects) == given
    )
    assert not effects


def test_an_image_without_objects_in_a_record() -> None:
    sample = Sample("a", {"image": png(1), "objects": Objects((), SIZE)}, 0, "a.png", "image")
    layouts = {
        empty: RecordIO().with_options(empty=empty or None).arranged(schema_of(False))[0]
        for empty in ("", "drop", "mark")
    }
    with pytest.raises(BadSample, match="--empty drop .* --empty mark"):
        layouts[""].encode(sample)
    with pytest.raises(LeftOut):
        layouts["drop"].encode(sample)
    assert layouts["mark"].listed_label(sample) == (4, 5, 64, 48, -1, 0, 0, 0, 0)
    assert RecordIO().with_options(empty="mark").options() == {"empty": "mark"}
    assert RecordIO().options() == {}


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ((3.0,), "no label"),
        ((4.0, 5.0, 9.0, 9.0, 1.0, 0.1, 0.1, 0.5), "no label"),
        ((2.0, 5.0, 1.0, 10.0, 10.0, 50.0, 60.0), "not in shares"),
        ((2.0, 5.0, 0.5, 0.1, 0.1, 0.5, 0.5), "no class number"),
    ],
)
def test_labels_that_are_no_objects(label: tuple[float, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        mxnet.parse(label)


def test_more_numbers_in_a_label() -> None:
    (one, other) = mxnet.parse((2, 7, 1, 0, 0, 1, 1, 1, 9, 0, 0, 0, 0.5, 0.5, 0, 8)).items
    assert (one.flags, one.more) == ({"difficult"}, {"label": [9.0]})
    assert (other.flags, other.more) == (frozenset(), {"label": [8.0]})


def test_lists_of_different_lengths() -> None:
    box = {f"bbox/{side}": (0.1, 0.2) for side in ("xmin", "ymin", "xmax", "ymax")}
    with pytest.raises(ValueError, match="area has 1 values for 2 objects"):
        tensorflow.parse({**box, "class/label": (1, 2), "area": (5.0,)})
    assert tensorflow.parse({"class/label": (1, 2)}) is None
    assert tensorflow.parse(dict.fromkeys(box, ())) == Objects((), SHARES)


def test_masks_of_polygons_cover_pixels_by_their_centers() -> None:
    square = mask_of_polygons([(5, 5, 25, 5, 25, 25, 5, 25)], (5, 5, 25, 25), (30, 30))
    assert square.getbbox() == (5, 5, 25, 25)
    assert square.histogram()[1] == 400
    fraction = mask_of_polygons([], (4.4, 4.6, 10.5, 10.6), (30, 30))
    assert fraction.getbbox() == (4, 5, 10, 11)
    hole = mask_of_polygons(
        [(2, 2, 4, 2, 4, 4, 2, 4), (6, -9, 99, -9, 99, 99, 6, 99)], (0, 0, 9, 9), (8, 8)
    )
    assert hole.histogram()[1] == 4 + 16


# The command


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A COCO data set: an image with two objects and a crowd, one with a polygon, one with none."""
    root = tmp_path_factory.mktemp("coco")
    for name, size in IMAGES.items():
        (root / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, "gray").save(root / "images" / name)
    boxes: list[tuple[int, int, list[float], Any, int]] = [
        (1, 3, [4, 6, 20, 10], [[4, 6, 24, 6, 24, 16]], 0),
        (1, 44, [30.5, 2.25, 9, 30], [[30.5, 2.25, 39.5, 2.25, 39.5, 32.25]], 0),
        (1, 18, [0, 0, 8, 48], {"size": [48, 64], "counts": [0, 384, 2688]}, 1),
        (2, 18, [3, 9, 30, 40], [[3, 9, 33, 9, 33, 49, 3, 49]], 0),
    ]
    annotations = [
        {
            "id": number,
            "image_id": image,
            "category_id": category,
            "bbox": box,
            "area": box[2] * box[3] / 2,
            "iscrowd": crowd,
            "segmentation": shape,
        }
        for number, (image, category, box, shape, crowd) in enumerate(boxes, 1)
    ]
    listed = [
        {"id": number, "file_name": name, "width": width, "height": height}
        for number, (name, (width, height)) in enumerate(IMAGES.items(), 1)
    ]
    categories = [{"id": id, "name": name} for id, name in zip(IDS, NAMES, strict=True)]
    told = {"images": listed, "annotations": annotations, "categories": categories}
    (root / "a.json").write_text(json.dumps(told))
    return root


@pytest.fixture(scope="module")
def packed(coco: Path, run_here: Cli) -> Callable[..., Path]:
    """Pack the set in its order, with some options; once for each."""
    made: dict[tuple[object, ...], Path] = {}

    def pack(*options: object) -> Path:
        if options not in made:
            made[options] = coco / f"shards{len(made)}"
            given = ("--annotations", coco / "a.json", "--no-shuffle", "-q")
            done = run_here("pack", coco / "images", made[options], *given, *options)
            assert done.code == 0, done.err
        return made[options]

    return pack


def json_of(shards: Path, run_here: Cli, dest: Path, *options: object) -> dict[str, Any]:
    """The `.json` of all samples after a conversion to WebDataset, by key."""
    import tarfile

    done = run_here("convert", shards, dest, "--to", "webdataset", "-q", *options)
    assert done.code == 0, done.err
    with tarfile.open(next(dest.glob("*.tar"))) as tar:
        return {
            each.name.rpartition(".")[0]: json.loads(file.read())
            for each in tar
            if each.name.endswith(".json") and (file := tar.extractfile(each))
        }


def boxes_of(sample: dict[str, Any]) -> list[tuple[int, list[float]]]:
    return [(each["class"], each["box"]) for each in sample["objects"]]


@pytest.mark.parametrize("name", SHARDS)
def test_boxes_come_back_and_move(
    name: str, packed: Callable[..., Path], run_here: Cli, tmp_path: Path
) -> None:
    own = ("--empty", "drop") if name == "recordio" else ()
    shards = packed("--to", name, *own)
    back = json_of(shards, run_here, tmp_path / "back")
    keys = ["a/1", "a/2", "b/0012"]
    assert list(back) == keys[: 2 if own else 3]
    one = boxes_of(back[keys[0]])
    assert [number for number, _ in one] == [0, 2, 1]
    assert one[1][1] == pytest.approx([30.5, 2.25, 39.5, 32.25], abs=0.01)
    assert (back[keys[0]]["width"], back[keys[0]]["height"]) == (64, 48)
    # Within a format, samples are raw, unless their boxes have to move.
    suffix = {"webdataset": "tar", "parquet": "parquet", "recordio": "rec", "mds": "mds"}.get(
        name, "tfrecord"
    )
    done = run_here(
        "convert", shards, tmp_path / "half", "--resize", "24", "--to", name, "-q", *own
    )
    assert done.code == 0, done.err
    assert list((tmp_path / "half").glob(f"*.{suffix}"))
    small = json_of(tmp_path / "half", run_here, tmp_path / "small")
    assert boxes_of(small[keys[0]])[1][1] == pytest.approx([15.25, 1.125, 19.75, 16.125], abs=0.01)
    assert small[keys[0]]["width"] == 32


def test_losses_are_reported(coco: Path, run_here: Cli, tmp_path: Path) -> None:
    source = (coco / "images", "--annotations", coco / "a.json")
    pack = ("pack", source[0], tmp_path / "tf", *source[1:], "--to", "tfrecord")
    assert "3 objects without polygons, as tfrecord has no place" in run_here(*pack).out
    refused = run_here("pack", source[0], tmp_path / "rec", *source[1:], "--to", "recordio")
    assert refused.code != 0
    assert "1 image of 3 without objects" in refused.err
    assert "--empty drop" in refused.err
    assert "--empty mark" in refused.err
    assert not (tmp_path / "rec").exists()
    # Nothing but the samples tells it here: rejects
    shards = run_here("convert", tmp_path / "tf", tmp_path / "rec", "--to", "recordio")
    assert shards.code == 3
    assert "--empty" in (tmp_path / "rec" / "rejects.jsonl").read_text()
    dropped = run_here(
        *("convert", tmp_path / "tf", tmp_path / "rec2", "--to", "recordio", "--empty", "drop")
    )
    assert (dropped.code, "1 image left out: it has no objects" in dropped.out) == (0, True)
    direct = run_here("pack", source[0], tmp_path / "rec3", *source[1:], "--to", "recordio",
                      "--empty", "drop")  # fmt: skip
    assert "3 objects without polygons, as recordio has no place" in direct.out
    refused = run_here("pack", source[0], tmp_path / "pb", *source[1:], "--to", "recordio-protobuf")
    assert (refused.code, "--drop objects" in refused.err) == (2, True)
    for option in ("--crowd keep", "--empty mark", "--object-masks"):
        given = option.split()
        refused = run_here("pack", source[0], tmp_path / "x", "--to", "webdataset", *given)
        assert (refused.code, "has no effect" in refused.err) == (2, True), option
    for target, given, why in (
        ("webdataset", ("--crowd", "drop"), "webdataset keeps the marks"),
        ("tfrecord", ("--crowd", "keep"), "tfrecord keeps the marks"),
    ):
        own = (*source, "--to", target, *given)
        refused = run_here("pack", own[0], tmp_path / "x", *own[1:])
        assert (refused.code, why in refused.err) == (2, True), refused.err
    own = (tmp_path / "tf", tmp_path / "x", "--to", "tfrecord", "--object-masks")
    refused = run_here("convert", *own)
    assert (refused.code, "stay as they are" in refused.err) == (2, True), refused.err
    assert not (tmp_path / "x").exists()


def test_options_that_boxes_alone_or_shares_have_no_use_for(run_here: Cli, tmp_path: Path) -> None:
    source = tmp_path / "set"
    source.mkdir()
    Image.new("RGB", (40, 20)).save(source / "a.png")
    text = source / "a.txt"
    text.write_text("0 0.5 0.5 0.5 0.5\n")
    for option in ("--annotation-size 80x40", "--object-masks"):
        done = run_here("pack", source, tmp_path / "x", "--to", "tfrecord", *option.split())
        assert (done.code, f"{option} has no effect" in done.err) == (2, True), done.err
    text.write_text("0 0.5 0.5 0.5 0.9 0.1 0.1\n")
    done = run_here("pack", source, tmp_path / "x", "--to", "tfrecord", "--object-masks")
    assert (done.code, "whole box" in done.out) == (0, False), done.err
    text.unlink()
    listed = {"id": 1, "file_name": "a.png", "width": 40, "height": 20}
    own = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}
    values = {"images": [listed], "annotations": [own], "categories": [{"id": 1, "name": "a"}]}
    (source / "instances_a.json").write_text(json.dumps(values))
    done = run_here("pack", source, tmp_path / "y", "--to", "tfrecord", "--object-masks")
    assert "1 object with its whole box as mask, as it has no polygon" in done.out


@pytest.mark.parametrize("name", ["coco", "voc", "yolo"])
def test_shards_become_a_folder(
    name: str, packed: Callable[..., Path], run_here: Cli, tmp_path: Path
) -> None:
    shards = packed("--to", "webdataset")
    done = run_here("convert", shards, tmp_path / "out", "--to", name, "--json")
    assert (done.code, json.loads(done.out)["samples"]) == (0, 3)


def test_the_sixth_number_is_for_sets_that_use_it(run_here: Cli, tmp_path: Path) -> None:
    source = tmp_path / "set"
    source.mkdir()
    Image.new("RGB", (40, 20)).save(source / "a.png")
    for name, group in (("plain", 0), ("group", 1)):
        row = f"a,x,0.25,0.75,0.25,0.75,{group}\n"
        header = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\n"
        (tmp_path / f"{name}.csv").write_text(header + row)
    (source / "a.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    for name, numbers in (("yolo", "5"), ("plain", "5"), ("group", "6")):
        own = () if name == "yolo" else ("--annotations", tmp_path / f"{name}.csv")
        done = run_here("pack", source, tmp_path / name, *own, "--to", "recordio", "-q")
        assert done.code == 0, done.err
        label = next((tmp_path / name).glob("*.lst")).read_text().split("\t")
        assert label[1:3] == ["4", numbers]


def test_the_augmented_manifest(coco: Path, run_here: Cli, tmp_path: Path) -> None:
    source = (coco / "images", "--annotations", coco / "a.json")
    given = ("--to", "augmented-manifest", "--prefix", "s3://b/c")
    done = run_here("convert", source[0], tmp_path / "out", *source[1:], *given)
    assert "1 object marked crowd dropped" in done.out
    lines = (tmp_path / "out.manifest").read_text().splitlines()
    one, _, none = map(json.loads, lines)
    assert one["class"] == {
        "image_size": [{"width": 64, "height": 48, "depth": 3}],
        "annotations": [
            {"class_id": 0, "left": 4, "top": 6, "width": 20, "height": 10},
            {"class_id": 2, "left": 30.5, "top": 2.25, "width": 9, "height": 30},
        ],
    }
    assert one["class-metadata"]["type"] == "groundtruth/object-detection"
    assert one["class-metadata"]["class-map"] == {"0": "cat", "2": "ねこ"}
    assert none["class"]["annotations"] == []
    kept = run_here("convert", source[0], tmp_path / "all", *source[1:], *given, "--crowd", "keep")
    assert "1 object kept without its mark: crowd" in kept.out
    assert (
        len(json.loads((tmp_path / "all.manifest").open().readline())["class"]["annotations"]) == 3
    )


def test_a_list_for_detection(run_here: Cli, tmp_path: Path) -> None:
    for name, size in (("a.png", (40, 20)), ("b.png", (60, 60))):
        Image.new("RGB", size).save(tmp_path / name)
    (tmp_path / "own.lst").write_text(
        "5\t4\t5\t40\t20\t1\t0.25\t0.5\t0.75\t1\ta.png\n9\t2\t6\t0\t0\t0\t0.5\t0.5\t1\tb.png\n"
    )
    source = (tmp_path, "--list", tmp_path / "own.lst")
    packed = run_here("pack", *source[:1], tmp_path / "rec", *source[1:], "--to", "recordio", "-q")
    assert packed.code == 0, packed.err
    made = next((tmp_path / "rec").glob("*.lst")).read_text().splitlines()
    assert sorted(made) == [
        "5\t4\t6\t40\t20\t1\t0.25\t0.5\t0.75\t1\t0\ta.png",
        "9\t4\t6\t60\t60\t0\t0\t0\t0.5\t0.5\t1\tb.png",
    ]
    small = json_of(tmp_path / "rec", run_here, tmp_path / "wds", "--resize", "10")
    assert boxes_of(small["a"]) == [(1, [5, 5, 15, 10])]
    assert boxes_of(small["b"]) == [(0, [0, 0, 5, 5])]
    assert small["b"]["objects"][0]["difficult"] is True
    given = ("--list", tmp_path / "own.lst", "--label-type", "float", "--to", "tfrecord", "-q")
    as_numbers = run_here("pack", tmp_path, tmp_path / "tf", *given)
    assert as_numbers.code == 0, as_numbers.err
    assert b"image/object" not in next((tmp_path / "tf").glob("*.tfrecord")).read_bytes()


# The frameworks


def test_tensorflow_decodes_them(packed: Callable[..., Path], tensorflow: ModuleType) -> None:
    tf, io_ = tensorflow, tensorflow.io
    # What TfExampleDecoder of the Model Garden parses (official/vision/dataloaders).
    spec = {
        **dict.fromkeys(("image/encoded", "image/source_id"), io_.FixedLenFeature((), tf.string)),
        **dict.fromkeys(("image/height", "image/width"), io_.FixedLenFeature((), tf.int64, -1)),
        **{
            f"image/object/bbox/{side}": io_.VarLenFeature(tf.float32)
            for side in ("xmin", "xmax", "ymin", "ymax")
        },
        "image/object/class/label": io_.VarLenFeature(tf.int64),
        "image/object/area": io_.VarLenFeature(tf.float32),
        "image/object/is_crowd": io_.VarLenFeature(tf.int64),
        "image/object/mask": io_.VarLenFeature(tf.string),
        "image/object/class/text": io_.VarLenFeature(tf.string),
    }
    shards = packed("--to", "tfrecord", "--object-masks")
    (shard,) = map(str, shards.glob("*.tfrecord"))
    found = [io_.parse_single_example(each, spec) for each in tf.data.TFRecordDataset(shard)]
    one, two, none = (
        {
            name: tf.sparse.to_dense(value).numpy().tolist()
            if isinstance(value, tf.SparseTensor)
            else value.numpy()
            for name, value in each.items()
        }
        for each in found
    )
    assert one["image/object/class/label"] == [3, 44, 18]
    assert one["image/object/bbox/xmin"] == pytest.approx([4 / 64, 30.5 / 64, 0])
    assert one["image/object/bbox/ymax"] == pytest.approx([16 / 48, 32.25 / 48, 1])
    assert one["image/object/is_crowd"] == [0, 0, 1]
    assert one["image/object/area"] == [100, 135, 192]
    assert (one["image/height"], one["image/width"]) == (48, 64)
    assert [each["image/source_id"] for each in (one, two, none)] == [b"1", b"2", b"3"]
    assert one["image/object/class/text"] == [NAMES[at].encode() for at in (0, 2, 1)]
    (mask,) = two["image/object/mask"]
    pixels = tf.io.decode_png(mask, channels=1).numpy()[:, :, 0]
    assert pixels.shape == (60, 40)
    assert pixels.sum() == 30 * 40
    assert pixels[9:49, 3:33].all()
    crowd = tf.io.decode_png(one["image/object/mask"][2], channels=1).numpy()
    assert crowd[:, :8].all()
    assert crowd.sum() == 384
    assert none["image/object/class/label"] == []
    label_map = (shards / "label_map.pbtxt").read_text()
    assert 'item {\n  id: 18\n  name: "dog, \\"big\\""\n}' in label_map


@pytest.mark.parametrize("empty", ["drop", "mark"])
def test_mxnet_reads_them(empty: str, packed: Callable[..., Path], mxnet: ModuleType) -> None:
    (shard,) = packed("--to", "recordio", "--empty", empty).glob("*.rec")
    batches = mxnet.io.ImageDetRecordIter(
        path_imgrec=str(shard), data_shape=(3, 48, 48), batch_size=1, label_pad_width=30
    )
    rows = [each.label[0].asnumpy().reshape(-1).tolist() for each in batches]
    assert len(rows) == (2 if empty == "drop" else 3)
    at = rows[0].index(6.0)  # the width of an object, before its header's size
    header = rows[0][at - 1 :]
    assert header[:2] == [4, 6]
    assert header[4:10] == pytest.approx([0, 4 / 64, 6 / 48, 24 / 64, 16 / 48, 0])
    assert header[16:22] == pytest.approx([1, 0, 0, 8 / 64, 1, 1])
    if empty == "drop":
        reader = mxnet.image.ImageDetIter(
            path_imgrec=str(shard),
            path_imgidx=str(shard.with_suffix(".idx")),
            data_shape=(3, 48, 48),
            batch_size=2,
        )
        (batch,) = reader
        found = batch.label[0].asnumpy().tolist()
        assert found[0][0] == pytest.approx([0, 4 / 64, 6 / 48, 24 / 64, 16 / 48, 0])


def test_hugging_face_reads_them(packed: Callable[..., Path], tmp_path: Path) -> None:
    datasets = framework("datasets")
    shards = packed("--to", "parquet")
    rows = datasets.load_dataset(
        "parquet",
        data_files=[str(each) for each in shards.glob("*.parquet")],
        split="train",
        cache_dir=str(tmp_path),
    )
    assert rows.column_names == ["image_id", "image", "width", "height", "objects"]
    assert rows.features["objects"]["category"].feature.names == list(NAMES)
    one, _, none = rows
    assert one["objects"]["bbox"][1] == [30.5, 2.25, 9, 30]
    assert one["objects"]["category"] == [0, 2, 1]
    assert one["objects"]["iscrowd"] == [False, False, True]
    assert one["image"].size == (one["width"], one["height"]) == (64, 48)
    assert none["objects"]["bbox"] == []
    assert [each["image_id"] for each in rows] == [1, 2, 3]


# As other tools write them


def test_records_of_others(run_here: Cli, tmp_path: Path) -> None:
    """Without a manifest: a label map tells classes, and images without objects say nothing."""
    from dsprep.sample import Blobs, Floats, Ints

    features: list[dict[str, Any]] = [
        {
            "image/encoded": Blobs((png(1),)),
            "image/filename": Blobs((b"1.png",)),
            "image/source_id": Blobs((b"1.png",)),
            **{f"image/object/bbox/{side}": Floats((0.25,)) for side in ("xmin", "ymin")},
            **{f"image/object/bbox/{side}": Floats((0.75,)) for side in ("xmax", "ymax")},
            "image/object/class/label": Ints((4,)),
            "image/object/view": Blobs((b"Frontal",)),
        },
        {"image/encoded": Blobs((png(2),)), "image/filename": Blobs((b"2.png",))},
    ]
    shard = tmp_path / "theirs" / "a.tfrecord"
    shard.parent.mkdir()
    with shard.open("wb") as file:
        for each in features:
            (name,) = each["image/filename"]
            sample = Sample(name.decode().removesuffix(".png"), each)
            file.write(b"".join(TFRecord().encode(sample)))
    (shard.parent / "label_map.pbtxt").write_text(
        "item {\n id: 2\n name: 'cat'\n}\nitem {\n id: 4\n name: 'dog'\n}\n"
    )
    found = json_of(shard.parent, run_here, tmp_path / "wds")
    width, height = Image.open(io.BytesIO(png(1))).size
    one, none = found["1"]["objects"], found["2"]["objects"]
    box = [width / 4, height / 4, width * 0.75, height * 0.75]
    assert one == [{"box": box, "class": 1, "more": {"view": "Frontal"}}]
    assert none == []
    assert (tmp_path / "wds" / "objects.classes.txt").read_text() == "cat\ndog\n"
    copied = run_here("convert", shard.parent, tmp_path / "tf", "--to", "tfrecord", "-q")
    assert copied.code == 0, copied.err
    (copy,) = (tmp_path / "tf").glob("*.tfrecord")
    assert copy.read_bytes() == shard.read_bytes()


@pytest.mark.parametrize("kind", ["struct of lists", "list of structs"])
def test_parquet_of_others(kind: str, run_here: Cli, tmp_path: Path) -> None:
    import pyarrow as pa

    label = {"names": ["cat", "dog"], "_type": "ClassLabel"}
    box = {"feature": {"dtype": "float32", "_type": "Value"}, "length": 4, "_type": "List"}
    values: Any = {"bbox": [[1.0, 2.0, 3.0, 4.0]], "category": [1]}
    inner = [("bbox", pa.list_(pa.float32(), 4)), ("category", pa.int64())]
    if kind == "struct of lists":
        arrow = pa.struct([(name, pa.list_(each)) for name, each in inner])
        feature: Any = {
            "bbox": {"feature": box, "_type": "List"},
            "category": {"feature": label, "_type": "List"},
        }
        cells = [values, {"bbox": [], "category": []}]
    else:
        arrow = pa.list_(pa.struct(inner))
        feature = {"feature": {"bbox": box, "category": label}, "_type": "List"}
        cells = [[{name: each[0] for name, each in values.items()}], []]
    columns = {
        "image": images([png(1), png(2)], ["1.png", "2.png"]),
        "objects": pa.array(cells, arrow),
    }
    features = {"image": {"_type": "Image"}, "objects": feature}
    path = write_table(tmp_path / "a.parquet", columns, features=features)
    assert pq.read_schema(path).field("image").type == IMAGE
    found = json_of(Path(path), run_here, tmp_path / "wds")
    assert boxes_of(found["1"]) == [(1, [1, 2, 4, 6])]
    assert found["2"]["objects"] == []
    assert (tmp_path / "wds" / "objects.classes.txt").read_text() == "cat\ndog\n"


def test_webdataset_of_others(run_here: Cli, tmp_path: Path) -> None:
    import tarfile

    theirs = tmp_path / "a.tar"
    told = {"objects": [{"box": [1, 2, 3, 4], "class": 0}], "width": 9, "height": 9}
    with tarfile.open(theirs, "w") as tar:
        for name, data in (
            ("1.png", png(1)),
            ("1.json", json.dumps(told).encode()),
            ("2.png", png(2)),
            ("2.json", json.dumps({**told, "objects": []}).encode()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    done = run_here("convert", theirs, tmp_path / "tf", "--to", "tfrecord", "-q")
    assert done.code == 0, done.err
    (shard,) = (tmp_path / "tf").glob("*.tfrecord")
    assert b"image/object/bbox/xmin" in shard.read_bytes()
    assert b'"box"' not in shard.read_bytes()
    width, height = Image.open(io.BytesIO(png(1))).size
    half = json_of(theirs, run_here, tmp_path / "half", "--resize", f"{width}x{height}")
    assert boxes_of(half["1"]) == [(0, [1, 2, 3, 4])]
    assert half["1"]["width"] == width


def test_the_runs_of_a_mask_come_back(packed: Callable[..., Path], run_here: Cli) -> None:
    shards = packed("--to", "tfrecord", "--object-masks")
    found = json_of(shards, run_here, shards.parent / "masks")
    (one,) = found["a/2"]["objects"]
    whole = runs_of(mask_of_polygons([(3, 9, 33, 9, 33, 49, 3, 49)], (3, 9, 33, 49), (40, 60)))
    assert one["rle"] == {"size": [60, 40], "counts": list(whole.counts)}


def test_columns_of_objects() -> None:
    layout, _ = FORMATS["parquet"]().arranged(schema_of(True))
    names = [each.name for each in arrow_schema(layout.written).field("objects").type]
    assert names == list(hugging_face.write(Objects()))


def test_more_masks_than_can_be_painted_are_a_reject(
    run_here: Callable[..., Finished], tmp_path: Path
) -> None:
    (tmp_path / "images").mkdir()
    for name, side in (("large", 2000), ("small", 64)):
        (tmp_path / f"images/{name}.jpg").write_bytes(jpeg(1, size=(side, side)))
    annotations = [
        {
            "id": number,
            "image_id": 1 + (number == 0),
            "category_id": 1,
            "bbox": [0, 0, 64, 64],
            "area": 4096,
            "iscrowd": 0,
            "segmentation": [[0, 0, 64, 0, 64, 64, 0, 64]],
        }
        for number in range(1100)
    ]
    images = [
        {"id": 1, "file_name": "large.jpg", "width": 2000, "height": 2000},
        {"id": 2, "file_name": "small.jpg", "width": 64, "height": 64},
    ]
    boxes = tmp_path / "boxes.json"
    categories = [{"id": 1, "name": "cat"}]
    boxes.write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories})
    )
    command = ("pack", tmp_path / "images", tmp_path / "out", "--annotations", boxes)
    done = run_here(*command, "--to", "tfrecord", "--object-masks", "--json")
    assert done.code == 3, done.err
    (reject,) = json.loads(done.out)["rejects"]
    assert reject["path"] == "large.jpg"
    assert "1,099 objects, of 2000x2000 pixels each" in reject["reason"]
    again = run_here(*command, "--to", "tfrecord", "--object-masks", "--resize", 64, "--overwrite")
    assert again.code == 0, again.err
