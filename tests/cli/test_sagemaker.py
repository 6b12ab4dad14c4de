"""`dsprep sagemaker`: what the JSON says is what `verify` finds, and botocore takes it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.errors import OptionError
from dsprep.training.facts import _shape
from tests.conftest import Finished
from tests.here import Here
from tests.images import jpeg
from tests.jobs import PREFIX, Job, on_s3


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    """Data sets in several formats, as folders, lists and manifests."""
    root = tmp_path_factory.mktemp("made")
    for name in ("webdataset", "tfrecord", "recordio", "recordio-protobuf"):
        dsprep.pack(photos, root / name, to=name, shards=3, workers=1)
    crop = dsprep.Transform(resize=40, crop=(32, 24), enlarge=True)
    dsprep.pack(photos, root / "small", to="recordio", transform=crop, shards=2, workers=1)
    dsprep.pack(
        photos, root / "sides", to="tfrecord", split="train=0.5,val=0.5", shards=2, workers=1
    )
    dsprep.convert(photos, root / "images", to="folder", workers=1)
    dsprep.convert(
        photos, root / "sage", to="augmented-manifest", prefix=f"{PREFIX}/sage/", workers=1
    )
    return root


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("webdataset", "application/x-tar"),
        ("tfrecord", "application/x-tfrecord"),
        ("recordio", "application/x-recordio"),
        ("recordio-protobuf", "application/x-recordio-protobuf"),
    ],
)
def test_says_what_verify_finds(made: Path, job: Job, name: str, kind: str) -> None:
    verified = dsprep.verify(made / name, workers=1)
    (classes,) = [field.classes for field in verified.fields if field.role == "label"]
    for mode in ("File", "FastFile", "Pipe"):
        found = job(f"train={made / name}", mode=mode, seed=3)
        assert found["HyperParameters"] == {}
        (channel,) = found["InputDataConfig"]
        assert (channel["ContentType"], channel["InputMode"]) == (kind, mode)
        assert channel["ShuffleConfig"] == {"Seed": 3}
    facts = dsprep.sagemaker([f"train={made / name}"], prefix=PREFIX).channels[0].data
    assert facts is not None
    assert (facts.samples, facts.classes) == (verified.samples, classes)
    assert facts.bytes == verified.bytes
    assert len(facts.files) == verified.shards


def names_sent(channel: dict[str, Any], lists: Any, there: list[str]) -> list[str]:
    """Return which of the objects SageMaker would send, as its API reference says it."""
    source = on_s3(channel)
    if source["S3DataType"] == "ManifestFile":
        first, *names = lists[source["S3Uri"]]
        return [first["prefix"] + name for name in names]
    return [name for name in there if name.startswith(source["S3Uri"])]


@pytest.mark.parametrize("options", [{"mode": "Pipe"}, {"sharded": True, "instances": 2}])
@pytest.mark.parametrize("name", ["webdataset", "tfrecord", "recordio", "recordio-protobuf"])
def test_nothing_but_shards_is_sent(made: Path, name: str, options: dict[str, Any]) -> None:
    """A manifest in a pipe would be taken for samples; an index counts as an object to share."""
    report = dsprep.sagemaker([made / name], prefix=PREFIX, **options)
    there = [f"{PREFIX}/{name}/{each.name}" for each in (made / name).iterdir()]
    sent = names_sent(report.job["InputDataConfig"][0], report.lists, sorted(there))
    shards = json.loads((made / name / "manifest.json").read_text())["shards"]
    assert sent == [f"{PREFIX}/{name}/{each['name']}" for each in shards]


def test_brackets_in_the_name_of_a_directory_are_no_pattern(
    made: Path, tmp_path: Path, job: Job
) -> None:
    shutil.copytree(made / "recordio", tmp_path / "set[1]")
    (channel,) = job(f"train={tmp_path / 'set[1]'}", mode="FastFile")["InputDataConfig"]
    assert on_s3(channel)["S3Uri"] == f"{PREFIX.rstrip('/')}/set[1]/"


def test_sides_are_channels(made: Path, job: Job) -> None:
    found = job(made / "sides")
    assert found["HyperParameters"] == {}
    names = [channel["ChannelName"] for channel in found["InputDataConfig"]]
    assert names == ["train", "val"]
    uris = [on_s3(channel)["S3Uri"] for channel in found["InputDataConfig"]]
    assert uris == [f"{PREFIX}/sides/train-", f"{PREFIX}/sides/val-"]
    report = dsprep.sagemaker([made / "sides"], prefix=PREFIX)
    counted = dsprep.verify(made / "sides", workers=1)
    assert sum(each.data.samples for each in report.channels) == counted.samples


@pytest.mark.parametrize(
    ("transform", "shape"),
    [
        ({"resize": 40, "crop": (32, 24)}, None),  # small images stay small
        ({"resize": 40, "crop": (32, 41), "enlarge": True}, None),
        ({"resize": (40, 30), "enlarge": True}, (40, 30)),
        ({"resize": (40, 30), "crop": (20, 50), "enlarge": True}, (20, 30)),
        ({"resize": 40, "enlarge": True}, None),
    ],
)
def test_a_shape_is_that_of_all_images(transform: Any, shape: tuple[int, int] | None) -> None:
    assert _shape(dsprep.Transform(**transform)) == shape


def test_four_channels_of_image_classification(made: Path, job: Job) -> None:
    data = [f"{name}={made / 'images'}" for name in ("train", "validation")]
    data += [f"{name}_lst={made / 'images.lst'}" for name in ("train", "validation")]
    found = job(*data, algorithm="image-classification")
    assert {each["ContentType"] for each in found["InputDataConfig"]} == {"application/x-image"}
    assert {each["InputMode"] for each in found["InputDataConfig"]} == {"File"}
    assert [on_s3(each)["S3Uri"] for each in found["InputDataConfig"]] == [
        *[f"{PREFIX}/images/"] * 2,
        *[f"{PREFIX}/images.lst"] * 2,
    ]
    stats = dsprep.list_stats(made / "images.lst")
    assert found["HyperParameters"] == {
        "num_training_samples": str(stats.rows),
        "num_classes": str(len(stats.classes)),
    }


def test_annotations_of_object_detection(tmp_path: Path, job: Job) -> None:
    for number in range(3):
        for name, data in (
            (f"train/{number}.jpg", jpeg(number)),
            (
                f"train_annotation/{number}.json",
                json.dumps(
                    {
                        "file": f"{number}.jpg",
                        "image_size": [{"width": 9, "height": 9, "depth": 3}],
                        "annotations": [
                            {"class_id": number, "left": 1, "top": 1, "width": 2, "height": 2}
                        ],
                        "categories": [{"class_id": 4, "name": "dog"}],
                    }
                ).encode(),
            ),
        ):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(data)
    found = job(tmp_path / "train", tmp_path / "train_annotation", algorithm="object-detection")
    assert found["HyperParameters"] == {
        "num_training_samples": "3",
        "num_classes": "5",
        "label_width": "7",
    }
    assert found["AlgorithmSpecification"]["TrainingInputMode"] == "File"
    (tmp_path / "train_annotation/0.json").write_text("[]")
    with pytest.raises(dsprep.SourceError, match="0.json: is neither an annotation"):
        dsprep.sagemaker([tmp_path / "train", tmp_path / "train_annotation"], prefix=PREFIX)


def test_masks_of_semantic_segmentation(tmp_path: Path, job: Job) -> None:
    for name in ("train/a.jpg", "train_annotation/a.png", "train_annotation/b.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "label_map").mkdir()
    (tmp_path / "label_map/train_label_map.json").write_text('{"map": {"0": 0, "9": 6, "10": 255}}')
    data = [tmp_path / name for name in ("train", "train_annotation", "label_map")]
    found = job(*data, algorithm="semantic-segmentation")
    assert [each["ContentType"] for each in found["InputDataConfig"]] == [
        "application/x-image",
        "image/png",
        "application/json",
    ]
    assert found["HyperParameters"] == {"num_training_samples": "2", "num_classes": "7"}


def test_augmented_manifests(made: Path, tmp_path: Path, job: Job) -> None:
    found = job(f"train={made / 'sage.manifest'}", algorithm="image-classification")
    (channel,) = found["InputDataConfig"]
    assert on_s3(channel)["AttributeNames"] == ["source-ref", "class"]
    assert (channel["RecordWrapperType"], channel["InputMode"]) == ("RecordIO", "Pipe")
    assert found["HyperParameters"] == {"num_training_samples": "12", "num_classes": "3"}
    (tmp_path / "empty.manifest").write_text("")
    with pytest.raises(dsprep.SourceError, match=r"empty.manifest: names no files"):
        dsprep.sagemaker([f"train={tmp_path}/empty.manifest"], prefix=PREFIX)
    with pytest.raises(OptionError, match="read in Pipe mode"):
        dsprep.sagemaker([made / "sage.manifest"], prefix=PREFIX, mode="File")


def test_a_pipe_decompresses_and_has_no_parquet(photos: Path, tmp_path: Path, job: Job) -> None:
    dsprep.pack(photos, tmp_path / "gz", to="tfrecord", compression="gzip", workers=1)
    for mode, compression in (("Pipe", "Gzip"), ("File", "None")):
        (channel,) = job(tmp_path / "gz", mode=mode)["InputDataConfig"]
        assert channel["CompressionType"] == compression
    dsprep.pack(photos, tmp_path / "pq", to="parquet", workers=1)
    assert job(tmp_path / "pq")["InputDataConfig"][0]["ContentType"] == "application/x-parquet"
    with pytest.raises(OptionError, match="parquet cannot be read from a pipe"):
        job(tmp_path / "pq", mode="Pipe")
    with pytest.raises(OptionError, match="parquet cannot be read from a pipe"):
        dsprep.serve(tmp_path / "pq", write=bytes)


def test_a_tree_by_its_manifest(made: Path, job: Job) -> None:
    by_name = job(f"train={made / 'images'}", mode="Pipe")
    assert job(f"train={made / 'images.manifest.json'}", mode="Pipe") == by_name


def test_says_that_an_instance_gets_nothing(made: Path) -> None:
    report = dsprep.sagemaker([made / "tfrecord"], prefix=PREFIX, sharded=True, instances=4)
    assert "tfrecord: 3 files for 4 instances; some get none" in report.notes


def test_file_systems(tmp_path: Path, job: Job) -> None:
    """Nobody looks at their data: the algorithm and the names of channels tell what it is."""
    data = [
        "train=efs://fs-0123456789abcdef0/birds/train",
        "val=fsx://fs-0123456789abcdef0/mnt/val",
    ]
    found = job(*data, seed=3)
    sources = [each["DataSource"]["FileSystemDataSource"] for each in found["InputDataConfig"]]
    assert [(each["FileSystemType"], each["DirectoryPath"]) for each in sources] == [
        ("EFS", "/birds/train"),
        ("FSxLustre", "/mnt/val"),
    ]
    vpc = {"SecurityGroupIds": ["sg-REPLACE"], "Subnets": ["subnet-REPLACE"]}
    assert found["VpcConfig"] == vpc
    (note,) = [note for note in dsprep.sagemaker(data).notes if "VpcConfig" in note]
    assert "give --vpc subnet-" in note
    network = ["subnet-1", "sg-2", "subnet-3"]
    told = {"SecurityGroupIds": ["sg-2"], "Subnets": ["subnet-1", "subnet-3"]}
    assert job(*data, vpc=network)["VpcConfig"] == told
    place = "efs://fs-0123456789abcdef0/x"
    for algorithm, names, types in (
        ("image-classification", "train train_lst", ["application/x-image"] * 2),
        ("image-classification", "train", ["application/x-recordio"]),
        ("object-detection", "train train_annotation", ["application/x-image"] * 2),
        (
            "semantic-segmentation",
            "train train_annotation label_map",
            ["application/x-image", "image/png", "application/json"],
        ),
        ("factorization-machines", "train", ["application/x-recordio-protobuf"]),
        ("blazingtext", "train", ["text/plain"]),
        ("linear-learner", "train", [None]),
        (None, "train", [None]),
    ):
        named = [f"{name}={place}" for name in names.split()]
        channels = job(*named, algorithm=algorithm)["InputDataConfig"]
        assert [each.get("ContentType") for each in channels] == types
        notes = dsprep.sagemaker(named, algorithm=algorithm).notes
        assert any("add the ContentType" in note for note in notes) == (types == [None])
    (tmp_path / "classes.txt").write_text("a\nb\nc\n")
    options = {"algorithm": "image-classification", "class_names": tmp_path / "classes.txt"}
    found = job(f"train={place}", f"train_lst={place}", **options)
    assert found["HyperParameters"] == {"num_classes": "3", "num_training_samples": "REPLACE"}
    with pytest.raises(OptionError, match="write it as efs://"):
        dsprep.sagemaker(["train=efs://x"])
    with pytest.raises(OptionError, match="--vpc x: is neither a subnet"):
        dsprep.sagemaker(data, vpc=["sg-1", "x"])
    with pytest.raises(OptionError, match="--vpc sg-1: give subnets and security groups"):
        dsprep.sagemaker(data, vpc=["sg-1"])
    with pytest.raises(OptionError, match="num_classes; give --algorithm NAME"):
        dsprep.sagemaker(data, class_names=tmp_path / "classes.txt")


def test_only_training_channels_are_shuffled(made: Path, job: Job) -> None:
    names = ("train", "train_lst", "rare", "validation", "test")
    lst = made / "images.lst"
    data = [f"{name}={lst if name == 'train_lst' else made / 'recordio'}" for name in names]
    channels = job(*data, seed=0)["InputDataConfig"]
    shuffled = [each["ChannelName"] for each in channels if "ShuffleConfig" in each]
    assert shuffled == ["train", "rare"]


def test_a_volume_holds_what_is_downloaded(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for number in range(5):
        with (tmp_path / f"train/{number}.bin").open("wb") as file:
            file.truncate(7 << 30)  # of holes: it takes no room
    sizes = {}
    for mode, sharded in (("File", False), ("File", True), ("FastFile", False)):
        options = {"mode": mode, "sharded": sharded, "instances": 2}
        job = dsprep.sagemaker([tmp_path / "train"], prefix=PREFIX, **options).job
        sizes[mode, sharded] = job["ResourceConfig"]["VolumeSizeInGB"]
    assert sizes == {("File", False): 45, ("File", True): 31, ("FastFile", False): 10}


def test_lists_are_written(made: Path, tmp_path: Path) -> None:
    report = dsprep.sagemaker(
        [f"train={made / 'recordio'}"], prefix=PREFIX, mode="Pipe", lists=tmp_path / "lists"
    )
    source = on_s3(report.job["InputDataConfig"][0])
    assert source["S3Uri"] == f"{PREFIX}/train.list"
    first, *names = json.loads((tmp_path / "lists/train.list").read_text())
    assert first == {"prefix": f"{PREFIX}/recordio/"}
    assert all((made / "recordio" / name).exists() for name in names)


def test_lists_that_no_channel_needs_are_a_note(made: Path, tmp_path: Path) -> None:
    where = tmp_path / "lists"
    report = dsprep.sagemaker([made / "tfrecord"], prefix=PREFIX, lists=where)
    assert f"--lists {where}: no channel needs a list, so none is written" in report.notes
    assert not where.exists()


def test_refused(made: Path) -> None:
    for data, told in (
        (
            [made / "tfrecord", *(f"c{n}=efs://fs-01/x" for n in range(20))],
            "21 channels: a training job has at most 20",
        ),
        ([made / "tfrecord", made / "tfrecord"], "channel tfrecord: is named twice"),
        ([f"val_lst={made / 'images.lst'}"], "channel val_lst: goes with a channel val"),
    ):
        with pytest.raises(OptionError, match=re.escape(told)):
            dsprep.sagemaker(data, prefix=PREFIX)
    with pytest.raises(OptionError, match="no channel needs it"):
        dsprep.sagemaker([made / "tfrecord"], prefix=PREFIX, attributes=["x"])
    with pytest.raises(OptionError, match="--seed is for training jobs"):
        dsprep.sagemaker([PREFIX], seed=3, output=PREFIX, command=["pack"])
    with pytest.raises(OptionError, match="has no side test, but 'train', 'val'"):
        dsprep.sagemaker([f"test={made / 'sides'}"], prefix=PREFIX)
    with pytest.raises(OptionError, match="'out' is not a place on S3"):
        dsprep.sagemaker([PREFIX], output="out", command=["pack"])
    with pytest.raises(OptionError, match="a processing job needs --output"):
        dsprep.sagemaker([PREFIX], command=["pack"])
    with pytest.raises(OptionError, match="gives each instance its part"):
        dsprep.sagemaker([PREFIX], output=PREFIX, command=["pack", "--part", "0/2"])
    with pytest.raises(OptionError, match="--attributes klass: .* has the attributes 'source-ref'"):
        dsprep.sagemaker([made / "sage.manifest"], prefix=PREFIX, attributes=["klass"])
    with pytest.raises(OptionError, match="cannot be written to S3"):
        dsprep.sagemaker([made / "recordio"], prefix=PREFIX, mode="Pipe", lists=PREFIX)
    with pytest.raises(OptionError, match="give --prefix"):
        dsprep.sagemaker([made / "tfrecord"])


def test_prints_json_and_says_what_is_missing(
    made: Path, run_here: Callable[..., Finished]
) -> None:
    done = run_here("sagemaker", f"train={made / 'tfrecord'}", "--prefix", PREFIX, "--role", "x")
    assert done.code == 0
    assert json.loads(done.out)["InputDataConfig"][0]["ChannelName"] == "train"
    assert "train: 12 samples, 3 classes, 3 files" in done.err
    assert "replace image in the JSON" in done.err
    assert "role" not in done.err


# Processing jobs


def test_a_processing_job_in_parts(job: Job) -> None:
    options = {"output": f"{PREFIX}/shards", "instances": 4}
    found = job(f"{PREFIX}/photos", command=("pack", "--to", "webdataset"), **options)
    assert found["AppSpecification"]["ContainerArguments"] == [
        *("pack", f"{PREFIX}/photos", f"{PREFIX}/shards", "--to", "webdataset", "--part", "auto")
    ]
    assert "ProcessingInputs" not in found
    found = job(PREFIX, command=["pack"], vpc=["subnet-1", "sg-2"], **options)
    assert found["NetworkConfig"]["VpcConfig"]["Subnets"] == ["subnet-1"]


def test_a_processing_job_whose_instances_see_different_files(job: Job, no_listing: None) -> None:
    options = {"output": f"{PREFIX}/shards", "instances": 4, "sharded": True}
    found = job(f"{PREFIX}/photos", command=("pack", "--to", "webdataset"), **options)
    source = found["ProcessingInputs"][0]["S3Input"]
    assert source["S3DataDistributionType"] == "ShardedByS3Key"


@pytest.fixture
def no_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the data on S3 for empty."""
    monkeypatch.setattr("dsprep.training.processing.facts_of", lambda place: [])


