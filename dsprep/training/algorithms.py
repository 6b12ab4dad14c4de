"""SageMaker's built-in algorithms: what each of them reads, and what it has to be told.

The tables are what AWS documents: the pages "Common Data Formats for Training", and "Input/Output
Interface" and "Hyperparameters" of each algorithm, in the developer guide (sources of 2021 to 2023:
``doc_source`` of awsdocs/amazon-sagemaker-developer-guide). XGBoost's are in the sources of its
container, ``data_utils.py`` and ``hyperparameter_validation.py`` of
aws/sagemaker-xgboost-container at 054c09c.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from dsprep.errors import OptionError
from dsprep.training.channels import CONTENT_TYPES
from dsprep.training.facts import DataFacts
from dsprep.training.jobs import CPU, GPU
from dsprep.tuples import NamedTuple

IMAGE = "application/x-image"
RECORDIO = "application/x-recordio"
PROTOBUF = "application/x-recordio-protobuf"

_NO_SHARDS = ("files", "list", "augmented-manifest")
_PNG, _JSON = "image/png", "application/json"

ABOUT = ("_lst", "_annotation")
"""The ends of the names of channels that tell of the images of another channel."""

MAP = "label_map"
"""The channel that tells what the values of masks mean."""

UNKNOWN = "REPLACE"
"""The placeholder of a hyperparameter that only the user knows."""

_TRAINING = ("train", "validation")
_HOLDOUT = ("train", "validation", "test")
_TABLES = {"recordio-protobuf": PROTOBUF, "csv": "text/csv"}
_UNSUPERVISED = _TABLES | {"csv": "text/csv;label_size=0"}
_IMAGES = {"recordio": RECORDIO, "files": IMAGE, "list": IMAGE, "augmented-manifest": RECORDIO}
_COUNTS = {"num_classes": "classes", "num_training_samples": "samples"}


class Needed(NamedTuple):
    """A hyperparameter that is needed, and allowed, for some values of another one only."""

    fact: str  # which fact of the data its value is
    other: str  # the other hyperparameter
    start: str  # what its value begins with then

    @property
    def example(self) -> str:
        """A value of the other hyperparameter, with an ellipsis where it goes on."""
        return f"{self.start}…" if self.start.endswith(":") else self.start


class Algorithm(NamedTuple):
    """What a built-in algorithm reads, and which of its hyperparameters data or users have to tell.

    Facts of the data are ``samples``, ``classes``, ``features``, ``shape``, ``side`` and
    ``label_width``. An empty name of a fact stands for what only the user knows.
    """

    channels: Sequence[str]
    content: Mapping[str, str]  # `ContentType`, by the format of the data
    piped: Sequence[str]  # the formats that it reads in Pipe mode; File mode is for all others, too
    required: Mapping[str, str]  # names of facts, by hyperparameter
    optional: Mapping[str, str] = {}
    needed: Mapping[str, Needed] = {}
    replicated: Sequence[str] = ()  # the channels that each instance has to get whole
    instance: str = CPU  # a type of instances that it runs on


ALGORITHMS = {
    "image-classification": Algorithm(
        channels=(*_TRAINING, "train_lst", "validation_lst"),
        content=_IMAGES,
        piped=("recordio", "augmented-manifest"),
        required=_COUNTS,
        optional={"image_shape": "shape"},
        instance=GPU,
    ),
    "object-detection": Algorithm(
        channels=(*_TRAINING, "train_annotation", "validation_annotation"),
        content=_IMAGES,
        piped=("recordio", "augmented-manifest"),
        required=_COUNTS,
        optional={"image_shape": "side", "label_width": "label_width"},
        instance=GPU,
    ),
    "semantic-segmentation": Algorithm(
        channels=(*_TRAINING, "train_annotation", "validation_annotation", "label_map"),
        content={"files": IMAGE, "augmented-manifest": RECORDIO},
        piped=("augmented-manifest",),
        required=_COUNTS,
        instance=GPU,
    ),
    "linear-learner": Algorithm(
        channels=_HOLDOUT,
        content=_TABLES,
        piped=("recordio-protobuf", "csv"),
        required={"feature_dim": "features", "predictor_type": ""},
        needed={"num_classes": Needed("classes", "predictor_type", "multiclass_classifier")},
        replicated=("validation",),
    ),
    "factorization-machines": Algorithm(
        channels=("train", "test"),
        content={"recordio-protobuf": PROTOBUF},
        piped=("recordio-protobuf",),
        required={"feature_dim": "features", "num_factors": "", "predictor_type": ""},
    ),
    "xgboost": Algorithm(
        channels=_TRAINING,
        content=_TABLES | {"libsvm": "text/libsvm", "parquet": "application/x-parquet"},
        piped=("recordio-protobuf", "csv", "parquet"),
        required={"num_round": ""},
        needed={"num_class": Needed("classes", "objective", "multi:")},
    ),
    "knn": Algorithm(
        channels=("train", "test"),
        content=_TABLES,
        piped=("recordio-protobuf", "csv"),
        required={"feature_dim": "features", "k": "", "predictor_type": "", "sample_size": ""},
    ),
    "kmeans": Algorithm(
        channels=("train", "test"),
        content=_UNSUPERVISED,
        piped=("recordio-protobuf", "csv"),
        required={"feature_dim": "features", "k": ""},
    ),
    "pca": Algorithm(
        channels=("train", "test"),
        content=_UNSUPERVISED,
        piped=("recordio-protobuf", "csv"),
        required={"feature_dim": "features", "num_components": "", "mini_batch_size": ""},
    ),
    "blazingtext": Algorithm(
        channels=_TRAINING,
        content={"txt": "text/plain", "augmented-manifest": "application/jsonlines"},
        piped=("augmented-manifest",),
        required={"mode": ""},
        replicated=_TRAINING,
    ),
}
"""The algorithms that ``--algorithm`` names."""


def hyperparameters(
    algorithm: Algorithm, given: Mapping[str, str], fact: Callable[[str], str | None]
) -> dict[str, str]:
    """Return the hyperparameters of a job: what the user gave, and what the data tells.

    Those that an algorithm ends without, and nobody has told, begin with :data:`UNKNOWN`.
    """
    found: dict[str, str] = {}
    for name, source in algorithm.required.items():
        found[name] = given.get(name) or (source and fact(source)) or UNKNOWN
    for name, needed in algorithm.needed.items():
        if given.get(needed.other, "").startswith(needed.start):
            found[name] = fact(needed.fact) or UNKNOWN
    for name, source in algorithm.optional.items():
        if value := fact(source):
            found[name] = value
    return {**found, **given}


def content_type(name: str | None, channel: str, data: DataFacts, mode: str) -> str | None:
    """Return what a channel says of its data; None if neither algorithm nor data tells."""
    content = (ALGORITHMS[name].content if name else CONTENT_TYPES)[data.format]
    if data.format == "files" and mode != "Pipe":
        if channel == MAP:
            return _JSON
        if channel.endswith("_annotation") and data.files[0][0].endswith(".png"):
            return _PNG
        return IMAGE if data.samples else None
    # Image classification takes lists for a flag for each class otherwise.
    if data.lists_classes and name in (None, "image-classification"):
        return f"{content}; label-format=class-id"
    return content


def content_unseen(name: str | None, channel: str, channels: Collection[str]) -> str | None:
    """Return what a channel says of data that is not looked at; None if that may be several things.

    ``channels`` are the names of all channels of the job.
    """
    if channel == MAP:
        return _JSON
    if channel.endswith("_annotation") and name is not None:
        return _PNG if name == "semantic-segmentation" else IMAGE
    if channel.endswith("_lst") or any(channel + end in channels for end in ABOUT):
        return IMAGE
    content = ALGORITHMS[name].content if name else {}
    shards = {each for format, each in content.items() if format not in _NO_SHARDS}
    if not shards:
        return IMAGE if name else None
    return shards.pop() if len(shards) == 1 else None


def require_channel(name: str, channel: str, data: DataFacts, mode: str) -> None:
    """Refuse a channel that an algorithm does not have or cannot read."""
    algorithm, format = ALGORITHMS[name], data.format
    if channel not in algorithm.channels:
        raise OptionError(
            f"channel {channel}: {name} has the channels {', '.join(algorithm.channels)}; write "
            f"CHANNEL={data.place}"
        )
    if format not in algorithm.content or (format == "list") != channel.endswith("_lst"):
        known = [each for each in algorithm.content if (each == "list") == channel.endswith("_lst")]
        raise OptionError(
            f"channel {channel}: {data.place} is {format}, and {name} reads {', '.join(known)} "
            "there; convert it"
        )
    if mode == "Pipe" and format not in algorithm.piped:
        raise OptionError(
            f"--mode Pipe: {name} reads {format} ({data.place}) in File mode only; leave it out"
        )
