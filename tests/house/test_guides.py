"""The guides work as written: each command and each piece of Python in them, from top to bottom."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import chdir, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageDraw

from tests import pixels
from tests.arrow_files import save_sides
from tests.conftest import Finished
from tests.here import Here
from tests.images import image_folder, jpeg, png
from tests.jobs import judge
from tests.missing import framework
from tests.servers.bucket import Bucket
from tests.sources import test_coco_panoptic
from tests.sources.boxes import write

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = [DOCS / "start.md", *sorted((DOCS / "guides").glob("*.md"))]
FOREIGN_DATA = Path(__file__).parents[1] / "foreign" / "data"
WRITTEN = Path(__file__).parents[1] / "formats"


def write_data_set(root: Path) -> None:
    """Write what the guides speak of: images/, val/, train.lst, train.csv and tags.csv."""
    files = image_folder(root / "images", ("birds/owl", "cat", "dog"), 16, size=(320, 240))
    image_folder(root / "val", ("cat", "dog"), 4)
    rows = list(enumerate(files))
    lst = "".join(f"{i}\t{i % 3}\t{path}\n" for i, path in rows)
    (root / "train.lst").write_text(lst, "utf-8")
    csv = "".join(
        f"{path.removesuffix('.jpg')},{'pug' if i % 2 else 'corgi'}\n" for i, path in rows
    )
    (root / "train.csv").write_text(f"id,breed\n{csv}", "utf-8")
    image_folder(root / "numbered", ("1", "2", "10"), 2)
    for directory, extension in (("JPEGImages", "jpg"), ("SegmentationClass", "png")):
        (root / "voc" / directory).mkdir(parents=True)
        for number, data in enumerate(list(files.values())[:3]):
            (root / "voc" / directory / f"{number}.{extension}").write_bytes(data)
    values = ({"id": path, "breed": "pug", "weight": i / 2} for i, path in rows)
    write_lines(root / "measured.jsonl", (json.dumps(each | {"note": "é"}) for each in values))
    tags = ("clear", "clear primary", "clear primary water", "haze primary")
    write_lines(root / "tags.csv", ("id,tags", *(f"{path},{tags[i % 4]}" for i, path in rows)))


def write_imagenet(root: Path) -> None:
    """Write ImageNet's tars, with three classes, and what tells the validation images' classes."""
    synsets = ("n01440764", "n01443537", "n02012849")
    classes = {}
    for number, synset in enumerate(synsets):
        names = [f"{synset}_{i}.JPEG" for i in range(4)]
        classes[f"{synset}.tar"] = tar_of(images(names, first=4 * number))
    (root / "ILSVRC2012_img_train.tar").write_bytes(tar_of(classes))
    validation = [f"ILSVRC2012_val_{i:08}" for i in range(1, 7)]
    (root / "ILSVRC2012_img_val.tar").write_bytes(
        tar_of(images([f"{name}.JPEG" for name in validation], first=100))
    )
    kit, numbers = (synsets[2], synsets[0], synsets[1]), (1, 3, 2, 2, 3, 1)
    boxes = [f"{name},{kit[i - 1]} 1 2 30 40 " for name, i in zip(validation, numbers, strict=True)]
    write_lines(root / "synsets.txt", kit)
    write_lines(root / "imagenet100.txt", (synsets[2], synsets[0]))
    write_lines(root / "ILSVRC2012_validation_ground_truth.txt", map(str, numbers))
    write_lines(root / "LOC_val_solution.csv", ("ImageId,PredictionString", *boxes))
    write_lines(
        root / "LOC_synset_mapping.txt",
        ("n01440764 tench, Tinca tinca", "n01443537 goldfish", "n02012849 crane"),
    )


def write_competitions(root: Path) -> None:
    """Write zips as Kaggle has them: with a folder for each class, or with a table."""
    animals = [f"{name}/{i:03}.jpg" for name in ("cat", "dog") for i in range(8)]
    zip_of(root / "animals.zip", images([f"animals/{path}" for path in animals]))
    halves = [f"{half}/{path}" for half in ("test", "train") for path in animals]
    zip_of(root / "halves.zip", images(halves))
    ids = [f"{i * 40503:08x}" for i in range(1, 41)]
    rows = [f"{id},{'pug' if i % 2 else 'corgi'}" for i, id in enumerate(ids)]
    table = ("id,breed", *rows[:20])
    labeled = images([f"train/{id}.jpg" for id in ids[:20]])
    unlabeled = images([f"test/{id}.jpg" for id in ids[20:30]], first=20)
    csv = {"train.csv": "\n".join(table).encode()}
    zip_of(root / "dogs.zip", csv | labeled | unlabeled)
    write_lines(root / "corrected.csv", table)
    zip_of(root / "more-dogs.zip", images([f"train/{id}.jpg" for id in ids[30:]], first=30))
    write_lines(root / "more.csv", ("id,breed", *rows[30:]))
    pixels.write_digits(root / "digits.csv", 12)
    pixels.write_faces(root / "fer2013.csv", 12)
    # Planet, whose tags stand in one cell; ages; APTOS, whose ids have no extension; Dogs vs. Cats
    (root / "planet").mkdir()
    (root / "planet/train-jpg").mkdir()
    for name, data in images([f"train_{i}.jpg" for i in range(8)]).items():
        (root / "planet/train-jpg" / name).write_bytes(data)
    tags = ("haze primary", "agriculture clear primary water", "clear primary", "haze water")
    planet = (f"train_{i},{tags[i % 4]}" for i in range(8))
    write_lines(root / "planet/train_v2.csv", ("image_name,tags", *planet))
    faces = [f"{i:05}.jpg" for i in range(8)]
    zip_of(root / "faces.zip", images([f"faces/{name}" for name in faces]))
    people = (f"{name},{20 + i},{'mf'[i % 2]},Kamera {i}" for i, name in enumerate(faces))
    write_lines(root / "faces.csv", ("file,age,gender,camera", *people))
    eyes = [f"{i * 7654321:012x}" for i in range(1, 13)]
    graded = "".join(f"{id},{i % 5}\n" for i, id in enumerate(eyes[:8]))
    both = [f"train_images/{id}.png" for id in eyes[:8]]
    both += [f"test_images/{id}.png" for id in eyes[8:]]
    aptos = {"train.csv": f"id_code,diagnosis\n{graded}".encode()}
    aptos |= {name: png(seed=i, size=(60, 40)) for i, name in enumerate(both)}
    zip_of(root / "aptos.zip", aptos)
    pets = [f"train/{name}.{i}.jpg" for name in ("cat", "dog") for i in range(4)]
    zip_of(root / "pets.zip", images(pets))


def feature_store(root: Path, *, numbers: bool = False) -> None:
    """Write the offline store of a feature group as SageMaker does: four records in eight rows."""

    def rows(hour: int, name: str, *rows: tuple[str, int, str | None, int | None, int]) -> None:
        values = []
        for minute, (key, milliseconds, tokens, label, deleted) in enumerate(rows):
            time = datetime(2024, 5, 1, hour, 0, 0, milliseconds * 1000, tzinfo=UTC)
            text = time.isoformat(timespec="milliseconds" if milliseconds else "seconds")
            called = time.replace(
                minute=59 - minute, tzinfo=None
            )  # of equal times, the first row is newer
            told = time.timestamp() if numbers else text.replace("+00:00", "Z")
            values.append((key, told, tokens, label, called, called, bool(deleted)))
        names = ("review_id", "EventTime", "input_ids", "label_id")
        names += ("write_time", "api_invocation_time", "is_deleted")
        types = [pa.string(), pa.float64() if numbers else pa.string(), pa.string(), pa.int64()]
        types += [pa.timestamp("ms"), pa.timestamp("ms"), pa.bool_()]
        place = root / f"reviews-1714550400/data/year=2024/month=05/day=01/hour={hour}"
        place.mkdir(parents=True)
        columns = zip(*values, strict=True)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        pq.write_table(pa.table(arrays, [*names]), place / f"20240501T{hour}0000Z_{name}.parquet")

    first = (("R1", 0, "[101, 7, 102]", 1, 0), ("R2", 0, "[101, 8]", 0, 0))
    rows(10, "aB3dE5gH7jK9mN1p", *first, ("R3", 500, "[101, 9]", 0, 0), ("R3", 0, "[0]", 0, 0))
    then = (("R1", 0, "[101, 77, 102]", 0, 0), ("R2", 0, None, None, 1))
    rows(12, "Q2wE4rT6yU8iO0pA", *then, ("R4", 0, "[1]", 1, 0), ("R4", 0, "[2]", 1, 0))


def write_sagemaker(root: Path) -> None:
    """Write images, and the offline store of a feature group."""
    write_data_set(root)
    feature_store(root)


def write_foreign(root: Path) -> None:
    """Write what other tools leave, beside the folders of :func:`write_data_set`."""
    write_data_set(root)
    for name, place in FOREIGN.items():
        source = FOREIGN_DATA / name
        if source.is_dir():
            shutil.copytree(source, root / place)
        else:
            shutil.copyfile(source, root / place)
    for name, place in LOADERS.items():
        shutil.copytree(WRITTEN / name, root / place)
    save_sides(root / "saved")


def write_boxes(root: Path) -> None:
    """Write images with boxes, as COCO, a competition and YOLO have them."""
    names = [f"{number:012}.jpg" for number in range(8)]
    drawn = images(names)
    for place in ("coco/train2017", "wheat/train", "yolo/images/train", "yolo/images/val"):
        (root / place).mkdir(parents=True)
        for at, (name, data) in enumerate(drawn.items()):
            if "yolo" not in place or place.endswith("val") == (at > 5):
                (root / place / name).write_bytes(data)
    boxes = [(at, 10.0 + at, 20.0, 100.0, 50.0 + at) for at in range(8) for _ in range(1 + at % 2)]
    annotations = [
        {"id": id, "image_id": at, "category_id": 1 + 17 * (id % 2), "bbox": [x, y, w, h]}
        | {"area": w * h, "iscrowd": 0, "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]]}
        for id, (at, x, y, w, h) in enumerate(boxes, 1)
    ]
    values = {
        "images": [
            {"id": at, "file_name": name, "width": 400, "height": 300}
            for at, name in enumerate(names)
        ],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}],
    }
    (root / "coco/annotations").mkdir()
    (root / "coco/annotations/instances_train2017.json").write_text(json.dumps(values))
    stems = [name.removesuffix(".jpg") for name in names]
    wheat = [(at, x + 240 * (at % 2), y, w, h) for at, x, y, w, h in boxes]  # in one order alone
    rows = [f'{stems[at]},400,300,"[{x}, {y}, {w}, {h}]",usask_1' for at, x, y, w, h in wheat]
    write_lines(root / "wheat/train.csv", ("image_id,width,height,bbox,source", *rows))
    odd = [f"{names[at]},{x},{y},{x + w},{y + h}" for at, x, y, w, h in boxes]
    write_lines(root / "wheat/odd.csv", ("picture,a,b,c,d", *odd))
    for at, x, y, w, h in boxes:
        label = root / "yolo/labels" / ("val" if at > 5 else "train") / f"{stems[at]}.txt"
        label.parent.mkdir(parents=True, exist_ok=True)
        share = f"{(x + w / 2) / 400} {(y + h / 2) / 300} {w / 400} {h / 300}"
        with label.open("a") as file:
            file.write(f"{at % 2} {share.replace('  ', ' ')}\n")
    yaml = ("path: .", "train: images/train", "val: images/val", "names:", "  0: cat", "  1: dog")
    write_lines(root / "yolo/data.yaml", yaml)
    shutil.make_archive(str(root / "yolo"), "zip", root / "yolo")


def write_birds(root: Path) -> None:
    """Write a common and a rare class."""
    image_folder(root / "birds", ("crow",), 16)
    image_folder(root / "birds", ("owl",), 4)


def write_scheduler(root: Path) -> None:
    """Write a stand-in of Slurm, which runs the tasks of an array, and what machines see."""
    write_data_set(root)
    for number in (1, 2, 3):
        image_folder(root / f"algo-{number}/input", ("cat", "dog")[: number % 2 + 1], number)
        for path in (root / f"algo-{number}/input").rglob("*.jpg"):
            path.rename(path.with_name(f"{number}-{path.name}"))
        (root / f"algo-{number}/classes.txt").write_text("cat\ndog\n")
    (root / "bin").mkdir()
    (root / "bin/sbatch").write_text("""#!/bin/bash
