"""There and back again, byte for byte, through the command."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from collections.abc import Callable, Iterable
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


def npy(rows: int) -> bytes:
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows},), }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.encode() + bytes(4 * rows)


MEMBERS: dict[str, dict[str, bytes]] = {
    "plain": {"jpg": jpeg(0, SIZE), "cls": b"1"},
    "a b/c  d ": {"jpg": jpeg(1, SIZE), "cls": b"2", "txt": b"a caption\n"},
    "ねこ/é": {"png": png(2, SIZE), "cls": b"0", "mask.png": png(3, SIZE)},
    "v1.2/x": {"jpg": jpeg(3, SIZE), "label.json": b"[1,0,2.5]", "a.b.c": b"dots"},
    "d" * 90 + "/" + "e" * 90: {"jpg": jpeg(4, SIZE), "cls": b"3"},
    "f" * 130 + "/" + "ぎ" * 60: {"jpg": jpeg(5, SIZE), "cls": b"4", "x" * 30: b"long"},
    "empty": {"jpg": b"", "cls": b"", "json": b"", "npy": b""},
    "zero": {"txt": b""},
    "odd": {"jpg": b"no image", "cls": b"03", "json": b'{"class": "cat"}', "label.json": b"[ 1 ]"},
    "numbers": {"cls": b"-7", "npy": npy(3), "json": json.dumps({"a": [1, {"b": None}]}).encode()},
    "told": {
        "jpg": jpeg(6, SIZE),
        "cls": b"5",
        "json": b'{"class":"cat","filename":"told.JPEG","height":12,"width":16}',
    },
    "named": {"jpg": jpeg(6, SIZE), "json": b'{"filename":"named.jpg"}'},
    "several": {"jpg": jpeg(7, SIZE), "label.json": b"[0.1,-3,1e-30]"},
    "detection": {"jpg": jpeg(8, SIZE), "label.json": b"[2,5,1,0,0.25,0.5,0.75]"},
    "typed": {"features.json": b'{"area":[7,8],"score":[0.5],"view":["","text"]}'},
    "bytes": {"features.json": b'{"raw":{"base64":["/w==","AA=="]}}', "wav": bytes(range(256)) * 9},
    "two images": {"jpg": jpeg(9, SIZE), "cls": b"1", "png": png(9, SIZE)},
    "magic": {"jpg": MAGIC * 3, "cls": b"9"},
}
"""Members by key and extension: whatever a WebDataset may hold."""


def members_of(data: bytes) -> list[tuple[str, bytes]]:
    found = []
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            found.append((member.name, file.read()))
    return found


ODD = ("empty", "odd", "magic")
"""Those whose parts are not what their names say: columns of one type do not hold them, and
features that name no format make them what they are."""

ROUNDED = ("several",)
"""Those with labels that 32-bit floats do not hold, which is what SageMaker's algorithms take."""


def write_tars(root: Path, keys: Iterable[str]) -> Path:
    """Two shards with PAX headers as tarfile writes them, each sample once in each."""
    root.mkdir()
    for number in range(2):
        with tarfile.open(root / f"train-{number:06d}.tar", "w", format=tarfile.PAX_FORMAT) as tar:
            for key in keys:
                for name, data in MEMBERS[key].items():
                    add_member(tar, f"{key}{number}.{name}", data)
    return root


def all_members(dest: Path) -> dict[str, list[tuple[str, bytes]]]:
    """The members of all shards, in no order."""
    return {name: sorted(members_of(data)) for name, data in shards(dest).items()}


class TestWebDataset:
    @pytest.mark.parametrize(
        ("left_out", "through"),
        [
            ((), ["webdataset"]),
            ((), ["tfrecord"]),
            ((), ["tfrecord", "--compression", "gzip"]),
            (ODD, ["tfrecord", "--features", "tfds"]),
            (ROUNDED, ["recordio-protobuf"]),
            (ODD, ["parquet"]),
        ],
        ids=str,
    )
    def test_comes_back_with_all_members(
        self, convert: Convert, tmp_path: Path, left_out: tuple[str, ...], through: list[str]
    ) -> None:
        to, *options = through
        tars = write_tars(tmp_path / "tars", [key for key in MEMBERS if key not in left_out])
        there = convert(tars, *options, to=to)
        back = convert(there, to="webdataset")
        assert all_members(back) == all_members(tars)
        again = convert(back, *options, to=to)
        assert shards(again) == shards(there)
        assert shards(convert(again, to="webdataset")) == shards(back)


