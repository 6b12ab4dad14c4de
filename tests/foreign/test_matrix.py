"""What other tools made, converted to each format, means the same to those who read that format.

Each set of each target either holds all of its images, labels, class names and other fields, or is
refused with a reason.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tarfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Finished
from tests.foreign.readers import (
    FACTS,
    READERS,
    Found,
    decoded,
    files_of,
    iterate,
    load,
    pixels,
    webdataset_of_datasets,
)
from tests.foreign.sets import DATA, SETS, TARGETS, Foreign, Truth, truth
from tests.missing import Frameworks

RunHere = Callable[..., Finished]

REFUSED: dict[tuple[str, str], tuple[str, ...]] = {
    ("wds-masks", "recordio"): ("label", "--only image")  # the mask is called label
}
"""What cannot be converted, and the words that the message has to hold."""

MAY_BE_THERE = FACTS | {"key", "key.txt", "image/key/sha256", "source_id"}
"""Fields that follow from the image, and what the tool calls the sample."""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frameworks]:
    """All that read; datasets has its cache in a directory that goes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hf")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield Frameworks()


# Their numbers are the boxes of one field, which takes another form in each format.
WITH_BOXES = ("detection", "hf-objects", "im2rec-detection")
WITH_MASKS = ("deeplab",)  # in two features, which are one field
PLAIN = [name for name in SETS if name not in (*WITH_BOXES, *WITH_MASKS)]


@pytest.mark.parametrize(("name", "target"), [*product(WITH_MASKS, TARGETS)])
def test_masks_become_masks(
    run_here: RunHere, libraries: Frameworks, tmp_path: Path, name: str, target: str
) -> None:
    given, expected, dest = SETS[name], truth(name), tmp_path / "out"
    done = convert(run_here, given, dest, target)
    if target == "recordio":
        assert (done.code, "--drop mask" in done.err) == (2, True), done.err
        return
    assert done.code == 0, done.err
    found = MASKS[target](dest, libraries)
    assert len(found) == len(expected.samples)
    for image, mask in found:
        told = expected.samples[pixels(decoded(image))][SEGMENTATION]
        picture = decoded(mask)
        # As RGB, gray of class numbers has these three times: no palette, and no other numbers.
        assert (picture.mode, [*picture.size]) == ("L", told["size"])
        assert pixels(picture) == told["pixels"]


SEGMENTATION = "image/segmentation/class/encoded"
Pairs = list[tuple[bytes, bytes]]


def masks_in_tars(dest: Path, libraries: Frameworks) -> Pairs:
    return [(each["jpg"], each["mask.png"]) for each in in_tars(dest, libraries)]


def masks_in_records(dest: Path, libraries: Frameworks) -> Pairs:
    found = in_records(dest, libraries)
    own = [each["image/segmentation/class/format"].bytes_list.value[0] for each in found]
    assert set(own) == {b"png"}
    names = "image/encoded", SEGMENTATION
    return [tuple(each[name].bytes_list.value[0] for name in names) for each in found]  # type: ignore[misc]


def masks_in_tables(dest: Path, libraries: Frameworks) -> Pairs:
    return [(each["image"]["bytes"], each["mask"]["bytes"]) for each in in_tables(dest, libraries)]


def masks_in_folder(dest: Path, libraries: Frameworks) -> Pairs:
    lines = (dest / "metadata.jsonl").read_text().splitlines()
    names = [json.loads(line) for line in lines]
    return [
        ((dest / each["file_name"]).read_bytes(), (dest / each["mask_file_name"]).read_bytes())
        for each in names
    ]


def in_tars(dest: Path, libraries: Frameworks) -> list[dict[str, bytes]]:
    return list(libraries.webdataset.WebDataset(files_of(dest, ".tar"), shardshuffle=False))


def in_records(dest: Path, libraries: Frameworks) -> list[Any]:
    tf = libraries.tensorflow
    records = tf.data.TFRecordDataset(files_of(dest, ".tfrecord")).as_numpy_iterator()
    return [tf.train.Example.FromString(record).features.feature for record in records]


