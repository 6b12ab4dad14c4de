"""What every kind of source promises. The test class of a kind derives from `SourceTests`."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

from dsprep.errors import DsprepError
from dsprep.sources.kind import SourceKind
from dsprep.sources.reading import claims, read_source
from dsprep.sources.source import Source, make_source
from tests.servers.bucket import Bucket

# It reads rows in a process of its own, as a worker does, and notes the files that it opens.
_WORKER = """
import json, os, pickle, sys
reader, rows, root = pickle.load(sys.stdin.buffer)
opened = set()
sys.addaudithook(lambda event, args: event == "open" and opened.add(args[0]))
count = len(list(reader.read(rows)))
below = [os.fspath(each) for each in opened if not isinstance(each, int)]
below = sorted(os.fsdecode(each) for each in below if os.fsdecode(each).startswith(root))
print(json.dumps([count, "polars" in sys.modules, below]))
"""


class SourceTests:
    """The contract of a kind of source.

    Attributes:
        kind: The kind.
        in_archive: Whether it reads a zip of the directory that `make` writes.
    """

    kind: ClassVar[type[SourceKind]]
    in_archive: ClassVar[bool] = False

    def make(self, root: Path) -> Path:
        """Write a small source of this kind below a directory; return its path."""
        raise NotImplementedError

    def options(self, root: Path) -> dict[str, Any]:
        """Return the options that go with it."""
        return {}

    def test_it_claims_its_own_and_nothing_of_others(
        self, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        for test, made in all_made(tmp_path_factory).items():
            claimed = type(next(claims(made.source())).kind) is self.kind
            assert claimed == (test is type(self)), made.path

    def test_from_names_it(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        made = all_made(tmp_path_factory)[type(self)]
        found = samples(made.source())
        same = []
        for name in self.kind.names:
            try:
                same.append(samples(made.source(kind=name)).equals(found))
            except DsprepError:  # another format of shards
                same.append(False)
        assert any(same) or not self.kind.names

    def test_s3_gives_what_a_directory_gives(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        localstack: Bucket,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
        made = all_made(tmp_path_factory)[type(self)]
        for file in made.root.rglob("*"):
            if file.is_file():
                localstack.put(file.relative_to(made.root).as_posix(), file.read_bytes())
        url = f"{localstack.url}/{made.path.relative_to(made.root)}"
        assert samples(made.source(url)).equals(samples(made.source()))

    def test_an_archive_gives_what_a_directory_gives(
        self, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        made = all_made(tmp_path_factory)[type(self)]
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            for file in sorted(made.path.rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(made.path))
        claimed = type(next(claims(made.source(str(tmp_path / "a.zip")))).kind) is self.kind
        assert claimed == (self.in_archive or self.kind.adds)
        if self.in_archive:
            assert samples(made.source(str(tmp_path / "a.zip"))).equals(samples(made.source()))

    def test_a_worker_loads_no_polars_and_reads_the_inputs(
        self, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        made = all_made(tmp_path_factory)[type(self)]
        catalog = read_source(made.source())[0]
        rows = catalog.rows()
        done = subprocess.run(
            [sys.executable, "-c", _WORKER],
            input=pickle.dumps((catalog.reader, rows, str(made.root))),
            capture_output=True,
            check=False,
        )
        count, loads_polars, opened = json.loads(done.stdout or "[0, 0, []]")
        assert (count, loads_polars) == (len(rows.ids), False), done.stderr.decode()
        inputs = catalog.reader.inputs(catalog.table.select("path", "size", "mtime").iter_rows())
        assert set(map(stem, opened)) <= {stem(each.path) for each in inputs}


class Made:
    """The source that a test class has made."""

    def __init__(self, test: SourceTests, root: Path) -> None:
        self.root, self.path = root, test.make(root)
        self.options = test.options(root)

    def source(self, path: str = "", **more: Any) -> Source:
        return make_source(path or str(self.path), needs_names=True, **self.options, **more)


_MADE: dict[type[SourceTests], Made] = {}


def all_made(factory: pytest.TempPathFactory) -> dict[type[SourceTests], Made]:
    """Return the sources of all kinds, which are made once and only read."""
    if not _MADE:
        for each in sorted(SourceTests.__subclasses__(), key=lambda each: each.__name__):
            _MADE[each] = Made(each(), factory.mktemp(each.__name__))
    return _MADE


def stem(path: str) -> str:
    """Return what the files of one sample have in common."""
    directory, name = os.path.split(path)
    return os.path.join(directory, name.partition(".")[0])


def samples(source: Source) -> pl.DataFrame:
    """Return the samples of a source, without what differs by the place."""
    table = read_source(source)[0].table
    return table.select(name for name in ("index", "path", "label") if name in table.columns)
