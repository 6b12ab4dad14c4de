"""`dsprep sagemaker --algorithm`: content types and hyperparameters are those of the algorithm."""

from __future__ import annotations

import ast
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dsprep
from dsprep.declared import options_in
from dsprep.errors import OptionError
from dsprep.training.algorithms import ALGORITHMS, PROTOBUF
from dsprep.training.options import SagemakerOptions
from tests.jobs import PREFIX, Job, on_s3


def documented(*modules: str) -> set[str]:
    """The names of hyperparameters that modules of SageMaker's own SDK declare."""
    found = set()
    for module in modules:
        path = Path(sys.prefix) / f"judges/sagemaker/amazon/{module}.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                is_one = node.func.id in ("hp", "Hyperparameter") and node.args
                if is_one and isinstance(node.args[0], ast.Constant):
                    found.add(node.args[0].value)
    return found | {"feature_dim", "mini_batch_size"}  # which the SDK takes from the data


DOCUMENTED = {
    "image-classification": (
        "num_classes num_training_samples augmentation_type beta_1 beta_2 checkpoint_frequency "
        "early_stopping early_stopping_min_epochs early_stopping_patience early_stopping_tolerance "
        "epochs eps gamma image_shape kv_store learning_rate lr_scheduler_factor lr_scheduler_step "
        "mini_batch_size momentum multi_label num_layers optimizer precision_dtype resize top_k "
        "use_pretrained_model use_weighted_loss weight_decay"
    ),
    "object-detection": (
        "num_classes num_training_samples base_network early_stopping early_stopping_min_epochs "
        "early_stopping_patience early_stopping_tolerance image_shape epochs freeze_layer_pattern "
        "kv_store label_width learning_rate lr_scheduler_factor lr_scheduler_step mini_batch_size "
        "momentum nms_threshold optimizer overlap_threshold use_pretrained_model weight_decay"
    ),
    "semantic-segmentation": (
        "backbone use_pretrained_model algorithm num_classes num_training_samples base_size "
        "crop_size early_stopping early_stopping_min_epochs early_stopping_patience "
        "early_stopping_tolerance epochs gamma1 gamma2 learning_rate lr_scheduler mini_batch_size "
        "momentum optimizer syncbn validation_mini_batch_size weight_decay"
    ),
    "xgboost": (
        "num_class num_round alpha base_score booster csv_weights early_stopping_rounds eta "
        "eval_metric gamma lambda max_depth min_child_weight objective seed subsample tree_method"
    ),
    "blazingtext": (
        "mode batch_size buckets early_stopping epochs evaluation learning_rate min_char min_count "
        "max_char min_epochs negative_samples patience sampling_threshold subwords vector_dim "
        "window_size word_ngrams"
    ),
}
"""Names of hyperparameters in the developer guide, where the SDK has no class of an algorithm."""

IN_SDK = {
    "linear-learner": "linear_learner",
    "factorization-machines": "factorization_machines",
    "knn": "knn",
    "kmeans": "kmeans",
    "pca": "pca",
}

REQUIRED = {
    "image-classification": "num_classes num_training_samples",
    "object-detection": "num_classes num_training_samples",
    "semantic-segmentation": "num_classes num_training_samples",
    "linear-learner": "feature_dim predictor_type",
    "factorization-machines": "feature_dim num_factors predictor_type",
    "xgboost": "num_round",
    "knn": "feature_dim k predictor_type sample_size",
    "kmeans": "feature_dim k",
    "pca": "feature_dim mini_batch_size num_components",
    "blazingtext": "mode",
}

CONTENT = {
    "application/x-image": "image-classification object-detection semantic-segmentation",
    "application/x-recordio": "image-classification object-detection semantic-segmentation",
    "application/x-recordio-protobuf": (
        "factorization-machines kmeans knn linear-learner pca xgboost"
    ),
    "application/jsonlines": "blazingtext",
    "text/csv": "kmeans knn linear-learner pca xgboost",
    "text/libsvm": "xgboost",
    "application/x-parquet": "xgboost",
    "text/plain": "blazingtext",
}
"""What algorithms read, as "Common Data Formats for Training" and their own pages say."""


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_table_is_what_is_documented(name: str) -> None:
    algorithm = ALGORITHMS[name]
    assert {*algorithm.required} == {*REQUIRED[name].split()}
    known = (
        documented(IN_SDK[name], "amazon_estimator")
        if name in IN_SDK
        else {*DOCUMENTED[name].split()}
    )
    named = {*algorithm.required, *algorithm.optional, *algorithm.needed}
    others = {needed.other for needed in algorithm.needed.values()}
    assert named | others <= known
    for content in algorithm.content.values():
        plain, _, label_size = content.partition(";")
        assert name in CONTENT[plain].split()
        assert (label_size == "label_size=0") == (plain == "text/csv" and name in ("kmeans", "pca"))
    assert {*algorithm.piped} <= {*algorithm.content}
    assert {*algorithm.replicated} <= {*algorithm.channels}
    assert "train" in algorithm.channels


