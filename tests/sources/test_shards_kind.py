"""Which files of a directory are the samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsprep.errors import SourceError
from dsprep.findings import notes_of
from dsprep.formats import CONCATENATIVE, TABLES
from dsprep.sources.kinds import KINDS, own_kinds
from dsprep.sources.reading import detect
from dsprep.sources.shards.shards_kind import shards_of
from dsprep.sources.source import make_source
from tests.images import jpeg


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(size=(8, 8)) if name.endswith(".jpg") else b"{}")


def test_tables_beside_shards_of_the_same_names(tmp_path: Path) -> None:
    touch(tmp_path, "00000.tar", "00000.parquet", "00000_stats.json")
    shards = shards_of(make_source(tmp_path))
    assert shards is not None
    assert shards.files == (f"{tmp_path}/00000.tar",)


def test_tables_beside_other_shards(tmp_path: Path) -> None:
    touch(tmp_path, "00000.tar", "metadata.parquet")
    with pytest.raises(SourceError, match="holds shards and metadata.parquet: say which are the"):
        detect(make_source(tmp_path))


def test_tables_of_several_sides(tmp_path: Path) -> None:
    touch(tmp_path, "data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet")
    with pytest.raises(SourceError, match=r"'.*/data/train-\*\.parquet' or '.*/data/test-"):
        detect(make_source(str(tmp_path / "data/*.parquet")))


def test_files_of_img2dataset_are_parts(tmp_path: Path) -> None:
    for shard in ("00000", "00001"):
        touch(tmp_path, f"{shard}.parquet", f"{shard}_stats.json")
        touch(tmp_path, *(f"{shard}/{shard}{n}.{end}" for n in (1, 3) for end in ("jpg", "json")))
    found = detect(make_source(tmp_path))
    assert found is not None
    catalog, findings = found
    assert catalog.table["path"].to_list() == [
        f"{shard}/{shard}{n}.jpg" for shard in ("00000", "00001") for n in (1, 3)
    ]
    assert (catalog.label_column, catalog.classes) == (None, None)
    assert "as img2dataset writes them" in notes_of(findings)[0]
    assert detect(make_source(tmp_path, kind="images")) is None


def test_the_place_of_samples_is_told(tmp_path: Path) -> None:
    touch(tmp_path, "set/1.0.0/set-train.tfrecord-00000-of-00001")
    (tmp_path / "set" / "1.0.0" / "set-train.tfrecord-00000-of-00001").write_bytes(b"")
    with pytest.raises(SourceError, match=r"set/1\.0\.0: holds no samples"):
        detect(make_source(tmp_path / "set"))


def test_each_kind_can_be_named() -> None:
    choices = {name for kind in own_kinds().kinds for name in kind.names}
    assert choices == {*CONCATENATIVE, *TABLES, *KINDS} - {"annotated", "shards"}