LABELS = {
    "class": [0.0, 7.0, 2.0],
    "large": [16777216.0, -1.0, 0.0],
    "fraction": [0.5, 0.1, -1e-40],
    "several": [[1.0, 0.0, -2.5], [0.0, 1e6, 0.125], [3.0, 2.0, 1.0]],
    "one in a list": [[3.0], [0.0], [1.5]],
    "detection": [[2.0, 5.0, 1.0, 0.0, 0.25, 0.5, 0.75], [4.0, 5.0, 16.0, 12.0], [2.0, 5.0]],
    "mixed": [3.0, [1.0, 2.0], 0.25],
}
UNLISTED = ("detection", "mixed")
"""Labels that no list holds together: some are of no object."""


class TestRecordIO:
    @pytest.mark.parametrize(
        ("labels", "through"),
        [
            *product(LABELS, ["webdataset"]),
            *product(("class", "detection"), ["tfrecord", "parquet", "recordio-protobuf"]),
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
                id = 5 * number + 1000 * shard
                writer.write_idx(
                    id, recordio.pack(recordio.IRHeader(0, label, id, 0), jpeg(number, SIZE))
                )
                texts = [f"{each:.6f}" for each in (label if isinstance(label, list) else [label])]
                lines.append("\t".join([str(id), *texts, f"cat {shard}/{number}.x.JPEG"]) + "\n")
            writer.close()
            if labels not in UNLISTED:
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

    def test_with_odd_headers_and_payloads(
        self, convert: Convert, mxnet: ModuleType, tmp_path: Path
    ) -> None:
        recordio = mxnet.recordio
        path = tmp_path / "odd.rec"
        writer = recordio.MXRecordIO(str(path), "w")
        magic = 0xCED7230A
        headers = [
            recordio.IRHeader(0, 1.0, magic, 0),
            recordio.IRHeader(0, 1.0, 2, magic),
            recordio.IRHeader(0, float("nan"), 3, 0),
            recordio.IRHeader(0, -0.0, 1 << 60, 7),
            recordio.IRHeader(0, [1.0, float("inf")], 1 << 40, 0),
        ]
        payloads = (b"", b"abc", MAGIC, b"1234" + MAGIC * 5 + b"x", jpeg(1, SIZE))
        for header in headers:
            for number, payload in enumerate(payloads):
                own = header._replace(id=header.id + (number << 32))
                writer.write(recordio.pack(own, payload))
        writer.close()
        back = convert(
            convert(path, "--check", "none", to="webdataset"), "--check", "none", to="recordio"
        )
        assert (back / "odd.rec").read_bytes() == path.read_bytes()


NAMES = (
    *("cat/000.jpg", "cat/a b.jpeg", "cat/ねこ.JPG", "dog/v1.2.jpg", "dog/.5.jpg", "dog/x y/z.png"),
    *("owl/" + "l" * 200 + ".jpg", "owl/" + "ぎ" * 70 + ".Jpeg", "owl/no_extension.webp"),
)


class TestFolder:
    @pytest.mark.parametrize(
        "through", ["webdataset", "tfrecord", "recordio", "recordio-protobuf", "parquet", "folder"]
    )
    def test_through_anything(self, convert: Convert, tmp_path: Path, through: str) -> None:
        root = tmp_path / "photos"
        for number, name in enumerate(NAMES):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((png if name.endswith("png") else jpeg)(number, SIZE))
        back = convert(convert(root, to=through), to="folder")
        visible = {name: data for name, data in contents(root).items() if "/." not in name}
        assert contents(back) == visible

    @pytest.mark.parametrize("through", ["webdataset", "tfrecord", "recordio-protobuf", "parquet"])
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
            stem.with_suffix(".txt").write_bytes(b"")
        back = convert(convert(root, "--parts", to=through), to="folder")
        assert contents(back) == contents(root)
