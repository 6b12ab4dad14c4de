"""A tree of images, in a directory or an archive: what no other kind of source claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.places.archive import open_archive
from dsprep.places.scan import importing_polars, scan_below
from dsprep.sources.kind import Claim, SourceKind, SourcePlace, Sure
from dsprep.sources.kinds import all_kinds

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source


class ImagesKind(SourceKind):
    """A tree of images, labeled by its directories, or chosen from by a list or a table.

    Kinds that add something to images are asked for what lies among them, such as annotations.
    """

    names: ClassVar[tuple[str, ...]] = ("images",)
    help: ClassVar[str] = "images in a directory or an archive"
    noun: ClassVar[str] = "images"
    same_by_name: ClassVar[bool] = False  # it then takes all directories for classes
    surest: ClassVar[Sure] = Sure.ANYTHING

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.readers import ArchivedCaptions, CaptionReader, FieldsReader, FileReader

        return {
            "file-reader": FileReader,
            "fields-reader": FieldsReader,
            "caption-reader": CaptionReader,
            "archived-captions": ArchivedCaptions,
        }

    def takes_as_given(self, source: Source) -> bool:
        return True

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        return self.named_claim(source) or Claim(Sure.ANYTHING, "images")

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan:
        archive, scans = None, None
        with importing_polars():
            if not place.is_dir:
                archive = open_archive(source.root)
            elif not source.chooses:
                scans = list(scan_below(source.root, source.suffixes, run_all))
        from dsprep.places.files import Files, images_of, list_files, require_images_alone
        from dsprep.sources.beside import notes_beside, notes_on_unlisted
        from dsprep.sources.leftover import looked_into
        from dsprep.sources.likely_masks import without_masks
        from dsprep.sources.pictures.tree import read_tree
        from dsprep.sources.pictures.tree_copies import require_one_tree

        files = None
        if archive is not None:
            files = images_of(archive, source.suffixes)
        if scans is not None:
            files = list_files(scans)
            scans.clear()  # what it holds is in the table
            files = files._replace(table=files.table.sort("path"))  # one order for all that follows
        labels_files = source.chooses or source.label_regex is not None
        if files is not None and source.kind is None and not labels_files:
            adding = (kind() for kind in all_kinds().kinds if kind.adds)
            more = (kind.added_to(source, files, run_all) for kind in adding)
            if found := next(filter(None, more), None):
                return found
        if files is not None and source.kind is None and not source.chooses:
            require_images_alone(files, source.root)
            require_one_tree(source.root, files)
            files = without_masks(source.root, files)
        read = read_tree(source, files, run_all)
        if source.kind is not None:
            return read
        files = files or Files(read[0].table, [], [], heads={})  # what a list names was found
        catalog, findings = looked_into(source, files, read, run_all)
        findings += notes_on_unlisted(source, files, (catalog, findings))
        if files.archive is None:
            findings += notes_beside(source, catalog)
        return catalog, findings
