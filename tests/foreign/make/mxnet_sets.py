"""Sets by mxnet 1.9.1: its tools/im2rec.py, and records as InsightFace's face2rec2.py packs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy

for _name in ("bool", "int", "float", "object", "str", "complex"):
    setattr(numpy, _name, getattr(__import__("builtins"), _name))

import mxnet as mx  # noqa: E402
from mxnet import recordio  # noqa: E402

from tests.foreign.make.pictures import CLASSES, boxes, jpeg, picture, place, seen, truth  # noqa: E402

TOOL = f"mxnet {mx.__version__}"
COUNT = 8
IM2REC = Path(mx.__file__).parent / "tools" / "im2rec.py"
ALIASES = "import builtins, numpy, runpy, sys\n" + "\n".join(
    f"numpy.{name} = builtins.{name}" for name in ("bool", "int", "float", "object", "str")
)


def im2rec(*args: object) -> None:
    code = f"{ALIASES}\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')"
    subprocess.run([sys.executable, "-c", code, IM2REC, *map(str, args)], check=True)


def payloads(dest: Path) -> dict[int, bytes]:
    """The images as im2rec encoded them, by id."""
    records = recordio.MXIndexedRecordIO(str(dest / "train.idx"), str(dest / "train.rec"), "r")
    return {key: recordio.unpack(records.read_idx(key))[1] for key in records.keys}


def rows(dest: Path) -> list[tuple[int, list[float], str]]:
    """The lines of the list, in the order of the records."""
    found = []
    for line in (dest / "train.lst").read_text().splitlines():
        number, *labels, path = line.split("\t")
        found.append((int(number), [float(label) for label in labels], path))
    return found


def classes(root: Path) -> None:
    dest = place("im2rec")
    im2rec("--list", "--recursive", dest / "train", root)
    im2rec(dest / "train", root)
    data = payloads(dest)
    samples = [
        {"key": path.rpartition(".")[0], "image": seen(data[number]), "label": int(label)}
        for number, (label,), path in rows(dest)
    ]
    truth(dest.name, TOOL, samples, {"image": "image", "label": "class"})


def packed(name: str, root: Path, labels: dict[str, list[float]], kind: str) -> None:
    dest = place(name)
    lines = [
        "\t".join((str(number), *map(str, label), path)) + "\n"
        for number, (path, label) in enumerate(labels.items())
    ]
    (dest / "train.lst").write_text("".join(lines))
    im2rec("--pack-label", dest / "train", root)
    data = payloads(dest)
    samples: list[dict[str, Any]] = [
        {
            "key": path.rpartition(".")[0],
            "image": seen(data[number]),
            "label": [float(numpy.float32(each)) for each in label],
        }
        for number, label, path in rows(dest)
    ]
    truth(name, TOOL, samples, {"image": "image", "label": kind})


def insightface() -> None:
    """The first record holds ranges of ids only, and so does one for each identity at the end."""
    dest = place("insightface")
    writer = recordio.MXIndexedRecordIO(str(dest / "train.idx"), str(dest / "train.rec"), "w")
    identities = [range(1, 4), range(4, 6), range(6, 9)]
    first, last = COUNT + 1, COUNT + 1 + len(identities)
    ranges = [(0, [first, last])]
    ranges += [(first + n, [each.start, each.stop]) for n, each in enumerate(identities)]

    def index(key: int, label: list[int]) -> None:
        header = recordio.IRHeader(2, [float(each) for each in label], key, 0)
        writer.write_idx(key, recordio.pack(header, b""))

    index(*ranges[0])
    samples = []
    for label, ids in enumerate(identities):
        for key in ids:
            header = recordio.IRHeader(0, float(label), key, 0)
            writer.write_idx(key, recordio.pack(header, jpeg(key)))
            samples.append({"key": str(key), "image": seen(jpeg(key)), "label": label})
    for key, label_range in ranges[1:]:
        index(key, label_range)
    writer.close()
    (dest / "property").write_text(f"{len(identities)},16,24\n")
    truth(dest.name, TOOL, samples, {"image": "image", "label": "class"})


def main() -> None:
    with TemporaryDirectory() as scratch:
        root = Path(scratch)
        paths = []
        for seed in range(COUNT):
            path = root / CLASSES[seed % 3] / f"{seed}.jpg"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(jpeg(seed))
            paths.append(path.relative_to(root).as_posix())
        classes(root)
        attributes = {path: [seed % 2, 1, seed / 8] for seed, path in enumerate(paths)}
        packed("im2rec-multi", root, attributes, "list<float32>")
        detection = {}
        for seed, path in enumerate(paths):
            image = picture(seed)
            found = [[(seed + n) % 3, *box] for n, box in enumerate(boxes(seed))]
            detection[path] = [4, 5, image.width, image.height, *sum(found, [])]
        packed("im2rec-detection", root, detection, "list<float32>")
    insightface()


if __name__ == "__main__":
    main()
