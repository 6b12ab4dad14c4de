"""Shards that somebody has written, as a kind of source."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.dataset.names import MANIFEST
from dsprep.errors import ApartMembers, DsprepError
from dsprep.findings import Finding
from dsprep.formats import IN_SPANS, TABLES, format_of_file, format_of_source
from dsprep.formats.listed_shards import INDEX
from dsprep.formats.stream import ShardStream
from dsprep.formats.webdataset import WebDataset
from dsprep.places.names import SPLITS
from dsprep.sample import IMAGE_EXTENSIONS, OTHER_IMAGES
from dsprep.sources.annotation_kinds import kind_by_content
from dsprep.sources.kind import HEAD, PEEKED, Claim, SourceKind, SourcePlace, Sure
from dsprep.sources.shards.shardset import ShardSet, find_shards, joined
from dsprep.storage.files import is_dir

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source


_TEXTS_OF_IMAGES = frozenset({"xml", "txt", "json"})  # what may be annotations in files of images
_JSON_OF_IMAGES = frozenset(
    {"labelme", "SA-1B"}
)  # kinds whose JSON is of one image, and of no shard
_SAMPLES_READ = 4  # of a tar, whose texts are looked at; the first may be a README


class ShardsKind(SourceKind):
    """Shards of a format, by their names or a manifest."""

    names: ClassVar[tuple[str, ...]] = (*IN_SPANS, *TABLES)
    help: ClassVar[str] = "shards of a format"
    noun: ClassVar[str] = "shards"
    surest: ClassVar[Sure] = Sure.RECORDED
    _found: ShardSet | None = None  # what the claim found by a manifest

    @property
    def named(self) -> str:
        return "--from with the format of the shards"

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.shards.shards import ShardReader

        return {"shard-reader": ShardReader}

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        if source.kind is not None:
            if source.kind in TABLES and shards_of(source) is None:
                return None
            return self.named_claim(source)
        if not place.is_dir and are_tables(place.files):
            # Tables of samples have such names as well: a manifest tells shards.
            self._found = shards_of(source)
            return None if self._found is None else Claim(Sure.RECORDED, "a manifest")
        return Claim(Sure.SHAPED, "shards") if may_be_shards(place) else None

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        shards = self._found or shards_of(source)
        if shards is None:
            return None
        from dsprep.sources.shards.shards import read_shards

        place.require_finished(source.own_state, shards.files)
        catalog, findings = read_shards(shards, classes=source.class_names(), run_all=run_all)
        if source.kind is None and len(shards.files) > 1 and _may_be_tree(shards):
            findings += _note_on_tars(shards)
        return catalog, findings


def are_tables(files: Sequence[str]) -> bool:
    """Return whether all files have names of tables that may be shards."""
    formats = (format_of_file(os.path.basename(path)) for path in files)
    return all(each is not None and each.name in TABLES for each in formats)


def may_be_shards(place: SourcePlace) -> bool:
    """Return whether names at a place may be those of shards, or of directories of them."""
    if not place.is_dir:
        return not place.is_file or is_name_of_shard(place.path) or place.path.endswith(MANIFEST)
    return any(
        is_name_of_shard(entry.name)
        or format_of_file(entry.name) is not None
        or entry.name in (MANIFEST, INDEX)
        or entry.name.lower() in SPLITS
        for entry in place.entries
    )


def is_name_of_shard(path: str) -> bool:
    """Return whether a file has a name that a format gives its shards."""
    layout = format_of_source(os.path.basename(path))
    return layout is not None and layout.in_spans


def shards_of(source: Source) -> ShardSet | None:
    """Return the shards that a source names; None if it is something else."""
    if source.kind not in (None, *IN_SPANS, *TABLES):
        return None
    source = source.located()
    kind = None if source.kind in TABLES else source.kind
    sets = []
    for name in (source.root, *source.others):
        shards = find_shards(name, kind)
        if shards is None or not shards.layout.in_spans:
            return None
        if source.kind is None and _is_tree(shards, source.chooses):
            return None
        sets.append(shards)
    found = joined(sets)
    return replace(found, layout=found.layout.with_options(preset=source.features))


def _is_tree(shards: ShardSet, is_chosen_from: bool) -> bool:
    """Return whether a tar without a manifest is a tree of images rather than a shard."""
    # It is a tree if each of its first samples has one part, and some are images or tars of images.
    # If a list names the images, they may come later.
    if len(shards.files) > 1 or not _may_be_tree(shards):
        return False
    fields = _first_fields(shards)
    firsts = [names[0].lower() for names in fields if names]
    has_images = any(name in {"tar", *IMAGE_EXTENSIONS, *OTHER_IMAGES} for name in firsts)
    if all(len(names) == 1 for names in fields):
        return has_images or is_chosen_from
    return bool(_annotations_in(shards, fields))


def _may_be_tree(shards: ShardSet) -> bool:
    """Return whether these are tars without a manifest."""
    return not shards.known and shards.layout.name == WebDataset.name


def _first_fields(shards: ShardSet) -> list[tuple[str, ...]]:
    """Return the extensions of the first samples of a tar."""
    fields: list[tuple[str, ...]] = []
    try:
        with ShardStream(shards.files[0], headers=True) as stream:
            for sample in islice(shards.layout.spans(stream), PEEKED):
                fields.append(sample.fields or ())
    except ApartMembers:
        if is_dir(shards.name):
            raise
    except DsprepError:
        pass  # the samples before the damage decide
    return fields


def _note_on_tars(shards: ShardSet) -> list[Finding]:
    """Note that several tars have annotations beside their images, as those of SA-1B."""
    kind = _annotations_in(shards, _first_fields(shards))
    if not kind:
        return []
    path = shards.files[0]
    name = os.path.splitext(os.path.basename(path))[0]
    said = (
        f"the tars have annotations of {kind} beside the images, which are packed as they lie: to "
        f"have objects, pack each tar, dsprep pack {shlex.quote(path)} "
        f"{shlex.quote(f'parts/{name}')} --name {shlex.quote(name)} --to FORMAT, and join these, "
        "dsprep join parts/* DEST"
    )
    return [Finding("note", "", said)]


def _annotations_in(shards: ShardSet, fields: Iterable[Sequence[str]]) -> str:
    """Return what annotations lie beside the first images of a tar, as YOLO's or VOC's; or "".

    WebDataset has no such parts: as a sample, each would be an image and a text, bytes or JSON.
    """
    if not any(_TEXTS_OF_IMAGES.intersection(names) for names in fields):
        return ""
    with ShardStream(shards.files[0]) as stream:
        for entry in islice(shards.layout.read(stream), _SAMPLES_READ):
            for extension in _TEXTS_OF_IMAGES.intersection(entry.sample.fields):
                head = entry.sample.fields[extension][:HEAD]
                kind = kind_by_content(f"{entry.sample.key}.{extension}", head)
                if kind is not None and (extension != "json" or kind.name in _JSON_OF_IMAGES):
                    return kind.name
    return ""
