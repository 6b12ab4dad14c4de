"""Record what dsprep commands write and print, and compare two versions of dsprep.

python -m scripts.bytes OUT.json             runs the commands and records the results
python -m scripts.bytes --against OUT.json   runs them and compares the results with a record

The record has the exit code, the output files, the objects on S3 and the output of each command,
and its messages, without times.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from dsprep.cli.main import cli
from scripts.bytes_data import annotated_sources, table_sources
from scripts.reference import contexts
from tests import images, pixels
from tests.servers.bucket import Bucket
from tests.servers.fixtures import ENVIRONMENT
from tests.servers.start import start_localstack, stop

REPOSITORY = Path(__file__).parents[1]
DSPREP = Path(sys.executable).with_name("dsprep")
BUCKET = "bytes"
TIME = 1_700_000_000  # when all sources were changed: what a run notes of them is the same

# `NAME (PATH): ARGUMENTS`, with shell quotes, < and >. PATH is copied to OUT before the command
# runs. OUT stands for out/NAME and S3 for s3://BUCKET/NAME. Commands below a blank line use the
# results of those above it. --json is added unless stdout goes to a file.
COMMANDS = """
pack-webdataset: pack data/photos OUT --format webdataset --target-size 200KB
pack-metadata: pack data/small OUT --format webdataset --metadata --no-shuffle
pack-tfrecord: pack data/photos OUT --format tfrecord --shards 3 --compression gzip
pack-tfrecord-plain: pack data/small OUT --format tfrecord --samples-per-shard 5 --seed 7
pack-inception: pack data/small OUT --format tfrecord --features inception
pack-recordio: pack data/photos OUT --format recordio --target-size 500KB
pack-recordio-protobuf: pack data/small OUT --format recordio-protobuf --key index
pack-parquet: pack data/small OUT --format parquet --name all
pack-one-file: pack data/small OUT/train.rec --no-shuffle
pack-resize: pack data/small OUT --format webdataset --resize 32 --encode jpeg --quality 80
pack-crop: pack data/photos OUT --format recordio --resize 64x48 --crop 40 --encode png --color gray
pack-zip: pack data/small.zip OUT --format webdataset
pack-tar: pack data/small.tar OUT --format tfrecord
pack-tar-gz: pack data/small.tar.gz OUT --format recordio --no-shuffle
pack-tar-of-tars: pack data/tars.tar OUT --format webdataset
pack-list: pack data/small OUT --format recordio --list data/lists/train.lst
pack-labels: pack data/small OUT --format webdataset --labels data/labels.csv
pack-tags: pack data/small OUT --format tfrecord --labels data/tags.csv --path-column id \
    --label-column tags --label-separator ' '
pack-classes: pack data/small OUT --format webdataset --classes data/classes.txt
pack-dry-run: pack data/photos OUT --format tfrecord --dry-run --schema-out OUT.json
pack-too-many-errors: pack data/photos OUT --format webdataset --max-errors 1
pack-missing-source: pack data/nothing OUT --format webdataset
pack-wrong-option: pack data/small OUT --format webdataset --resize nonsense
pack-cifar10: pack data/cifar10/train OUT --format webdataset
pack-cifar10-binary: pack data/cifar10.zip/test OUT --format recordio
pack-cifar100: pack data/cifar100.tar.gz/train OUT --format tfrecord
pack-mnist: pack data/mnist/train OUT --format parquet
convert-parts: convert data/parts OUT --parts --to webdataset
convert-pairs: convert data/pairs OUT --pair 'image=img/*.jpg' --pair 'mask=masks/*.png' \
    --to tfrecord
convert-manifest-source: convert data/augmented.manifest OUT --to recordio
convert-imagefolder: convert data/foreign/hf-imagefolder/train OUT --to webdataset
convert-imagefolder-csv: convert data/foreign/hf-imagefolder-csv OUT --to parquet
convert-hf-parquet: convert data/foreign/hf-classes/data/train-*.parquet OUT --to tfrecord
convert-hf-objects: convert data/foreign/hf-objects OUT --to webdataset
convert-tfds: convert \
    'data/foreign/tfds-classes/tiny_animals/1.0.0/tiny_animals-train.tfrecord-*' OUT --to webdataset
