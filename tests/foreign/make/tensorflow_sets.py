"""Sets by TensorFlow 2.21.0's TFRecordWriter, with the features of the scripts that are in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.foreign.make.pictures import (
    CAPTIONS,
    CLASSES,
    boxes,
    jpeg,
    picture,
    place,
    png,
    seen,
    seen_pixels,
    truth,
)

TOOL = f"tensorflow {tf.__version__}"
COUNT = 8


def feature(value: Any) -> tf.train.Feature:
    values = value if isinstance(value, list) else [value]
    if not values:
        return tf.train.Feature(bytes_list=tf.train.BytesList())
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def write(path: Path, records: Iterable[dict[str, Any]], compression: str = "") -> None:
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            held = {name: feature(value) for name, value in record.items()}
            example = tf.train.Example(features=tf.train.Features(feature=held))
            writer.write(example.SerializeToString())


def halves(dest: Path, name: str, records: list[dict[str, Any]]) -> list[str]:
    """Write two shards; the keys that samples without a name have."""
    keys = []
    middle = len(records) // 2
    for shard, own in enumerate((records[:middle], records[middle:])):
        path = dest / name.format(shard)
        write(path, own)
        keys += [f"{path.name.removesuffix('.tfrecord')}-{n:07d}" for n in range(len(own))]
    return keys


def slim() -> None:
    """As `tf_slim`'s download_and_convert_flowers writes them."""
    dest = place("slim")
    records = [
        {
            "image/encoded": jpeg(seed),
            "image/format": b"jpg",
            "image/class/label": seed % 3,
            "image/height": picture(seed).height,
            "image/width": picture(seed).width,
        }
        for seed in range(COUNT)
    ]
    keys = halves(dest, "animals_train_0000{}-of-00002.tfrecord", records)
    lines = [f"{number}:{name}\n" for number, name in enumerate(CLASSES)]
    (dest / "labels.txt").write_text("".join(lines))
    samples = [
        {"key": key, "image": seen(jpeg(seed)), "label": seed % 3} for seed, key in enumerate(keys)
    ]
    truth("slim", TOOL, samples, {"image": "image", "label": "class"}, {"label": list(CLASSES)})


SYNSETS = ("n02219486", "n02206856", "n01887787")


def inception() -> None:
    """As inception's build_imagenet_data writes them: classes from 1, texts beside the numbers."""
    dest = place("inception")
    records, samples = [], []
    for seed in range(COUNT):
        name = f"{SYNSETS[seed % 3]}_{seed}.JPEG"
        image = picture(seed)
        records.append(
            {
                "image/height": image.height,
                "image/width": image.width,
                "image/colorspace": b"RGB",
                "image/channels": 3,
                "image/class/label": seed % 3 + 1,
                "image/class/synset": SYNSETS[seed % 3].encode(),
                "image/class/text": CLASSES[seed % 3].encode(),
                "image/format": b"JPEG",
                "image/filename": name.encode(),
                "image/encoded": jpeg(seed),
            }
        )
        samples.append(
            {
                "key": name[:-5],
                "image": seen(jpeg(seed)),
                "label": seed % 3 + 1,
                "image/class/synset": SYNSETS[seed % 3],
            }
        )
    halves(dest, "train-0000{}-of-00002", records)
    types = {"image": "image", "label": "class", "image/class/synset": "text"}
    truth("inception", TOOL, samples, types, {"label": ["", *CLASSES]})


def detection() -> None:
    """As the Object Detection API's create_pet_tf_record writes them; the first has one object."""
    dest = place("detection")
    records, samples = [], []
    for seed in range(COUNT):
        found = boxes(seed) if seed != 6 else []  # nothing is in this one
        numbers = [(seed + n) % 3 + 1 for n in range(len(found))]
        columns = {
            f"image/object/bbox/{side}": [box[n] for box in found]
            for n, side in enumerate(("xmin", "ymin", "xmax", "ymax"))
        }
        texts = [CLASSES[number - 1] for number in numbers]
        image = picture(seed)
        records.append(
            {
                "image/height": image.height,
                "image/width": image.width,
                "image/filename": b"%d.jpg" % seed,
                "image/source_id": b"%d.jpg" % seed,
                "image/encoded": jpeg(seed),
                "image/format": b"jpeg",
                **columns,
                "image/object/class/text": [text.encode() for text in texts],
                "image/object/class/label": numbers,
            }
        )
        samples.append(
            {
                "key": str(seed),
                "image": seen(jpeg(seed)),
                **columns,
                "image/object/class/text": texts,
                "image/object/class/label": numbers,
            }
        )
    write(dest / "pets_train.record-00000-of-00001", records)
    items = (
        f"item {{\n  id: {number}\n  name: '{name}'\n}}\n" for number, name in enumerate(CLASSES, 1)
    )
    (dest / "label_map.pbtxt").write_text("\n".join(items))
    floats = {
        f"image/object/bbox/{side}": "list<float32>" for side in ("xmin", "ymin", "xmax", "ymax")
    }
    types = {
        "image": "image",
        **floats,
        "image/object/class/text": "list<text>",
        "image/object/class/label": "list<int>",
    }
    truth("detection", TOOL, samples, types)


def by_hand() -> None:
    """As tutorials write them, with names of their own."""
    dest = place("by-hand")
    records, samples = [], []
    for seed in range(COUNT):
        onehot = [int(number == seed % 3) for number in range(3)]
        score = seed / 10
        records.append(
            {
                "img": png(seed),
                "y": seed % 3,
                "score": score,
                "caption": CAPTIONS[seed].encode(),
                "onehot": onehot,
            }
        )
        samples.append(
            {
                "key": f"data-{seed:07d}",
                "image": seen(png(seed)),
                "label": seed % 3,
                "score": score,
                "caption": CAPTIONS[seed],
                "onehot": onehot,
            }
        )
    write(dest / "data.tfrecord", records)
    types = {
        "image": "image",
        "label": "class",
        "score": "float32",
        "caption": "text",
        "onehot": "list<int>",
    }
    truth("by-hand", TOOL, samples, types)


