"""Bare pixels: written with their shape, as programs read them, and made images again."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests import pixels
from tests.conftest import Finished
from tests.missing import framework

Run = Callable[..., Finished]

TARGETS = ("webdataset", "tfrecord", "recordio-protobuf", "parquet")
SEEDS = [each for batch in pixels.TRAIN for each in batch]


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("cifar")
    files = pixels.cifar10_python()
    path = pixels.write_archive(root / "cifar-10-python.tar.gz", "cifar-10-batches-py", files)
    return f"{path}/train"


def done(run: Run, *args: object) -> dict[str, Any]:
    """Run a command that succeeds; return its report."""
    found = run(*args, "-q", "--json")
    assert found.code == 0, found.err
    report: dict[str, Any] = json.loads(found.out)
    return report


def images_in(run: Run, source: Path, place: Path, *options: object) -> dict[str, Image.Image]:
    """Return the images of a data set by key, as a folder of PNGs has them."""
    done(run, "convert", source, place, "--to", "folder", *options)
    assert run("verify", source, "--decode", "-q").code == 0
    files = [path for path in place.rglob("*") if path.is_file() and path.suffix != ".jsonl"]
    found = {path.relative_to(place).as_posix(): Image.open(path) for path in files}
    assert {image.format for image in found.values()} == {"PNG"}
    return found


def planes(image: Image.Image) -> bytes:
    return b"".join(band.tobytes() for band in image.split())


def records(place: Path) -> list[dict[str, Any]]:
    """Return the features of TFRecords, as TensorFlow reads them."""
    tf = framework("tensorflow")
    found = []
    files = sorted(map(str, place.glob("*.tfrecord*")))
    for record in tf.data.TFRecordDataset(files):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        kinds = {name: value.WhichOneof("kind") for name, value in features.items()}
        found.append({name: list(getattr(features[name], kinds[name]).value) for name in features})
    return found


class TestWritten:
    @pytest.mark.parametrize("encode", ["raw", "raw-chw"])
    @pytest.mark.parametrize("to", TARGETS)
    def test_round_trip(
        self, encode: str, to: str, cifar: str, run_here: Run, tmp_path: Path
    ) -> None:
        report = done(run_here, "pack", cifar, tmp_path / "a", "--to", to, "--encode", encode)
        shape = "3 x 32 x 32" if encode == "raw-chw" else "32 x 32 x 3"
        assert f"5 images stored as pixels, {shape}" in report["notes"]
        manifest = json.loads((tmp_path / "a/manifest.json").read_text())
        assert manifest["schema"]["fields"][0]["type"] == encode
        expected = sorted(pixels.pixels(seed) for _, seed in SEEDS)
        found = images_in(run_here, tmp_path / "a", tmp_path / "b")
        assert sorted(map(planes, found.values())) == expected
        # In shards that were copied, the pixels are as they were, and still known.
        done(run_here, "convert", tmp_path / "a", tmp_path / "c", "--to", to, "--shards", 2)
        other = images_in(run_here, tmp_path / "c", tmp_path / "d")
        assert {name: planes(image) for name, image in other.items()} == {
            name: planes(image) for name, image in found.items()
        }
        assert run_here("verify", tmp_path / "c", "--against", tmp_path / "a", "-q").code == 0
        done(run_here, "convert", tmp_path / "c", tmp_path / "e", "--to", to, "--resize", 16)
        small = images_in(run_here, tmp_path / "e", tmp_path / "f")
        assert {image.size for image in small.values()} == {(16, 16)}

    def test_workers_and_a_second_run(self, cifar: str, run_here: Run, tmp_path: Path) -> None:
        shards = []
        for workers in (1, 3):
            args = ("--to", "tfrecord", "--encode", "raw", "--workers", workers, "--shards", 3)
            done(run_here, "pack", cifar, tmp_path / str(workers), *args)
            again = run_here("pack", cifar, tmp_path / str(workers), *args)
            assert "already packed" in again.out
            shards.append({p.name: p.read_bytes() for p in (tmp_path / str(workers)).iterdir()})
        assert shards[0] == shards[1]

    def test_append(self, cifar: str, run_here: Run, tmp_path: Path) -> None:
        args = ("--to", "tfrecord", "--encode", "raw-chw")
        done(run_here, "pack", cifar, tmp_path / "a", *args)
        done(run_here, "shard", "append", cifar.replace("/train", "/test"), tmp_path / "a")
        found = images_in(run_here, tmp_path / "a", tmp_path / "b")
        expected = sorted(pixels.pixels(seed) for _, seed in [*SEEDS, *pixels.TEST])
        assert sorted(map(planes, found.values())) == expected

    def test_append_to_copied_pixels(self, cifar: str, run_here: Run, tmp_path: Path) -> None:
        rows = [{"image": pixels.pixels(seed), "label": label} for label, seed in SEEDS]
        source = write_records(tmp_path / "train.tfrecords", rows)
        done(run_here, "shard", source, tmp_path / "a")
        for more in (source, cifar):
            found = run_here("shard", "append", more, tmp_path / "a")
            assert (found.code, "its images are bare pixels that were copied" in found.err) == (
                2,
                True,
            )

    @pytest.mark.parametrize("to", ["recordio", "folder", "coco"])
    def test_formats_of_encoded_images(
        self, to: str, cifar: str, run_here: Run, tmp_path: Path
    ) -> None:
        found = run_here("convert", cifar, tmp_path / "a", "--to", to, "--encode", "raw")
        assert found.code == 2
        assert f"--encode raw: images in {to} are files that programs decode; choose" in found.err
        assert not (tmp_path / "a").exists()

    def test_images_of_several_shapes(self, run_here: Run, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        noise = Image.effect_noise((20, 10), 80).convert("RGB")
        alpha = noise.convert("RGBA")
        alpha.putalpha(128)
        deep = Image.fromarray(np.arange(200, dtype=np.uint16).reshape(10, 20) * 257)
        turned = Image.Exif()
        turned[274] = 6
        for name, image in {
            "rgb": noise,
            "gray": noise.convert("L"),
            "palette": noise.quantize(16),
            "bits": noise.convert("1"),
            "alpha": alpha,
            "deep": deep,
        }.items():
            image.save(tmp_path / f"in/{name}.png")
        noise.save(tmp_path / "in/turned.jpg", exif=turned)
        Image.fromarray(np.zeros((10, 20), np.float32)).save(tmp_path / "in/float.tif")
        args = (tmp_path / "in", tmp_path / "out", "--to", "webdataset", "--encode", "raw")
        report = json.loads(run_here("pack", *args, "-q", "--json").out)
        assert [reject["path"] for reject in report["rejects"]] == ["float.tif"]
        assert (
            "7 images stored as pixels, 4 shapes, most often 10 x 20 x 1, 10 x 20 x 3, "
            "10 x 20 x 4, …: for one shape, give --resize WxH --enlarge and --color rgb or gray"
        ) in report["notes"]
        shards = [str(path) for path in (tmp_path / "out").glob("*.tar")]
        loaded = framework("webdataset").WebDataset(shards, shardshuffle=False).decode()
        arrays = {sample["__key__"]: sample["npy"] for sample in loaded}
        assert {name: array.shape for name, array in arrays.items()} == {
            "rgb": (10, 20, 3),
            "gray": (10, 20, 1),
            "palette": (10, 20, 3),
            "bits": (10, 20, 1),
            "alpha": (10, 20, 4),
            "deep": (10, 20, 1),
            "turned": (20, 10, 3),
        }
        assert (arrays["rgb"] == np.asarray(noise)).all()
        assert (arrays["alpha"][..., 3] == 128).all()
        assert arrays["deep"].ravel().tolist() == list(range(200))
        found = images_in(run_here, tmp_path / "out", tmp_path / "images")
        assert {name: image.mode for name, image in found.items()} == {
            f"{name}.png": {1: "L", 3: "RGB", 4: "RGBA"}[array.shape[2]]
            for name, array in arrays.items()
        }

    def test_photos_of_one_shape(self, run_here: Run, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        for number, size in enumerate([(40, 30), (20, 50), (5, 5)]):
            Image.effect_noise(size, 80).save(tmp_path / f"in/{number}.png")
        args = ("--encode", "raw", "--resize", "16x12", "--enlarge", "--color", "rgb")
        report = done(run_here, "pack", tmp_path / "in", tmp_path / "o", "--to", "parquet", *args)
        assert "3 images stored as pixels, 12 x 16 x 3" in report["notes"]


class TestPrograms:
    """Parsers as public training programs have them."""

    def test_cifar(self, cifar: str, run_here: Run, tmp_path: Path) -> None:
        """Of TensorFlow's cifar10_estimator, whose records SageMaker's examples use."""
        args = ("--to", "tfrecord", "--encode", "raw-chw", "--features", "tfds", "--no-shuffle")
        done(run_here, "pack", cifar, tmp_path, "--overwrite", *args)
        tf = framework("tensorflow")
        data = tf.data.TFRecordDataset(sorted(map(str, tmp_path.glob("*.tfrecord"))))
        for record, (label, seed) in zip(data, SEEDS, strict=True):
            features = tf.io.parse_single_example(
                record,
                {
                    "image": tf.io.FixedLenFeature([], tf.string),
                    "label": tf.io.FixedLenFeature([], tf.int64),
                },
            )
            image = tf.io.decode_raw(features["image"], tf.uint8)
            image.set_shape([3 * 32 * 32])
            image = tf.transpose(tf.reshape(image, [3, 32, 32]), [1, 2, 0])
            own = np.frombuffer(pixels.pixels(seed), np.uint8).reshape(3, 32, 32)
            assert (image.numpy() == own.transpose(1, 2, 0)).all()
            assert int(features["label"]) == label

    def test_rows_of_pixels(self, cifar: str, run_here: Run, tmp_path: Path) -> None:
        """Of the reader of MNIST's records, with the feature `image_raw`."""
        args = ("--to", "tfrecord", "--encode", "raw", "--features", "tfds", "--no-shuffle")
        done(run_here, "pack", cifar, tmp_path, "--overwrite", *args, "--rename", "image=image_raw")
        for record, (label, seed) in zip(records(tmp_path), SEEDS, strict=True):
            own = np.frombuffer(pixels.pixels(seed), np.uint8).reshape(3, 32, 32)
            assert record["image_raw"] == [own.transpose(1, 2, 0).tobytes()]
            assert (record["label"], record["height"], record["format"]) == (
                [label],
                [32],
                [b"raw"],
            )

    def test_parquet(self, cifar: str, run_here: Run, tmp_path: Path) -> None:
        datasets = framework("datasets")
        args = ("--to", "parquet", "--encode", "raw", "--no-shuffle")
        done(run_here, "pack", cifar, tmp_path / "o", *args)
        files = [str(path) for path in (tmp_path / "o").glob("*.parquet")]
        cache = str(tmp_path / "cache")
        rows = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)
        for row, (label, seed) in zip(rows, SEEDS, strict=True):
            size = row["height"], row["width"], row["channels"]
            image = np.frombuffer(row["image"]["bytes"], np.uint8).reshape(size)
            assert image.transpose(2, 0, 1).tobytes() == pixels.pixels(seed)
            assert row["label"] == label


