"""Which shards a name means."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dsprep.errors import SourceError
from dsprep.formats.tfrecord import TFRecord
from dsprep.sample import Sample
from dsprep.sources.reading import make_source, read_source
from dsprep.sources.shardset import expand
from tests.contract.layouts import JPEG


def test_braces() -> None:
    assert expand("a-{08..11}.tar") == ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]
    assert expand("{a,b}-{0..1}") == ["a-0", "a-1", "b-0", "b-1"]


@pytest.mark.parametrize("pattern", ["{1..0}", "{0..1000000}", "{000..999}" * 4, "{0..9}" * 40])
def test_braces_without_an_end(pattern: str) -> None:
    with pytest.raises(SourceError, match="is not a range of shards|is more than 1,000,000 shards"):
        expand(pattern)


@pytest.mark.parametrize("name", ["a.tfrecords", "a.tfrec", "a.record", "a.tfrec.gz"])
def test_names_that_others_give(tmp_path: Path, name: str) -> None:
    data = b"".join(TFRecord().encode(Sample("", {"jpg": JPEG, "cls": 3})))
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    for source in (tmp_path / name, tmp_path):
        catalog, _ = read_source(make_source(str(source)))
        (sample,) = catalog.reader.read(catalog.rows())
        assert isinstance(sample, Sample)
        assert sample.fields == {"jpg": JPEG, "cls": 3}


def test_a_directory_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(SourceError, match=rf"{tmp_path}: cannot be read \(Permission denied\)"):
        read_source(make_source(str(tmp_path)))