Files = dict[str, dict[str, str]]
"""The files of commands, by the word that names them; their contents, by name below that."""


def xml(number: int) -> str:
    """A box of Pascal VOC."""
    sides = "".join(f"<{side}>{5 + at}</{side}>" for at, side in enumerate(SIDES))
    return (
        f"<annotation><filename>{number}.jpg</filename><size><width>40</width><height>30</height>"
        f"<depth>3</depth></size><object><name>cat</name><bndbox>{sides}</bndbox></object>"
        "</annotation>"
    )


SIDES = ("xmin", "ymin", "xmax", "ymax")

FILES: Files = {
    "classes.txt": {"": "birds\ncat\ndog\n"},
    "labels.csv": {"": "path,label\n0.jpg,cat\n1.jpg,dog\n"},
    "more/labels.csv": {"": "path,label\n0.jpg,dog\n1.jpg,dog\n"},
    "boxes": {f"{n}.xml": xml(n) for n in range(2)},
}


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (
            "pack --to webdataset --augment hflip --per-image 1 --labels labels.csv --classes "
            "classes.txt",
            ["labels", "classes"],
        ),
        (
            "augment --to=tfrecord --op hflip --per-image 1 --annotations=boxes --labels "
            "more/labels.csv",
            ["annotations", "labels"],
        ),
        ("convert --to folder --labels labels.csv --classes classes.txt", ["labels", "classes"]),
        ("shard --to recordio --shards 2 --labels labels.csv", ["labels"]),
    ],
)
def test_a_job_brings_the_files_that_its_command_names(
    words: str,
    needed: list[str],
    sharded: bool,
    job: Job,
    tmp_path: Path,
    run_here: Here,
    monkeypatch: pytest.MonkeyPatch,
    command: Path,
) -> None:
    """The command of the job, run where all inputs are brought and nothing else is."""
    here, prefix = tmp_path / "here", "s3://bucket/in"
    for place, files in FILES.items():
        for name, text in files.items():
            (here / place / name).parent.mkdir(parents=True, exist_ok=True)
            (here / place / name).write_text(text)
    for number in range(2):
        (here / f"photos/{number}.jpg").parent.mkdir(exist_ok=True)
        (here / f"photos/{number}.jpg").write_bytes(jpeg(number, size=(40, 30)))
    monkeypatch.chdir(here)
    found = job(
        "photos",
        prefix=prefix,
        command=words.split(),
        output="s3://bucket/out/made",
        sharded=sharded,
    )
    inputs = {each["InputName"]: each["S3Input"] for each in found.get("ProcessingInputs", ())}
    assert list(inputs) == ["input"] * sharded + needed
    ml = tmp_path / "ml"
    for each in inputs.values():
        assert each["S3DataDistributionType"] == (
            "ShardedByS3Key" if each is inputs.get("input") else "FullyReplicated"
        )
        bring(here, each["S3Uri"].removeprefix(prefix), ml / each["LocalPath"][len("/opt/ml/") :])
    here.rename(tmp_path / "elsewhere")  # nothing but the inputs is there
    app = found["AppSpecification"]
    arguments = [each.replace("/opt/ml", str(ml)) for each in app["ContainerArguments"]]
    if sharded:
        (ml / "config").mkdir()
        (ml / "config/resourceconfig.json").write_text('{"current_host": "algo-2", "hosts": []}')
        (ml / "processing/output").mkdir()
        line = [each.replace("/opt/ml", str(ml)) for each in app["ContainerEntrypoint"]]
        path = f"{command.parent}:{os.environ['PATH']}"
        subprocess.run([*line, *arguments, "-qj1"], env={**os.environ, "PATH": path}, check=True)
        made = ml / "processing/output/algo-2"
    else:
        arguments[1:3] = [str(tmp_path / "elsewhere/photos"), str(ml / "made")]
        done = run_here(*arguments, "-qj1", cwd=ml)
        assert done.code == 0, done.err
        made = ml / "made"
    manifest = made / "manifest.json"
    if not manifest.exists():
        manifest = made.with_name(f"{made.name}.manifest.json")
    values = json.loads(manifest.read_text())
    assert values["samples"] == (4 if "hflip" in words else 2)
    if "classes" in needed:
        assert values["classes"] == ["birds", "cat", "dog"]
    names = {shard["name"].startswith("train-algo-2") for shard in values["shards"]}
    assert "folder" in words or names == {sharded}