convert-slim: convert data/foreign/slim OUT --to recordio --drop height,width
convert-im2rec-multi: convert data/foreign/im2rec-multi OUT --to tfrecord
convert-wds-json: convert data/foreign/wds-json-label OUT --label-field json.label --to parquet
convert-wds-mixed: convert data/foreign/wds-mixed OUT --to tfrecord --look all
convert-stream: convert --from webdataset --to tfrecord - - \
    < data/foreign/wds-cls/shard-000000.tar > OUT/stdout.tfrecord
convert-stream-refused: convert --from webdataset --to tfrecord - - < data/cut.tar > OUT/stdout
verify-cut: verify data/cut.tar
lst-create: lst create data/small -o OUT/train.lst
lst-create-ratio: lst create data/photos -o OUT/all.lst --train-ratio 0.7 --test-ratio 0.2 \
    --chunks 2
lst-append (data/lists): lst append OUT/train.lst data/more
lst-set (data/lists): lst set OUT/train.lst --path 'cat/*' --label dog
lst-remove (data/lists): lst remove OUT/train.lst --id 0-3
lst-replace (data/lists): lst replace OUT/train.lst cat/ cats/
lst-relabel (data/lists): lst relabel OUT/train.lst --map data/map.tsv
lst-diff: lst diff data/lists/train.lst data/edited/train.lst > OUT/week.patch
lst-diff-json: lst diff data/lists/train.lst data/edited/train.lst --content --root data/small
lst-merge: lst merge data/lists/train.lst data/edited/train.lst data/theirs/train.lst \
    -o OUT/train.lst
lst-merge-ours: lst merge data/lists/train.lst data/edited/train.lst data/theirs/train.lst --ours \
    > OUT/train.lst
lst-check: lst check data/lists/train.lst --root data/small --for mxnet
lst-check-faults: lst check data/faults.lst
lst-stats: lst stats data/lists/train.lst
lst-sample: lst sample data/lists/train.lst --per-class 2 -o OUT/train.lst
split: split data/photos -o OUT
split-folds: split data/small -o OUT --folds 3 --seed 4
split-groups: split data/lists/train.lst -o OUT --group '([0-9]+)' --ratio train=0.5,val=0.5
split-leaks: split data/small -o OUT --leaks together
split-copy: split data/small -o OUT --materialize copy --stable
split-symlink: split data/small -o OUT --materialize symlink
sync-up: sync data/small S3/ --tag team=vision --metadata made=here
pack-s3: pack data/photos S3/ --format webdataset --target-size 200KB
pack-coco: pack data/coco OUT --to webdataset
pack-coco-named: pack data/coco/images OUT --to recordio \
    --annotations data/coco/annotations/instances.json --crowd drop
pack-coco-resize: pack data/coco OUT --to parquet --resize 16 --crop 12
pack-yolo: pack data/yolo OUT --to tfrecord
pack-yolo-wrong: pack data/wrong OUT --to tfrecord
pack-voc: pack data/voc OUT --to recordio --empty mark
pack-boxes-csv: pack data/drawn/images OUT --to webdataset --annotations data/drawn/boxes.csv
pack-label-studio: pack data/drawn/images OUT --to webdataset \
    --annotations data/drawn/studio.json
pack-ground-truth: pack data/drawn/images OUT --to webdataset \
    --annotations data/drawn/output.manifest
pack-mxnet-boxes: pack data/drawn/images OUT --to recordio --annotations data/drawn/boxes.lst
pack-masks: pack data/masks/images OUT --to webdataset --masks data/masks/masks
pack-masks-resize: pack data/masks/images OUT --to parquet --masks data/masks/masks --resize 16
pack-images-over-boxes: pack data/coco OUT --to webdataset --from images
pack-csv: pack data/tables/rows.csv OUT --to parquet --label-field target
pack-csv-protobuf: pack data/tables/plain.csv OUT --to recordio-protobuf --from csv \
    --label-field column_0
