"""What every kind of source of dsprep promises: `dsprep.testing`, on a disk and on S3."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TypeVar

import pytest

from dsprep import testing
from dsprep.inspecting.options import InspectOptions
from dsprep.sources.layout import is_path, read_layout
from dsprep.sources.reading import claims, read_source
from dsprep.sources.source import make_source
from dsprep.sources.understood import layout_of
from tests.servers.bucket import Bucket

T = TypeVar("T")


class SourceTests(testing.SourceTests):
    """The contract of a kind of source; the sources of all kinds are made once and only read."""

    factory: pytest.TempPathFactory

    @pytest.fixture(autouse=True)
    def _keep_factory(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.factory = tmp_path_factory

    def made(self, root: Path) -> testing.MadeSource:
        return all_made(self.factory)[type(self)]

    def test_it_claims_nothing_of_others(self) -> None:
        for test, made in all_made(self.factory).items():
            claimed = type(next(claims(made.source())).kind) is self.kind
            assert claimed == (test is type(self)), made.path

    def test_its_layout_gives_the_same(self, tmp_path: Path) -> None:
        made = self.made(tmp_path)
        source = made.source()
        catalog, findings = read_source(source)
        options = InspectOptions(str(made.path), **made.options)
        path = tmp_path / "its.toml"
        path.write_text(layout_of(source, options, (catalog, findings)), encoding="utf-8")
        known = read_layout(str(path)).values
        outside = {name: each for name, each in made.options.items() if name not in known}
        outside = {name: each for name, each in outside.items() if is_path(name, each)}
        source = make_source(str(made.path), needs_names=True, layout=path, **outside)
        again, _ = read_source(source)
        assert again.digest() == catalog.digest(), path.read_text(encoding="utf-8")
        facts = [(each.settled, each.classes, each.sides, each.lists) for each in (catalog, again)]
        assert facts[0] == facts[1], path.read_text(encoding="utf-8")

    def test_s3_gives_what_a_directory_gives(
        self, localstack: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
        made = self.made(tmp_path)
        for file in made.root.rglob("*"):
            if file.is_file():
                localstack.put(file.relative_to(made.root).as_posix(), file.read_bytes())
        url = f"{localstack.url}/{made.path.relative_to(made.root)}"
        assert testing.samples(made.source(url)).equals(testing.samples(made.source()))


def classes_of(contract: type[T]) -> list[type[T]]:
    """Return the test classes of all kinds, in whichever module of this room they are."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if f"({contract.__name__})" in path.read_text("utf-8"):
            import_module(f"tests.sources.{path.stem}")
    return sorted(contract.__subclasses__(), key=lambda each: each.__name__)


_MADE: dict[type[SourceTests], testing.MadeSource] = {}


def all_made(factory: pytest.TempPathFactory) -> dict[type[SourceTests], testing.MadeSource]:
    """Return the sources of all kinds."""
    if not _MADE:
        for each in classes_of(SourceTests):
            _MADE[each] = testing.SourceTests.made(each(), factory.mktemp(each.__name__))
    return _MADE
