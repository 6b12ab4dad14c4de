"""What every kind of annotations promises. The test class of a kind derives from `AnnotationTests`.

The set of a kind is a small directory of images and annotations, which `make` writes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from dsprep.errors import DsprepError, OptionError
from dsprep.inspecting.options import InspectOptions
from dsprep.sources.annotated.annotated import AnnotatedReader, list_images
from dsprep.sources.annotated.mask_set_kind import MaskSetKind
from dsprep.sources.annotated.recognized import named_scan, recognized_scan
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.reading import read_source
from dsprep.sources.source import Source, make_source
from dsprep.sources.understood import layout_of
from dsprep.workers.pool import Pool
from tests.servers.bucket import Bucket
from tests.sources.boxes import told, write
from tests.sources.in_worker import read_rows


class AnnotationTests:
    """The contract of a kind of annotations.

    Attributes:
        kind: The kind.
        files: A small set: images, which are None, and annotations of all or some of them.
        named: What the user gives to ``--annotations``: a file or a directory of the set.
        is_claimed: Whether the kind claims the set by itself.
    """

    kind: ClassVar[type[AnnotationKind]]
    files: ClassVar[Mapping[str, str | bytes | None]]
    named: ClassVar[str]
    is_claimed: ClassVar[bool] = False

    def source(self, root: str, **options: Any) -> Source:
        """Return what a user names."""
        return make_source(root, **options)

    def sources(self, root: str, **options: Any) -> list[Source]:
        """Return the ways to read a set: as a whole, if it is claimed, and by the named path."""
        named = self.source(root, annotations=(f"{root}/{self.named}",), **options)
        return [self.source(root), named] if self.is_claimed and not options else [named]

    def test_it_claims_its_own_and_nothing_of_others(self, tmp_path: Path) -> None:
        for number, test in enumerate(AnnotationTests.__subclasses__()):
            source = self.source(str(write(tmp_path / str(number), test.files)))
            claim = self.kind().claim(AnnotatedPlace(source.root, list_images(source, map)))
            is_own = test is type(self) and self.is_claimed
            if claim is not None and not is_own:  # the kind whose set it is is surer
                assert claim.sure < test.kind.surest, test
                continue
            assert (claim is not None) == is_own, test
            if claim is not None:
                assert claim.why in test.files
                assert claim.sure <= self.kind.surest

    def test_a_path_is_known_without_its_format_and_by_it(self, tmp_path: Path) -> None:
        root = write(tmp_path, self.files)
        expected = self.read(str(root))
        assert any(expected.values())
        for name in self.kind.names:
            assert self.read(str(root), annotation_format=name) == expected
        with pytest.raises(
            OptionError, match="--annotation-format nothing: choose one of .*coco, "
        ):
            self.read(str(root), annotation_format="nothing")

    def test_s3_gives_what_a_directory_gives(
        self, tmp_path: Path, localstack: Bucket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
        root = write(tmp_path, self.files)
        for name in self.files:
            localstack.put(f"set/{name}", (root / name).read_bytes())
        assert self.read(f"{localstack.url}/set") == self.read(str(root))

    def test_an_archive_gives_what_a_directory_gives(self, tmp_path: Path) -> None:
        """It does if the kind claims the set, or if its files may be named in an archive."""
        root, path = write(tmp_path / "set", self.files), tmp_path / "set.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name in sorted(self.files):
                archive.write(root / name, name)
        expected = self.read(str(root))
        if self.is_claimed:
            assert told(read_source(self.source(str(path)))[0]) == expected
        named = self.source(str(path), annotations=(self.named,))
        if self.kind.takes_members:
            assert told(read_source(named)[0]) == expected
        else:
            with pytest.raises(DsprepError):
                read_source(named)

    def test_it_tells_which_files_it_used(self, tmp_path: Path) -> None:
        source = self.source(str(write(tmp_path, self.files)))
        files = list_images(source, map)
        place = AnnotatedPlace(source.root, files)
        scan = recognized_scan(source, files, map) if self.is_claimed else None
        if scan is not None:
            assert set(scan.used) == set(place.others)
            findings = read_source(source)[1]
            told = {found.path for found in findings if found.kind != "not-read"}
            assert told.isdisjoint(scan.used)
        (*_, named) = self.sources(source.root)
        assert set(named_scan(named, files, map).used) <= set(place.others)

    def test_its_layout_gives_the_same(self, tmp_path: Path) -> None:
        root = write(tmp_path / "set", self.files)
        for number, source in enumerate(self.sources(str(root))):
            found = read_source(source)
            given = {name: getattr(source, name) for name in ("annotations", "annotation_format")}
            options = InspectOptions(str(root), **given)
            path = tmp_path / f"{number}.toml"
            path.write_text(layout_of(source, options, found), encoding="utf-8")
            again, _ = read_source(self.source(str(root), layout=path))
            assert again.digest() == found[0].digest(), path.read_text(encoding="utf-8")
            assert (again.settled, again.sides) == (found[0].settled, found[0].sides)
            archive = tmp_path / f"{number}.zip"
            with zipfile.ZipFile(archive, "w") as packed:
                for name in sorted(self.files):
                    packed.write(root / name, f"set/{name}")
            if not source.annotations or self.kind.takes_members:
                archived, _ = read_source(self.source(str(archive), layout=path))
                assert told(archived) == told(found[0])

    def test_a_worker_reads_it_without_polars_and_plan_files_name_it(
        self, tmp_path: Path, worker: Pool
    ) -> None:
        root = write(tmp_path, self.files)
        (*_, named) = self.sources(str(root))
        catalog = read_source(named)[0]
        if isinstance(catalog.reader, AnnotatedReader) and catalog.reader.annotations is not None:
            assert type(catalog.reader.annotations) in self.kind.saved().values()
        else:  # annotations of whole images
            has_masks = isinstance(catalog.reader, AnnotatedReader) and catalog.reader.masks
            assert has_masks or catalog.label_column is not None or catalog.reader.names
        rows = catalog.rows()
        ((_, read),) = worker.run(read_rows, [(catalog.reader, rows)])
        assert read == (len(rows.ids), False)

    def read(self, root: str, **options: Any) -> dict[str, dict[str, Any]]:
        """Return what a set tells of its images, which all ways to read it agree on."""
        first, *others = [told(read_source(source)[0]) for source in self.sources(root, **options)]
        assert others in ([], [first])
        return first


class MaskSetTests:
    """What changes in the contract for a data set that is told by its masks."""

    is_claimed = True
    kind: ClassVar[type[AnnotationKind]]
    named = "."

    def source(self, root: str, **options: Any) -> Source:
        return make_source(root, **options).replace(takes_masks=True)

    def sources(self, root: str, **options: Any) -> list[Source]:
        of = {"annotation_format": self.kind.names[0], **options}
        named = self.source(root, annotations=(root,), **of)
        return [named] if options else [self.source(root), named]

    def test_the_paths_of_masks_end_in_png(self) -> None:
        # `parallel_in` looks at no other paths for what marks masks
        for each in cast("type[MaskSetKind]", self.kind).directories_of_masks:
            assert each.mask.endswith(r"\.png$")
