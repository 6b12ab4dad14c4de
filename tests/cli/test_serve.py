"""`dsprep serve`: every byte arrives through the pipes, and both sides may be killed."""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import pytest

import dsprep
from dsprep.errors import DamagedShard, DestinationError, OptionError, RunStopped, SourceError
from dsprep.formats.recordio import MAGIC, RecordIO
from dsprep.sample import Floats, Sample
from tests.conftest import Finished, Running
from tests.images import jpeg
from tests.limits import no_memory_above
from tests.missing import framework
from tests.servers.bucket import Bucket

Start = Callable[..., Running]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    """The photographs as three shards of each format, and a second data set."""
    root = tmp_path_factory.mktemp("made")
    for name in ("webdataset", "tfrecord", "recordio"):
        dsprep.pack(str(photos), str(root / name), to=name, shards=3, workers=1)
    dsprep.pack(str(photos), str(root / "val"), to="tfrecord", shards=1, workers=1)
    return root


def shards(directory: Path) -> bytes:
    """All bytes of the shards of a directory."""
    names = [
        each["name"] for each in json.loads((directory / "manifest.json").read_text())["shards"]
    ]
    return b"".join((directory / name).read_bytes() for name in names)


class PipeReader:
    """Reads pipes as SageMaker's plugin for TensorFlow does.

    An iterator has the next index, waits until its file is there, opens it once, and ends where it
    ends: `PipeStateManager.cpp`, `RecordReader.cpp`, `RecordIOReader.cpp` and `pipemode.py` of
    aws/sagemaker-tensorflow-extensions at 2cc166644b9cfb39ccd824116d800b8794a09545.
    """

    def __init__(self, place: Path, channel: str, form: str) -> None:
        config = json.loads((place / "input/config/inputdataconfig.json").read_text())
        assert config[channel]["TrainingInputMode"] == "Pipe"
        self._path, self._index = str(place / "input/data" / channel), 0
        self._read = {"RecordIO": self._recordio, "TFRecord": self._tfrecord}[form]

    def __iter__(self) -> Iterator[bytes]:
        path = f"{self._path}_{self._index}"
        self._index += 1
        while not os.path.exists(path):
            time.sleep(0.01)
        with open(path, "rb") as pipe:
            while (record := self._read(pipe)) is not None:
                yield record

    @staticmethod
    def _recordio(pipe: BinaryIO) -> bytes | None:
        record = b""
        while head := pipe.read(8):
            magic, word = struct.unpack("<4sI", head)
            assert magic == MAGIC
            size = word & (1 << 29) - 1
            record += pipe.read(size)  # of a record in parts, the magic between them is lost
            pipe.read(-size % 4)
            if word >> 29 not in (1, 2):
                return record
        return None

    @staticmethod
    def _tfrecord(pipe: BinaryIO) -> bytes | None:
        head = pipe.read(12)
        if not head:
            return None
        record = pipe.read(struct.unpack("<Q", head[:8])[0])
        pipe.read(4)
        return record


class Served:
    """A call of `dsprep.serve` in a thread."""

    def __init__(self, place: Path, *data: object, **options: Any) -> None:
        self.place, self.report, self.error = place, None, None
        self._thread = threading.Thread(target=self._run, args=(data, options), daemon=True)
        self._thread.start()
        config = place / "input/config/inputdataconfig.json"
        while self._thread.is_alive() and not config.exists():
            time.sleep(0.01)

    def _run(self, data: tuple[object, ...], options: dict[str, Any]) -> None:
        try:
            self.report = dsprep.serve(*data, fifo=self.place, **{"timeout": 20.0} | options)
        except Exception as error:
            self.error = error

    def pipe(self, epoch: int, channel: str = "train") -> Path:
        path = self.place / f"input/data/{channel}_{epoch}"
        while self._thread.is_alive() and not path.exists():
            time.sleep(0.01)
        return path

    def end(self) -> dsprep.ServeReport:
        self._thread.join(60)
        if self.error is not None:
            raise self.error
        assert self.report is not None
        return self.report