pack-csv-pixels: pack data/tables/digits.csv OUT --to webdataset --pixel-columns 'pixel*'
pack-npy: pack data/tables/x.npy OUT --labels data/tables/y.npy --to recordio-protobuf
pack-npz: pack data/tables/both.npz OUT --to parquet --label-field y
pack-ratings: pack data/tables/ratings.dat OUT --to tfrecord --from csv
pack-augment: pack data/small OUT --to webdataset --augment rotate=20,hflip --per-image 1
pack-filter-table: pack data/small OUT --to webdataset --filter-table data/tables/copies.csv
pack-keep-classes: pack data/small OUT --to tfrecord --keep-classes data/kept.txt
pack-node-0: pack data/small OUT --to webdataset --classes data/classes.txt --name node-0
pack-node-1: pack data/more OUT --to webdataset --classes data/classes.txt --name node-1
pack-sides: pack data/sides OUT --to tfrecord --shards 1
pack-part: pack data/small OUT --to webdataset --shards 4 --part 1/2
pack-annotations-missing: pack data/drawn/images OUT --to webdataset --annotations data/none.json
augment: augment data/small OUT --to tfrecord --op rotate=20,shift=0.1,hflip --per-image 2
augment-folder: augment data/small OUT --to folder --op hflip --per-class 8
augment-boxes: augment data/coco OUT --to webdataset --op rotate=20,hflip --per-image 1
augment-refused: augment data/small OUT --to webdataset --op nonsense --per-image 1
inspect: inspect data/small
inspect-boxes: inspect data/coco --head 2
inspect-undecoded: inspect data/foreign/wds-cls --no-decode
inspect-page: inspect data/small -o OUT.html
dedup: dedup data/sides -o OUT.tsv
dedup-near: dedup data/small --near
split-near: split data/small -o OUT --near --leaks together
cost: cost data/small
cost-planned: cost --samples 1000000000 --size 100TB --shard-size 100MB
sagemaker-planned: sagemaker train=efs://fs-1234/train --role ROLE --image URI
sagemaker-processing: sagemaker s3://bucket/photos --output s3://bucket/shards --instances 4 \
    -- pack --to webdataset
bench-code: bench data/foreign/wds-cls --reader raw --show-code > OUT.py
status-nothing: status data/small
verify-gzip: verify data/foreign/gzip
join-nothing: join data/small data/more OUT

