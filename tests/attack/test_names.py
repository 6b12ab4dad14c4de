"""Names that make trouble: packed if the format can hold them, else refused by name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attack.trees import contents, manifest, names, rejects
from tests.conftest import Finished
from tests.images import image_folder, jpeg
from tests.missing import framework

RunCli = Callable[..., Finished]

FORMATS = ("webdataset", "tfrecord", "recordio")

PLAIN = (
    "c/a blank.jpg",
    "c/two  blanks and a dot.jpg",
    "c/a.b.c.jpg",
    "v1.2/under a dot.jpg",
    "v1.2/3.4/5.6.jpg",
    "Ünï cödé/ねこ.jpg",
    "c/é composed.jpg",
    "c/e\u0301 decomposed.jpg",
    "c/UPPER.JPG",
    "c/Mixed.JpEg",
    "c/" + "x" * 251 + ".jpg",
    "/".join(("d" * 200, "e" * 200, "f" * 100 + ".jpg")),
    "c/" + "ね" * 83 + ".jpg",
    "c/it's.jpg",
    'c/"quoted".jpg',
    "c/-rf.jpg",
    "c/--help.jpg",
    "c/100%s %d.jpg",
    "c/#hash;semi&amp|pipe.jpg",
    "c/back\\slash\\n.jpg",
    "c/{1..3}*?[x].jpg",
    "c/~.jpg",
    "c/$HOME.jpg",
    "c/a=b,c:d.jpg",
    "c/a..jpg",
    "c/jpg.jpg",
    "c/__x__.jpg",
    "c/__x__y/z.jpg",
    "class with blanks /in it.jpg",
    "c/\U0001f408.jpg",
    "c/\u202ereversed.jpg",
)
ODD = {
    "__x__/hidden by webdataset.jpg": {"webdataset"},
    "c/a\ttab.jpg": {"recordio"},
    "c/a\nline.jpg": {"webdataset", "recordio"},
    "c/a\rreturn.jpg": {"recordio"},
    " c/blank first.jpg": {"recordio"},
}
"""Names that some formats cannot hold, and which."""

NOT_UTF8 = {rb"c/latin\xe9.jpg": b"c/latin\xe9.jpg", rb"caf\xe9/0.jpg": b"caf\xe9/0.jpg"}
"""Names that are no text, as they are printed, and as they are."""

LOADERS = {"webdataset": "webdataset", "tfrecord": "tensorflow", "recordio": "mxnet"}


@pytest.fixture(scope="module")
def oddities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("odd") / "odd"
    for number, path in enumerate((*PLAIN, *ODD, *NOT_UTF8.values())):
        place = os.path.join(os.fsencode(root), os.fsencode(path))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        Path(os.fsdecode(place)).write_bytes(jpeg(number))
    return root


@pytest.mark.parametrize("format", FORMATS)
def test_each_is_in_a_shard_or_refused_by_name(
    run_here: RunCli, oddities: Path, tmp_path: Path, format: str
) -> None:
    dest = tmp_path / "out"
    finished = run_here("pack", oddities, dest, "--format", format, "--json")
    assert finished.code == 3
    refused = {path for path, formats in ODD.items() if format in formats}
    refused |= {path.decode() for path in NOT_UTF8}
    assert set(rejects(dest)) == refused
    assert {each["path"] for each in json.loads(finished.out)["rejects"]} == refused
    assert manifest(dest)["samples"] == len(PLAIN) + len(ODD) + len(NOT_UTF8) - len(refused)
    framework(LOADERS[format])
    verified = run_here("verify", dest, "--against", oddities, "--loader", LOADERS[format])
    assert verified.code == 0, verified.out


def test_paths_of_them_are_found_again(
    run_here: RunCli, oddities: Path, tmp_path: Path, webdataset: object
) -> None:
    """As webdataset itself reads the shards."""
    import webdataset as wds

    assert run_here("pack", oddities, tmp_path / "out.tar", "--metadata").code == 3
    read = wds.WebDataset(str(tmp_path / "out.tar"), shardshuffle=False)
    found = {json.loads(sample["json"])["filename"]: sample["jpg"] for sample in read}
    wanted = {path for path in (*PLAIN, *ODD) if "webdataset" not in ODD.get(path, ())}
    assert found == {path: (oddities / path).read_bytes() for path in wanted}


@pytest.mark.parametrize("name", ["line\nbreak", "carriage\rreturn", " "])
def test_a_class_that_classes_txt_cannot_hold_is_refused(
    run_here: RunCli, tmp_path: Path, name: str
) -> None:
    image_folder(tmp_path / "source", ("cat", name))
    refused = run_here("pack", tmp_path / "source", tmp_path / "out", "--format", "tfrecord")
    assert refused.code == 4
    assert repr(name) in refused.err
    assert names(tmp_path) == ["source"]


class TestCollisions:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        source = tmp_path / "source"
        source.mkdir()
        for number, name in enumerate(("a.jpg", "a.png", "b.c.jpg", "b_c.jpg", "d.jpg", "d.JPG")):
            (source / name).write_bytes(jpeg(number))
        return source

    def test_are_refused_by_name_with_the_way_out(
        self, run_here: RunCli, source: Path, tmp_path: Path
    ) -> None:
        for dry_run in ((), ("--dry-run",)):
            command = ("pack", source, tmp_path / "out", "--format", "webdataset", *dry_run)
            refused = run_here(*command)
            assert refused.code == 4
            for path in ("a.jpg", "a.png", "b.c.jpg", "b_c.jpg", "d.jpg", "d.JPG"):
                assert path in refused.out + refused.err
            assert "--key index" in refused.err
            assert names(tmp_path) == ["source"]

    def test_are_none_with_keys_from_numbers(
        self, run_here: RunCli, source: Path, tmp_path: Path
    ) -> None:
        dest = tmp_path / "out"
        assert run_here("pack", source, dest, "--format", "webdataset", "--key", "index").code == 0
        assert manifest(dest)["samples"] == 6
        assert run_here("verify", dest, "--against", source, "--loader", "webdataset").code == 0

    @pytest.mark.parametrize("format", ["tfrecord", "recordio"])
    def test_do_no_harm_where_keys_are_not_written(
        self, run_here: RunCli, source: Path, tmp_path: Path, format: str
    ) -> None:
        dest = tmp_path / "out"
        packed = run_here("pack", source, dest, "--format", format)
        assert packed.code == 0
        verified = run_here("verify", dest, "--against", source)
        assert verified.code == 0, verified.out

    def test_of_very_many_are_counted_and_some_named(
        self, run_here: RunCli, tmp_path: Path
    ) -> None:
        image_folder(tmp_path / "source", (".",), per_class=30)
        for path in sorted((tmp_path / "source").iterdir()):
            path.with_suffix(".jpeg").hardlink_to(path)
        refused = run_here("pack", tmp_path / "source", tmp_path / "out.tar")
        assert "30 keys" in refused.err
        assert len(refused.err.splitlines()) < 20


def test_what_is_hidden_is_skipped_and_said(run_here: RunCli, tmp_path: Path) -> None:
    source, dest = tmp_path / "source", tmp_path / "out"
    files = image_folder(source, ("cat", "dog"))
    hidden = (
        ".ipynb_checkpoints/0-checkpoint.jpg",
        "cat/.ipynb_checkpoints/0.jpg",
        "cat/.DS_Store",
        "cat/._000.jpg",
        "__MACOSX/cat/._000.jpg",
        "dog/Thumbs.db",
        ".git/objects/0.jpg",
    )
    for path in hidden:
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(jpeg())
    (source / "dog" / "notes.txt").write_text("-")
    finished = run_here("pack", source, dest, "--format", "webdataset", "--json")
    assert finished.code == 0
    skipped = {each["path"]: each["kind"] for each in json.loads(finished.out)["skipped"]}
    assert skipped == {
        ".ipynb_checkpoints/": "hidden",
        "cat/.ipynb_checkpoints/": "hidden",
        "cat/.DS_Store": "hidden",
        "cat/._000.jpg": "hidden",
        "__MACOSX/": "hidden",
        "dog/Thumbs.db": "hidden",
        ".git/": "hidden",
        "dog/notes.txt": "left-over",
    }
    assert manifest(dest)["samples"] == len(files)
    assert manifest(dest)["classes"] == ["cat", "dog"]
    lines = contents(dest)["skipped.jsonl"].decode().splitlines()
    assert {json.loads(line)["path"] for line in lines} == set(skipped)
    plain = run_here("pack", source, tmp_path / "again", "--format", "webdataset")
    assert "3 hidden: 1 .db, 1 .jpg, 1 without extension (" in plain.out
    assert "; 4 directories hidden (" in plain.out
    assert ".ipynb_checkpoints/" in plain.out


def test_sources_and_destinations_with_odd_names(run_here: RunCli, tmp_path: Path) -> None:
    for name in ("with blanks", "-dash", "Ünï", "a.tar.d", "new\nline", "caf\udce9", "100%s"):
        source, dest = tmp_path / name / "photos", tmp_path / name / "out"
        image_folder(source, ("cat",), per_class=1)
        for arguments in (
            ("pack", source, dest, "--format", "webdataset", "-j1"),
            ("verify", dest, "--against", source, "-j1"),
            ("pack", "--format", "recordio", "-j1", "--", "photos", "-o/train.rec"),
        ):
            finished = run_here(*arguments, cwd=tmp_path / name)
            assert finished.code == 0, finished