def in_tables(dest: Path, libraries: Frameworks) -> list[Any]:
    datasets = libraries.datasets
    rows = load(libraries, "parquet", data_files=files_of(dest, ".parquet"))
    for name in {"image", "mask"}.intersection(rows.features):
        assert isinstance(rows.features[name], datasets.Image)
        rows = rows.cast_column(name, datasets.Image(decode=False))
    return list(rows)


MASKS: dict[str, Callable[[Path, Frameworks], Pairs]] = {
    "webdataset": masks_in_tars,
    "tfrecord": masks_in_records,
    "parquet": masks_in_tables,
    "folder": masks_in_folder,
}


Boxes = list[tuple[int, list[float]]]
"""Class number, and x0 y0 x1 y1 in shares of the image's size, of each object."""


def told_boxes(sample: dict[str, Any]) -> Boxes:
    """What objects a set has, whatever form it tells them in."""
    if (label := sample.get("label")) is not None:  # MXNet's
        head, step = int(label[0]), int(label[1])
        return [(int(label[at]), label[at + 1 : at + 5]) for at in range(head, len(label), step)]
    if (found := sample.get("objects")) is not None:  # COCO's boxes, in pixels
        across, down = sample["image"]["size"]
        return [
            (number, [x / across, y / down, (x + width) / across, (y + height) / down])
            for number, (x, y, width, height) in zip(found["category"], found["bbox"], strict=True)
        ]
    sides = (sample[f"image/object/bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax"))
    numbers = [number - 1 for number in sample["image/object/class/label"]]
    return list(zip(numbers, map(list, zip(*sides, strict=True)), strict=True))


def boxes_in_tars(dest: Path, libraries: Frameworks) -> list[tuple[bytes, Boxes]]:
    found = []
    for each in in_tars(dest, libraries):
        told = json.loads(each["json"])
        sizes = (told["width"], told["height"]) * 2
        own = [
            (one["class"], [at / size for at, size in zip(one["box"], sizes, strict=True)])
            for one in told["objects"]
        ]
        found.append((each["jpg"], own))
    return found


def boxes_in_records(dest: Path, libraries: Frameworks) -> list[tuple[bytes, Boxes]]:
    found = []
    for each in in_records(dest, libraries):
        own = {
            name: [*(each[name].int64_list.value or each[name].float_list.value)]
            for name in each
            if name.startswith("image/object/") and name != "image/object/class/text"
        }
        names = ("image/object/class/label", *(f"image/object/bbox/{side}" for side in SIDES))
        sample = dict.fromkeys(names, []) | own
        found.append((each["image/encoded"].bytes_list.value[0], told_boxes(sample)))
    return found


SIDES = ("xmin", "ymin", "xmax", "ymax")


def boxes_in_recordio(dest: Path, libraries: Frameworks) -> list[tuple[bytes, Boxes]]:
    recordio, found = libraries.mxnet.recordio, []
    for path in files_of(dest, ".rec"):
        index, labels = str(Path(path).with_suffix(".idx")), []
        records = recordio.MXIndexedRecordIO(index, path, "r")
        for key in records.keys:
            header, data = recordio.unpack(records.read_idx(key))
            labels.append(header.label.tolist())
            found.append((data, told_boxes({"label": labels[-1]})))
        records.close()
        iterate(libraries.mxnet, Path(path), labels)
    return found


def boxes_in_tables(dest: Path, libraries: Frameworks) -> list[tuple[bytes, Boxes]]:
    return [
        (
            row["image"]["bytes"],
            told_boxes({**row, "image": {"size": (row["width"], row["height"])}}),
        )
        for row in in_tables(dest, libraries)
    ]


def boxes_in_folder(dest: Path, libraries: Frameworks) -> list[tuple[bytes, Boxes]]:
    lines = [line.split("\t") for line in Path(f"{dest}.lst").read_text().splitlines()]
    return [
        ((dest / name).read_bytes(), told_boxes({"label": [*map(float, label)]}))
        for _, *label, name in lines
    ]