def one_hot() -> None:
    """The label is a list of ints: one-hot."""
    dest = place("one-hot")
    records, samples = [], []
    for seed in range(COUNT):
        label = [int(number == seed % 3) for number in range(3)]
        records.append({"image": jpeg(seed), "labels": label})
        samples.append({"key": f"val-{seed:07d}", "image": seen(jpeg(seed)), "label": label})
    write(dest / "val.tfrecord", records)
    truth("one-hot", TOOL, samples, {"image": "image", "label": "list<int>"})


def compressed() -> None:
    for name, compression in (("gzip", "GZIP"), ("zlib", "ZLIB")):
        dest = place(name)
        records, samples = [], []
        for seed in range(COUNT):
            records.append(
                {
                    "image/encoded": jpeg(seed),
                    "image/filename": b"%05d.jpg" % seed,
                    "image/class/label": seed % 3,
                }
            )
            samples.append({"key": f"{seed:05d}", "image": seen(jpeg(seed)), "label": seed % 3})
        write(dest / "train-00000-of-00001.tfrecord", records, compression)
        truth(name, TOOL, samples, {"image": "image", "label": "class"})


def raw() -> None:
    """Pixels without an encoding: SageMaker's CIFAR script and the old MNIST script."""
    dest = place("cifar-raw")
    records, samples = [], []
    for seed in range(4):
        image = picture(seed, size=(32, 32))
        planes = b"".join(band.tobytes() for band in image.split())
        records.append({"image": planes, "label": seed % 3})
        samples.append({"key": f"train-{seed:07d}", "image": seen_pixels(image), "label": seed % 3})
    write(dest / "train.tfrecords", records)
    truth("cifar-raw", TOOL, samples, {"image": "image", "label": "class"})

    dest = place("mnist-raw")
    records, samples = [], []
    for seed in range(4):
        image = picture(seed, "L", (28, 28))
        records.append(
            {"height": 28, "width": 28, "depth": 1, "label": seed % 3, "image_raw": image.tobytes()}
        )
        samples.append({"key": f"train-{seed:07d}", "image": seen_pixels(image), "label": seed % 3})
    write(dest / "train.tfrecords", records)
    truth("mnist-raw", TOOL, samples, {"image": "image", "label": "class"})


def second_image() -> None:
    """DeepLab's build_voc2012_data: the image is JPEG, the mask a PNG."""
    from tests.foreign.make.pictures import mask

    dest = place("deeplab")
    records, samples = [], []
    for seed in range(COUNT):
        image = picture(seed)
        records.append(
            {
                "image/encoded": jpeg(seed),
                "image/filename": b"2007_%06d" % seed,
                "image/format": b"jpeg",
                "image/height": image.height,
                "image/width": image.width,
                "image/channels": 3,
                "image/segmentation/class/encoded": mask(seed),
                "image/segmentation/class/format": b"png",
            }
        )
        samples.append(
            {
                "key": f"2007_{seed:06d}",
                "image": seen(jpeg(seed)),
                "image/segmentation/class/encoded": seen(mask(seed)),
                "image/segmentation/class/format": "png",
            }
        )
    halves(dest, "trainval-0000{}-of-00002.tfrecord", records)
    types = {
        "image": "image",
        "image/segmentation/class/encoded": "image",
        "image/segmentation/class/format": "text",
    }
    truth("deeplab", TOOL, samples, types)


def labels() -> None:
    """Labels that are a text, and a float."""
    texts: dict[str, Callable[[int], Any]] = {
        "label-text": lambda seed: CLASSES[seed % 3].encode(),
        "label-float": lambda seed: seed / 4,
    }
    for name, label in texts.items():
        dest = place(name)
        records, samples = [], []
        for seed in range(COUNT):
            path = f"photos/{seed}.jpg"
            records.append({"image_raw": jpeg(seed), "label": label(seed), "path": path.encode()})
            told = seed % 3 if name == "label-text" else seed / 4
            sample = {"key": None, "image": seen(jpeg(seed)), "label": told, "path": path}
            samples.append(sample)
        write(dest / "data.tfrec", records)
        types = {"image": "image", "path": "text"}
        if name == "label-text":
            classes = {"label": list(CLASSES)}
            truth(name, TOOL, samples, {**types, "label": "class"}, classes)
        else:
            truth(name, TOOL, samples, {**types, "label": "float32"})


def sides() -> None:
    """Training and validation in one directory, as imagenet's scripts leave them."""
    dest = place("two-sides")
    for side, seeds in (("train", range(4)), ("validation", range(4, 6))):
        records = [{"image/encoded": jpeg(seed), "image/class/label": seed % 3} for seed in seeds]
        write(dest / f"imagenet-{side}-00000-of-00001", records)
    samples = [
        {
            "key": f"imagenet-train-00000-of-00001-{seed:07d}",
            "image": seen(jpeg(seed)),
            "label": seed % 3,
        }
        for seed in range(4)
    ]
    truth("two-sides", TOOL, samples, {"image": "image", "label": "class"})


if __name__ == "__main__":
    for each in (
        slim,
        inception,
        detection,
        by_hand,
        one_hot,
        compressed,
        raw,
        second_image,
        sides,
    ):
        each()
