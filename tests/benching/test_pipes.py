"""Named pipes give each reader a file once, and end whatever happens."""

from __future__ import annotations

import os
import threading
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