def write_records(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write TFRecords as a script does."""
    tf = framework("tensorflow")
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            features = {}
            for name, value in row.items():
                if isinstance(value, bytes):
                    value = {"bytes_list": tf.train.BytesList(value=[value])}
                else:
                    value = {"int64_list": tf.train.Int64List(value=[value])}
                features[name] = tf.train.Feature(**value)
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    return path


class TestRead:
    def test_script_of_cifar(self, run_here: Run, tmp_path: Path) -> None:
        """``generate_cifar10_tfrecords.py``: two features, no file name, no sizes."""
        rows = [{"image": pixels.pixels(seed), "label": label} for label, seed in SEEDS]
        source = write_records(tmp_path / "train.tfrecords", rows)
        for name, options in {"a": (), "b": ("--raw-image", "3x32x32")}.items():
            found = images_in(run_here, source, tmp_path / name, *options)
            expected = sorted(pixels.pixels(seed) for _, seed in SEEDS)
            assert sorted(map(planes, found.values())) == expected

    @pytest.mark.parametrize("options", [(), ("--raw-image", "28x28")])
    def test_script_of_mnist(self, options: tuple[str, ...], run_here: Run, tmp_path: Path) -> None:
        """``convert_to_records.py``: sizes beside `image_raw`; others have only the pixels."""
        images = [pixels.pixels(seed, 784) for seed in range(3)]
        sizes = {"height": 28, "width": 28, "depth": 1} if not options else {}
        rows = [{**sizes, "label": n, "image_raw": data} for n, data in enumerate(images)]
        source = write_records(tmp_path / "train.tfrecords", rows)
        found = images_in(run_here, source, tmp_path / "out", *options)
        assert sorted(image.tobytes() for image in found.values()) == sorted(images)
        assert {image.mode for image in found.values()} == {"L"}
        # Within the format, what is not asked for stays as it was, or becomes a PNG.
        args = ("--to", "tfrecord", "--drop", "label", *options)
        done(run_here, "convert", source, tmp_path / "dropped", *args)
        kept = [{k: v for k, v in record.items() if k != "label"} for record in records(tmp_path)]
        assert records(tmp_path / "dropped") == kept
        args = ("--to", "tfrecord", "--resize", "14", *options)
        done(run_here, "convert", source, tmp_path / "small", *args)
        for record in records(tmp_path / "small"):
            assert Image.open(io.BytesIO(record["image_raw"][0])).size == (14, 14)

    def test_checks_pass_over_pixels(self, run_here: Run, tmp_path: Path) -> None:
        rows = [{"image": pixels.pixels(seed), "label": label} for label, seed in SEEDS]
        source = write_records(tmp_path / "train.tfrecords", rows)
        args = ("--to", "tfrecord", "--drop", "label", "--check", "decode")
        done(run_here, "convert", source, tmp_path / "a", *args)
        assert [record["image"] for record in records(tmp_path / "a")] == [
            [pixels.pixels(seed)] for _, seed in SEEDS
        ]

    def test_arrays_without_a_manifest(self, cifar: str, run_here: Run, tmp_path: Path) -> None:
        done(run_here, "pack", cifar, tmp_path / "a", "--to", "webdataset", "--encode", "raw")
        (tmp_path / "a/manifest.json").unlink()
        args = ("--image-field", "npy", "--to", "webdataset")
        done(run_here, "convert", tmp_path / "a", tmp_path / "b", "--encode", "png", *args)
        found = images_in(run_here, tmp_path / "b", tmp_path / "c")
        expected = sorted(pixels.pixels(seed) for _, seed in SEEDS)
        assert sorted(map(planes, found.values())) == expected

    def test_rejects(self, run_here: Run, tmp_path: Path) -> None:
        rows = [{"data": pixels.pixels(n, 27 if n % 4 else 20), "label": 0} for n in range(9)]
        source = write_records(tmp_path / "x.tfrecords", rows)
        args = ("--to", "webdataset", "--raw-image", "3x9x1", "--image-field", "data")
        found = run_here("convert", source, tmp_path / "out", *args, "--max-errors", 9)
        assert (found.code, "rejected  3" in found.out) == (3, True)
        assert found.out.count("has 20 bytes of pixels, and not 3 x 9 x 1") == 3

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--raw-image", "28x28"), "no sample looked at has an image of 784 bytes"),
            (("--raw-image", "28x28"), "'train-0000000' has 3,072 bytes in 'image'"),
            (("--raw-image", "3x4x3"), "--raw-image 3x4x3: give HEIGHTxWIDTHxCHANNELS"),
            (("--raw-image", "0x4"), "--raw-image 0x4: give HEIGHTxWIDTHxCHANNELS"),
            (("--raw-image", "9x32x32"), "channels are 1 to 4"),
            (("--raw-image", "x"), "such as 32x32x3"),
            (("--raw-image", "32x32x3", "--image-field", "no"), "has the field 'no' of 3,072"),
        ],
    )
    def test_messages(
        self, options: tuple[str, ...], message: str, run_here: Run, tmp_path: Path
    ) -> None:
        rows = [{"image": pixels.pixels(seed), "label": label} for label, seed in SEEDS]
        source = write_records(tmp_path / "train.tfrecords", rows)
        found = run_here("convert", source, tmp_path / "out", "--to", "webdataset", *options)
        assert (found.code, "Traceback" in found.err) == (2, False)
        assert message in found.err

    def test_a_shape_that_is_given_replaces_the_one_beside(
        self, cifar: str, run_here: Run, tmp_path: Path
    ) -> None:
        done(run_here, "pack", cifar, tmp_path / "a", "--to", "tfrecord", "--encode", "raw")
        (tmp_path / "a/manifest.json").unlink()
        args = ("--to", "tfrecord", "--raw-image", "32x32x3", "--encode", "png")
        done(run_here, "convert", tmp_path / "a", tmp_path / "b", *args)
        for record in records(tmp_path / "b"):
            assert record["image/format"] == [b"png"]
            assert "image/height" not in record

    def test_shards_without_their_manifest(self, cifar: str, run_here: Run, tmp_path: Path) -> None:
        """Planes are not taken for rows: `image/format` tells which they are."""
        for encode in ("raw", "raw-chw"):
            place = tmp_path / encode
            done(run_here, "pack", cifar, place, "--to", "tfrecord", "--encode", encode)
            (place / "manifest.json").unlink()
            found = images_in(run_here, place, tmp_path / f"{encode}-out")
            expected = sorted(pixels.pixels(seed) for _, seed in SEEDS)
            assert sorted(map(planes, found.values())) == expected

    def test_files_have_no_bare_pixels(self, run_here: Run, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        Image.new("L", (4, 4)).save(tmp_path / "in/a.png")
        args = (tmp_path / "in", tmp_path / "out", "--to", "webdataset")
        for option in (("--raw-image", "4x4"), ("--pixel-columns", "a")):
            found = run_here("pack", *args, *option)
            assert (found.code, f"{option[0]} {option[1]} has no effect" in found.err) == (2, True)

    def test_a_cut_pixel(self, cifar: str, run_here: Run, tmp_path: Path) -> None:
        """`verify --decode` compares pixels with their shape."""
        done(run_here, "pack", cifar, tmp_path / "a", "--to", "tfrecord", "--encode", "raw")
        rows = [
            {**{name: value[0] for name, value in record.items()}, "image/height": 31}
            for record in records(tmp_path / "a")
        ]
        (path,) = (tmp_path / "a").glob("*.tfrecord")
        write_records(path, rows)
        found = run_here("verify", tmp_path / "a", "--decode")
        assert found.code == 3
        assert "has 3,072 bytes of pixels, and not 31 x 32 x 3" in found.out


class TestPixelColumns:
    def test_digits(self, run_here: Run, tmp_path: Path) -> None:
        images = pixels.write_digits(tmp_path / "train.csv", 12)
        args = (tmp_path / "train.csv", tmp_path / "a", "--pixel-columns", "pixel*")
        report = done(run_here, "pack", *args, "--to", "webdataset", "--no-shuffle")
        assert (report["samples"], report["rejects"]) == (12, [])
        found = images_in(run_here, tmp_path / "a", tmp_path / "b")
        assert sorted(image.tobytes() for image in found.values()) == sorted(images)
        against = ("--against", tmp_path / "train.csv", "--pixel-columns", "pixel*")
        assert run_here("verify", tmp_path / "a", *against, "-q").code == 0

    def test_pixels_that_nobody_named_stop_the_command(self, run_here: Run, tmp_path: Path) -> None:
        digits = tmp_path / "digits.csv"
        pixels.write_digits(digits, 3)
        pixels.write_faces(tmp_path / "faces.csv", 3)
        head, *rows = digits.read_text().splitlines()
        (tmp_path / "bare.csv").write_text("\n".join(rows))
        places = (f"{row}x{column}" for row in range(1, 29) for column in range(1, 29))
        (tmp_path / "places.csv").write_text("\n".join([",".join(["label", *places]), *rows]))
        colors = head.replace("label,", "").split(",") + [f"pixel{at}" for at in range(784, 2352)]
        cells = ",".join(["7"] * 2352)
        (tmp_path / "colors.csv").write_text(f"{','.join(colors)}\n{cells}\n")
        for name, option in (
            ("digits", "--pixel-columns 'pixel*'"),
            ("faces", "--pixel-columns pixels"),
            ("bare", "--pixel-columns 'column_[1-9]*'"),
            ("places", "--pixel-columns '[0-9]*'"),
            ("colors", "--pixel-columns 'pixel*' --raw-image 28x28x3"),
        ):
            command = ("pack", tmp_path / f"{name}.csv", tmp_path / name, "--to", "webdataset")
            stopped = run_here(*command)
            assert (stopped.code, f"give {option}, or --no-image" in stopped.err) == (4, True)
            assert run_here(*command, *shlex.split(option), "--dry-run").code == 0
        assert run_here(*command, "--no-image").code == 0
        numbers = ("pack", digits, tmp_path / "numbers", "--to", "recordio-protobuf")
        assert run_here(*numbers).code == 0  # which is for numbers

    def test_columns_are_in_the_order_of_their_numbers(self, run_here: Run, tmp_path: Path) -> None:
        names = sorted(f"pixel{number}" for number in range(16))
        cells = [str(int(name[5:]) * 10) for name in names]
        (tmp_path / "t.csv").write_text(f"{','.join(names)}\n{','.join(cells)}\n")
        out, options = tmp_path / "out", ("--to", "folder", "--pixel-columns", "pixel*")
        done(run_here, "convert", tmp_path / "t.csv", out, *options)
        (image,) = out.rglob("*.png")
        assert Image.open(image).tobytes() == bytes(range(0, 160, 10))

    def test_digits_without_labels(self, run_here: Run, tmp_path: Path) -> None:
        images = pixels.write_digits(tmp_path / "test.csv", 3, labels=False)
        args = ("--pixel-columns", "pixel*", "--to", "tfrecord", "--encode", "raw", "--no-shuffle")
        done(run_here, "pack", tmp_path / "test.csv", tmp_path / "a", *args)
        assert [record["image/encoded"] for record in records(tmp_path / "a")] == [
            [image] for image in images
        ]

    def test_faces(self, run_here: Run, tmp_path: Path) -> None:
        images = pixels.write_faces(tmp_path / "fer2013.csv", 9)
        args = ("--pixel-columns", "pixels", "--label-field", "emotion", "--to", "tfrecord")
        args = (*args, "--encode", "raw", "--no-shuffle")
        done(run_here, "pack", tmp_path / "fer2013.csv", tmp_path / "a", *args)
        found = records(tmp_path / "a")
        assert [record["image/encoded"] for record in found] == [[image] for image in images]
        assert [record["image/class/label"] for record in found] == [[n % 7] for n in range(9)]
        assert found[2]["Usage"] == [b"PublicTest"]

    def test_colors(self, run_here: Run, tmp_path: Path) -> None:
        lines = ["id,values", 'a,"[1, 2, 3, 4, 5, 6]"', "b,7;8;9;10;11;12"]
        (tmp_path / "x.csv").write_text("\n".join(lines))
        args = ("--pixel-columns", "values", "--raw-image", "1x2x3", "--to", "webdataset")
        done(run_here, "pack", tmp_path / "x.csv", tmp_path / "a", *args)
        found = images_in(run_here, tmp_path / "a", tmp_path / "b", "--only", "image")
        assert sorted(image.tobytes() for image in found.values()) == [
            bytes([1, 2, 3, 4, 5, 6]),
            bytes([7, 8, 9, 10, 11, 12]),
        ]

    def test_bad_rows(self, run_here: Run, tmp_path: Path) -> None:
        names = [f"p{at}" for at in range(4)]
        cells = ["1,2,3,4", "1,2,3,256", "1,,3,4", "1,-1,3,4", "1,2.5,3,4", "1,2,3", "1,2,x,4"]
        (tmp_path / "x.csv").write_text("\n".join([",".join(names), *cells, "5,6.0,7,255"]))
        args = ("--pixel-columns", "p*", "--to", "webdataset", "--max-errors", 9, "--no-shuffle")
        found = run_here("pack", tmp_path / "x.csv", tmp_path / "a", *args, "-q", "--json")
        report = json.loads(found.out)
        assert (found.code, report["samples"]) == (3, 2)
        reasons = "\n".join(reject["reason"] for reject in report["rejects"])
        assert len(report["rejects"]) == 6
        for reason in (
            "the pixel p3 is 256, no whole number from 0 to 255",
            "the pixel p1 is missing",
            "the pixel p1 is -1",
            "the pixel p1 is 2.5",
            "the pixel p2 is 'x'",
            "3 cells, where the header has 4",
        ):
            assert reason in reasons

    def test_bad_cells(self, run_here: Run, tmp_path: Path) -> None:
        cells = ["1 2 3 4", "1 2 3", "1 2 3 400", "1 2 3 x", '""', "9 9 9 9"]
        (tmp_path / "x.csv").write_text("\n".join(["n,pixels", *(f"1,{each}" for each in cells)]))
        args = ("--pixel-columns", "pixels", "--to", "webdataset", "--max-errors", 9)
        found = run_here("pack", tmp_path / "x.csv", tmp_path / "a", *args, "-q", "--json")
        report = json.loads(found.out)
        assert (found.code, report["samples"]) == (3, 2)
        assert sorted(reject["reason"] for reject in report["rejects"]) == [
            "has 0 pixels, and not 2 x 2 x 1",
            "has 3 pixels, and not 2 x 2 x 1",
            "the pixel pixels, number 3 is 'x', no whole number from 0 to 255",
            "the pixel pixels, number 3 is 400, no whole number from 0 to 255",
        ]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--pixel-columns", "dot*"), "no column of"),
            (("--pixel-columns", "pixel1*"), "has 111 pixels, which are no square of gray ones"),
            (
                ("--pixel-columns", "pixel*", "--raw-image", "32x32"),
                "has 784 pixels, and not the 32 x 32 x 1 of --raw-image",
            ),
        ],
    )
    def test_messages(
        self, options: tuple[str, ...], message: str, run_here: Run, tmp_path: Path
    ) -> None:
        pixels.write_digits(tmp_path / "train.csv", 2)
        args = (tmp_path / "train.csv", tmp_path / "a", "--to", "webdataset")
        found = run_here("pack", *args, *options)
        assert (found.code, message in found.err) == (2, True), found.err
