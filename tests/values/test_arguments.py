"""What callers from Python may give to the public functions."""

from __future__ import annotations

import inspect
import io
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

import dsprep
from dsprep.arguments import AnyPath
from dsprep.cli.main import cli
from dsprep.declared import Options, called_with
from dsprep.errors import OptionError
from scripts.reference import contexts
from tests.here import Here
from tests.images import image_folder

FUNCTIONS = {
    name: value for name in dsprep.__all__ if inspect.isfunction(value := getattr(dsprep, name))
}

OF_COMMANDS = {
    "pack": "pack",
    "convert": "convert",
    "shard": "shard",
    "shard append": "append",
    "shard index": "index",
    "augment": "augment",
    "join": "join",
    "inspect": "inspect",
    "split": "split",
    "cost": "cost",
    "sagemaker": "sagemaker",
    "serve": "serve",
    "sync": "sync",
    "verify": "verify",
    "status": "status",
    "bench": "bench",
    "dedup": "dedup",
    "lst append": "append_to_list",
    "lst check": "check_list",
    "lst create": "create_list",
    "lst diff": "diff_lists",
    "lst merge": "merge_lists",
    "lst patch": "patch_list",
    "lst relabel": "relabel_lists",
    "lst remove": "edit_list",
    "lst replace": "edit_list",
    "lst sample": "sample_list",
    "lst set": "edit_list",
    "lst stats": "list_stats",
}


def parameters() -> Iterator[Any]:
    for name, function in FUNCTIONS.items():
        for parameter in inspect.signature(function).parameters:
            yield pytest.param(function, parameter, id=f"{name}-{parameter}")


def test_every_command_has_a_function() -> None:
    commands = {
        context.command_path.removeprefix("dsprep ")
        for context in contexts(cli)
        if not isinstance(context.command, click.Group)
    }
    assert commands | {"shard"} == OF_COMMANDS.keys()
    assert set(OF_COMMANDS.values()) <= FUNCTIONS.keys()


def test_the_names_are_listed_before_they_are_imported() -> None:
    code = "import dsprep, sys; print(*dir(dsprep)); sys.exit('polars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(dsprep.__all__) <= set(done.stdout.split())


@pytest.mark.parametrize(("function", "name"), list(parameters()))
def test_another_type_is_refused(function: Callable[..., Any], name: str) -> None:
    required = {
        each.name: io.BytesIO() if each.name == "reader" else "x"
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty
    }
    for value in (object(), b"x", 3j, [[object()]]):
        with pytest.raises(OptionError, match=f"^{function.__name__}: {name}.*give "):
            function(**{**required, name: value})


class Taken(Options):
    path: AnyPath | None = None
    paths: AnyPath | Sequence[AnyPath] = ()
    words: Sequence[str] = ()
    whole: int | str | None = None
    share: float = 0.0
    is_so: bool = False
    shares: Mapping[str, str | float] | None = None
    transform: dsprep.Transform | None = None
    pair: tuple[str, str] | None = None
    rules: Sequence[dsprep.Rule] = ()
    side: typing.Literal["ours", "theirs"] | None = None


@called_with(Taken)
def taken(options: Taken) -> dict[str, Any]:
    values = vars(options).items()
    return {name: value for name, value in values if value not in (None, (), 0.0, False)}


class AsPath:
    def __fspath__(self) -> str:
        return "a/b"


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ({"path": Path("a/b")}, "a/b"),
        ({"path": AsPath()}, "a/b"),
        ({"path": "s3://b/c"}, "s3://b/c"),
        ({"paths": Path("a")}, "a"),
        ({"paths": [Path("a"), "b"]}, ("a", "b")),
        ({"paths": map(str, (1, 2))}, ("1", "2")),
        ({"words": "jpg"}, ("jpg",)),
        ({"words": {"jpg"}}, ("jpg",)),
        ({"whole": 3.0}, 3),
        ({"whole": "2MB"}, "2MB"),
        ({"share": 1}, 1.0),
        ({"is_so": True}, True),
        ({"shares": {"train": 1, "val": "2"}}, {"train": 1.0, "val": "2"}),
        ({"transform": {"resize": 32}}, dsprep.Transform(resize=32)),
        ({"transform": {"crop": [3, 4]}}, dsprep.Transform(crop=(3, 4))),
        ({"pair": ["a", "b"]}, ("a", "b")),
        ({"rules": (False, "*.log")}, (dsprep.Rule(False, "*.log"),)),
        ({"rules": [dsprep.Rule(False, "*")]}, (dsprep.Rule(False, "*"),)),
        ({"rules": [dsprep.Rule(False, "*")] * 2}, (dsprep.Rule(False, "*"),) * 2),
        ({"side": "ours"}, "ours"),
    ],
)
def test_what_is_natural_is_taken(given: dict[str, Any], got: object) -> None:
    assert list(taken(**given).values()) == [got]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"whole": True}, "whole=True is of type bool; give a whole number, text or None"),
        ({"whole": 2.5}, "whole=2.5 is of type float"),
        ({"share": "1"}, "share='1' is of type str; give a number"),
        ({"is_so": 1}, "is_so=1 is of type int; give True or False"),
        ({"words": ["a", 5]}, r"words\[1\]=5 is of type int; give text"),
        ({"path": Path("s3://b/c")}, "give a place on S3 as text"),
        ({"pair": "ab"}, "pair='ab'"),
        ({"transform": {"resise": 3}}, "transform: has no 'resise'; choose of resize, crop"),
        ({"transform": {"resize": "3"}}, r"transform\['resize'\]='3' is of type str"),
        ({"shares": {"train": []}}, r"shares\['train'\]="),
        ({"path": 5}, "path=5 is of type int; give a path or None"),
        ({"paths": 5}, "paths=5 is of type int; give a path or a list, each a path"),
        ({"side": "both"}, "side='both' is of type str; give 'ours' or 'theirs'"),
        ({"path": "x" * 100, "whole": b"x" * 100}, "^taken: whole=b'x{50,60}… is of"),
    ],
)
def test_what_is_refused_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        taken(**given)