def bring(here: Path, key: str, path: Path) -> None:
    """Copy the objects of a prefix to a directory, as SageMaker does."""
    for file in [each for each in here.rglob("*") if each.is_file()]:
        for root in (here, file.parent):  # a file is uploaded by its own name
            name = f"/{file.relative_to(root)}"
            if name.startswith(key) and (root == here or name == key):
                target = path / name[key.rfind("/") + 1 :]
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)


def test_all_instances_write_one_folder_on_s3(job: Job, no_listing: None) -> None:
    to, made = ("--to", "folder"), "s3://bucket/out/made"
    found = job(PREFIX, command=("convert", *to), output=made, instances=2)
    arguments = found["AppSpecification"]["ContainerArguments"]
    assert arguments == ["convert", PREFIX, made, *to, "--part", "auto"]
    assert "ProcessingOutputConfig" not in found
    with pytest.raises(OptionError, match="--output s3://bucket/: give s3://BUCKET/PATH"):
        job(PREFIX, command=("convert", *to), output="s3://bucket/")


def test_files_of_a_command_that_a_job_cannot_have(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/c.txt", "b/c.txt", *(f"{n}.json" for n in range(11))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    many = [word for n in range(11) for word in ("--annotations", f"{n}.json")]
    for words, options, told in (
        (["--classes", "a/c.txt"], {"prefix": None}, "a/c.txt: give --prefix"),
        (["--classes", "d.txt"], {}, "--classes d.txt: does not exist"),
        (["--schema-out=s"], {}, "--schema-out s: is lost when the job ends"),
        (["--classes", "a/c.txt", "--mask-classes", "b/c.txt"], {}, "b/c.txt: would be s3://"),
        (many, {}, "11 inputs: a processing job has at most 10"),
        (["--rename", "a=b"] * 50, {"prefix": None}, "103 words: a job's command has at most 100"),
        (["--filter", "x" * 300], {"prefix": None}, "has 300 characters"),
        ([], {}, "--prefix has no effect: all files are on S3"),
    ):
        with pytest.raises(OptionError if "exist" not in told else dsprep.SourceError) as error:
            dsprep.sagemaker(
                [PREFIX], command=["pack", *words], output=PREFIX, **{"prefix": PREFIX} | options
            )
        assert told in str(error.value)
    found = job(
        PREFIX,
        prefix=PREFIX,
        output=PREFIX,
        command=[
            "pack",
            "--list",
            "*.json",
            "--classes",
            "a/c.txt",
            "--keep-classes",
            "a/c.txt",
            "--schema",
            "s3://bucket/s.json",
            "--annotations",
            "1.json",
            "--annotations",
            "2.json",
        ],
    )
    inputs = {each["InputName"]: each["S3Input"]["S3Uri"] for each in found["ProcessingInputs"]}
    assert inputs == {
        "list": f"{PREFIX}/{tmp_path.name}/",
        "classes": f"{PREFIX}/c.txt",
        "annotations": f"{PREFIX}/1.json",
        "annotations-2": f"{PREFIX}/2.json",
    }
    place = "/opt/ml/processing"
    assert found["AppSpecification"]["ContainerArguments"][3:] == [
        *("--list", f"{place}/list/*.json", "--classes", f"{place}/classes/c.txt"),
        *("--keep-classes", f"{place}/classes/c.txt", "--schema", "s3://bucket/s.json"),
        *("--annotations", f"{place}/annotations/1.json"),
        *("--annotations", f"{place}/annotations-2/2.json"),
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("pack --too webdataset", "No such option '--too'"),
        ("pack more --to webdataset", "DATA is SOURCE, and --output is DEST"),
        ("shard append", "DATA is SOURCE, and --output is DEST"),
        ("pack --labels l.csv --label-regex x", "--label-regex"),
        ("verify", "choose pack, convert, shard, augment as the command"),
    ],
)
def test_a_command_that_dsprep_would_refuse(words: str, told: str, run_here: Here) -> None:
    """A job would end at once, after its instances have been started."""
    done = run_here("sagemaker", PREFIX, "--output", PREFIX, "--", *words.split())
    assert (done.code, done.out) == (2, "")
    assert told in done.err