BOXES: dict[str, Callable[[Path, Frameworks], list[tuple[bytes, Boxes]]]] = {
    "webdataset": boxes_in_tars,
    "tfrecord": boxes_in_records,
    "recordio": boxes_in_recordio,
    "parquet": boxes_in_tables,
    "folder": boxes_in_folder,
}


@pytest.mark.parametrize(("name", "target"), [*product(WITH_BOXES, TARGETS)])
def test_boxes_become_objects(
    run_here: RunHere, libraries: Frameworks, tmp_path: Path, name: str, target: str
) -> None:
    given, expected, dest = SETS[name], truth(name), tmp_path / "out"
    is_dropped = target == "recordio" != given.format  # MXNet stops at an image without objects
    done = convert(run_here, given, dest, target, *(["--empty", "drop"] * is_dropped))
    assert done.code == 0, done.err
    wanted = {image: told_boxes(sample) for image, sample in expected.samples.items()}
    if is_dropped:
        wanted = {image: own for image, own in wanted.items() if own}
    found = {pixels(decoded(data)): own for data, own in BOXES[target](dest, libraries)}
    assert found.keys() == wanted.keys()
    assert any(len(own) > 1 for own in wanted.values())
    for image, own in wanted.items():
        assert [number for number, _ in found[image]] == [number for number, _ in own]
        for (_, box), (_, told) in zip(found[image], own, strict=True):
            assert box == pytest.approx(told, abs=1e-6)


@pytest.mark.parametrize(("name", "target"), [*product(PLAIN, TARGETS)])
def test_it_means_the_same(
    run_here: RunHere, libraries: Frameworks, tmp_path: Path, name: str, target: str
) -> None:
    given, expected, dest = SETS[name], truth(name), tmp_path / "out"
    options: list[str] = []
    if words := refusal(given, expected, target):
        done = convert(run_here, given, dest, target)
        assert done.code != 0, f"not refused: {words}"
        assert [word for word in words if word not in done.err] == [], done.err
        assert "--only" in done.err or "--drop" in done.err or (name, target) in REFUSED, done.err
        assert not dest.exists() or not any(dest.iterdir())
        if (name, target) in REFUSED:
            return
        options, expected = ["--only", "image,label"], expected.image_and_label()
    done = convert(run_here, given, dest, target, *options)
    assert done.code in ((0, 3) if given.skipped else (0,)), done.err
    if given.format == target:
        same_content(given, dest, target, libraries)
        return
    found = READERS[target](dest, expected, libraries)
    compare(found, expected, target)
    if target == "webdataset":
        webdataset_of_datasets(dest, expected, libraries)


def refusal(given: Foreign, expected: Truth, target: str) -> tuple[str, ...]:
    """The words of the message that refuses it; none if it is not refused."""
    if words := REFUSED.get((given.name, target)):
        return words
    if target == "recordio" and expected.others:
        samples = expected.samples.values()
        return tuple(
            name for name in expected.others if any(each[name] is not None for each in samples)
        )
    return ()


def convert(run_here: RunHere, given: Foreign, dest: Path, target: str, *options: str) -> Finished:
    source, *told = given.args
    return run_here("convert", source, dest, "--to", target, *told, *options, "-qj1")


def compare(found: Found, expected: Truth, target: str) -> None:
    """What was read is what is in the set."""
    arrived = {pixels(decoded(sample["image"])): sample for sample in found.samples}
    assert len(found.samples) == len(expected.samples), "the number of samples is another one"
    assert arrived.keys() == expected.samples.keys(), "images are others"
    if target != "folder":
        assert list(arrived) == list(expected.samples), "the order is another one"
    keys = [sample["key"] for sample in found.samples]
    assert len(set(keys)) == len(keys), f"keys are not unique: {keys}"
    also = {frozenset(sample["also"]) for sample in found.samples}
    assert len(also) == 1, f"samples differ in fields: {also}"
    for pixels_, told in expected.samples.items():
        sample = arrived[pixels_]
        if told["key"] is not None:
            key = sample["key"]
            if target == "folder" and "/" not in told["key"]:
                key = key.rpartition("/")[2]
            key = key.removeprefix("./")  # as `tar cf x.tar .` begins all names
            assert key == told["key"], f"the key is {key}, not {told['key']}"
        for name, kind in expected.types.items():
            there, value = sample.get(name), told.get(name)
            if value is None or value == []:
                assert there in (None, "", []), f"{name} is {there!r}"
                continue
            assert name in sample, f"{name} is missing in {sample['key']}: it has {sample['also']}"
            assert same(there, value, kind, target), f"{name}: {there!r} is not {value!r}"
        assert not sample["also"] - MAY_BE_THERE, f"also: {sample['also']}"
    for name, names in expected.classes.items():
        if target == "folder" and name != "label":
            continue  # its metadata has names instead of numbers
        assert found.classes.get(name) == names, f"classes of {name}: {found.classes}"


