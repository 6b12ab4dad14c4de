"""``serve``: data as SageMaker's Pipe mode gives it, through named pipes on any machine."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import shutil
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dsprep.declared import called_with
from dsprep.errors import DestinationError, OptionError, RunStopped, source_errors
from dsprep.findings import Reject
from dsprep.formats import CONCATENATIVE
from dsprep.frozen import Frozen
from dsprep.options import require_effect
from dsprep.printable import json_values
from dsprep.run.part import Part, parse_part
from dsprep.storage.files import require_disk
from dsprep.storage.local import Lock, destination_errors, write_whole
from dsprep.training.channels import Channel, ChannelNotes, channels_of
from dsprep.training.guard import GuardedProgram
from dsprep.training.options import ServeOptions
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_duration, format_some, quoted_names

_TIMEOUT = 600.0  # seconds without a reader, unless a program is run
_GRACE = 10.0  # seconds that a channel has to end when serving stops
_LOOK = 0.02  # seconds between two looks for a reader, or for the end of a program
_PREFIX = "dsprep-serve-"  # prefix of the names of temporary directories
_LOCK = ".dsprep-serve"  # held while a run serves, in `input/config`
_PIPE = 1 << 20  # bytes that a pipe holds, if the system allows it


class ChannelServed(NamedTuple):
    """What was sent through the pipes of a channel."""

    name: str
    # of what it sent; `files` or `augmented-manifest`, if these are framed; `csv` and other
    # extensions of text of lines
    format: str
    files: int  # the shards or files of an epoch, or lines of the manifest; of this part only
    epochs: int  # number of epochs that were read whole
    closed_early: int  # number of epochs whose reader closed the pipe before the end
    bytes: int  # sent in all epochs

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "name": self.name,
                "format": self.format,
                "files": self.files,
                "epochs": self.epochs,
                "closed_early": self.closed_early,
                "bytes": self.bytes,
            }
        )


class ServeReport(Frozen):
    """What serving did."""

    place: str | None  # the directory of the pipes; None for a temporary one, or a stream
    channels: Sequence[ChannelServed]
    # exit code of the program; 128 plus the number of the signal that ended it
    exit_code: int | None
    rejects: Sequence[Reject]  # samples that could not be converted
    notes: Sequence[str]
    seconds: float  # how long it took

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "place": self.place,
                "channels": self.channels,
                "exit_code": self.exit_code,
                "rejects": self.rejects,
                "notes": self.notes,
                "seconds": self.seconds,
            }
        )


@called_with(ServeOptions)
def serve(options: ServeOptions) -> ServeReport:
    """Serve channels as SageMaker's Pipe mode does: a named pipe for each epoch.

    ``data`` is shards (a file, a pattern, a directory, a manifest), a directory of files, an
    augmented manifest, or text of lines, such as CSV. It is the channel ``train`` or, if it has
    sides, a channel for each.
    ``program`` is a command to run with the environment of a training job, until it ends.
    ``write`` is called with each block of the one channel instead, without pipes.

    Returns:
        What was sent, and the exit code of the program.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If what is read is missing, cannot be read, or does not fit.
        DestinationError: If the pipes cannot be made, or another run serves there.
        RunStopped: If nobody reads for ``timeout`` seconds.
    """
    began = time.monotonic()
    require_effect("serve", options.given)
    noted = ChannelNotes({}, {})
    channels = _channels(options, noted.notes)
    served = _Served(noted, {channel.name: [0, 0, 0] for channel in channels})
    place, code = options.fifo, None
    if options.write is not None:
        if options.program or place:
            raise OptionError("--stdout is without --fifo and a program; leave one of them out")
        if len(channels) > 1:
            names = quoted_names([channel.name for channel in channels])
            raise OptionError(
                f"--stdout is for one channel, and there are {names}: name one with --channel "
                "NAME=DATA"
            )
        _write_all(channels[0], options, served)
    elif place is not None:
        require_disk(str(place))
        code = _serve(Path(place).absolute(), channels, options, served)
    elif options.program:
        _remove_leftovers()
        with tempfile.TemporaryDirectory(prefix=_PREFIX) as directory:
            code = _serve(Path(directory).absolute(), channels, options, served)
    else:
        raise OptionError("give --fifo DIR for the pipes, --stdout, or a program: -- python x.py")
    return ServeReport(
        place=place,
        channels=[
            ChannelServed(each.name, each.format, len(each.order(0)), *served.counts[each.name])
            for each in channels
        ],
        exit_code=code,
        rejects=[*noted.rejects],
        notes=[*noted.notes],
        seconds=time.monotonic() - began,
    )


def _channels(options: ServeOptions, notes: dict[str, None]) -> list[Channel]:
    """Return the channels that the options name."""
    part = parse_part(options.part) if options.part else Part(0, 1)
    named: list[tuple[str | None, object]] = [*(options.channels or {}).items()]
    if (options.data is None) == (not named):
        raise OptionError("name the data either as DATA, or with --channel NAME=DATA")
    seed = (options.seed or 0) if options.shuffle_shards else None
    channels = []
    for name, data in named or [(None, options.data)]:
        for each in channels_of(str(data), name, options.attributes, notes):
            if options.to is not None and each.format not in CONCATENATIVE:
                raise OptionError(f"--to {options.to}: converts shards, and {each.name} has files")
            if len(each.units) < part.of:
                files = format_count(len(each.units), "file")
                raise OptionError(
                    f"--part {options.part}: {each.name} has {files} for {part.of} parts, so that "
                    "some get nothing: give fewer parts, or make more shards"
                )
            channel = replace(each, part=part, seed=seed)
            if options.to not in (None, each.format):
                channel = replace(channel, format=str(options.to), source=each.format)
            channels.append(channel)
    return channels


@dataclass
class _Served:
    """State that the threads of all channels share: counts, errors, and the stop flag."""

    noted: ChannelNotes
    counts: dict[str, list[int]]  # by channel: epochs that were whole or closed early, and bytes
    errors: list[BaseException] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    touched: float = field(default_factory=time.monotonic)  # when a pipe was last opened or read
    waiting: dict[str, Path] = field(default_factory=dict)  # the pipe of each channel

    def count(self, channel: Channel, what: int, number: int = 1) -> None:
        self.counts[channel.name][what] += number
        self.touched = time.monotonic()


def _write_all(channel: Channel, options: ServeOptions, served: _Served) -> None:
    """Call ``write`` with the blocks of all epochs, until nobody reads."""
    assert options.write is not None
    with destination_errors("stdout"):
        try:
            for epoch in range(options.epochs or 1):
                for block in channel.epoch(epoch, served.noted):
                    options.write(block)
                    served.count(channel, 2, len(block))
                served.count(channel, 0)
        except BrokenPipeError:
            served.count(channel, 1)


class _Stopped(Exception):
    """Serving ends."""


def _serve(
    place: Path, channels: Sequence[Channel], options: ServeOptions, served: _Served
) -> int | None:
    """Serve through pipes until all epochs are read, or the program ends; return its exit code."""
    program = options.program
    epochs = options.epochs or (None if program else 1)
    timeout = options.timeout if options.timeout or program else _TIMEOUT
    with _laid_out(place, channels):
        if options.progress is not None and not program:
            pipes = format_some([str(_pipe(place, each, 0)) for each in channels])
            options.progress.note(f"waiting until a program reads {pipes}")
        guarded: GuardedProgram | None = None
        threads: list[threading.Thread] = []
        code = None
        try:
            if program:
                guarded = GuardedProgram(program, os.environ | _environment(place, channels))
            for each in channels:
                arguments = (each, place, epochs, served, guarded)
                threads.append(threading.Thread(target=_send, args=arguments, daemon=True))
                threads[-1].start()
            while not served.errors and (
                guarded.poll() is None if guarded else any(map(threading.Thread.is_alive, threads))
            ):
                idle = time.monotonic() - served.touched
                if timeout and served.waiting and idle > timeout:
                    pipes = format_some(list(map(str, served.waiting.values())))
                    raise RunStopped(f"{pipes}: nobody read for {format_duration(timeout)}")
                time.sleep(_LOOK)
        finally:
            # The program first: it must not take the end of a pipe for that of an epoch.
            if guarded:
                code = guarded.stop()
            served.stop.set()
            for thread in threads:
                # do not wait longer: a thread that waits for S3 ends with the process
                thread.join(_GRACE)
    if served.errors:
        with source_errors(place):
            raise served.errors[0]
    return 128 - code if code and code < 0 else code


@contextmanager
def _laid_out(place: Path, channels: Sequence[Channel]) -> Iterator[None]:
    """Make the tree of ``/opt/ml``; remove its pipes in the end."""
    data, config = place / "input/data", place / "input/config"
    with destination_errors(place):
        for directory in (data, config, place / "model", place / "output/data"):
            directory.mkdir(parents=True, exist_ok=True)
        lock = Lock(locked := config / _LOCK, place)
        try:
            _remove_pipes(data, channels)
            for channel in channels:
                _make_pipe(_pipe(place, channel, 0))
            for name, values in _settings(channels).items():
                write_whole(config / name, json.dumps(values, indent=1).encode() + b"\n", config)
            yield
        finally:
            _remove_pipes(data, channels)
            locked.unlink(missing_ok=True)
            lock.release()


def _remove_leftovers() -> None:
    """Remove the temporary directories of runs that were killed."""
    for place in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        locked = place / "input/config" / _LOCK
        with suppress(DestinationError, OSError):
            if place.lstat().st_uid == os.getuid() and not place.is_symlink() and locked.is_file():
                # acquiring the lock fails while another run serves there
                Lock(locked, place).release()
                shutil.rmtree(place)


def _pipe(place: Path, channel: Channel, epoch: int) -> Path:
    return place / f"input/data/{channel.name}_{epoch}"


def _remove_pipes(data: Path, channels: Sequence[Channel]) -> None:
    """Remove the pipes of channels; who waits at one for a writer finds its end."""
    for channel in channels:
        for path in data.glob(f"{channel.name}_*"):
            if path.is_fifo() and path.name.removeprefix(f"{channel.name}_").isdecimal():
                # Without a writer, a reader would wait in open() for ever: nobody finds its pipe
                # any more. For reading as well, as this does not wait (fifo(7)).
                writer = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
                path.unlink(missing_ok=True)
                os.close(writer)


def _make_pipe(path: Path) -> None:
    try:
        os.mkfifo(path)
    except FileExistsError:
        raise DestinationError(f"{path}: is there already, and is not a pipe") from None


def _settings(channels: Sequence[Channel]) -> dict[str, dict[str, object]]:
    """Return the files of ``input/config``: each part is a host."""
    number, of, _ = channels[0].part
    hosts = [f"algo-{n + 1}" for n in range(of)]
    return {
        "inputdataconfig.json": {channel.name: channel.config for channel in channels},
        "resourceconfig.json": {"current_host": hosts[number], "hosts": hosts},
        "hyperparameters.json": {},
    }


def _environment(place: Path, channels: Sequence[Channel]) -> dict[str, str]:
    """Return the variables that SageMaker's training toolkit sets, as far as data decides them."""
    data, (inputs, resources, settings) = place / "input/data", _settings(channels).values()
    values: dict[str, object] = {
        **{f"CHANNEL_{each.name.upper()}": data / each.name for each in channels},
        "CHANNELS": json.dumps([each.name for each in channels]),
        "INPUT_DATA_CONFIG": json.dumps(inputs),
        "INPUT_DIR": place / "input",
        "INPUT_CONFIG_DIR": place / "input/config",
        "RESOURCE_CONFIG": json.dumps(resources),
        "CURRENT_HOST": resources["current_host"],
        "HOSTS": json.dumps(resources["hosts"]),
        "MODEL_DIR": place / "model",
        "OUTPUT_DIR": place / "output",
        "OUTPUT_DATA_DIR": place / "output/data",
        "HPS": json.dumps(settings),
    }
    return {f"SM_{name}": str(value) for name, value in values.items()}