def test_every_byte_of_three_epochs_and_two_channels(made: Path, tmp_path: Path) -> None:
    channels = {"train": made / "webdataset", "validation": made / "val"}
    served = Served(tmp_path, channels=channels, epochs=3)
    got: dict[str, list[bytes]] = {name: [] for name in channels}

    def read(name: str) -> None:
        for epoch in range(3):
            with served.pipe(epoch, name).open("rb") as pipe:
                first = pipe.read(1)
                assert (
                    epoch == 2 or served.place.joinpath(f"input/data/{name}_{epoch + 1}").exists()
                )
                got[name].append(first + pipe.read())

    readers = [threading.Thread(target=read, args=(name,)) for name in channels]
    for reader in readers:
        reader.start()
    report = served.end()
    for reader in readers:
        reader.join()
    assert got == {name: [shards(path)] * 3 for name, path in channels.items()}
    assert [(each.name, each.epochs, each.closed_early) for each in report.channels] == [
        ("train", 3, 0),
        ("validation", 3, 0),
    ]
    assert report.channels[0].bytes == 3 * len(shards(made / "webdataset"))
    assert not list(tmp_path.glob("input/data/*"))


def test_a_reader_that_closes_early_ends_its_epoch(made: Path, tmp_path: Path) -> None:
    served = Served(tmp_path, made / "webdataset", epochs=2)
    with served.pipe(0).open("rb", buffering=0) as pipe:
        assert len(pipe.read(100)) == 100
    assert served.pipe(1).read_bytes() == shards(made / "webdataset")
    assert served.end().channels[0][3:5] == (1, 1)


def test_a_reader_that_never_opens_ends_in_a_time_out(made: Path, tmp_path: Path) -> None:
    served = Served(tmp_path, made / "webdataset", epochs=2, timeout=0.3)
    with pytest.raises(RunStopped, match=r"train_0: nobody read for 0\.3 s"):
        served.end()
    assert not list(tmp_path.glob("input/data/*"))


def test_a_program_that_never_opens_is_stopped(made: Path) -> None:
    with pytest.raises(RunStopped, match="nobody read for"):
        dsprep.serve(made / "val", program=["sleep", "99"], timeout=0.3)


def test_a_killed_reader_ends_its_epoch(made: Path, tmp_path: Path) -> None:
    served = Served(tmp_path, made / "webdataset", epochs=2)
    code = "import sys, time; open(sys.argv[1], 'rb').read(9); time.sleep(99)"
    with subprocess.Popen([sys.executable, "-c", code, served.pipe(0)]) as reader:
        while not served.pipe(1).exists():
            time.sleep(0.01)
        reader.kill()
    assert served.pipe(1).read_bytes() == shards(made / "webdataset")
    assert served.end().channels[0][3:5] == (1, 1)


