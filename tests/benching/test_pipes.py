"""Named pipes give each reader a file once, and end whatever happens."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
import threading
import time
from io import RawIOBase
from pathlib import Path

from dsprep.benching.cells import BenchData, Cell
from dsprep.benching.loops import reached


def cell_of(*files: Path) -> Cell:
    data = BenchData("data", "webdataset", [*map(str, files)], 0)
    return Cell(data, "webdataset", "fifo", 0)


def test_each_reader_gets_the_file_once(tmp_path: Path) -> None:
    """Also one that is slow to see its end: it must not be given the file of the next epoch."""
    files = [tmp_path / "a.tar", tmp_path / "b.tar"]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * 100_000)

    with reached(cell_of(*files), None) as pipes:
        for _ in range(30):
            found = [Path(pipe).read_bytes() for pipe in pipes]
            assert [len(each) for each in found] == [100_000, 100_000]
            assert [set(each) for each in found] == [{0}, {1}]


def test_a_signal_does_not_cut_a_file(tmp_path: Path) -> None:
    """As after Ctrl-Z and `fg`: what is written to a full pipe then ends early."""
    file = tmp_path / "a.tar"
    file.write_bytes(bytes(100_000))
    others = threading.enumerate()
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with reached(cell_of(file), None) as pipes, open(pipes[0], "rb", buffering=0) as reader:
            (feeding,) = {*threading.enumerate()} - {*others}
            while _bytes_in(reader) < 65_536:  # all that the pipe holds
                time.sleep(0.001)
            assert feeding.ident is not None
            signal.pthread_kill(feeding.ident, signal.SIGUSR1)
            time.sleep(0.01)
            assert len(reader.read()) == 100_000
    finally:
        signal.signal(signal.SIGUSR1, before)


def _bytes_in(pipe: RawIOBase) -> int:
    found = fcntl.ioctl(pipe.fileno(), termios.FIONREAD, bytes(4))
    return int.from_bytes(found, sys.byteorder)


def test_thousands_of_pipes_start_and_end(tmp_path: Path) -> None:
    file = tmp_path / "a.tar"
    file.write_bytes(b"a" * 500_000)
    before = threading.active_count()

    with reached(cell_of(*[file] * 2000), None) as pipes:
        half_read = os.open(pipes[7], os.O_RDONLY)
        os.read(half_read, 10)
        found = [Path(pipe).stat().st_mode for pipe in pipes]
        assert len(Path(pipes[1999]).read_bytes()) == 500_000
        os.close(half_read)

    assert len(found) == 2000
    assert threading.active_count() == before
    assert not Path(pipes[0]).parent.exists()