def same(there: Any, value: Any, kind: str, target: str) -> bool:
    """Whether a value has arrived; as 32-bit floats do where there are no others."""
    if kind == "image":
        return pixels(decoded(there)) == value["pixels"] and (
            value["bytes"] is None or value["bytes"] == sha256(there)
        )
    if target == "recordio":
        return list(map(float32, value if isinstance(value, list) else [value])) == there
    if isinstance(value, list) and kind != "json":
        return len(there) == len(value) and all(
            same(*pair, kind[5:-1], target) for pair in zip(there, value, strict=True)
        )
    if kind == "float32" or (kind == "float64" and target == "tfrecord"):
        return float32(there) == float32(value)
    return bool(there == value) and (kind != "bool" or isinstance(there, bool))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


# Copies within a format


def same_content(given: Foreign, dest: Path, target: str, libraries: Frameworks) -> None:
    """Members, features and columns are as they were, byte for byte."""
    source = given.args[0]
    assert isinstance(source, Path)
    CONTENTS[target](source, dest, libraries, given)


def expanded(source: Path, suffix: str) -> list[Path]:
    if source.is_dir():
        return sorted(path for path in source.rglob("*") if suffix in path.name)
    return sorted(source.parent.glob(source.name))


def members(paths: list[Path]) -> dict[str, dict[str, bytes]]:
    """The members of samples, by key and extension."""
    found: dict[str, dict[str, bytes]] = {}
    for path in paths:
        with tarfile.open(path) as tar:
            for member in filter(tarfile.TarInfo.isfile, tar):
                directory, slash, name = member.name.removeprefix("./").rpartition("/")
                stem, _, extension = name.partition(".")
                key = directory + slash + stem
                if stem:
                    data = tar.extractfile(member)
                    assert data is not None
                    found.setdefault(key, {})[extension] = data.read()
    return found


def same_members(source: Path, dest: Path, libraries: Frameworks, given: Foreign) -> None:
    before, after = members(expanded(source, ".tar")), members(expanded(dest, ".tar"))
    if "json.label" in given.options:
        for each in after.values():
            each.pop("cls", None)  # a value inside a member may get a member of its own
    assert after == before
    assert list(after) == list(before)
    read = libraries.webdataset.WebDataset(
        [str(path) for path in expanded(dest, ".tar")], shardshuffle=False
    )
    assert [sample["__key__"].removeprefix("./") for sample in read] == list(after)


def same_features(source: Path, dest: Path, libraries: Frameworks, given: Foreign) -> None:
    tf = libraries.tensorflow

    def features(paths: list[Path], compression: str) -> list[dict[str, bytes]]:
        records = tf.data.TFRecordDataset(list(map(str, paths)), compression).as_numpy_iterator()
        parsed = [tf.train.Example.FromString(record).features.feature for record in records]
        return [{name: each[name].SerializeToString() for name in each} for each in parsed]

    compression = given.name.upper() if given.name in ("gzip", "zlib") else ""
    sources = expanded(source, "-of-") or expanded(source, ".tfrec")
    before, after = features(sources, compression), features(expanded(dest, ".tfrecord"), "")
    if given.options:
        # Samples with a chosen label or image are written again: they may say more of the image.
        assert [
            {name: each[name] for name in old} for each, old in zip(after, before, strict=True)
        ] == before
        assert {*after[0]} - {*before[0]} <= {"image/format", "image/filename"}
        return
    assert after == before


