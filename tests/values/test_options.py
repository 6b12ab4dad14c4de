"""Every option takes effect or is refused: the table of options forgets none."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import dsprep
from dsprep.cli.help import DefaultGroup, command_name, option_name
from dsprep.cli.main import cli
from dsprep.options import FACTS, given_options, require_effect, rules
from dsprep.options import option_name as named
from dsprep.sources.annotation_kinds import own_annotation_kinds
from dsprep.sources.kinds import own_kinds
from scripts.reference import contexts
from tests.conftest import Finished
from tests.images import image_folder

RunHere = Callable[..., Finished]

ALWAYS = {
    # of all commands
    *(
        "--help",
        "--help-all",
        "--version",
        "--json",
        "--engine",
        "--quiet",
        "--workers",
        "--dry-run",
        "--overwrite",
    ),
    # sources: each of these tells what is read, or contradicts what is
    *("--list", "--labels", "--classes", "--from", "--parts", "--pair", "--root", "--under"),
    *("--annotations", "--masks", "--sides-from", "--split", "--keep-classes", "--layout"),
    # what is written
    *("--to", "--key", "--check", "--on-error", "--output", "--materialize"),
    # fields: names that no sample has are said when samples have been looked at
    *("--only", "--drop", "--rename", "--cast", "--image-field", "--label-field", "--label-type"),
    *("--schema", "--schema-out", "--no-image", "--skip-existing"),
    # images
    *(
        "--resize",
        "--crop",
        "--encode",
        "--color",
        "--op",
        "--augment",
        "--keep-originals",
        "--any-side",
    ),
    # which samples, rows or files
    *("--shuffle", "--filter", "--filter-table", "--folds", "--leaks", "--assign"),
    *("--near", "--keep"),
    *("--train-ratio", "--test-ratio", "--chunks", "--fraction", "--count", "--per-class"),
    *("--balanced", "--path", "--id", "--missing", "--class", "--include", "--exclude"),
    # changes of lists
    *("--label", "--new-path", "--map", "--new-classes", "--keep-unmatched", "--renumber"),
    *("--ours", "--theirs", "--ignore-ids", "--ignore-order", "--content", "--summary", "--for"),
    # verify, shard index
    *("--decode", "--against", "--loader", "--kind", "--energon"),
    # inspect
    *("--sample", "--head", "--measured"),
    # serve
    *("--channel", "--attributes", "--epochs", "--shuffle-shards", "--stdout", "--part"),
    # sagemaker: without effect, some are refused when the channels are known
    *("--prefix", "--mode", "--sharded", "--seed", "--lists", "--name", "--image", "--role"),
    *("--instances", "--instance-type", "--algorithm", "--hyper", "--vpc"),
    # cost
    *("--shard-size", "--prices"),
    # sync
    *("--clean-uploads", "--profile", "--region", "--endpoint-url", "--path-style"),
    *("--no-sign-request", "--request-payer"),
    # bench: --cache and --label are refused where nothing is read from a disk
    *("--reader", "--access", "--work", "--batch", "--steps", "--every", "--warmup", "--rounds"),
    *("--cached", "--compute", "--cache", "--label", "--show-code"),
}
"""Options that take effect whatever else is given, as far as no rule says otherwise."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """All commands that do something, by name."""
    for context in contexts(cli):
        command = context.command
        if isinstance(command, DefaultGroup):
            command = command.get_command(context, "") or command
        if not isinstance(command, click.Group):
            yield command_name(context), command


COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_forgotten(name: str) -> None:
    options = {
        option_name(each) for each in COMMANDS[name].params if isinstance(each, click.Option)
    }
    ruled = {
        option
        for rule in rules()
        for option in rule.options
        if not rule.commands or name in rule.commands
    }
    kinds = (*own_kinds().options(), *own_annotation_kinds().options())
    ruled |= {named(each.name) for _, each in kinds}  # `read_source` rules them
    draws = {"--seed"} if name in ("lst sample", "augment") else set()
    assert options <= ruled | ALWAYS | draws


def test_the_table_names_what_there_is() -> None:
    there = {
        option_name(each)
        for command in COMMANDS.values()
        for each in command.params
        if isinstance(each, click.Option)
    }
    for rule in rules():
        assert set(rule.options) <= there, rule
        assert set(rule.commands) <= COMMANDS.keys(), rule
        assert set(rule.facts) <= FACTS.keys(), rule
    assert ALWAYS - {"--help", "--version"} <= there


def test_an_option_of_one_path_is_given_once() -> None:
    """A second path would replace the first without a word."""
    for name, command in COMMANDS.items():
        for each in command.params:
            if not isinstance(each, click.Option) or each.multiple:
                continue
            if each.metavar not in ("FILE", "DIR"):
                continue
            words = [each.opts[0], "1", each.opts[-1], "2"]
            told = f"{option_name(each)} is given twice: give it once"
            with pytest.raises(click.UsageError, match=told):
                command.make_context(name, words)


def test_options_that_may_be_given_again(run_here: RunHere, tmp_path: Path) -> None:
    image_folder(tmp_path / "a", ("cat",), 1)
    again = ("--drop", "x", "--drop", "y", "--shards", 2, "--shards", 1)
    assert run_here("pack", tmp_path / "a", tmp_path / "out", "--to", "tfrecord", *again).code == 0
    done = run_here("pack", "a", "b", "--labels", "1.csv", "--labels=2.csv")
    assert done.code == 2
    assert "--labels is given twice: give it once, with the rows of all tables" in done.err
    job = ("sagemaker", "s3://bucket/a", "--output", "s3://bucket/b", "--", "pack")
    assert run_here(*job, "--to", "tfrecord").code == 0
    assert run_here(*job, "--labels", "s3://bucket/a.csv", "--labels", "b.csv").code == 2


@pytest.mark.parametrize(
    "function",
    [dsprep.pack, dsprep.convert, dsprep.shard, dsprep.append, dsprep.split, dsprep.sync],
)
def test_parameters_of_functions_are_options(function: Callable[..., Any]) -> None:
    name = {"append": "shard append"}.get(function.__name__, function.__name__)
    options = {option_name(each) for each in COMMANDS[name].params}
    parameters = inspect.signature(function).parameters.values()
    defaults = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
    for parameter in defaults.keys() - {
        "progress",
        "transform",
        "rules",
        "config",
        "events",
        "kind_options",
    }:
        value = False if parameter in ("stratify", "follow_links") else "x"
        assert given_options({parameter: value}).keys() <= options
    # What is left out is not given, or it would be refused.
    facts = {"single": "x", "format": "recordio", "stream": False, "local_source": False}
    require_effect(name, given_options(defaults), **facts)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("pack IMAGES OUT --format webdataset --quality 30", "--quality 30 has no effect: no im"),
        ("pack IMAGES OUT --format webdataset --quality 90", "--quality 90 has no effect: no im"),
        ("pack IMAGES OUT --format webdataset --encode keep --quality 90", "--quality 90 has no"),
        ("pack IMAGES OUT --format webdataset --encode png --quality 9", "--quality 9 has no"),
        ("pack IMAGES OUT --format webdataset --crop 9 --enlarge", "--enlarge has no effect"),
        ("pack IMAGES OUT --format recordio --compression none", "not with recordio"),
        ("pack IMAGES OUT --format recordio --features slim", "it goes with tfrecord"),
        ("pack IMAGES OUT --format tfrecord --metadata", "--metadata has no effect: it goes"),
        ("pack IMAGES x.tfrecord.gz --compression none", "--compression none has no effect"),
        ("pack IMAGES x.tar --name a", "--name a has no effect: the name is that of .*x.tar"),
        ("pack IMAGES x.tar --shards 3", "--shards 3 has no effect: .*x.tar is not cut"),
        ("pack IMAGES x.tar --seed 3 --no-shuffle", "--seed 3 has no effect: nothing is shuffled"),
        ("pack IMAGES x.tar --max-errors 3 --on-error fail", "--max-errors 3 has no effect"),
        ("pack IMAGES x.tar --check none --max-pixels 9", "--max-pixels 9 has no effect: images"),
        ("pack IMAGES x.tar --path-column x", "give the table with --labels"),
        ("pack IMAGES x.tar --keep-fields label", "--keep-fields label has no effect"),
        ("convert BARE x.rec --classes CLASSES", "samples of SOURCE have no labels"),
        ("convert SHARDS x.tfrecord --max-pixels 9", "--max-pixels 9 has no effect: images are"),
        ("convert SHARDS OUT --to tfrecord --name a", "shards keep the names that they have"),
        ("convert SHARDS OUT --to folder --target-size 1MB", "is not cut into shards"),
        ("convert SHARDS x.rec --extensions jpg,ppm", "--extensions jpg,ppm has no effect"),
        ("convert SHARDS x.rec --prefix s3://b/", "--prefix s3://b/ has no effect"),
        ("convert - - --from webdataset --to tfrecord -j 2", "--workers 2 has no effect"),
        ("convert SHARD - --to tfrecord --overwrite", "--overwrite has no effect: stdout"),
        ("convert SHARD - --to tfrecord --max-pixels 9", "--max-pixels 9 has no effect"),
        ("shard SHARDS OUT --seed 2", "--seed 2 has no effect: nothing is shuffled"),
        ("convert SHARD - --to tfrecord --filter-table x", "--filter-table x has no effect"),
        ("inspect IMAGES --key a --head 2", "--head 2 has no effect: one sample is shown"),
        ("dedup IMAGES --near-distance 4", "--near-distance 4 has no effect"),
        ("dedup IMAGES --max-pixels 4", "--max-pixels 4 has no effect: images are not decoded"),
        ("dedup IMAGES --overwrite", "--overwrite has no effect: no other file"),
        ("dedup IMAGES -o - --overwrite", "--overwrite has no effect: no other file"),
        ("shard SHARDS OUT --samples-per-shard 1 --multiple-of 2", "--multiple-of 2 has no"),
        ("shard append IMAGES SHARDS --no-shuffle --seed 2", "--seed 2 has no effect"),
        ("shard append IMAGES SHARDS --keep-fields x", "was made without a transform"),
        ("shard index SHARDS --check --overwrite", "--overwrite has no effect: --check writes"),
        ("verify SHARDS --list x.lst", "give --against SOURCE"),
        ("verify SHARDS --filter-table x.tsv", "give --against SOURCE"),
        ("verify SHARDS --max-pixels 9", "images are not decoded; give --decode"),
        ("verify SHARDS --download", "--download has no effect: it goes with s3://"),
        ("split IMAGES -o OUT --near", "--near has no effect"),
        ("split IMAGES -o OUT --leaks report --near-distance 4", "--near-distance 4 has no"),
        ("split IMAGES -o OUT --skip-unmatched", "give the file with --assign"),
        ("split IMAGES -o OUT --stable --no-stratify", "--no-stratify has no effect: --stable"),
        ("split IMAGES -o OUT --root x", "--root x has no effect: SOURCE is not a list"),
        ("split LST -o OUT --extensions jpg", "--extensions jpg has no effect: SOURCE is a list"),
        ("split LST -o OUT --assign SIDES --seed 0", "tells the side of each sample"),
        ("lst create IMAGES -o - --overwrite", "--overwrite has no effect"),
        ("lst create IMAGES -o x.lst --no-shuffle --seed 0", "--seed 0 has no effect"),
        ("lst append LST IMAGES --label 1 --label-column a --labels x", "--label gives all new"),
        ("lst sample LST --fraction 0.5 --strict", "--strict has no effect"),
        ("lst sample LST --count 1 --overwrite", "--overwrite has no effect"),
        ("lst relabel LST --map x --overwrite", "--overwrite has no effect"),
        ("lst remove LST --id 1 --classes CLASSES", "--classes .* has no effect: no class"),
        ("lst replace LST a b --classes CLASSES", "--classes .* has no effect: paths"),
        ("lst diff LST LST --root IMAGES", "give --content, too"),
        ("sync s3://bucket/x here --acl private", "--acl private has no effect: it is for objects"),
        ("sync s3://bucket/x here --no-follow-symlinks", "--no-follow-symlinks has no effect"),
        ("sync s3://bucket/x here --follow-symlinks", "--follow-symlinks has no effect"),
        ("sync IMAGES s3://bucket/x --max-delete 3", "--max-delete 3 has no effect"),
        ("sync IMAGES s3://bucket/x --older-than 3d", "give --clean-uploads"),
        ("sync --clean-uploads s3://bucket/x --delete", "--delete has no effect: --clean-uploads"),
    ],
)
def test_what_cannot_take_effect_is_refused(
    run_here: RunHere, data: Path, command: str, said: str
) -> None:
    before = sorted(data.rglob("*"))
    words = [
        PLACES.get(word, data / word if word.startswith("x.") else word) for word in command.split()
    ]
    done = run_here(*(data / word if isinstance(word, Path) else word for word in words))
    assert done.code == 2, done
    assert re.search(said, done.err), done.err
    assert sorted(data.rglob("*")) == before


PLACES = {
    "IMAGES": Path("images"),
    "BARE": Path("bare.tar"),
    "OUT": Path("out"),
    "SHARDS": Path("shards"),
    "SHARD": Path("shards/train-000000.tar"),
    "LST": Path("train.lst"),
    "CLASSES": Path("classes.txt"),
    "SIDES": Path("sides.csv"),
}
"""Where the data of these tests lies below their directory."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("options")
    paths = image_folder(root / "images", ("a", "b"), 2)
    image_folder(root / "flat", (".",), 2)
    dsprep.pack(str(root / "flat"), str(root / "bare.tar"), workers=1)
    dsprep.pack(str(root / "images"), str(root / "shards"), format="webdataset", workers=1)
    rows = [f"{i}\t{i // 2}\t{path}\n" for i, path in enumerate(paths)]
    (root / "train.lst").write_text("".join(rows), "utf-8")
    (root / "classes.txt").write_text("a\nb\n", "utf-8")
    sides = [f"{path},{'train' if i % 2 else 'val'}\n" for i, path in enumerate(paths)]
    (root / "sides.csv").write_text("path,side\n" + "".join(sides), "utf-8")
    return root


def test_values_that_are_given_again_add_up(run_here: RunHere, tmp_path: Path) -> None:
    image_folder(tmp_path, ("images",), 1)
    (image,) = (tmp_path / "images").iterdir()
    (tmp_path / "table.csv").write_text(f"file,label,a,b,c\n{image.name},x,1,2,3\n")
    asked = ("--to", "webdataset", "--labels", tmp_path / "table.csv", "--dry-run", "--json")
    named = ("--fields", "a", "--fields", "b,c")
    done = run_here("pack", tmp_path / "images", tmp_path / "out", *asked, *named)
    assert done.code == 0, done.err
    fields = json.loads(done.out)["schema"]["fields"]
    assert [each["name"] for each in fields] == ["image", "a", "b", "c", "label"]