def _send(
    channel: Channel,
    place: Path,
    epochs: int | None,
    served: _Served,
    guarded: GuardedProgram | None,
) -> None:
    """Send the epochs of a channel, in a thread of its own."""
    pipe = None
    try:
        for epoch in range(epochs or sys.maxsize):
            path = _pipe(place, channel, epoch)
            served.waiting[channel.name] = path
            pipe = _open(path, served, guarded)
            if epoch + 1 != epochs:
                _make_pipe(_pipe(place, channel, epoch + 1))
            try:
                for block in channel.epoch(epoch, served.noted):
                    _write(pipe, block, channel, served)
                _drain(pipe, served)
                served.count(channel, 0)
            except BrokenPipeError:
                served.count(channel, 1)
            # remove the pipe first, so that no reader opens it after its end
            path.unlink(missing_ok=True)
            if guarded:
                guarded.close(str(path))
            os.close(pipe)
            pipe = None
    except _Stopped:
        pass
    except BaseException as error:
        served.errors.append(error)
        served.stop.wait()  # wait for the stop: the program must not see the end of the pipe
    finally:
        served.waiting.pop(channel.name, None)
        if pipe is not None:
            os.close(pipe)


def _open(path: Path, served: _Served, guarded: GuardedProgram | None) -> int:
    """Open a pipe for writing when somebody has opened it for reading."""
    while True:
        try:
            if guarded:
                pipe = guarded.open(str(path))
            else:
                pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            break
        except BrokenPipeError:  # the program has ended, and serving does
            raise _Stopped from None
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise DestinationError(f"{path}: the pipe was removed") from None
            if error.errno != errno.ENXIO:
                raise
        if served.stop.wait(_LOOK):
            raise _Stopped
    served.touched = time.monotonic()
    with suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)
    return pipe


def _write(pipe: int, block: bytes, channel: Channel, served: _Served) -> None:
    """Write a block as fast as it is read; raises BrokenPipeError if the reader has gone."""
    left, poll = memoryview(block), select.poll()
    poll.register(pipe, select.POLLOUT)
    while left:
        with suppress(BlockingIOError):
            written = os.write(pipe, left)
            left = left[written:]
            served.count(channel, 2, written)
            continue
        while not poll.poll(100):
            if served.stop.is_set():
                raise _Stopped


def _drain(pipe: int, served: _Served) -> None:
    """Wait until all that the pipe holds is read; raises BrokenPipeError if the reader goes."""
    poll, before = select.poll(), -1
    poll.register(pipe, 0)  # without events, poll still reports that the reader has gone
    while left := int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder):
        if left != before:
            before, served.touched = left, time.monotonic()
        if poll.poll(1):
            raise BrokenPipeError
        if served.stop.is_set():
            raise _Stopped