def test_choices_of_the_option_are_the_table() -> None:
    assert options_in(SagemakerOptions)["algorithm"].choices == tuple(ALGORITHMS)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables as CSV, text and RecordIO-protobuf, dense and sparse."""
    root = tmp_path_factory.mktemp("tables")
    (root / "bare.csv").write_text("".join(f"{n % 3},{n},{n / 2},7\n" for n in range(12)))
    (root / "named.csv").write_text(
        "a,b,c,kind\n" + "".join(f"{n},1,2.5,k{n % 3}\n" for n in range(12))
    )
    with gzip.open(root / "bare.csv.gz", "wt") as file:
        file.write("1,2,3\n0,4,5\n")
    (root / "x.libsvm").write_text("1 0:1 2:3\n")
    (root / "x.txt").write_text("__label__1 a text\n")
    (root / "x.tsv").write_text("1\t2\n")
    sparse, y = random_rows(20, 300)
    sp.save_npz(root / "m.npz", sparse)
    np.save(root / "y.npy", y)
    to = {"to": "recordio-protobuf", "workers": 1}
    dsprep.pack(root / "named.csv", root / "dense", label_field="kind", **to)
    dsprep.pack(root / "m.npz", root / "sparse", labels=root / "y.npy", **to)
    dsprep.pack(root / "named.csv", root / "pq", to="parquet", workers=1)
    return root


def random_rows(rows: int, columns: int) -> tuple[Any, Any]:
    """A sparse matrix and its labels."""
    rng = np.random.default_rng(1)
    dense = (rng.random((rows, columns)) < 0.02).astype("f4")
    return sp.csr_matrix(dense), np.arange(rows) % 2


@pytest.mark.parametrize(
    ("algorithm", "data", "hyper", "content", "told"),
    [
        ("linear-learner", "bare.csv", {}, "text/csv", "feature_dim=3 predictor_type=REPLACE"),
        ("linear-learner", "bare.csv.gz", {}, "text/csv", "feature_dim=2 predictor_type=REPLACE"),
        (
            "linear-learner",
            "dense",
            {"predictor_type": "multiclass_classifier"},
            PROTOBUF,
            "feature_dim=3 predictor_type=multiclass_classifier num_classes=3",
        ),
        (
            "linear-learner",
            "dense",
            {"predictor_type": "regressor", "epochs": 5},
            PROTOBUF,
            "feature_dim=3 predictor_type=regressor epochs=5",
        ),
        (
            "factorization-machines",
            "sparse",
            {"num_factors": 64},
            PROTOBUF,
            "feature_dim=300 num_factors=64 predictor_type=REPLACE",
        ),
        (
            "knn",
            "bare.csv",
            {},
            "text/csv",
            "feature_dim=3 k=REPLACE predictor_type=REPLACE sample_size=REPLACE",
        ),
        ("kmeans", "bare.csv", {"k": 2}, "text/csv;label_size=0", "feature_dim=4 k=2"),
        (
            "pca",
            "bare.csv",
            {"num_components": 2, "mini_batch_size": 4},
            "text/csv;label_size=0",
            "feature_dim=4 mini_batch_size=4 num_components=2",
        ),
        ("xgboost", "bare.csv", {"num_round": 9}, "text/csv", "num_round=9"),
        ("xgboost", "x.libsvm", {}, "text/libsvm", "num_round=REPLACE"),
        ("xgboost", "pq", {}, "application/x-parquet", "num_round=REPLACE"),
        (
            "xgboost",
            "dense",
            {"num_round": 9, "objective": "multi:softmax"},
            PROTOBUF,
            "num_round=9 num_class=3 objective=multi:softmax",
        ),
        ("blazingtext", "x.txt", {"mode": "supervised"}, "text/plain", "mode=supervised"),
        (None, "bare.csv", {}, "text/csv", ""),
        (None, "dense", {"epochs": 3}, PROTOBUF, "epochs=3"),
    ],
)
def test_hyperparameters_and_content_type_of_an_algorithm(
    algorithm: str | None,
    data: str,
    hyper: dict[str, str],
    content: str,
    told: str,
    tables: Path,
    job: Job,
) -> None:
    hyper = {name: str(value) for name, value in hyper.items()}
    found = job(f"train={tables / data}", algorithm=algorithm, hyper=hyper or None)
    assert found["HyperParameters"] == dict(each.split("=") for each in told.split())
    (channel,) = found["InputDataConfig"]
    assert channel["ContentType"] == content
    if algorithm is not None:  # it reads each object of the channel, so these are shards alone
        assert channel["InputMode"] == "File"
        uri = on_s3(channel)["S3Uri"]
        assert uri.endswith("/pq/train-") or Path(uri).suffix


def test_what_a_user_has_to_give(tables: Path) -> None:
    def notes(data: str, algorithm: str, **options: Any) -> list[str]:
        options = {"prefix": PREFIX, "image": "i", "role": "r", "output": PREFIX} | options
        return [*dsprep.sagemaker([f"train={tables / data}"], algorithm=algorithm, **options).notes]

    assert notes("dense", "linear-learner") == [
        "predictor_type is REPLACE in the JSON: give --hyper predictor_type=VALUE",
        "num_classes=3 is left out: it goes with --hyper predictor_type=multiclass_classifier",
    ]
    assert notes("dense", "linear-learner", hyper={"predictor_type": "binary_classifier"}) == []
    (note,) = notes("named.csv", "xgboost", hyper={"num_round": "3"})
    assert note.startswith(f"train: {tables / 'named.csv'} does not begin with a line of numbers")
    (note,) = notes("bare.csv", "kmeans", hyper={"k": "3"}, mode="FastFile")
    assert note == "kmeans is documented for File and Pipe mode, not for FastFile"
    (note,) = notes("bare.csv.gz", "kmeans", hyper={"k": "3"})
    assert "is compressed, and SageMaker decompresses in Pipe mode only" in note
    assert not notes("bare.csv.gz", "kmeans", hyper={"k": "3"}, mode="Pipe")
    (tables / "empty.csv").touch()
    assert notes("empty.csv", "kmeans", hyper={"k": "3"}) == [
        "feature_dim is REPLACE in the JSON: give --hyper feature_dim=VALUE"
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    """Images as shards, folders and manifests, with classes, several labels, and boxes."""
    root = tmp_path_factory.mktemp("made")
    crop = dsprep.Transform(resize=(320, 320), crop=(300, 300), enlarge=True)
    flat = dsprep.Transform(resize=(40, 30), enlarge=True)
    names = [f"{path.relative_to(photos)}" for path in sorted(photos.rglob("*.jpg"))]
    tags = "".join(f"{name},{'a b' if n % 2 else 'd'}\n" for n, name in enumerate(names))
    (root / "tags.csv").write_text(f"id,tags\n{tags}")
    (root / "classes.txt").write_text("a\nb\nc\nd\n")
    boxes = [(name, at) for n, name in enumerate(names) for at in range(1 + n % 3)]
    rows = "".join(f"{name},{at},{at},{at + 9},{at + 9},cat\n" for name, at in boxes)
    (root / "boxes.csv").write_text(f"path,xmin,ymin,xmax,ymax,class\n{rows}")
    boxed = {"annotations": root / "boxes.csv"}
    dsprep.pack(photos, root / "recordio", to="recordio", transform=flat, shards=2, workers=1)
    dsprep.pack(photos, root / "sides", to="recordio", split="train=0.5,val=0.5", workers=1)
    dsprep.pack(photos, root / "boxes", to="recordio", transform=crop, workers=1, **boxed)
    dsprep.convert(
        photos,
        root / "several",
        to="augmented-manifest",
        prefix=f"{PREFIX}/x",
        workers=1,
        labels=root / "tags.csv",
        label_separator=" ",
        classes=root / "classes.txt",
    )
    dsprep.convert(
        photos, root / "boxed", to="augmented-manifest", prefix=f"{PREFIX}/x", workers=1, **boxed
    )
    return root


def test_facts_of_images(made: Path, tmp_path: Path, job: Job) -> None:
    def found(data: str, algorithm: str) -> tuple[dict[str, str], dict[str, Any]]:
        made_job = job(f"train={made / data}", algorithm=algorithm)
        return made_job["HyperParameters"], made_job["InputDataConfig"][0]

    counts = {"num_classes": "3", "num_training_samples": "12"}
    shaped, channel = found("recordio", "image-classification")
    assert shaped == counts | {"image_shape": "3,30,40"}
    assert channel["ContentType"] == "application/x-recordio"
    for data, header in (("boxes", 4), ("boxed.manifest", 2)):
        told, _ = found(data, "object-detection")
        shape = {"image_shape": "300"} if data == "boxes" else {}
        assert told.pop("label_width") == str(header + 3 * 5)  # three objects at most
        assert told == {"num_classes": "1", "num_training_samples": "12"} | shape
    # Without it, image classification takes a list for a flag for each class.
    told, channel = found("several.manifest", "image-classification")
    assert told == {"num_classes": "4", "num_training_samples": "12"}
    assert channel["ContentType"] == "application/x-recordio; label-format=class-id"
    assert job(made / "several.manifest")["InputDataConfig"][0]["ContentType"].endswith("class-id")
    flags = tmp_path / "flags.manifest"
    line = {"source-ref": f"{PREFIX}/a.jpg", "flags": [0, 1, 0, 1, 0]}
    flags.write_text(json.dumps(line) + "\n")
    flagged = job(f"train={flags}", algorithm="image-classification")
    assert flagged["InputDataConfig"][0]["ContentType"] == "application/x-recordio"
    assert flagged["HyperParameters"]["num_classes"] == "5"
    (tmp_path / "gaps.lst").write_text("0\t0\ta.jpg\n1\t6\tb.jpg\n")
    lists = [f"train={made / 'recordio'}", f"train_lst={tmp_path / 'gaps.lst'}"]
    assert job(*lists, algorithm="image-classification")["HyperParameters"] == {
        "num_classes": "7",
        "num_training_samples": "2",
        "image_shape": "3,30,40",
    }
    (tmp_path / "images").mkdir()
    (tmp_path / "images/a.jpg").write_bytes(b"x")
    for algorithm, about in (("image-classification", "lst"), ("object-detection", "annotation")):
        report = dsprep.sagemaker(
            [f"train={tmp_path / 'images'}"], algorithm=algorithm, prefix=PREFIX
        )
        needed = f"train: {algorithm} reads image files with a channel train_{about}; add it"
        assert needed in report.notes


def test_sides_are_channels_of_an_algorithm(made: Path, job: Job) -> None:
    found = job(made / "sides", algorithm="image-classification")
    names = [channel["ChannelName"] for channel in found["InputDataConfig"]]
    assert names == ["train", "validation"]


def test_image_classification_in_pipe_mode_needs_all_data(made: Path, job: Job) -> None:
    options = {"prefix": PREFIX, "sharded": True, "instances": 2, "mode": "Pipe"}
    for algorithm, count in (("image-classification", 1), ("object-detection", 0)):
        notes = dsprep.sagemaker(
            [f"train={made / 'recordio'}"], algorithm=algorithm, **options
        ).notes
        assert sum("FullyReplicated" in note for note in notes) == count


def test_the_channels_of_an_algorithm(made: Path, tables: Path, job: Job) -> None:
    for data, algorithm, options, told in (
        ("lin=bare.csv", "linear-learner", {}, "channel lin: linear-learner has the channels"),
        ("train=bare.csv", "factorization-machines", {}, "is csv, and factorization-machines"),
        ("train=x.tsv", "xgboost", {}, "is tsv, and xgboost reads recordio-protobuf, csv, libsvm"),
        ("train=x.libsvm", "xgboost", {"mode": "Pipe"}, "xgboost reads libsvm"),
        ("train=bare.csv", "blazingtext", {}, "reads txt, augmented-manifest there"),
    ):
        name, place = data.split("=")
        with pytest.raises(OptionError, match=re.escape(told)):
            job(f"{name}={tables / place}", algorithm=algorithm, **options)
    with pytest.raises(OptionError, match="is list, and image-classification reads recordio"):
        (made / "x.lst").write_text("0\t1\ta.jpg\n")
        job(f"train={made / 'x.lst'}", algorithm="image-classification")
    found = job(f"train={tables / 'pq'}", algorithm="xgboost", mode="Pipe")
    assert found["InputDataConfig"][0]["ContentType"] == "application/x-parquet"
    found = job(
        f"train={tables / 'bare.csv'}",
        f"validation={tables / 'bare.csv'}",
        algorithm="linear-learner",
        sharded=True,
        instances=2,
    )
    shares = [on_s3(each)["S3DataDistributionType"] for each in found["InputDataConfig"]]
    assert shares == ["ShardedByS3Key", "FullyReplicated"]