range=$(sed -n 's/^#SBATCH --array=//p' "$1")
export SLURM_ARRAY_TASK_MIN=${range%-*} SLURM_ARRAY_TASK_MAX=${range#*-} SLURM_ARRAY_TASK_STEP=1
export SLURM_ARRAY_TASK_COUNT=$((SLURM_ARRAY_TASK_MAX - SLURM_ARRAY_TASK_MIN + 1))
for task in $(seq $SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX); do
    SLURM_ARRAY_TASK_ID=$task bash "$1" || exit
done
""")
    (root / "bin/sbatch").chmod(0o755)


def write_segments(root: Path) -> None:
    """Write images with masks of several kinds."""
    for name in ("images", "masks", "two", "colors"):
        (root / "segments" / name).mkdir(parents=True)
    colors = [(0, 0, 0), (128, 0, 0), (0, 128, 0)]
    for number in range(6):
        image, name = jpeg(seed=number, size=(120, 90)), f"{number:03}"
        (root / f"segments/images/{name}.jpg").write_bytes(image)
        mask = Image.new("P", (120, 90))
        mask.putpalette([level for color in colors for level in color])
        ImageDraw.Draw(mask).rectangle((10, 20, 50, 60), fill=1 + number % 2)
        mask.save(root / f"segments/masks/{name}.png")
        mask.convert("RGB").save(root / f"segments/colors/{name}_mask.png")
        two = Image.frombytes("L", mask.size, mask.tobytes())
        two.point([0, *[255] * 255]).save(root / f"segments/two/{name}.png")
    write_lines(root / "segments/classes.txt", ("background", "cat", "dog"))
    write_lines(root / "segments/colors.txt", ("#000000", "#800000", "#008000"))
    write_lines(
        root / "segments/runs.csv", ("ImageId,EncodedPixels", "000.jpg,1 5 91 5", "001.jpg,")
    )
    own = {name: data for name, data in test_coco_panoptic.SET.items() if "train" in name}
    write(root / "coco", own)
    top = root / "segments"
    with zipfile.ZipFile(root / "segments.zip", "w") as archive:
        for path in (*top.glob("images/*"), *top.glob("masks/*"), top / "classes.txt"):
            archive.write(path, str(path.relative_to(root)))


def write_unknown(root: Path) -> None:
    """Write images with annotations that dsprep does not read, and with a table."""
    row = "10,12,40,12,40,30,10,30,Genaxis Theatre"
    names = [f"{number:06}" for number in range(6)]
    for directory in ("signs/images", "signs/gt", "dogs", "captioned"):
        (root / directory).mkdir(parents=True)
    for name, data in images([f"{name}.jpg" for name in names]).items():
        (root / "signs/images" / name).write_bytes(data)
        (root / "dogs" / name).write_bytes(data)
        (root / "captioned" / name).write_bytes(data)
    for name in names:
        write_lines(root / f"captioned/{name}.txt", (f"a street, seen from car {name}",))
        write_lines(root / f"signs/gt/{name}.txt", (row,))
    breeds = (f"{name},{'pug' if int(name) % 2 else 'corgi'}" for name in names)
    write_lines(root / "dogs/breeds.csv", ("id,breed", *breeds))


def write_pixels(root: Path) -> None:
    """Write CIFAR-10 in both versions, and MNIST, as they are downloaded."""
    python, binary = pixels.cifar10_python(), pixels.cifar10_binary()
    pixels.write_archive(root / "cifar-10-python.tar.gz", "cifar-10-batches-py", python)
    pixels.write_archive(root / "cifar-10-binary.tar.gz", "cifar-10-batches-bin", binary)
    python, binary = pixels.cifar100_python(), pixels.cifar100_binary()
    pixels.write_archive(root / "cifar-100-python.tar.gz", "cifar-100-python", python)
    pixels.write_archive(root / "cifar-100-binary.tar.gz", "cifar-100-binary", binary)
    pixels.write_directory(root / "mnist", pixels.mnist())
    import numpy as np

    gray = np.arange(20 * 784, dtype=np.uint8).reshape(20, 28, 28)
    halves = {"x_train": gray[:12], "y_train": np.arange(12), "x_test": gray[12:]}
    np.savez(root / "mnist.npz", **halves, y_test=np.arange(8))


def write_sides(root: Path) -> None:
    """Write folders with sides, beside what :func:`write_foreign` writes."""
    write_foreign(root)
    shutil.rmtree(root / "images")
    for folder, sides in (("photos", ("train", "valid", "test")), ("sites", ("paris", "rome"))):
        for side in sides:
            image_folder(root / folder / side, ("cat", "dog"), 8 if side == "train" else 4)
    files = image_folder(root / "images", ("a", "b"), 4)
    rows = (f"{path},{'cat' if path[-5] in '02' else 'dog'}" for path in files)
    write_lines(root / "labels.csv", ("path,label", *rows))
    food = image_folder(root / "food-101/images", ("apple_pie", "waffles"), 4)
    (root / "food-101/meta").mkdir()
    for side, at in (("train", 0), ("test", 1)):
        names = [path.removesuffix(".jpg") for path in food]
        write_lines(root / f"food-101/meta/{side}.txt", names[at::2])


def write_beginnings(root: Path) -> None:
    """Write what people come with: a folder, a zip, tars, lists, shards of others."""
    write_foreign(root)
    (root / "train.csv").unlink()  # so that the one in the zip is read
    write_imagenet(root)
    write_competitions(root)


def images(names: Iterable[str], first: int = 0) -> dict[str, bytes]:
    """Draw an image for each name."""
    return {name: jpeg(seed=i, size=(400, 300)) for i, name in enumerate(names, first)}


def tar_of(files: Mapping[str, bytes]) -> bytes:
    """A tar of files."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return data.getvalue()


def write_tables(root: Path) -> None:
    """Write a table, arrays, and files of the form of MovieLens 100K."""
    write_lines(
        root / "churn.csv",
        (
            "id,age,minutes,plan,churned",
            *(f"{n},{20 + n},{n / 7},basic,{n % 2}" for n in range(60)),
        ),
    )
    import numpy as np

    rng = np.random.default_rng(1)
    np.save(root / "X.npy", rng.random((50, 4)))
    np.save(root / "y.npy", rng.integers(0, 3, 50))
    digits = rng.integers(0, 256, (30, 28, 28)).astype("u1")
    arrays = {"x_train": digits[:20], "y_train": np.arange(20) % 10}
    np.savez_compressed(
        root / "digits.npz", **arrays, x_test=digits[20:], y_test=np.arange(10) % 10
    )
    (root / "ml-100k").mkdir()
    for name, lines in (("u.data", 500), ("ua.base", 400), ("ua.test", 100)):
        columns = [rng.integers(1, most + 1, lines) for most in (943, 1682, 5)]
        times = rng.integers(874_724_710, 893_286_638, lines)
        rows = zip(*columns, times, strict=True)
        write_lines(root / "ml-100k" / name, ("\t".join(map(str, row)) for row in rows))


def write_downloads(root: Path) -> None:
    """Write tables, CIFAR and ImageNet, as they are downloaded."""
    write_tables(root)
    write_pixels(root)
    write_imagenet(root)


def zip_of(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a zip of files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text file."""
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


FOREIGN = {
    "img2dataset-webdataset": "laion",
    "tfds-classes/tiny_animals": "tiny_animals",
    "hf-classes": "hub",
    "hf-imagefolder": "imagefolder",
    "slim": "slim-records",
    "inception": "inception-records",
    "detection": "pets",
    "by-hand/data.tfrecord": "own.tfrecord",
    "wds-json-label": "json-labels",
    "wds-masks": "masks",
    "im2rec": "im2rec",
    "insightface": "faces",
    "tar-apart/x.tar": "apart.tar",
}
"""Data sets that other tools made, and what the guide calls them."""

LOADERS = {"mds/zstd": "mosaic", "litdata/sides": "optimized", "energon/classes": "prepared"}
"""The same of what the loaders of `make judges` wrote."""

DOWNLOADS = {
    "cifar.md": write_pixels,
    "official-sides.md": write_sides,
    "imagenet.md": write_imagenet,
    "kaggle.md": write_competitions,
    "between-frameworks.md": write_foreign,
    "start.md": write_beginnings,
    "detection.md": write_boxes,
    "masks.md": write_segments,
    "tables.md": write_tables,
    "unknown.md": write_unknown,
    "several-machines.md": write_scheduler,
    "augment.md": write_birds,
    "sagemaker.md": write_sagemaker,
    "jobs.md": write_downloads,
}
"""What the guides that are not about :func:`write_data_set`'s folders speak of."""

ON_S3 = ("sagemaker.md", "jobs.md")
"""The guides that have a bucket."""


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_guide(
    guide: Path,
    tmp_path: Path,
    command: Path,
    run_here: Here,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if guide.name in ON_S3:
        ceph: Bucket = request.getfixturevalue("ceph")
        with suppress(ceph.s3.exceptions.BucketAlreadyOwnedByYou):  # by another guide
            ceph.s3.create_bucket(Bucket="amzn-s3-demo-bucket")
        monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
    monkeypatch.setenv("PATH", f"{command.parent}:{tmp_path}/bin", prepend=os.pathsep)
    DOWNLOADS.get(guide.name, write_data_set)(tmp_path)
    lacking: set[str] = set()
    text = guide.read_text("utf-8")
    named = r'^```(?:bash|python) (?:title=)?"?([\w.]+)"?\n(.*?)^```'
    found = re.findall(named, text, re.M | re.S)
    scripts: dict[str, str] = dict(found)
    for name, script in scripts.items():
        (tmp_path / name).write_text(script)
    for kind, block in re.findall(r"^```(sh|python)\n(.*?)^```", text, re.M | re.S):
        if kind == "python":
            if names := lacks(block):
                lacking |= names
                continue
            # In this process: to load a framework takes it seconds.
            with chdir(tmp_path), run_here.lasting():
                exec(compile(block, guide.name, "exec"), {"__name__": "__main__"})
            continue
        for line in block.replace("\\\n", " ").splitlines():
            if names := lacks(line).union(*(lacks(scripts.get(word, "")) for word in line.split())):
                lacking |= names
                continue
            told = re.search(r"# exits with ([0-9]+)", line)
            if PLAIN.fullmatch(line):
                _, *args = shlex.split(line, comments=True)
                done = run_here(*args, cwd=tmp_path)
            else:
                done = run(["bash", "-o", "pipefail", "-c", line], tmp_path)
            assert done.code == int(told[1] if told else 0), f"{line}\n{done.err}"
            assert "Traceback" not in done.err
    for job in tmp_path.glob("*-job.json"):
        require_data(json.loads(job.read_text()), request.getfixturevalue("ceph"))
    for name in sorted(lacking):
        framework(name)  # all else was run


def require_data(job: dict[str, Any], ceph: Bucket) -> None:
    """Fail if the service would refuse a job, or find no data for it."""
    judge("CreateTrainingJob", job)
    for channel in job["InputDataConfig"]:
        source = channel["DataSource"]["S3DataSource"]
        bucket, _, key = source["S3Uri"].removeprefix("s3://").partition("/")
        found = ceph.s3.list_objects_v2(Bucket=bucket, Prefix=key)
        names = [each["Key"] for each in found.get("Contents", ())]
        assert names, source
        if source["S3DataType"] == "ManifestFile":
            body = ceph.s3.get_object(Bucket=bucket, Key=names[0])["Body"].read()
            first, *own = json.loads(body)
            _, _, prefix = first["prefix"].removeprefix("s3://").partition("/")
            for name in own:
                ceph.s3.head_object(Bucket=bucket, Key=prefix + name)


PLAIN = re.compile(r"dsprep ([-\w./:= ,@%]|'[^']*')+(#.*)?")
"""A command that means without a shell what it means in one: it is called in this process."""


def lacks(text: str) -> set[str]:
    """Return the frameworks that a command or a piece of Python needs, and that are not there."""
    needed = re.findall(r"(?:--loader|^import|^from) (mxnet|tensorflow|webdataset)\b", text, re.M)
    return {name for name in needed if find_spec(name) is None}


def run(command: list[str], place: Path) -> Finished:
    """Run a command to its end."""
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    return Finished(done.returncode, done.stdout, done.stderr)