repeat (out/pack-webdataset): pack data/photos OUT --format webdataset --target-size 200KB
other-options (out/pack-webdataset): pack data/photos OUT --format webdataset --shards 2
overwrite (out/pack-webdataset): pack data/photos OUT --format tfrecord --shards 2 --overwrite
convert-folder: convert out/pack-webdataset OUT --to folder
convert-manifest: convert out/pack-webdataset OUT --to augmented-manifest --prefix s3://bucket/path/
convert-recordio: convert 'out/pack-webdataset/train-{000000..000002}.tar' OUT --to recordio
convert-drop: convert out/pack-metadata OUT --to tfrecord --drop width,height
convert-rename: convert out/pack-metadata OUT --to parquet --rename label=target --key index
convert-only: convert out/pack-metadata OUT --to webdataset --only image
convert-tfrecord: convert out/pack-tfrecord OUT --to webdataset --target-size 300KB
convert-from-recordio: convert out/pack-recordio OUT --to parquet
convert-from-protobuf: convert out/pack-recordio-protobuf OUT --to webdataset
convert-from-parquet: convert out/pack-parquet OUT --to folder
shard-shuffle: shard out/pack-webdataset OUT --shards 4 --shuffle --seed 7
shard-merge: shard out/pack-tfrecord-plain OUT/train.tfrecord
shard-multiple: shard out/pack-recordio OUT --target-size 200KB --multiple-of 4
shard-filter: shard out/pack-webdataset OUT --filter "class LIKE '%gon%' AND size > 3000"
shard-to-parquet: shard out/pack-resize OUT --to parquet --samples-per-shard 4
convert-coco: convert out/pack-coco OUT --to coco
convert-voc: convert out/pack-coco OUT --to voc
convert-yolo: convert out/pack-coco OUT --to yolo
convert-coco-recordio: convert out/pack-coco OUT --to recordio
convert-masks: convert out/pack-masks OUT --to folder
convert-tabular: convert out/pack-csv OUT --to recordio-protobuf --drop text --no-image
convert-object-masks: convert out/pack-coco OUT --to tfrecord --object-masks
finish-part (out/pack-part): pack data/small OUT --to webdataset --shards 4 --part 0/2
status-part: status out/pack-part
status: status out/pack-tfrecord
join: join out/pack-node-0 out/pack-node-1 OUT
join-refused: join out/pack-webdataset out/pack-resize OUT
pack-schema: pack data/photos OUT --to tfrecord --schema out/pack-dry-run.json
shard-boxes: shard out/pack-coco OUT --shards 2 --shuffle
serve-stdout: serve out/pack-recordio --stdout --epochs 2 > OUT/stream.rec
serve-convert: serve out/pack-webdataset --stdout --to tfrecord > OUT/stream.tfrecord
serve-program: serve out/pack-webdataset --epochs 1 -- true
sagemaker: sagemaker train=out/pack-recordio --prefix s3://bucket/birds/ --mode Pipe
sagemaker-boxes: sagemaker train=out/pack-coco --prefix s3://bucket/birds/ --instances 2 --sharded
cost-shards: cost out/pack-webdataset
inspect-shards: inspect out/pack-tfrecord out/pack-webdataset --head 2
verify-boxes: verify out/pack-coco --decode --against data/coco
verify-augmented: verify out/augment --against data/small
shard-append (out/pack-resize): shard append data/more OUT --shards 2
shard-index (data/foreign/im2rec-multi): shard index OUT
shard-index-dali (out/pack-tfrecord-plain): shard index OUT --kind dali
shard-index-check: shard index out/pack-recordio --check
verify-decode: verify out/pack-webdataset --decode --against data/photos
verify-loader: verify out/pack-webdataset --loader webdataset
verify-recordio: verify out/pack-recordio
verify-other-source: verify out/pack-webdataset --against data/small
verify-foreign: verify data/foreign/wds-cls
verify-parquet: verify out/pack-parquet --against data/small
lst-create-shards: lst create out/pack-webdataset -o OUT/train.lst --no-shuffle
lst-patch (data/lists): lst patch OUT/train.lst out/lst-diff/week.patch
split-shards: split out/pack-webdataset -o OUT --ratio train=0.9,val=0.1
sync-down: sync s3://bytes/sync-up/ OUT
sync-again: sync data/small s3://bytes/sync-up/ --verify
sync-dry-run: sync data/more s3://bytes/sync-up/ --delete --dry-run
sync-copy: sync s3://bytes/pack-s3/ S3/ --exclude '*.json'
sync-shards: sync out/pack-recordio S3/ --storage-class STANDARD_IA
convert-s3: convert s3://bytes/pack-s3/ OUT --to recordio
pack-from-s3: pack s3://bytes/sync-up/ S3/ --format tfrecord --shards 2
append-s3: shard append data/more s3://bytes/pack-s3/
verify-s3: verify s3://bytes/pack-s3/
verify-s3-download: verify s3://bytes/pack-s3/ --download

sync-delete: sync data/more s3://bytes/sync-up/ --delete
"""

# These are killed with SIGKILL when the first shard has its final name, and run again.
KILLED = """
killed-pack: pack data/photos OUT --format webdataset --target-size 1MB --enlarge --resize 400 \
    --encode png -j 2