def same_records(source: Path, dest: Path, libraries: Frameworks, given: Foreign) -> None:
    recordio = libraries.mxnet.recordio

    def records(paths: list[Path]) -> list[bytes]:
        found = []
        for path in paths:
            reader = recordio.MXRecordIO(str(path), "r")
            while (record := reader.read()) is not None:
                found.append(record)
        return [record for record in found if recordio.unpack(record)[1]]

    assert records(expanded(dest, ".rec")) == records(expanded(source, ".rec"))


def same_columns(source: Path, dest: Path, libraries: Frameworks, given: Foreign) -> None:
    import pyarrow.parquet as pq

    def rows(paths: list[Path]) -> list[dict[str, Any]]:
        found = [row for path in paths for row in pq.read_table(path).to_pylist()]
        for row in found if given.options else ():
            row["img"] = row["img"]["bytes"]  # the path may name the sample now
        return [row for row in found if row.get("jpg", True)]

    before, after = expanded(source, ".parquet"), expanded(dest, ".parquet")
    assert rows(after) == rows(before)
    tables = [
        libraries.datasets.Features.from_arrow_schema(pq.read_schema(paths[0]))
        for paths in (before, after)
    ]
    assert tables[0] == tables[1]


def same_files(source: Path, dest: Path, libraries: Frameworks, given: Foreign) -> None:
    """The same files, or others that mean the same: metadata may be written again."""

    def files(root: Path) -> dict[str, bytes]:
        return {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file() and not path.name.endswith((".parquet", "_stats.json"))
        }

    if files(dest) != files(source):
        compare(READERS["folder"](dest, truth(given.name), libraries), truth(given.name), "folder")


CONTENTS = {
    "webdataset": same_members,
    "tfrecord": same_features,
    "recordio": same_records,
    "parquet": same_columns,
    "folder": same_files,
}
"""What compares what was copied, for each format."""


# Sides


@pytest.mark.parametrize(
    ("source", "sides"),
    [
        ("two-sides", {"train": 4, "validation": 2}),
        ("tfds-classes", {"train": 8, "test": 3}),
        ("hf-classes", {"train": 8, "test": 3}),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_sides_are_not_mixed(
    run_here: RunHere, tmp_path: Path, source: str, sides: dict[str, int], target: str
) -> None:
    out = tmp_path / "out"
    done = run_here("convert", DATA / source, out, "--to", target, "-qj1", "--json")
    if target == "folder":
        assert (done.code, f"such as {DATA / source}/train" in done.err) == (2, True), done.err
        return
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["sides"] == sides
    for side, count in sides.items():
        own = [shard["samples"] for shard in report["shards"] if side in shard["name"]]
        assert sum(own) == count


@pytest.mark.parametrize("source", ["tar-apart", "tar-apart/x.tar"])
def test_members_apart_are_not_read_alone(run_here: RunHere, tmp_path: Path, source: str) -> None:
    done = run_here("convert", DATA / source, tmp_path / "out", "--to", "tfrecord", "-qj1")
    assert done.code != 0
    assert "--from parts" in done.err


def test_label_in_json_gets_its_place(
    run_here: RunHere, libraries: Frameworks, tmp_path: Path
) -> None:
    """The value is copied to where readers look for a label, also within a format."""
    given, dest = SETS["wds-json-label"], tmp_path / "out"
    expected = truth(given.name).image_and_label()
    done = convert(run_here, given, dest, "webdataset", "--only", "image,label")
    assert done.code == 0, done.err
    compare(READERS["webdataset"](dest, expected, libraries), expected, "webdataset")


@pytest.mark.parametrize("target", ["tfrecord", "parquet", "folder"])
def test_samples_without_an_image_are_meant(run_here: RunHere, tmp_path: Path, target: str) -> None:
    source = tmp_path / "videos-000000.tar"
    with tarfile.open(source, "w") as tar:
        for name in ("0.mp4", "0.txt", "1.mp4", "1.txt"):
            tar.addfile(tarfile.TarInfo(name))
    done = run_here("convert", source, tmp_path / "out", "--to", target, "-qj1")
    assert done.code != 0
    assert "--no-image" in done.err
