"""The contract of a kind of source, as tests that pytest collects.

A package that adds a kind derives a test class from `SourceTests`, as dsprep does for its own
kinds. Nothing of dsprep imports this module, and it imports no pytest: tests take ``tmp_path``.
"""

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

from dsprep.errors import DsprepError
from dsprep.frozen import Frozen
from dsprep.plan.values import values_for
from dsprep.sources.kind import VERSION, SourceKind
from dsprep.sources.reading import claims, read_source
from dsprep.sources.source import Source, make_source

# It reads rows in a process of its own, as a worker does, and notes the files that it opens.
_WORKER = """
import json, os, pickle, sys
reader, rows, root = pickle.load(sys.stdin.buffer)
opened = set()
sys.addaudithook(lambda event, args: event == "open" and opened.add(args[0]))
count = len(list(reader.read(rows)))
below = [os.fsdecode(each) for each in opened if not isinstance(each, int)]
below = sorted(each for each in below if each.startswith(root))
print(json.dumps([count, "polars" in sys.modules, below]))
"""

_SLOW = """
import sys
import {}
print({{"polars", "PIL", "pyarrow"}}.intersection(sys.modules))
"""


class MadeSource(Frozen):
    """The source that a test class has made below a directory."""

    root: Path
    path: Path
    options: dict[str, Any]

    def source(self, path: str = "", **more: Any) -> Source:
        """Return the source, or one at another path, with its options and others."""
        return make_source(path or str(self.path), needs_names=True, **self.options, **more)


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

    def made(self, root: Path) -> MadeSource:
        """Return the source that the tests read."""
        path = self.make(root)
        return MadeSource(root, path, self.options(root))

    def test_it_claims_its_own(self, tmp_path: Path) -> None:
        assert self.kind.version == VERSION
        assert type(next(claims(self.made(tmp_path).source())).kind) is self.kind

    def test_from_names_it(self, tmp_path: Path) -> None:
        made = self.made(tmp_path)
        found = samples(made.source())
        same = []
        for name in self.kind.names:
            try:
                same.append(samples(made.source(kind=name)).equals(found))
            except DsprepError:  # the directory has shards of another format
                same.append(False)
        assert any(same) or not self.kind.names

    def test_an_archive_gives_what_a_directory_gives(self, tmp_path: Path) -> None:
        made, path = self.made(tmp_path / "made"), tmp_path / "a.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in sorted(made.path.rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(made.path))
        claimed = type(next(claims(made.source(str(path)))).kind) is self.kind
        assert claimed == (self.in_archive or self.kind.adds)
        if self.in_archive:
            assert samples(made.source(str(path))).equals(samples(made.source()))

    def test_what_is_left_over_is_said(self, tmp_path: Path) -> None:
        path = self.make(tmp_path)
        if not path.is_dir():
            return
        statuses = {"README.md": "harmless", "other.bin": "left-over"}
        for name in statuses:
            (path / name).write_bytes(b"1")
        source = MadeSource(tmp_path, path, self.options(tmp_path)).source()
        found = {each.path: each.kind for each in read_source(source)[1]}
        said = {name: found[name] for name in statuses if name in found}
        assert said == statuses

    def test_a_worker_loads_no_polars_and_reads_the_inputs(self, tmp_path: Path) -> None:
        made = self.made(tmp_path)
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
        assert set(map(_stem, opened)) <= {_stem(each.path) for each in inputs}

    def test_a_plan_holds_its_reader(self, tmp_path: Path) -> None:
        source = self.made(tmp_path).source()
        values, tables = values_for(source), list[pl.DataFrame]()
        saved = values.to_json(read_source(source)[0].reader, tables)
        again = values.from_json(json.loads(json.dumps(saved)), tables.__getitem__, {})
        assert values.to_json(again, []) == saved

    def test_its_options_load_nothing_slow(self) -> None:
        code = _SLOW.format(self.kind.options.__module__)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert done.stdout == b"set()\n"


def _stem(path: str) -> str:
    """Return what the files of one sample have in common."""
    directory, name = os.path.split(path)
    return os.path.join(directory, name.partition(".")[0])


def samples(source: Source) -> pl.DataFrame:
    """Return the samples of a source, without what differs by the place."""
    table = read_source(source)[0].table
    return table.select(name for name in ("index", "path", "label") if name in table.columns)