killed-shard: shard data/long OUT --shards 200 --to recordio --shuffle
killed-s3: pack data/photos S3/ --format recordio --target-size 1MB --enlarge --resize 400 \
    --encode png -j 2
"""

Record = dict[str, Any]


class Command(NamedTuple):
    """A line of COMMANDS."""

    name: str
    copied: str
    args: str

    @property
    def uses_s3(self) -> bool:
        """Whether it needs the server."""
        return bool(re.search(r"S3/|s3://bytes/", self.args))


def parse(text: str) -> list[Command]:
    """Read the lines of COMMANDS."""
    lines = (re.fullmatch(r"(\S+)(?: \((\S+)\))?: (.*)", line) for line in text.splitlines())
    return [Command(line[1], line[2] or "", line[3]) for line in lines if line]


def write_tar(path: Path, files: Mapping[str, bytes], mode: str = "w") -> None:
    """Write a tar with a fixed time, compressed or not."""
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def write_data(root: Path) -> None:
    """Write the sources of all commands."""
    subprocess.run(
        [sys.executable, "-m", "scripts.demo_images", root / "photos"], check=True, cwd=REPOSITORY
    )
    small = images.image_folder(root / "small", ("cat", "dog", "owl"), 6)
    more = {f"dog/new{i}.jpg": images.jpeg(100 + i) for i in range(5)}
    write_files(root / "more", more | {"cat/same.jpg": small["cat/000.jpg"]})
    shutil.copytree(REPOSITORY / "tests" / "foreign" / "data", root / "foreign")

    with zipfile.ZipFile(root / "small.zip", "w") as archive:
        for i, (path, data) in enumerate(small.items()):
            archive.writestr(zipfile.ZipInfo(f"top/{path}"), data, (0, 8)[i % 2])
    write_tar(root / "small.tar", small)
    write_tar(root / "small.tar.gz", small, "w:gz")
    inner = {}
    for name in ("cat", "dog", "owl"):
        own = {path[4:]: data for path, data in small.items() if path.startswith(name)}
        write_tar(root / "inner.tar", own)
        inner[f"{name}.tar"] = (root / "inner.tar").read_bytes()
    write_tar(root / "tars.tar", inner)
    shard = (root / "foreign" / "wds-cls" / "shard-000000.tar").read_bytes()
    (root / "cut.tar").write_bytes(images.truncated(shard))
    sample = small["owl/000.jpg"]
    long = {
        f"{i:05}.{end}": data
        for i in range(20_000)
        for end, data in (("jpg", sample), ("cls", b"1"))
    }
    (root / "long").mkdir()
    write_tar(root / "long" / "train-000000.tar", long)

    pixels.write_directory(root / "cifar10", pixels.cifar10_python())
    pixels.write_zip(root / "cifar10.zip", "cifar-10-batches-bin", pixels.cifar10_binary())
    pixels.write_archive(root / "cifar100.tar.gz", "cifar-100-python", pixels.cifar100_python())
    pixels.write_directory(root / "mnist", pixels.mnist(suffix=".gz"))

    parts, pairs = {}, {}
    for i, data in enumerate(small.values()):
        parts[f"{i:03}.jpg"] = data
        parts[f"{i:03}.json"] = json.dumps({"label": i % 3, "weight": i / 2}).encode()
        parts[f"{i:03}.txt"] = f"picture {i}".encode()
        pairs[f"img/{i:03}.jpg"] = data
        pairs[f"masks/{i:03}.png"] = images.png(i, mode="L")
    write_files(root / "parts", parts)
    write_files(root / "pairs", pairs)

    write_files(root, annotated_sources() | table_sources())
    halves = {f"{('train', 'val')[at % 2]}/{path}": small[path] for at, path in enumerate(small)}
    write_files(root / "sides", halves | {"val/cat/copy.jpg": small["cat/000.jpg"]})
    rows = [(i, i // 6, path) for i, path in enumerate(small)]
    write_lists(root, rows)
    tables = {
        "labels.csv": ["id,breed", *(f"{path[:-4]},breed {i % 2}" for i, _, path in rows)],
        "tags.csv": ["id,tags", *(f"{path},{('sky', 'sky sea')[i % 2]}" for i, _, path in rows)],
        "map.tsv": ["cat\tpet", "dog\tpet", "owl\tbird"],
        "classes.txt": ["owl", "dog", "cat"],
        "kept.txt": ["owl", "cat"],
        "augmented.manifest": [augmented(f"small/{path}", label) for _, label, path in rows],
    }
    for name, lines in tables.items():
        (root / name).write_text("".join(f"{line}\n" for line in lines))


def write_files(root: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a directory."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def write_lists(root: Path, rows: list[tuple[int, int, str]]) -> None:
    """Write a list, two edits of it that are in conflict, and a list with faults."""
    ours = [row for row in rows if row[0] != 3]
    ours[1] = (1, 2, rows[1][2])
    theirs = [*rows, (18, 1, "dog/new0.jpg")]
    theirs[1], theirs[7] = (1, 1, rows[1][2]), (7, 0, rows[7][2])
    for name, edited in (("lists", rows), ("edited", ours), ("theirs", theirs)):
        text = "".join(f"{i}\t{label}\t{path}\n" for i, label, path in edited)
        write_files(root / name, {"train.lst": text.encode(), "classes.txt": b"cat\ndog\nowl\n"})
    (root / "faults.lst").write_text("0\t0\ta.jpg\n0\tx\tb.jpg\n2\t5\t../c.jpg\nnonsense\n")


def augmented(path: str, label: int) -> str:
    """Return a line of an augmented manifest."""
    metadata = {
        "class-name": ("cat", "dog", "owl")[label],
        "type": "groundtruth/image-classification",
    }
    return json.dumps({"source-ref": path, "class": label, "class-metadata": metadata})


def content(data: bytes) -> str:
    """Return short text as it is, so that differences can be shown, otherwise a digest."""
    try:
        if len(data) <= 16_000 and b"\0" not in data:
            return data.decode()
    except UnicodeDecodeError:
        pass
    return f"sha256 {hashlib.sha256(data).hexdigest()}"


def files_in(root: Path) -> dict[str, str]:
    """Return the contents of all files below a directory, or of a file and those beside it."""
    found = {}
    for path in sorted([*root.rglob("*"), *root.parent.glob(f"{root.name}.*")]):
        name = os.path.relpath(path, root)
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        elif path.is_file():
            found[name] = content(path.read_bytes())
    return found


def without_times(value: Any) -> Any:
    """Remove durations from the JSON that a command printed."""
    if isinstance(value, dict):
        return {key: without_times(value[key]) for key in value if key != "seconds"}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return value


def without_chance(messages: str) -> list[str]:
    """Remove from messages what is different in each run: times, progress, and the order of events.

    A killed run ends where it is, so what its second run has left to do is removed, too.
    """
    text = re.sub(r"[\d.]+ ?m?s\b", "TIME", messages)
    text = re.sub(r"(continues; )[\d,]+( of .*?, )[\d,]+( samples left)", r"\1SOME\2SOME\3", text)
    lines = [line for line in text.splitlines() if not re.search(r"/s, TIME left$", line)]
    events = sorted(line for line in lines if line.startswith('{"event"'))
    return [line for line in lines if not line.startswith('{"event"')] + events


class Runner:
    """Runs commands in a temporary directory, which has a bucket if there is a server."""

    def __init__(self, work: Path, bucket: Bucket | None) -> None:
        self.work = work
        self.bucket = bucket
        (work / "tmp").mkdir()
        self.env = {
            **ENVIRONMENT,
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "HOME": str(work / "tmp"),
            "TMPDIR": str(work / "tmp"),
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "100",
        }
        if bucket:
            self.env["AWS_ENDPOINT_URL"] = bucket.endpoint

    def start(self, command: Command) -> subprocess.Popen[bytes]:
        """Start a command with its files at stdin, stdout and stderr."""
        out = self.work / "out" / command.name
        words = shlex.split(
            command.args.replace("OUT", f"out/{command.name}").replace(
                "S3/", f"s3://{BUCKET}/{command.name}/"
            )
        )
        stdin, stdout = Path(os.devnull), self.work / "tmp" / f"{command.name}.stdout"
        if ">" in words:
            out.mkdir(parents=True, exist_ok=True)
            stdout = self.work / words[-1]
            del words[words.index(">") :]
        elif "--help" not in words:
            words.append("--json")
        if "<" in words:
            at = words.index("<")
            stdin = self.work / words[at + 1]
            del words[at : at + 2]
        stderr = self.work / "tmp" / f"{command.name}.stderr"
        with stdin.open("rb") as i, stdout.open("wb") as o, stderr.open("wb") as e:
            return subprocess.Popen(
                [DSPREP, *words],
                stdin=i,
                stdout=o,
                stderr=e,
                cwd=self.work,
                env=self.env,
                start_new_session=True,
            )

    def run(self, command: Command) -> Record:
        """Run a command to its end and record it."""
        if command.uses_s3 and not self.bucket:
            return {"command": command.args, "skipped": "no server"}
        out = self.work / "out" / command.name
        out.parent.mkdir(exist_ok=True)
        if command.copied:
            shutil.copytree(self.work / command.copied, out)
        return self.recorded(command, self.start(command).wait(timeout=300))

    def run_killed(self, command: Command) -> Record:
        """Kill a command when it has published a shard, run it again, and record the result."""
        if command.uses_s3 and not self.bucket:
            return {"command": command.args, "skipped": "no server"}
        process = self.start(command)
        while process.poll() is None and not self.has_shard(command):
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGKILL)
        first = process.wait()
        done = "manifest.json" in (
            self.objects(command) or files_in(self.work / "out" / command.name)
        )
        record = self.recorded(command, self.start(command).wait(timeout=300))
        return {"first exit code": first, "first was complete": done, **record}

    def has_shard(self, command: Command) -> bool:
        """Return whether a shard has its final name."""
        if command.uses_s3 and self.bucket:
            names = self.bucket.keys(f"{command.name}/train")
        else:
            names = [path.name for path in (self.work / "out" / command.name).glob("train*")]
        return any(name.endswith((".tar", ".rec")) for name in names)

    def recorded(self, command: Command, code: int) -> Record:
        """Record what a command that has ended left behind."""
        record: Record = {"command": command.args, "exit code": code}
        stdout = self.work / "tmp" / f"{command.name}.stdout"
        if stdout.exists():
            text = self.anonymous(stdout.read_text())
            try:
                record["stdout"] = without_times(json.loads(text))
            except ValueError:
                record["stdout"] = text
        stderr = (self.work / "tmp" / f"{command.name}.stderr").read_text()
        record["stderr"] = without_chance(self.anonymous(stderr))
        record["files"] = files_in(self.work / "out" / command.name)
        record["objects"] = self.objects(command)
        return record

    def anonymous(self, text: str) -> str:
        """Replace what is different in each run."""
        if self.bucket:
            text = text.replace(self.bucket.endpoint, "ENDPOINT")
        return text.replace(str(self.work), "WORK")

    def objects(self, command: Command) -> Record:
        """Return the contents and the metadata of the objects that a command wrote or changed."""
        found = re.findall(r"(S3|s3://bytes/[\w-]+)/", command.args)
        if not self.bucket or not found:
            return {}
        prefix = found[-1].replace("S3", f"s3://{BUCKET}/{command.name}").split("/")[3] + "/"
        objects = {}
        for key, data in self.bucket.contents(prefix).items():
            place = {"Bucket": BUCKET, "Key": prefix + key}
            head = self.bucket.s3.head_object(**place, ChecksumMode="ENABLED")
            tags = self.bucket.s3.get_object_tagging(**place)["TagSet"]
            for changing in ("dsprep-mtime", "dsprep-put"):
                head["Metadata"].pop(changing, None)
            objects[key] = {"content": content(data), "tags": tags} | {
                name: value
                for name, value in head.items()
                if name not in ("ResponseMetadata", "LastModified")
            }
        return objects

    def run_all(self) -> dict[str, Record]:
        """Run all commands, two at once."""
        records: dict[str, Record] = {}
        before = files_in(self.work / "data")

        def add(run: Callable[[Command], Record], command: Command) -> None:
            records[command.name] = run(command)

        def add_killed() -> None:
            for command in reversed(parse(KILLED)):
                add(self.run_killed, command)

        # A third thread, because the one that is killed on S3 waits a minute for its lease.
        killed = threading.Thread(target=add_killed)
        killed.start()
        names = (context.command_path.split()[1:] for context in contexts(cli))
        helps = [
            Command("-".join(["help", *words]), "", " ".join([*words, "--help"])) for words in names
        ]
        for stage in [helps, *map(parse, COMMANDS.split("\n\n"))]:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda command: add(self.run, command), stage))
        killed.join()
        after = files_in(self.work / "data")
        changed = [name for name in before.keys() | after if before.get(name) != after.get(name)]
        records["sources"] = {"command": "", "changed": sorted(changed)}
        return dict(sorted(records.items()))


def record_all() -> dict[str, Record]:
    """Run all commands in a new directory, with a server if it is installed."""
    with tempfile.TemporaryDirectory(prefix="dsprep-bytes-") as directory:
        work, server = Path(directory, "work"), Path(directory, "server")
        work.mkdir()
        try:
            bucket = None
            try:
                bucket = Bucket("localstack", start_localstack(server)["http"], BUCKET, ENVIRONMENT)
                bucket.s3.create_bucket(Bucket=BUCKET)
            except AssertionError as error:
                print(f"no S3 server, run scripts/servers.sh: {error}", file=sys.stderr)
            write_data(work / "data")
            for path in (work / "data").rglob("*"):
                os.utime(path, (TIME, TIME))
            return Runner(work, bucket).run_all()
        finally:
            stop(server)


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """List the values of nested JSON with their paths."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from flat(item, f"{path} > {key}" if path else str(key))
    else:
        yield path, value