def test_a_transform_of_other_types_is_refused() -> None:
    for values in ({"resize": "32"}, {"quality": "9"}, {"crop": (1, "2")}, {"encode": None}):
        with pytest.raises(OptionError, match=next(iter(values))):
            dsprep.Transform(**values)  # type: ignore[arg-type]


def test_an_unknown_argument_is_named_by_python() -> None:
    with pytest.raises(TypeError, match=r"pack\(\) got an unexpected keyword argument 'quality'"):
        dsprep.pack("a", "b", quality=3)  # type: ignore[call-arg]


def test_what_the_command_line_has_read_is_not_checked_again(
    run_here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str, *_: object) -> None:
        raise AssertionError(f"{name}: is checked again")

    monkeypatch.setattr("dsprep.declared.accept", refused)
    with pytest.raises(AssertionError, match=r"pack: sources"):
        dsprep.pack("a", "b")
    images, shards, names = tmp_path / "images", tmp_path / "shards", tmp_path / "all.lst"
    image_folder(images, ("a", "b"), per_class=2)
    for command in (
        ("pack", images, shards, "--to", "webdataset", "--resize", 8, "--rename", "image=picture"),
        ("convert", shards, tmp_path / "recs", "--to", "recordio", "--drop", "path", "--dry-run"),
        ("shard", shards, tmp_path / "cut", "--target-size", "1MB", "--shuffle"),
        (
            "augment",
            images,
            tmp_path / "more",
            "--to",
            "tfrecord",
            "--op",
            "hflip",
            "--per-image",
            1,
        ),
        ("join", shards, tmp_path / "joined"),
        ("verify", shards, "--against", images),
        ("status", shards),
        ("shard", "append", images, shards, "--dry-run", "--skip-existing"),
        ("shard", "index", shards, "--kind", "dali", "--dry-run"),
        ("inspect", images, "--sample", 2),
        ("dedup", images, "-o", tmp_path / "copies.csv"),
        ("split", images, "-o", tmp_path / "lists", "--ratio", "train=1/2,val=1/2"),
        ("cost", images),
        ("sagemaker", images, "--prefix", "s3://bucket"),
        ("lst", "create", images, "-o", names, "--class-order", "natural"),
        ("lst", "append", names, images),
        ("lst", "set", names, "--id", 0, "--label", "b"),
        ("lst", "sample", names, "--count", 1),
        ("lst", "check", names, "--root", images),
    ):
        done = run_here(*command)
        assert done.code in (0, 3), (command, done.err)


@pytest.mark.parametrize("sources", [[], "", ["a", ""]])
def test_no_source(sources: Any, tmp_path: Path) -> None:
    for function in (dsprep.convert, dsprep.shard, dsprep.append):
        with pytest.raises(OptionError, match="the source is empty"):
            function(sources, tmp_path / "out")


def test_paths_all_the_way(tmp_path: Path) -> None:
    images, shards, more = tmp_path / "images", tmp_path / "shards", tmp_path / "more"
    image_folder(images, ("a", "b"), per_class=2)
    image_folder(more, ("a",), per_class=3)
    options: dict[str, Any] = {"workers": 1}
    dsprep.create_list(images, tmp_path / "all.lst", **options)
    made = dsprep.pack(
        images,
        shards,
        format="webdataset",
        list_file=tmp_path / "all.lst",
        extensions="jpg",
        transform={"resize": 8, "encode": "png"},
        **options,
    )
    assert made.samples == 4
    assert dsprep.verify(shards, against=images, **options).problems == []
    assert dsprep.convert([shards], tmp_path / "x.rec", **options).samples == 4
    assert dsprep.shard(shards, tmp_path / "cut", shards=2, **options).samples == 4
    assert dsprep.index(tmp_path / "cut", kinds="dali", **options).problems == []
    split = dsprep.split(images, tmp_path / "lists", ratios={"a": 0.5, "b": "1/2"}, workers=1)
    assert {side.samples for side in split.lists} == {2}
    rows = dsprep.append_to_list(tmp_path / "all.lst", more, label=1, workers=1)
    assert rows.added == 1
    assert dsprep.edit_list(tmp_path / "all.lst", ids=0).removed == 1
    assert dsprep.list_stats(tmp_path / "all.lst").rows == 4


def test_a_source_shows_what_it_takes() -> None:
    parameters = inspect.signature(dsprep.Source).parameters
    assert next(iter(parameters)) == "root"
    assert parameters["labels"].kind is inspect.Parameter.KEYWORD_ONLY
    source = dsprep.Source("photos", labels="a.csv")
    assert source == dsprep.Source("photos", labels="a.csv") != dsprep.Source("photos")
    assert "root='photos'" in repr(source)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("pack", {"sources": "a\0b", "dest": "out"}),
        ("pack", {"sources": ["a", "a\0b"], "dest": "out"}),
        ("convert", {"sources": "a", "dest": Path("a\0b")}),
        ("verify", {"dest": "a\0b"}),
        ("create_list", {"source": "a\0b", "out": "a.lst"}),
        ("sync", {"source": "a\0b", "destination": "s3://bucket/x"}),
    ],
)
def test_a_nul_character_is_refused(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"'a\\x00b': holds a NUL character"):
        getattr(dsprep, name)(**given)