PROGRAM = """
import os, sys, time
pipe = open(os.environ["SM_CHANNEL_TRAIN"] + "_0", "rb")
pipe.read(9)
print("begun", flush=True)
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_dies_with_what_feeds_it(made: Path, start_cli: Start, number: int) -> None:
    """Else it would take the end of the pipe for that of the epoch."""
    running = start_cli("serve", made / "webdataset", "--", sys.executable, "-c", PROGRAM, "99")
    assert running.process.stdout is not None
    assert running.process.stdout.readline() == "begun\n"
    os.kill(running.process.pid, number)
    assert running.end().code == (-number if number == signal.SIGKILL else 130)
    while running.family():
        time.sleep(0.01)


def command_of(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def test_a_killed_program_ends_serving(made: Path, start_cli: Start) -> None:
    running = start_cli("serve", made / "webdataset", "--", sys.executable, "-c", PROGRAM, "99")
    assert running.process.stdout is not None
    running.process.stdout.readline()
    (program,) = (each for each in running.workers() if b"guard.py" not in command_of(each))
    os.kill(program, signal.SIGKILL)
    done = running.end()
    assert done.code == 128 + signal.SIGKILL
    assert "ended with 137" in done.err


def test_a_program_has_the_environment_of_a_job(
    made: Path, tmp_path: Path, run_cli: Callable[..., Finished]
) -> None:
    code = "import json, os, sys; print(json.dumps(dict(os.environ))); sys.exit(7)"
    channels = ("--channel", f"train={made / 'recordio'}", "--channel", f"val={made / 'val'}")
    done = run_cli("serve", *channels, "--fifo", tmp_path, "--", sys.executable, "-c", code)
    assert done.code == 7
    told = json.loads(done.out)
    assert told["SM_CHANNEL_VAL"] == f"{tmp_path}/input/data/val"
    assert json.loads(told["SM_CHANNELS"]) == ["train", "val"]
    config = tmp_path / "input/config"
    assert told["SM_INPUT_CONFIG_DIR"] == str(config)
    found = json.loads((config / "inputdataconfig.json").read_text())
    assert json.loads(told["SM_INPUT_DATA_CONFIG"]) == found
    assert found["train"] == {
        "ContentType": "application/x-recordio",
        "TrainingInputMode": "Pipe",
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "None",
    }
    assert Path(told["SM_MODEL_DIR"]).is_dir()


def test_a_program_that_is_not_there(made: Path, run_cli: Callable[..., Finished]) -> None:
    done = run_cli("serve", made / "val", "--", "no-such-program")
    assert done.code == 1
    assert "no-such-program: cannot be run" in done.err


def test_a_program_never_sees_the_end_of_a_damaged_shard(
    made: Path, tmp_path: Path, run_cli: Callable[..., Finished]
) -> None:
    """It is stopped before its pipe ends."""
    data = (made / "recordio/train-00000.rec").read_bytes()
    (tmp_path / "cut.rec").write_bytes(data[:-100])
    code = "import os; open(os.environ['SM_CHANNEL_TRAIN'] + '_0', 'rb').read(); print('whole')"
    done = run_cli("serve", tmp_path / "cut.rec", "--", sys.executable, "-c", code)
    assert (done.code, done.out) == (3, "")
    assert "cut.rec: at byte" in done.err


READER = """
import os, sys, time
pipe = open(os.environ["SM_CHANNEL_TRAIN"] + "_0", "rb")
pipe.read(9)
print("begun", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
pipe.read()
open(sys.argv[1], "w").close()
"""
# How people start training: by a shell, by another program, in the background.
LAUNCHERS = {
    "directly": "{0}",
    "a shell": "bash -c '{0}; true'",
    "a shell in a shell": "bash -c 'bash -c \"{0}; true\"; true'",
    "in the background": "bash -c '{0} & wait; true'",
    "a new session": "bash -c 'setsid {0}; true'",
}


def launched(tmp_path: Path, how: str, goes_on: Path | None = None) -> tuple[list[str], Path]:
    """Return the command of a reader, and the file that it makes when it sees the end.

    The reader begins, and reads on when the file ``goes_on`` exists; at once without one.
    """
    reader, ended = tmp_path / "reader.py", tmp_path / "ended"
    reader.write_text(READER)
    words = f"{sys.executable} {reader} {ended} {goes_on or reader}"
    return shlex.split(LAUNCHERS[how].format(words)), ended


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("how", LAUNCHERS)
def test_no_descendant_sees_a_false_end_if_serving_is_killed(
    made: Path, tmp_path: Path, start_cli: Start, how: str, number: int
) -> None:
    killed = tmp_path / "killed"
    program, ended = launched(tmp_path, how, killed)
    running = start_cli("serve", made / "webdataset", "--", *program)
    assert running.process.stdout is not None
    assert running.process.stdout.readline() == "begun\n"
    os.kill(running.process.pid, number)
    if number == signal.SIGKILL:
        killed.touch()  # the reader looks for the end while its pipe is given up
    running.end(30)
    killed.touch()
    while running.family():
        time.sleep(0.01)
    assert not ended.exists()


@pytest.mark.parametrize("to", [(), ("--to", "tfrecord")])
@pytest.mark.parametrize("how", LAUNCHERS)
def test_no_descendant_sees_the_end_of_a_damaged_shard(
    made: Path, tmp_path: Path, run_cli: Callable[..., Finished], how: str, to: tuple[str, ...]
) -> None:
    data = (made / "recordio/train-00000.rec").read_bytes()
    (tmp_path / "cut.rec").write_bytes(data[:-100])
    program, ended = launched(tmp_path, how)
    done = run_cli("serve", tmp_path / "cut.rec", *to, "--", *program)
    assert (done.code, ended.exists()) == (3, False), done.err


@pytest.mark.parametrize("how", LAUNCHERS)
def test_every_launcher_sees_the_true_end(
    made: Path, tmp_path: Path, run_cli: Callable[..., Finished], how: str
) -> None:
    program, ended = launched(tmp_path, how)
    done = run_cli("serve", made / "webdataset", "--", *program)
    assert (done.code, ended.exists()) == (0, True), done.err


def test_what_a_killed_run_has_left_is_removed(
    made: Path, tmp_path: Path, start_cli: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for number in (signal.SIGKILL, signal.SIGTERM):
        running = start_cli("serve", made / "webdataset", "--", sys.executable, "-c", PROGRAM, "99")
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == "begun\n"
        assert len(list(tmp_path.glob("dsprep-serve-*"))) == 1
        os.kill(running.process.pid, number)
        running.end()
    assert not list(tmp_path.glob("dsprep-serve-*"))


def test_a_shard_cut_between_samples_is_damaged(made: Path, tmp_path: Path) -> None:
    """A tar may end there, so only its recorded size tells."""
    shutil.copytree(made / "webdataset", tmp_path / "cut")
    os.truncate(tmp_path / "cut/train-000001.tar", 10240)
    with pytest.raises(DamagedShard, match="at byte 10240: the file has 10,240 bytes, but"):
        dsprep.serve(tmp_path / "cut", write=bytes)


def test_half_a_gigabyte_in_constant_memory(command: Path, tmp_path: Path) -> None:
    shard = tmp_path / "train.tar"
    with shard.open("wb") as file:
        file.truncate(1 << 29)  # of holes: it takes no room
    count = ("sh", "-c", "wc -c < ${SM_CHANNEL_TRAIN}_0")
    line = [*no_memory_above(150 << 20), command, "serve", shard, "-q", "--", *count]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True)
    assert int(done.stdout) == 1 << 29


def test_to_stdout(made: Path, command: Path) -> None:
    line = [command, "serve", made / "tfrecord", "--stdout", "--epochs", "2", "-q"]
    done = subprocess.run(line, stdout=subprocess.PIPE, check=True)
    assert done.stdout == 2 * shards(made / "tfrecord")
    script = (
        f"'{command}' serve '{made / 'tfrecord'}' --stdout --epochs 999 -q | head -c 10 | wc -c"
    )
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script], stdout=subprocess.PIPE, check=True
    )
    assert int(done.stdout) == 10


def test_nothing_is_lost_on_a_full_disk_in_silence(made: Path, command: Path) -> None:
    with open("/dev/full", "wb") as full:
        line = [command, "serve", made / "tfrecord", "--stdout"]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr[:32]) == (5, "dsprep: stdout: cannot be writte")


def test_says_that_it_waits(made: Path, tmp_path: Path, run_here: Callable[..., Finished]) -> None:
    done = run_here("serve", made / "val", "--fifo", tmp_path, "--timeout", "0.1s")
    assert done.code == 6
    assert f"waiting until a program reads {tmp_path}/input/data/train_0\n" in done.err


@pytest.mark.parametrize("to", ["tfrecord", "recordio", "recordio-protobuf", "webdataset"])
def test_shards_are_converted_on_the_way(made: Path, tmp_path: Path, to: str) -> None:
    served = Served(tmp_path, made / "webdataset", to=to)
    found = served.pipe(0).read_bytes()
    if to == "recordio":  # whose ids start again in each shard
        files = [path.open("rb") for path in sorted(made.glob("webdataset/*.tar"))]
        streams = [dsprep.convert_stream(file, source="webdataset", to=to) for file in files]
        assert found == b"".join(stream.read() for stream in streams)
    else:
        dsprep.convert(made / "webdataset", tmp_path / "all", to=to, workers=1)
        assert found == shards(tmp_path / "all")
    assert served.end().rejects == []


def test_instances_get_shares_in_another_order_each_epoch(made: Path) -> None:
    whole = {path.read_bytes() for path in made.glob("webdataset/*.tar")}
    orders = []
    for part in ("0/3", "1/3", "2/3"):
        blocks: list[bytes] = []
        options = {"epochs": 4, "shuffle_shards": True, "seed": 3, "part": part}
        dsprep.serve(made / "webdataset", write=blocks.append, **options)
        stream, epochs = b"".join(blocks), []
        while stream:
            epochs.append(next(each for each in whole if stream.startswith(each)))
            stream = stream[len(epochs[-1]) :]
        orders.append(epochs)
    for epoch in zip(*orders, strict=True):
        assert set(epoch) == whole
    assert len(set(zip(*orders, strict=True))) > 1


def test_each_side_is_a_channel(photos: Path, tmp_path: Path) -> None:
    sides = "train=0.5,val=0.5"
    dsprep.pack(str(photos), str(tmp_path / "s"), to="tfrecord", split=sides, shards=2, workers=1)
    served = Served(tmp_path / "ml", tmp_path / "s")
    for name in ("train", "val"):
        files = sorted(tmp_path.glob(f"s/{name}*.tfrecord"))
        assert served.pipe(0, name).read_bytes() == b"".join(each.read_bytes() for each in files)
    assert [each.name for each in served.end().channels] == ["train", "val"]
    with pytest.raises(OptionError, match="is for one channel, and there are 'train', 'val'"):
        dsprep.serve(tmp_path / "s", write=bytes)
    assert dsprep.serve(tmp_path / "s", to="recordio", program=["true"]).place is None
    blocks: list[bytes] = []
    converted = dsprep.serve(channels={"val": tmp_path / "s"}, to="recordio", write=blocks.append)
    assert converted.notes == []  # nothing of a schema that nobody gave


# Readers


def test_webdataset_reads_the_pipe(made: Path, tmp_path: Path, webdataset: ModuleType) -> None:
    shard = next(made.glob("webdataset/*.tar"))
    served = Served(tmp_path, shard)
    found = list(webdataset.WebDataset(str(served.pipe(0)), shardshuffle=False))
    expected = list(webdataset.WebDataset(str(shard), shardshuffle=False))
    assert served.end().channels[0].epochs == 1
    assert [each["__key__"] for each in found] == [each["__key__"] for each in expected]
    assert all(one["jpg"] == two["jpg"] for one, two in zip(found, expected, strict=True))


def test_mxnet_reads_the_pipe(made: Path, tmp_path: Path, mxnet: ModuleType) -> None:
    served = Served(tmp_path, made / "recordio")
    pipe = mxnet.recordio.MXRecordIO(str(served.pipe(0)), "r")
    found = list(iter(pipe.read, None))
    pipe.close()
    expected = []
    for path in sorted(made.glob("recordio/*.rec")):
        expected += list(iter(mxnet.recordio.MXRecordIO(str(path), "r").read, None))
    assert found == expected
    assert served.end().channels[0].epochs == 1


def test_a_reader_like_the_plugin(made: Path, tmp_path: Path, tensorflow: ModuleType) -> None:
    served = Served(tmp_path, made / "tfrecord", epochs=2)
    reader = PipeReader(tmp_path, "train", "TFRecord")
    files = [str(path) for path in sorted(made.glob("tfrecord/*.tfrecord"))]
    expected = [each.numpy() for each in tensorflow.data.TFRecordDataset(files)]
    assert [list(reader), list(reader)] == [expected, expected]
    assert served.end().channels[0].epochs == 2


def test_files_are_records(tmp_path: Path) -> None:
    """Also one that has the magic number where a record would be cut."""
    files = {"b.jpg": jpeg(), "a/b.bin": b"1234" + MAGIC + b"5", "a/a.bin": b"", "c": MAGIC * 3}
    for name, data in files.items():
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "files/.hidden").write_text("")
    served = Served(tmp_path / "ml", tmp_path / "files")
    found = list(PipeReader(tmp_path / "ml", "train", "RecordIO"))
    assert found == [files[name] for name in sorted(files)]
    report = served.end()
    assert report.channels[0].files == 4
    assert report.notes == [f"{tmp_path}/files: 1 file passed over, such as .hidden"]


def test_lines_of_an_augmented_manifest(made: Path, tmp_path: Path) -> None:
    dsprep.convert(
        made / "val",
        tmp_path / "sage",
        to="augmented-manifest",
        prefix="s3://amzn-s3-demo-bucket/x/",
        workers=1,
    )
    lines = [json.loads(line) for line in (tmp_path / "sage.manifest").read_text().splitlines()]
    names = ["class", "source-ref"]
    served = Served(tmp_path / "ml", tmp_path / "sage.manifest", attributes=names)
    found = list(PipeReader(tmp_path / "ml", "train", "RecordIO"))
    expected = []
    for line in lines:
        image = tmp_path / "sage" / line["source-ref"].removeprefix("s3://amzn-s3-demo-bucket/x/")
        expected += [line["class"].encode(), image.read_bytes()]
    assert found == expected
    served.end()
    config = json.loads((tmp_path / "ml/input/config/inputdataconfig.json").read_text())
    assert config["train"]["RecordWrapperType"] == "RecordIO"


def test_text_is_sent_without_a_wrapper(tmp_path: Path) -> None:
    """Lines of several files, as readers of CSV, LIBSVM and JSON Lines take them from a pipe."""
    pandas, datasets = framework("pandas"), framework("sklearn.datasets")
    csv = tmp_path / "csv"
    csv.mkdir()
    (csv / "a.csv").write_text("1,2\n3,4\n")
    (csv / "b.csv.gz").write_bytes(gzip.compress(b"5,6\n7,8"))
    (tmp_path / "x.libsvm").write_text("1 1:0.5 3:2\n0 2:1\n")
    lines = [{"source": "a\nb", "label": 1}, {"a": 1}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    channels = {"csv": csv, "svm": tmp_path / "x.libsvm", "lines": tmp_path / "x.jsonl"}
    served = Served(tmp_path / "ml", channels=channels)
    rows = pandas.read_csv(served.pipe(0, "csv"), header=None)
    assert rows.to_numpy().tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    with served.pipe(0, "svm").open("rb") as pipe:
        values, labels = datasets.load_svmlight_file(io.BytesIO(pipe.read()))
    assert (values.toarray().tolist(), labels.tolist()) == ([[0.5, 0, 2], [0, 1, 0]], [1, 0])
    assert [json.loads(line) for line in served.pipe(0, "lines").open()] == lines
    config = json.loads((tmp_path / "ml/input/config/inputdataconfig.json").read_text())
    types = ("text/csv", "text/libsvm", "application/jsonlines")
    assert [(each["ContentType"], each["RecordWrapperType"]) for each in config.values()] == [
        (name, "None") for name in types
    ]
    report = served.end()
    assert [(each.format, each.files) for each in report.channels] == [
        ("csv", 2),
        ("libsvm", 1),
        ("jsonl", 1),
    ]
    (note,) = report.notes
    assert note.startswith(f"{csv}/b.csv.gz: its last line has no line break")
    named = Served(tmp_path / "named", tmp_path / "x.jsonl", attributes=["source", "label"])
    with pytest.raises(SourceError, match=r"x\.jsonl:2: has no attribute 'source'"):
        named.end()


def test_text_of_several_extensions_is_framed_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n")
    (tmp_path / "README.txt").write_text("a\n")
    blocks: list[bytes] = []
    report = dsprep.serve(tmp_path, write=blocks.append)
    (note,) = report.notes
    assert note.startswith(f"{tmp_path}: its files are not all text with the same extension")
    assert b"".join(blocks).count(MAGIC) == 2


def test_text_by_a_pattern(tmp_path: Path) -> None:
    for number, name in enumerate(("a/x.csv", "a/y.csv", "b/z.csv", "a/README.txt")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{number},1\n")
    for pattern, rows in (("a/*.csv", "01"), ("*/*.csv", "012"), ("a/{y,x}.csv", "01")):
        blocks: list[bytes] = []
        report = dsprep.serve(tmp_path / pattern, write=blocks.append)
        assert b"".join(blocks).decode() == "".join(f"{row},1\n" for row in rows)
        assert [(each.format, each.files) for each in report.channels] == [("csv", len(rows))]
    for pattern, problem in (("a/q*.csv", "no such files"), ("a/{x,q}.csv", "q.csv: does not")):
        with pytest.raises(SourceError, match=problem):
            dsprep.serve(tmp_path / pattern, write=bytes)


def test_damaged_text_is_no_end_of_an_epoch(tmp_path: Path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 9)[:-9])
    with pytest.raises(DamagedShard, match="data is cut short"):
        dsprep.serve(tmp_path / "x.csv.gz", write=bytes)
    (tmp_path / "y.csv").write_text("1,2\n")
    with pytest.raises(OptionError, match="converts shards"):
        dsprep.serve(tmp_path / "y.csv", to="tfrecord", write=bytes)
    with pytest.raises(OptionError, match="is no augmented manifest"):
        dsprep.serve(tmp_path / "y.csv", attributes=["a"], write=bytes)


def test_a_record_in_parts_is_sent_whole(tmp_path: Path) -> None:
    image = jpeg() + b"\0" * 4 + MAGIC + MAGIC
    image += b"\0" * (-len(image) % 4) + MAGIC
    layout = RecordIO()
    framed = [
        b"".join(layout.encode(Sample(str(n), {"label": Floats((1.0,)), "image": data}, n)))
        for n, data in enumerate((jpeg(1), image, jpeg(2)))
    ]
    (tmp_path / "x.rec").write_bytes(b"".join(framed))
    served = Served(tmp_path / "ml", tmp_path / "x.rec", epochs=2)
    reader = PipeReader(tmp_path / "ml", "train", "RecordIO")
    for _ in range(2):
        assert [each[24:] for each in reader] == [jpeg(1), image, jpeg(2)]
    (note,) = served.end().notes
    assert note.startswith(f"{tmp_path}/x.rec: the record at byte {len(framed[0])} holds")


# Refusals


def test_pipes_of_a_killed_run_are_replaced_and_those_of_a_live_one_kept(
    made: Path, tmp_path: Path
) -> None:
    (tmp_path / "input/data").mkdir(parents=True)
    stale = tmp_path / "input/data/train_3"
    os.mkfifo(stale)
    early = threading.Thread(target=stale.read_bytes, daemon=True)  # it waits for a writer
    early.start()
    served = Served(tmp_path, made / "val")
    served.pipe(0)
    early.join(20)
    assert not early.is_alive()
    assert [each.name for each in tmp_path.glob("input/data/*")] == ["train_0"]
    with pytest.raises(DestinationError, match="another dsprep run"):
        dsprep.serve(made / "val", fifo=tmp_path)
    assert served.pipe(0).read_bytes() == shards(made / "val")
    served.end()


def test_a_reader_of_the_next_epoch_ends_with_serving(made: Path, tmp_path: Path) -> None:
    """It would wait for ever at a pipe that has no name any more."""
    served = Served(tmp_path, made / "val", epochs=2, timeout=1.0)
    with open(served.pipe(0), "rb"):
        early = threading.Thread(target=served.pipe(1).read_bytes, daemon=True)
        early.start()
        early.join(20)
        assert not early.is_alive()


def test_what_is_no_pipe_stays(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "input/data/train_0"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(DestinationError, match="is there already, and is not a pipe"):
        dsprep.serve(made / "val", fifo=tmp_path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({}, OptionError, "give --fifo DIR"),
        ({"part": "0/4", "fifo": "x"}, OptionError, "3 files for 4 parts"),
        ({"channels": {"a/b": "x"}}, OptionError, "either as DATA, or"),
        ({"attributes": ["x"], "fifo": "x"}, OptionError, "is no augmented manifest"),
        ({"to": "parquet", "fifo": "x"}, OptionError, "choose one of"),
        ({"fifo": "s3://amzn-s3-demo-bucket/x"}, OptionError, "cannot be written to S3"),
    ],
)
def test_refused(made: Path, options: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        dsprep.serve(made / "tfrecord", **options)


def test_a_data_set_without_samples(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "val", tmp_path / "data")
    path = tmp_path / "data/manifest.json"
    empty = {"shards": [], "samples": 0, "bytes": 0}
    path.write_text(json.dumps(json.loads(path.read_text()) | empty))
    for call in (dsprep.serve, lambda data, **_: dsprep.sagemaker([data], prefix="s3://bucket")):
        with pytest.raises(SourceError, match="the data set has no samples"):
            call(tmp_path / "data", program=["true"])


def test_a_side_of_a_hostile_manifest_is_no_path(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "val", tmp_path / "data")
    path = tmp_path / "data/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["options"]["sides"] = {"../../../victim": len(manifest["shards"])}
    path.write_text(json.dumps(manifest))
    with pytest.raises(OptionError, match="is no name of a channel"):
        dsprep.serve(tmp_path / "data", fifo=tmp_path / "ml", timeout=0.1)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"source-ref": "no.jpg"}', "x.manifest:1: is no JSON object whose references are files"),
        ('{"class": 1}', "x.manifest:1: has no attribute 'source-ref'"),
        ("[]", "x.manifest:1: is no JSON object"),
        (
            '{"source-ref": "b.jpg"}',
            "x.manifest:1: 'b.jpg' may mean 'one/b.jpg' or 'two/b.jpg': give its path below",
        ),
        ("", "x.manifest: names no files"),
    ],
)
def test_wrong_manifests(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "x.manifest").write_text(line + "\n")
    (tmp_path / "a.jpg").write_bytes(jpeg())
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "b.jpg").write_bytes(jpeg())
    with pytest.raises(SourceError, match=told):
        dsprep.serve(tmp_path / "x.manifest", fifo=tmp_path / "ml", attributes=["source-ref"])


def test_from_s3(made: Path, tmp_path: Path, ceph: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of a prefix, and files that a manifest there names, with the facts of the disk."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)
    url = f"{ceph.url}/data"
    dsprep.sync(made / "recordio", f"{url}/recordio")
    blocks: list[bytes] = []
    report = dsprep.serve(f"{url}/recordio", write=blocks.append)
    assert b"".join(blocks) == shards(made / "recordio")
    assert report.channels[0].files == 3
    sage = tmp_path / "sage"
    made_of = {"to": "augmented-manifest", "prefix": f"{url}/sage/", "workers": 1}
    dsprep.convert(made / "val", sage, **made_of)
    (sage / "sage.manifest").write_bytes((tmp_path / "sage.manifest").read_bytes())
    dsprep.sync(sage, f"{url}/sage")
    served = Served(tmp_path / "ml", f"{url}/sage/sage.manifest", attributes=["source-ref"])
    found = list(PipeReader(tmp_path / "ml", "train", "RecordIO"))
    refs = [json.loads(line)["source-ref"] for line in (sage / "sage.manifest").open()]
    assert found == [(sage / ref.removeprefix(f"{url}/sage/")).read_bytes() for ref in refs]
    served.end()
    ceph.put("data/local.manifest", b'{"source-ref": "/etc/passwd"}')
    with pytest.raises(SourceError, match="is no JSON object whose references"):
        dsprep.serve(f"{url}/local.manifest", write=blocks.append)
    there = dsprep.sagemaker([f"train={url}/recordio"], mode="Pipe")
    here = dsprep.sagemaker([f"train={made / 'recordio'}"], mode="Pipe", prefix=url)
    assert there.job == here.job
    assert dsprep.cost(f"{url}/recordio").layouts == dsprep.cost(made / "recordio").layouts
