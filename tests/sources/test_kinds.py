"""Each kind of source keeps the contract, and the surest claim wins."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dsprep
from dsprep.declared import options_in
from dsprep.errors import OptionError, SourceError
from dsprep.sources.annotated.annotated_kind import AnnotatedKind
from dsprep.sources.annotated.augmented_kind import AugmentedManifestKind
from dsprep.sources.annotation_kinds import all_annotation_kinds
from dsprep.sources.kind import Claim, SourceKind, SourcePlace, Sure
from dsprep.sources.kinds import KINDS, all_kinds, equally_sure, own_kinds, ranked
from dsprep.sources.options import AnySourceOptions
from dsprep.sources.pictures.described_kind import DescribedKind
from dsprep.sources.pictures.images_kind import ImagesKind
from dsprep.sources.pictures.parts_kind import PartsKind
from dsprep.sources.pictures.pixels_kind import PixelsKind
from dsprep.sources.reading import claims, detect
from dsprep.sources.shards.shards_kind import ShardsKind
from dsprep.sources.source import make_source
from dsprep.sources.tables.csv_kind import CsvKind
from dsprep.sources.tables.numpy_kind import ArraysKind
from dsprep.sources.tables.parquet_kind import ParquetKind
from tests import pixels
from tests.images import image_folder, jpeg
from tests.sources.contract import SourceTests, classes_of


def images(root: Path) -> Path:
    image_folder(root / "photos", ("cat", "dog"), 2, (16, 12))
    return root / "photos"


def write_csv(root: Path) -> Path:
    (root / "mnist_train.csv").write_text("a,b,label\n1,2,0\n3,4,1\n", "utf-8")
    return root / "mnist_train.csv"


class TestImages(SourceTests):
    kind = ImagesKind
    in_archive = True

    def make(self, root: Path) -> Path:
        return images(root)


class TestDescribed(SourceTests):
    kind = DescribedKind

    def make(self, root: Path) -> Path:
        path = images(root)
        names = ("cat/000.jpg", "dog/001.jpg")
        lines = [json.dumps({"file_name": name, "width": 16}) + "\n" for name in names]
        (path / "metadata.jsonl").write_text("".join(lines), "utf-8")
        return path


class TestParts(SourceTests):
    kind = PartsKind

    def make(self, root: Path) -> Path:
        path = root / "downloaded"
        for shard in ("00000", "00001"):
            (path / shard).mkdir(parents=True)
            (path / f"{shard}_stats.json").write_text("{}", "utf-8")
            (path / f"{shard}.parquet").write_bytes(b"")
            (path / shard / f"{shard}1.jpg").write_bytes(jpeg(size=(8, 8)))
            (path / shard / f"{shard}1.json").write_text("{}", "utf-8")
        return path


class TestPixels(SourceTests):
    kind = PixelsKind
    in_archive = True

    def make(self, root: Path) -> Path:
        return pixels.write_directory(root / "digits", pixels.mnist())


class TestParquet(SourceTests):
    kind = ParquetKind

    def make(self, root: Path) -> Path:
        dsprep.pack(str(images(root)), str(root / "mnist"), to="parquet", workers=1)
        return root / "mnist"


class TestCsv(SourceTests):
    kind = CsvKind

    def make(self, root: Path) -> Path:
        return write_csv(root)


class TestArrays(SourceTests):
    kind = ArraysKind

    def make(self, root: Path) -> Path:
        import numpy

        numpy.save(root / "mnist.npy", numpy.arange(12, dtype="f4").reshape(4, 3))
        return root / "mnist.npy"


class TestShards(SourceTests):
    kind = ShardsKind

    def make(self, root: Path) -> Path:
        dsprep.pack(str(images(root)), str(root / "cifar"), to="webdataset", workers=1)
        return root / "cifar"


class TestAugmentedManifest(SourceTests):
    kind = AugmentedManifestKind

    def make(self, root: Path) -> Path:
        path = images(root)
        lines = [
            json.dumps({"source-ref": f"{side}/{n:03}.jpg", "kind": n}) + "\n"
            for n, side in enumerate(("cat", "cat"))
        ]
        (path / "train.manifest").write_text("".join(lines), "utf-8")
        return path / "train.manifest"


class TestAnnotated(SourceTests):
    kind = AnnotatedKind

    def make(self, root: Path) -> Path:
        table = "image,xmin,ymin,xmax,ymax,class\ncat/000.jpg,1,1,4,4,cat\n"
        (root / "boxes.csv").write_text(table, "utf-8")
        return images(root)

    def options(self, root: Path) -> dict[str, Any]:
        return {"annotations": (str(root / "boxes.csv"),)}


def test_kinds_share_no_option_of_all_sources() -> None:
    """Whether a source is given options of kinds is told without loading the kinds."""
    known = [*all_kinds().options(), *all_annotation_kinds().options()]
    assert not options_in(AnySourceOptions).keys() & {option.name for _, option in known}


def test_each_kind_has_a_test_class() -> None:
    assert {each.kind for each in classes_of(SourceTests)} == {*own_kinds().kinds}
    assert len(KINDS) == len({*KINDS.values()})


# The mechanism


class Toy(SourceKind):
    """A kind that claims what it is told to."""

    def __init__(self, name: str, *claims: Sure, surest: Sure = Sure.MARKED) -> None:
        self.title, self.claims, self.most = name, claims, surest
        self.asked = 0

    @property
    def named(self) -> str:
        return f"--from {self.title}"

    @property
    def surest(self) -> Sure:  # type: ignore[override]
        return self.most

    def claim(self, place: SourcePlace, source: Any) -> Claim | None:
        self.asked += 1
        return Claim(self.claims[0], f"names of {self.title}") if self.claims else None

    def scan(self, source: Any, place: SourcePlace, run_all: Any) -> None:
        return None


def ranks(*kinds: Toy) -> Iterable[str]:
    found = ranked(
        kinds, lambda kind: kind.claim(SourcePlace("x"), None), partial(equally_sure, "x")
    )
    return (kind.title for kind, _ in found if isinstance(kind, Toy))


def test_the_surest_wins_in_any_order_and_others_are_not_asked() -> None:
    for turn in (1, -1):
        sure = Toy("sure", Sure.RECORDED, surest=Sure.RECORDED)
        others = [Toy("shaped", Sure.SHAPED), Toy("none"), Toy("marked", Sure.MARKED)]
        found = iter(ranks(*[sure, *others][::turn]))
        assert next(found) == "sure"
        assert [each.asked for each in others] == [0, 0, 0]
        assert list(found) == ["marked", "shaped"]
        assert [each.asked for each in others] == [1, 1, 1]


def test_two_equal_claims_are_an_error_that_names_both() -> None:
    said = "x: holds names of a and names of b: say which are the samples, --from a or --from b"
    for turn in (1, -1):
        with pytest.raises(SourceError) as error:
            list(ranks(*[Toy("a", Sure.SHAPED), Toy("b", Sure.SHAPED)][::turn]))
        assert str(error.value) == said


def test_who_wins_where_several_kinds_know_a_place(tmp_path: Path) -> None:
    """The pairs of docs/decisions.md that the samples of the kinds are not."""

    def first(path: Path, **options: Any) -> type[SourceKind]:
        return type(next(claims(make_source(str(path), **options))).kind)

    digits = TestPixels().make(tmp_path)
    (digits / "000.tar").write_bytes(b"")
    assert first(digits) is PixelsKind
    (digits / "000.tar").unlink()
    pl.DataFrame({"a": [1]}).write_parquet(digits / "a.parquet")
    assert first(digits) is ParquetKind
    (digits / "metadata.jsonl").write_text('{"file_name": "a.jpg"}\n', "utf-8")
    assert first(digits) is DescribedKind
    downloaded = TestParts().make(tmp_path)
    (downloaded / "metadata.jsonl").write_text('{"file_name": "a.jpg"}\n', "utf-8")
    assert first(downloaded) is PartsKind
    table = write_csv(tmp_path)
    assert first(table) is CsvKind
    for path in (images(tmp_path), table, digits):
        with pytest.raises(OptionError, match="an array labels the rows of an array"):
            detect(make_source(str(path), labels="y.npy"))
    table.write_text("a,b,label\n" + "0.123456,0.654321,1\n" * 9, "utf-8")
    dsprep.convert(str(table), str(tmp_path / "one.csv"), to="csv", workers=1)
    assert first(tmp_path / "one.csv") is ShardsKind
    assert first(TestAugmentedManifest().make(tmp_path), parts=True) is AugmentedManifestKind
