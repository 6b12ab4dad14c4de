"""Which data sets lie at a place: by names alone, in directories, and below prefixes on S3."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from dsprep.dataset.find import (
    DataSet,
    Place,
    data_set_at,
    data_set_beside,
    data_set_of,
    data_sets,
    is_of,
    manifest_names,
    scratch_beside,
    unfinished,
    unnamed,
    without_absent,
)
from dsprep.dataset.manifest import Manifest, ShardEntry
from dsprep.dataset.names import manifest_beside
from dsprep.errors import OtherVersion, SourceError
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy


def manifest(*shards: str, layout: str = "webdataset", single: bool = False) -> Manifest:
    """A manifest that names some shards."""
    receipts = [ShardEntry(name, 3, 0, 1) for name in shards]
    options = {"single_file": single}
    facts = (len(shards), 0, 3 * len(shards))
    return Manifest(layout, "train", None, *facts, "", options, receipts)


def encoded(found: Manifest) -> bytes:
    return found.to_json().encode()


OLD = json.dumps({"dsprep_manifest": 1}).encode()
FILES = {
    "whole/manifest.json": encoded(manifest("t-0.tar", "t-1.tar")),
    "whole/t-0.tar.manifest.json": encoded(manifest("t-0.tar", single=True)),
    "apart.manifest.json": encoded(manifest("apart/t-0.tar", "apart/t-1.tar")),
    "tree/a.jpg": b"",
    "tree.manifest.json": encoded(manifest(layout="folder")),
    "singles/a.rec": b"",
    "singles/a.rec.manifest.json": encoded(manifest("a.rec", layout="recordio", single=True)),
    "singles/b.tar.manifest.json": encoded(manifest("b.tar", single=True)),
    "singles/.c.tar.manifest.json": OLD,
    "singles/.d.tar.dsprep/run.json": b"",
    "moved/t-0.tar": b"",
    "moved.manifest.json": encoded(manifest("t-0.tar")),  # names no files in moved/
    "old/b.tar.manifest.json": encoded(manifest("b.tar", single=True)),
    "old.manifest.json": OLD,
    "damaged/manifest.json": b"{",
    "empty/notes.txt": b"",
    **{f"{name}/t-{number}.tar": b"" for name in ("whole", "apart", "old") for number in (0, 1)},
}


@pytest.fixture(params=["disk", "localstack"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Directories of all kinds of data sets, on a disk and on S3."""
    if request.param == "localstack":
        return put(request.getfixturevalue("localstack"), monkeypatch)
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(data)
    return str(tmp_path)


def put(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
    for name, data in FILES.items():
        bucket.put(f"sets/{name}", data)
    return f"{bucket.url}/sets"


def paths(root: str, found: Sequence[DataSet]) -> list[str]:
    """The manifests of data sets, by their paths below a directory."""
    return [each.path.removeprefix(f"{root}/") for each in found]


# Names and manifests alone


def test_the_manifest_of_a_directory_counts_more_than_those_of_single_files() -> None:
    single = ["b.tar.manifest.json", "a.rec.manifest.json", ".c.tar.manifest.json", "a.rec"]
    assert manifest_names(single) == ["a.rec.manifest.json", "b.tar.manifest.json"]
    assert manifest_names([*single, "manifest.json"]) == ["manifest.json"]
    assert manifest_names(["mymanifest.json", "classes.txt"]) == []


def test_a_manifest_beside_a_directory_is_of_shards_alone_or_of_a_tree() -> None:
    assert is_of(manifest("apart/t-0.tar"), "apart")
    assert is_of(manifest(layout="folder"), "tree")
    assert not is_of(manifest("t-0.tar"), "apart")
    assert not is_of(manifest(layout="of a later version"), "tree")


def test_files_that_no_manifest_names() -> None:
    files = ["t-0.tar", "t-1.tar", "u.rec", "notes.txt", ".dsprep"]
    assert unnamed(files, [manifest("t-0.tar")], {"webdataset"}) == ["t-1.tar"]
    # Beside single files, shards of any format seem to be of a data set.
    single = [manifest("t-0.tar", single=True), manifest("t-1.tar", single=True)]
    assert unnamed(files, single, {"webdataset"}) == ["u.rec"]
    # A directory of shards alone holds nothing else.
    inside = [f"apart/{name}" for name in files]
    strangers = ["apart/notes.txt", "apart/t-1.tar", "apart/u.rec"]
    assert unnamed(inside, [manifest("apart/t-0.tar")], {"webdataset"}) == strangers
    assert unnamed(files, [], {"webdataset"}) == []


def test_notes_of_runs_that_are_not_finished() -> None:
    directories = [".dsprep", ".b.tar.dsprep", ".a.rec.dsprep", "a.dsprep", "images"]
    assert unfinished(directories) == [".a.rec.dsprep", ".b.tar.dsprep", ".dsprep"]
    assert unfinished(directories, {".dsprep", ".a.rec.dsprep"}) == [".b.tar.dsprep"]


@pytest.mark.parametrize(
    ("directory", "beside"),
    [
        ("out/train", "out/train.manifest.json"),
        ("out/train/", "out/train.manifest.json"),
        ("s3://bucket/train/", "s3://bucket/train.manifest.json"),
        ("s3://bucket", ""),
        ("s3://bucket/", ""),
        ("/", ""),
    ],
)
def test_what_lies_beside_a_directory(directory: str, beside: str) -> None:
    assert manifest_beside(directory) == beside
    notes = beside.replace("train.manifest.json", ".train.dsprep")
    assert scratch_beside(directory) == notes


def test_a_link_has_beside_it_what_its_directory_has(tmp_path: Path) -> None:
    (tmp_path / "far" / "train").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "train")
    assert manifest_beside(str(tmp_path / "link")) == f"{tmp_path}/far/train.manifest.json"


