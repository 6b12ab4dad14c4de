"""Which shards a name means, and what stands beside them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dsprep.dataset.manifest import Manifest, ShardEntry
from dsprep.errors import OptionError, SourceError
from dsprep.formats.recordio import RecordIO
from dsprep.schema import Field, Schema
from dsprep.sources.reading import read_source
from dsprep.sources.shards.shardset import ShardSet, expand, find_shards, joined
from dsprep.sources.source import make_source

IMAGES = Schema((Field("image", "image", places=(("image",),)),), "image", None, "recordio")


def test_braces() -> None:
    assert expand("a-{08..11}.tar") == ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]
    assert expand("{a,b}-{0..1}") == ["a-0", "a-1", "b-0", "b-1"]


@pytest.mark.parametrize("pattern", ["{1..0}", "{0..1000000}", "{000..999}" * 4, "{0..9}" * 40])
def test_braces_without_an_end(pattern: str) -> None:
    with pytest.raises(SourceError, match="is not a range of shards|is more than 1,000,000 shards"):
        expand(pattern)


def test_a_directory_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(SourceError, match=rf"{tmp_path}: cannot be read \(Permission denied\)"):
        read_source(make_source(str(tmp_path)))


def find(source: Path | str, format_name: str | None = None) -> ShardSet:
    found = find_shards(str(source), format_name)
    assert found is not None
    return found


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


@pytest.mark.parametrize(
    "name", ["a.tfrecords", "a.tfrec", "a.record", "a.tfrec.gz", "a-00000-of-00001"]
)
def test_names_that_others_give(tmp_path: Path, name: str) -> None:
    touch(tmp_path, name)
    for source in (tmp_path / name, tmp_path, f"{tmp_path}/a*"):
        found = find(source)
        assert (found.layout.name, found.files) == ("tfrecord", (str(tmp_path / name),))
        assert (found.name, found.known, found.notes) == (str(source), False, ())


def test_what_is_no_shard(tmp_path: Path) -> None:
    touch(tmp_path, "notes.txt", "images/1.jpg", "images/x.tar", "both/a.tar", "both/a.rec")
    assert find_shards(str(tmp_path / "notes.txt")) is None
    assert find_shards(str(tmp_path / "images")) is None
    assert find_shards(str(tmp_path / "nothing")) is None
    assert find(tmp_path / "notes.txt", "tfrecord").known
    with pytest.raises(SourceError, match="both: shards of recordio and webdataset"):
        find_shards(str(tmp_path / "both"))
    with pytest.raises(SourceError, match=r"both/b\.tar: there is no such shard"):
        find_shards(f"{tmp_path}/both/{{a,b}}.tar")
    with pytest.raises(OptionError, match="--from lmdb: choose one of"):
        read_source(make_source(tmp_path / "notes.txt", kind="lmdb"))


def test_several_sides(tmp_path: Path) -> None:
    touch(tmp_path, "train.rec", "val.rec")
    assert find(tmp_path).sides == ("train", "val")
    both = find(f"{tmp_path}/{{train,val}}.rec")
    assert (len(both.files), both.sides) == (2, ())
    touch(tmp_path, "more.rec")
    with pytest.raises(SourceError, match=r"'.*/train\.rec' or '.*/val\.rec'; or take all"):
        find_shards(str(tmp_path))


def test_a_directory_for_each_side(tmp_path: Path) -> None:
    for side in ("train", "val"):
        (tmp_path / side).mkdir()
        touch(tmp_path / side, "train-0.rec", "train-1.rec")
    found = find(tmp_path)
    assert [path.removeprefix(f"{tmp_path}/") for path in found.files] == [
        f"{side}/train-{number}.rec" for side in ("train", "val") for number in (0, 1)
    ]
    assert found.sides == ("train", "train", "val", "val")
    (tmp_path / "val" / "photo.jpg").touch()
    assert find_shards(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("names", "parts", "note"),
    [
        (("a-0.tar", "a-1.tar"), "train: [a-0.tar]", ""),
        (
            ("a-0.tar", "a-1.tar"),
            "train:\n  - a-0.tar\n  val:\n  - a-1.tar",
            "divides them into train, val",
        ),
        (("train-0.tar", "val-0.tar"), "train:\n  - train-0.tar\n  val:\n  - val-0.tar", ""),
        (("a-0.tar",), "\0" * 9, ""),
    ],
)
def test_parts_of_energon_are_told(
    tmp_path: Path, names: tuple[str, ...], parts: str, note: str
) -> None:
    for name in names:
        (tmp_path / name).write_bytes(bytes(10240))
    (tmp_path / ".nv-meta").mkdir()
    (tmp_path / ".nv-meta" / "split.yaml").write_text(f"split_parts:\n  {parts}\n")
    found = find_shards(str(tmp_path))
    assert found is not None
    assert bool(found.notes) == bool(note)
    assert note in "".join(found.notes)


def test_sets_with_and_without_sides_are_not_joined(tmp_path: Path) -> None:
    for name, shards in (("a", ("train-0.rec", "val-0.rec")), ("b", ("x-0.rec",))):
        (tmp_path / name).mkdir()
        touch(tmp_path / name, *shards)
    with pytest.raises(SourceError, match=r"/b.*: tells no side .* train, val"):
        joined([find(tmp_path / "a"), find(tmp_path / "b")])
    assert joined([find(tmp_path / "a")] * 2).sides == ("train", "val") * 2


def test_shards_win_over_the_tables_beside_them(tmp_path: Path) -> None:
    touch(
        tmp_path,
        *(f"0000{n}{end}" for n in range(2) for end in (".tar", ".parquet", "_stats.json")),
    )
    found = find(tmp_path)
    assert found.files == (f"{tmp_path}/00000.tar", f"{tmp_path}/00001.tar")
    assert found.notes == (
        "2 Parquet tables beside the shards passed over: --from parquet reads the tables",
    )


# Class names


@pytest.mark.parametrize(
    ("name", "text", "classes"),
    [
        ("labels.txt", "0:ant\n1:bee: wild\n", ("ant", "bee: wild")),
        ("labels.txt", "3:cow\n1:ant\n\n", ("", "ant", "", "cow")),
        (
            "label_map.pbtxt",
            "item {\n  id: 1\n  name: 'ant'\n}\nitem { name: 'bee' id: 2 }",
            ("", "ant", "bee"),
        ),
        (
            "label_map.pbtxt",
            r'item { id: 1 name: "/m/0x" display_name: "a \"cow\"" }',
            ("", 'a "cow"'),
        ),
        ("classes.txt", "ant\n\nbee\n", ("ant", "", "bee")),
    ],
)
def test_class_names_beside_shards(
    tmp_path: Path, name: str, text: str, classes: tuple[str, ...]
) -> None:
    touch(tmp_path, "a-0.tfrecord", "a-1.tfrecord")
    (tmp_path / name).write_text(text)
    assert find(tmp_path).classes == classes
    alone = find(tmp_path / "a-0.tfrecord")
    if name == "classes.txt":  # it may be that of anything there
        assert (alone.classes, alone.unused_classes) == (None, str(tmp_path / name))
        (tmp_path / name).rename(tmp_path / f"a-0.tfrecord.{name}")
        alone = find(tmp_path / "a-0.tfrecord")
    assert (alone.classes, alone.unused_classes) == (classes, "")


def test_class_names_without_numbers(tmp_path: Path) -> None:
    touch(tmp_path, "a-0.tfrecord")
    (tmp_path / "labels.txt").write_text("ant\nbee\n")
    found = find(tmp_path)
    assert (found.classes, found.unused_classes) == (None, f"{tmp_path}/labels.txt")
    (tmp_path / "labels.txt").write_text("0:ant\n1:ant\n")
    found = find(tmp_path)
    assert (found.classes, found.unused_classes) == (None, "")
    assert "two classes have one number or one name" in found.notes[0]


# Manifests


def write_manifest(directory: Path, name: str = "manifest.json", **changes: Any) -> Path:
    """Write the manifest of the files `a-*.rec` in a directory."""
    shards = [ShardEntry(each.name, 500, 0, 5) for each in sorted(directory.glob("a-*.rec"))]
    layout = {"name": "recordio", **RecordIO().options()}
    options = {"format": layout, "transform": None, "max_pixels": 1 << 28, "key": "path"}
    manifest = Manifest(
        *("recordio", "a", ("ant",), 5 * len(shards), 0, 0, "", options, shards),
        schema=IMAGES,
        enforced=True,
    )
    path = directory / name
    path.write_text(replace(manifest, **changes).to_json())
    return path


def test_a_manifest_says_everything(tmp_path: Path) -> None:
    touch(tmp_path, "a-0.rec", "a-1.rec", "a-val.rec", "a-train.rec")
    manifest = write_manifest(tmp_path)
    for source in (tmp_path, manifest, f"{tmp_path}/a-[01].rec", tmp_path / "a-1.rec"):
        found = find(source)
        assert (found.schema, found.enforced, found.known) == (IMAGES, True, True)
        assert found.classes == ("ant",)
        assert found.samples == dict.fromkeys(found.files, 5)
    (tmp_path / "a-2.rec").touch()
    found = find(f"{tmp_path}/a-[012].rec")
    assert (found.schema, found.classes, found.known) == (None, None, False)


def test_a_manifest_of_one_shard(tmp_path: Path) -> None:
    touch(tmp_path, "a-0.rec")
    write_manifest(tmp_path, "a-0.rec.manifest.json", enforced=False)
    found = find(tmp_path / "a-0.rec")
    assert (found.schema, found.enforced, found.classes) == (IMAGES, False, ("ant",))


def test_a_manifest_of_another_version_is_taken_for_absent(tmp_path: Path) -> None:
    touch(tmp_path, "a-0.rec")
    manifest = write_manifest(tmp_path)
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"dsprep_manifest": 1}))
    for source in (tmp_path, tmp_path / "a-0.rec"):
        found = find(source)
        assert (found.schema, found.classes, found.known) == (None, None, False)
        assert found.notes == (
            f"{manifest}: version 1; this dsprep reads version 2; it is taken for absent",
        )
    with pytest.raises(SourceError, match="version 1"):
        find_shards(str(manifest))


def test_a_manifest_of_something_else(tmp_path: Path) -> None:
    touch(tmp_path, "a-0.rec")
    (tmp_path / "manifest.json").write_text("[]")
    assert not find(tmp_path / "a-0.rec").known
    with pytest.raises(SourceError, match="is not a manifest that dsprep wrote"):
        find_shards(str(tmp_path))


# Several sets


def test_shards_with_and_without_labels(tmp_path: Path) -> None:
    touch(tmp_path, "x/a-0.rec", "y/a-0.rec", "z/a-0.rec")
    write_manifest(tmp_path / "x", classes=None)
    write_manifest(tmp_path / "y", classes=None)
    assert find(f"{tmp_path}/{{x,y}}/a-0.rec").schema == IMAGES
    with pytest.raises(SourceError, match=r"x/a-0\.rec have no labels, and those of .*z/a-0\.rec"):
        find_shards(f"{tmp_path}/?/a-0.rec")


def test_sets_of_other_classes(tmp_path: Path) -> None:
    touch(tmp_path, "x/a.tfrecord", "y/a.tfrecord", "z/a.tar")
    (tmp_path / "x" / "labels.txt").write_text("0:ant\n")
    sets = [find(tmp_path / name) for name in "xyz"]
    with pytest.raises(SourceError, match="y: has other classes than .*x; bring them to one order"):
        joined(sets[:2])
    with pytest.raises(SourceError, match="z: is webdataset, but .*y tfrecord"):
        joined(sets[1:])