def differences(old: Record, new: Record) -> Iterator[str]:
    """Describe what differs between two records of a command."""
    before, after = (
        dict(flat({key: record[key] for key in record if key != "command"}))
        for record in (old, new)
    )
    for path in sorted(before.keys() | after.keys()):
        was, now = before.get(path, "missing"), after.get(path, "missing")
        if was == now:
            continue
        if "\n" in str(was) and "\n" in str(now):
            yield f"{path}:"
            lines = difflib.unified_diff(was.splitlines(), now.splitlines(), lineterm="", n=1)
            yield from (f"  {line}" for line in list(lines)[2:])
        else:
            yield f"{path}: {str(was)[:200]!r} -> {str(now)[:200]!r}"


def main() -> None:
    """Record, or compare with a record."""
    parser = argparse.ArgumentParser(description="Record what dsprep writes and prints.")
    parser.add_argument("--against", action="store_true", help="compare with the record FILE")
    parser.add_argument("file", type=Path, metavar="FILE")
    given = parser.parse_args()
    old = json.loads(given.file.read_text()) if given.against else {}
    new = json.loads(json.dumps(record_all()))
    if not given.against:
        given.file.write_text(json.dumps(new, indent=1) + "\n")
        return
    differing = 0
    for name in sorted(old.keys() | new.keys()):
        found = list(differences(old.get(name, {}), new.get(name, {})))
        if found:
            differing += 1
            print(f"{name}: dsprep {new.get(name, old.get(name))['command']}")
            print("".join(f"    {line}\n" for line in found))
    print(f"{differing} of {len(old.keys() | new.keys())} commands differ", file=sys.stderr)
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