# Directories and prefixes


@pytest.mark.parametrize(
    ("directory", "manifests"),
    [
        ("whole", ["whole/manifest.json"]),
        ("apart", ["apart.manifest.json"]),
        ("tree", ["tree.manifest.json"]),
        ("singles", ["singles/a.rec.manifest.json", "singles/b.tar.manifest.json"]),
        ("moved", []),
        ("old", ["old.manifest.json", "old/b.tar.manifest.json"]),
        ("damaged", ["damaged/manifest.json"]),
        ("empty", []),
    ],
)
def test_data_sets_of_a_directory(root: str, directory: str, manifests: list[str]) -> None:
    for path in (f"{root}/{directory}", f"{root}/{directory}/"):
        place = Place(path)
        found = data_sets(place)
        assert paths(root, found) == manifests
        for each in found:
            is_inside = each.path.startswith(f"{root}/{directory}/")
            assert (each.place is place) == is_inside
            again = data_set_at(each.path)
            assert str(again.answer) == str(each.answer)


def test_what_is_found_tells_the_names_of_companions(root: str) -> None:
    (whole,) = data_sets(Place(f"{root}/whole"))
    (apart,) = data_sets(Place(f"{root}/apart"))
    (one, other) = data_sets(Place(f"{root}/singles"))
    names = [each.own_name for each in (whole, apart, one, other)]
    assert names == [None, "apart", "a.rec", "b.tar"]
    assert apart.manifest.directory == "apart"
    assert apart.place.names.directories >= {"apart", "tree", "singles"}


def test_a_manifest_that_cannot_be_read_is_found_and_says_why(root: str) -> None:
    (damaged,) = data_sets(Place(f"{root}/damaged"))
    assert not damaged.is_of_other_version
    with pytest.raises(SourceError, match="damaged/manifest.json: is not a manifest"):
        _ = damaged.manifest
    place = Place(f"{root}/old")
    old, single = data_sets(place)
    assert old.is_of_other_version
    assert without_absent(place, [old, single]) == [single]
    with pytest.raises(OtherVersion, match="version 1"):
        _ = old.manifest


def test_a_directory_with_the_name_of_a_manifest_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()
    (found,) = data_sets(Place(str(tmp_path)))
    assert "manifest.json: cannot be read" in str(found.error)


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.tar").touch()
    (tmp_path / "t.manifest.json").write_bytes(encoded(manifest("t/a.tar")))
    monkeypatch.chdir(tmp_path)
    (found,) = data_sets(Place("t"))
    assert (found.path, found.place.names.files) == ("t.manifest.json", {"t.manifest.json"})
    monkeypatch.chdir(tmp_path / "t")
    for path in ("", "."):
        (found,) = data_sets(Place(path))
        assert found.path == f"{tmp_path}/t.manifest.json"


@pytest.mark.parametrize(
    ("files", "path"),
    [
        (["whole/t-0.tar"], "whole/t-0.tar.manifest.json"),
        (["whole/t-1.tar"], "whole/manifest.json"),
        (["whole/t-0.tar", "whole/t-1.tar"], "whole/manifest.json"),
        (["apart/t-1.tar", "apart/t-0.tar"], "apart.manifest.json"),
        (["apart/t-2.tar"], None),
        (["singles/a.rec"], "singles/a.rec.manifest.json"),
        (["moved/t-0.tar"], None),
        (["old/t-0.tar"], None),
    ],
)
def test_the_data_set_of_some_files(root: str, files: list[str], path: str | None) -> None:
    found = data_set_of([f"{root}/{name}" for name in files], single=len(files) == 1)
    assert (found and found.path) == (path and f"{root}/{path}")
    if found is not None:
        layout = found.manifest.format
        for name, there in ((layout, found.path), ("parquet", None)):
            same = data_set_of([f"{root}/{each}" for each in files], len(files) == 1, name)
            assert (same and same.path) == there


def test_no_more_is_asked_for_than_what_decides(
    ceph: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = put(ceph, monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)

    def requests(directory: str) -> tuple[int, int]:
        proxy.requests.clear()
        assert data_sets(Place(f"{root}/{directory}"))
        return proxy.counted("HEAD"), proxy.counted("GET")

    # The listing and each manifest are one GET; a HEAD says whether one lies beside.
    assert requests("whole") == (0, 2)
    assert requests("apart") == (1, 2)
    assert requests("singles") == (1, 3)
    proxy.requests.clear()
    assert data_set_beside(Place(f"{root}/tree"))
    assert (proxy.counted("HEAD"), proxy.counted("GET")) == (1, 1)
