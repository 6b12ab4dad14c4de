"""There and back again, byte for byte, through the command."""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

from tests.attack.trees import contents
from tests.conftest import Finished
from tests.images import jpeg, png
from tests.matrix.sources import Samples, add_member

RunHere = Callable[..., Finished]
Convert = Callable[..., Path]

SIZE = (16, 12)
MAGIC = struct.pack("<I", 0xCED7230A)


@pytest.fixture
def convert(run_here: RunHere, tmp_path: Path) -> Convert:
    """`convert SOURCE… --to FORMAT`, which loses nothing; returns the destination."""
    count = 0

    def convert(*args: object, to: str) -> Path:
        nonlocal count
        count += 1
        dest = tmp_path / "converted" / f"{count}" / to
        assert run_here("convert", *args, dest, "--to", to, "-q", "-j1") == (0, "", "")
        return dest

    return convert


def shards(dest: Path) -> dict[str, bytes]:
    """The shards and what stands beside each, but not what tells how they were made."""
    return {
        name: data
        for name, data in contents(dest).items()
        if name.startswith("train") and not name.endswith("train.json")
    }


KEYS = (
    "plain",
    "a b/c  d ",
    "\u306d\u3053/\u00e9",
    "v1.2/x",
    "d" * 90 + "/" + "e" * 90,
    "f" * 130 + "/" + "\u304e" * 60,
)


def members_of(data: bytes) -> list[tuple[str, bytes]]:
    found = []
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            found.append((member.name, file.read()))
    return found


def write_tars(root: Path) -> Path:
    """Two shards with PAX headers as tarfile writes them, each sample once in each."""
    root.mkdir()
    for shard in range(2):
        with tarfile.open(root / f"train-{shard:06d}.tar", "w", format=tarfile.PAX_FORMAT) as tar:
            for number, key in enumerate(KEYS):
                members = {
                    "jpg": jpeg(number, SIZE),
                    "cls": b"%d" % number,
                    "json": b'{"a": [%d, {"b": null}]}' % number,
                    "mask.png": png(number, SIZE),
                    "txt": "a caption, \u306d\n".encode() * number,
                    "npy": MAGIC * number,
                }
                for name, data in members.items():
                    if number or name != "npy":
                        add_member(tar, f"{key}{shard}.{name}", data)
    return root


def all_members(dest: Path) -> dict[str, list[tuple[str, bytes]]]:
    """The members of all shards, in no order."""
    return {name: sorted(members_of(data)) for name, data in shards(dest).items()}


@pytest.mark.parametrize(
    "through",
    [
        ["webdataset", "--drop", "label"],
        ["tfrecord"],
        ["tfrecord", "--compression", "gzip"],
        ["recordio-protobuf"],
        ["parquet", "--drop", "json"],
    ],
    ids=str,
)
def test_webdataset_comes_back_with_all_members(
    convert: Convert, tmp_path: Path, through: list[str]
) -> None:
    to, *options = through
    tars = write_tars(tmp_path / "tars")
    there = convert(tars, *options, to=to)
    back = convert(there, to="webdataset")
    dropped = {"label": (".cls",), "json": (".json",)}.get(options[-1] if options else "", ())
    assert all_members(back) == {
        shard: [each for each in members if not each[0].endswith(dropped or "/")]
        for shard, members in all_members(tars).items()
    }
    again = convert(back, *(() if dropped else options), to=to)
    assert shards(again) == shards(there)


LABELS = {
    "class": [0.0, 7.0, 2.0],
    "large": [16777216.0, -1.0, 0.0],
    "fraction": [0.5, 0.1, -1e-40],
    "several": [[1.0, 0.0, -2.5], [0.0, 1e6, 0.125], [3.0, 2.0, 1.0]],
}


class TestRecordIO:
    @pytest.mark.parametrize(
        ("labels", "through"),
        [
            *product(LABELS, ["webdataset"]),
            *product(("class",), ["tfrecord", "parquet", "recordio-protobuf"]),
        ],
    )
    def test_of_mxnet_comes_back(
        self, convert: Convert, mxnet: ModuleType, tmp_path: Path, labels: str, through: str
    ) -> None:
        recordio = mxnet.recordio
        root = tmp_path / "rec"
        root.mkdir()
        for shard in range(2):
            stem = root / f"train{shard}"
            writer = recordio.MXIndexedRecordIO(f"{stem}.idx", f"{stem}.rec", "w")
            lines = []
            for number, label in enumerate(LABELS[labels]):
                id = number + 3 * shard
                writer.write_idx(
                    id, recordio.pack(recordio.IRHeader(0, label, id, 0), jpeg(number, SIZE))
                )
                texts = [f"{each:.6f}" for each in (label if isinstance(label, list) else [label])]
                lines.append("\t".join([str(id), *texts, f"cat {shard}/{number}.jpg"]) + "\n")
            writer.close()
            stem.with_suffix(".lst").write_text("".join(lines))
        there = convert(root, to=through)
        back = convert(there, to="recordio")
        theirs = contents(root)
        ours = shards(back)
        for name, data in theirs.items():
            if not name.endswith(".lst"):
                assert ours[name] == data, name
                continue
            paths = [line.split(b"\t")[-1] for line in ours[name].splitlines()]
            assert paths == [line.split(b"\t")[-1] for line in data.splitlines()]


NAMES = (
    *("cat/000.jpg", "cat/a b.jpeg", "cat/ねこ.JPG", "dog/v1.2.jpg", "dog/.5.jpg", "dog/x y/z.png"),
    *("owl/" + "l" * 200 + ".jpg", "owl/" + "ぎ" * 70 + ".Jpeg", "owl/no_extension.webp"),
)


def without_metadata(folder: Path) -> dict[str, bytes]:
    files = contents(folder)
    return {name: data for name, data in files.items() if not name.endswith("metadata.jsonl")}


class TestFolder:
    @pytest.mark.parametrize("through", ["tfrecord", "recordio", "parquet", "folder"])
    def test_through_formats_that_tell_file_names(
        self, convert: Convert, tmp_path: Path, through: str
    ) -> None:
        root = tmp_path / "photos"
        for number, name in enumerate(NAMES):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((png if name.endswith("png") else jpeg)(number, SIZE))
        back = convert(convert(root, to=through), to="folder")
        visible = {name: data for name, data in contents(root).items() if "/." not in name}
        assert without_metadata(back) == visible

    @pytest.mark.parametrize("through", ["webdataset", "tfrecord", "recordio-protobuf", "mds"])
    def test_of_many_parts(
        self, convert: Convert, tmp_path: Path, samples: Samples, through: str
    ) -> None:
        root = tmp_path / "parts"
        for path, data in samples.files.items():
            stem = root / path.removesuffix(".jpg")
            stem.parent.mkdir(parents=True, exist_ok=True)
            stem.with_suffix(".jpg").write_bytes(data)
            stem.with_suffix(".mask.png").write_bytes(png(1, SIZE))
            stem.with_suffix(".json").write_bytes(b'{"b": [1, 2]}')
        back = convert(convert(root, "--parts", to=through), to="folder")
        assert without_metadata(back) == contents(root)
