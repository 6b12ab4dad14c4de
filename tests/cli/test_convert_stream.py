"""`dsprep convert … - -`: one shard from stdin to stdout, record by record."""

from __future__ import annotations

import gzip
import io
import os
import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

import dsprep
from dsprep.errors import DsprepError
from dsprep.formats import CONCATENATIVE, FORMATS
from dsprep.run.stream import Converted
from dsprep.sample import Floats, Sample
from tests.conftest import Finished
from tests.images import jpeg
from tests.limits import no_memory_above

RunCli = Callable[..., Finished]

STREAMED = list(CONCATENATIVE)
PAIRS = [*product(STREAMED, STREAMED)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> dict[str, Path]:
    """One shard of each format, with nothing beside it that names its samples."""
    root = tmp_path_factory.mktemp("stored")
    found = {}
    for name in STREAMED:
        file = f"train{FORMATS[name].suffix}"
        dsprep.convert(str(photos), str(root / name / file), to=name, workers=1)
        found[name] = root / "alone" / name / file
        found[name].parent.mkdir(parents=True)
        found[name].write_bytes((root / name / file).read_bytes())
    return found


def stream(
    command: Path, source: str, to: str, data: bytes, *options: object, under: tuple[str, ...] = ()
) -> tuple[int, bytes, str]:
    """Convert bytes; returns the exit code, what came out, and what was said."""
    line = [*under, command, "convert", "--from", source, "--to", to, "-", "-", *map(str, options)]
    done = subprocess.run(line, input=data, capture_output=True, timeout=120, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_gives_the_bytes_of_the_file(
    run_here: RunCli, stored: dict[str, Path], tmp_path: Path, source: str, to: str
) -> None:
    shard = stored[source]
    single = tmp_path / f"train{FORMATS[to].suffix}"
    assert run_here("convert", shard, single, "--to", to, "-qj1") == (0, "", "")
    with shard.open("rb") as file:
        blocks = list(dsprep.convert_stream(file, source=source, to=to, block=1000))
    assert b"".join(blocks) == single.read_bytes()
    assert len(blocks) > 5


@pytest.mark.parametrize("source", STREAMED)
def test_from_stdin_to_stdout(command: Path, stored: dict[str, Path], source: str) -> None:
    to = "recordio" if source == "tfrecord" else "tfrecord"
    with stored[source].open("rb") as file:
        expected = dsprep.convert_stream(file, source=source, to=to).read()
    assert stream(command, source, to, stored[source].read_bytes()) == (0, expected, "")


def large(name: str, count: int, seed: int = 0) -> Iterator[bytes]:
    """A shard of `count` samples of a hundred kilobytes, piece by piece."""
    rng = random.Random(seed)
    layout = FORMATS[name]()
    head = jpeg(0)
    total = 0
    for number in range(count):
        data = head + rng.randbytes(100_000)
        fields: dict[str, object] = {"label": Floats((1.0,)), "image": data}
        if name == "webdataset":
            fields = {"jpg": data, "cls": b"1"}
        pieces = layout.encode(Sample(f"s{number:06d}", fields, number))
        total += sum(map(len, pieces))
        yield b"".join(pieces)
    yield layout.trailer(total)


@pytest.mark.parametrize(("source", "to"), [("webdataset", "tfrecord"), ("recordio", "webdataset")])
def test_puts_out_before_the_input_has_ended_in_little_memory(
    command: Path, source: str, to: str
) -> None:
    """Two hundred megabytes go through less memory than that, and not only at their end."""
    line = [command, "convert", "--from", source, "--to", to, "-", "-", "--check", "none"]
    process = subprocess.Popen(
        [*no_memory_above(150 << 20), *line], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    output = process.stdout
    begun = threading.Event()
    sizes = []

    def read() -> None:
        while block := output.read(1 << 20):
            sizes.append(len(block))
            begun.set()

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    for number, piece in enumerate(large(source, 2000)):
        if number == 100:
            assert begun.wait(60), "ten megabytes went in and nothing came out"
        process.stdin.write(piece)
    process.stdin.close()
    assert process.wait(120) == 0
    reading.join()
    assert sum(sizes) > 200_000_000


def test_stops_when_nobody_reads(command: Path, tmp_path: Path) -> None:
    data = tmp_path / "a.tar"
    data.write_bytes(b"".join(large("webdataset", 50)))
    script = (
        f'"{command}" convert --from webdataset --to tfrecord - - < "{data}" | head -c 10 | wc -c; '
        "exit ${PIPESTATUS[0]}"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "10"
    assert done.returncode == 6
    assert "Traceback" not in done.stderr
    assert "stdout was closed" in done.stderr


@pytest.mark.parametrize("source", STREAMED)
def test_of_what_is_cut_gives_all_before(
    command: Path, stored: dict[str, Path], source: str
) -> None:
    data = stored[source].read_bytes()
    whole = dsprep.convert_stream(io.BytesIO(data), source=source, to="tfrecord").read()
    code, out, err = stream(command, source, "tfrecord", data[: len(data) // 2])
    assert code == 3
    assert whole.startswith(out)
    assert len(out) > len(whole) // 4
    assert "stdin: at byte" in err


@pytest.mark.parametrize("options", [(), ("--on-error", "fail"), ("--max-errors", "0")], ids=str)
def test_says_each_sample_that_cannot_be_converted(
    command: Path, stored: dict[str, Path], options: tuple[str, ...]
) -> None:
    layout = FORMATS["webdataset"]()
    samples = [Sample(f"{n}", {"jpg": jpeg(n), "cls": b"%d" % n}, n) for n in range(80)]
    samples[70].fields["json"] = b'{"a":1}'
    body = b"".join(b"".join(layout.encode(each)) for each in samples)
    data = body + layout.trailer(len(body))
    code, out, err = stream(command, "webdataset", "recordio", data, *options)
    assert code == (6 if options else 3)
    assert "70: has a field 'json' that the samples looked at lack" in err
    dropped = dsprep.convert_stream(
        io.BytesIO(data), source="webdataset", to="recordio", drop=["json"]
    ).read()
    assert dropped != out
    assert dropped.startswith(out if options else out[: len(out) // 2])


@pytest.mark.parametrize(
    ("misfits", "options", "code"),
    [(2, (), 3), (3, (), 6), (3, ("--max-errors", "3"), 3), (3, ("--max-errors", "2"), 6)],
)
def test_too_many_misfits_stop_a_stream_as_they_stop_files(
    run_cli: RunCli,
    command: Path,
    tmp_path: Path,
    misfits: int,
    options: tuple[str, ...],
    code: int,
) -> None:
    """One percent of the samples may not fit the schema."""
    layout = FORMATS["webdataset"]()
    samples = [Sample(f"{n:03}", {"jpg": jpeg(1), "cls": b"%d" % n}, n) for n in range(200)]
    for sample in samples[100 : 100 + misfits]:
        sample.fields["json"] = b'{"a":1}'
    body = b"".join(b"".join(layout.encode(sample)) for sample in samples)
    data = body + layout.trailer(len(body))
    (tmp_path / "a.tar").write_bytes(data)
    of_files = run_cli("convert", tmp_path / "a.tar", tmp_path / "b.rec", "-qj1", *options)
    found, _, err = stream(command, "webdataset", "recordio", data, *options)
    assert found == of_files.code == code
    if code == 6 and not options:
        assert "stopped: 3 samples do not fit the schema, the last one being 102: has" in err
        assert "3 samples do not fit the schema, the last one being 102: has" in of_files.err


def test_of_gzip(stored: dict[str, Path]) -> None:
    def converted(data: bytes) -> bytes:
        return dsprep.convert_stream(io.BytesIO(data), source="webdataset", to="tfrecord").read()

    data = stored["webdataset"].read_bytes()
    assert converted(gzip.compress(data)) == converted(data)


def test_to_a_file_leaves_nothing_that_is_not_whole(
    command: Path, stored: dict[str, Path], tmp_path: Path
) -> None:
    data = stored["webdataset"].read_bytes()
    line = [command, "convert", "--from", "webdataset", "-", tmp_path / "a.tfrecord"]
    cut = subprocess.run(line, input=data[:20000], capture_output=True, check=False)
    assert cut.returncode == 3
    assert os.listdir(tmp_path) == []
    assert subprocess.run(line, input=data, capture_output=True, check=False).returncode == 0
    _, out, _ = stream(command, "webdataset", "tfrecord", data)
    assert (tmp_path / "a.tfrecord").read_bytes() == out
    again = subprocess.run(line, input=data, capture_output=True, check=False)
    assert again.returncode in (2, 5)


@pytest.mark.parametrize(
    "options",
    [
        ("--to", "tfrecord"),
        ("--from", "webdataset"),
        ("--from", "webdataset", "--to", "folder"),
        ("--from", "webdataset", "--to", "parquet"),
        ("--from", "parquet", "--to", "webdataset"),
        ("--from", "webdataset", "--to", "tfrecord", "--shards", 2),
        ("--from", "webdataset", "--to", "tfrecord", "--parts"),
        ("--from", "webdataset", "--to", "tfrecord", "--prefix", "s3://b/"),
        ("--from", "webdataset", "--to", "tfrecord", "--compression", "gzip"),
        ("--from", "webdataset", "--to", "tfrecord", "--classes", "x"),
        ("--from", "webdataset", "--to", "tfrecord", "--dry-run"),
    ],
    ids=str,
)
def test_refuses_what_a_stream_cannot_be(run_cli: RunCli, options: tuple[object, ...]) -> None:
    finished = run_cli("convert", *options, "-", "-")
    assert (finished.code, finished.out) == (2, ""), finished


class TestConvertStream:
    def test_can_be_read_like_a_file(self, stored: dict[str, Path]) -> None:
        data = stored["webdataset"].read_bytes()

        def converted() -> Converted:
            file = io.BytesIO(data)
            return dsprep.convert_stream(file, source="webdataset", to="tfrecord", block=100)

        whole = b"".join(converted())
        for size in (1, 7, 1000, 1 << 20):
            reader = converted()
            parts = list(iter(lambda: reader.read(size), b""))  # noqa: B023
            assert b"".join(parts) == whole
            assert {len(part) for part in parts[:-1]} <= {size}
        reader = converted()
        assert reader.read(10) + reader.read() == whole
        assert reader.read() == b""
        assert reader.read(5) == b""

    def test_raises_what_is_wrong_after_what_was_right(self, stored: dict[str, Path]) -> None:
        data = stored["tfrecord"].read_bytes()

        class Cut:
            def __init__(self) -> None:
                self.left = data[:-3]

            def read(self, count: int = -1, /) -> bytes:
                part, self.left = self.left[: min(count, 100)], self.left[min(count, 100) :]
                return part

        out = []
        with pytest.raises(DsprepError, match="at byte"):
            for block in dsprep.convert_stream(Cut(), source="tfrecord", to="tfrecord"):
                out.append(block)  # noqa: PERF402
        assert data.startswith(b"".join(out))
        assert out


def test_a_disk_that_is_full(command: Path, stored: dict[str, Path]) -> None:
    with stored["webdataset"].open("rb") as source, open("/dev/full", "wb") as full:
        line = [command, "convert", "--from", "webdataset", "--to", "tfrecord", "-", "-"]
        done = subprocess.run(line, stdin=source, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 5
    assert done.stderr.startswith(b"dsprep: stdout: cannot be written: the disk is full")
    assert done.stderr.count(b"\n") == 1


def test_named_pipes_are_source_and_destination(
    command: Path, stored: dict[str, Path], tmp_path: Path
) -> None:
    source, dest = tmp_path / "in.tar", tmp_path / "out.tfrecord"
    os.mkfifo(source)
    os.mkfifo(dest)
    data = stored["webdataset"].read_bytes()
    feeding = threading.Thread(target=source.write_bytes, args=(data,))
    feeding.start()
    with subprocess.Popen([command, "convert", source, dest]) as process:
        found = dest.read_bytes()
    feeding.join()
    assert process.returncode == 0
    assert (
        found == dsprep.convert_stream(io.BytesIO(data), source="webdataset", to="tfrecord").read()
    )


def test_a_directory_is_no_stream(tmp_path: Path, run_here: Callable[..., Finished]) -> None:
    os.mkfifo(tmp_path / "out.tfrecord")
    done = run_here("convert", tmp_path, tmp_path / "out.tfrecord")
    assert (done.code, "is a directory; a stream is made of one shard" in done.err) == (2, True)


def test_a_named_pipe_that_nobody_reads_any_more(command: Path, tmp_path: Path) -> None:
    source, dest = tmp_path / "in.tar", tmp_path / "out.tfrecord"
    source.write_bytes(b"".join(large("webdataset", 50)))
    os.mkfifo(dest)
    line = [command, "convert", source, dest]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        with dest.open("rb", buffering=0) as pipe:
            pipe.read(10)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 6
    assert err == f"dsprep: {dest} was closed before all was written\n"
