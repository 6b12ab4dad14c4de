"""Choose the kind of a source, and make its catalog.

All kinds are asked for claims (`dsprep.sources.kinds`), and the surest reads the source. A list or
a table chooses from what it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dsprep.dataset.names import MANIFEST
from dsprep.declared import options_in
from dsprep.errors import OptionError, SourceError, UnknownClass
from dsprep.findings import Finding
from dsprep.opening import as_given
from dsprep.options import given_options, option_name, require_effect, shown
from dsprep.places.scan import RunAll
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.sources.annotated.augmented_kind import AugmentedManifestKind
from dsprep.sources.annotation_kinds import all_annotation_kinds, notes_on_other_kinds
from dsprep.sources.kind import Claim, SourceKind, SourcePlace
from dsprep.sources.kinds import KnownKinds, all_kinds, equally_sure, own_kinds, ranked
from dsprep.sources.leftover import files_beside, idle_patterns, with_statuses, without_used
from dsprep.sources.options import AnySourceOptions, SourceOptions
from dsprep.sources.pictures.images_kind import ImagesKind
from dsprep.sources.source import Source
from dsprep.storage.files import is_file
from dsprep.storage.objects import asked_once
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    from dsprep.catalog import Catalog, Inferred, SourceScan


def read_source(
    source: Source, run_all: RunAll = map, *, compact: bool = False, tells_kind: bool = False
) -> SourceScan:
    """Make the catalog of a source.

    Args:
        source: What is read.
        run_all: A ``map`` over worker processes.
        compact: Whether whole numbers of the catalog may have 32 bits.
        tells_kind: Whether a finding says what the source was taken for, and why.
    """
    try:
        with asked_once():
            catalog, findings, kind = _read(source, run_all)
    except UnknownClass as unknown:
        own = source.classes_file or "--classes"
        raise SourceError(f"{unknown} in {own}: {_class_advice(source)}") from None
    if source.sides_from is not None:  # --sides-from overrides the sides that the kind finds
        from dsprep.places.files import sides_of

        paths = catalog.table["path"]
        catalog = catalog.with_sides(*sides_of(paths, source.sides_from, source.root)[1:])
    if source.suffixes != frozenset(IMAGE_EXTENSIONS):
        given = {"--extensions": sorted(source.suffixes)}
        require_effect("", given, image_files=catalog.reader.reads_files)
    # Annotations that lie among images are recognized later, and say more.
    recognized = next((each for each in findings if each.kind == kind.kind), None)
    findings = [each for each in findings if each.kind != kind.kind]
    findings += [recognized or kind] if tells_kind else []
    return catalog if compact else _widened(catalog), findings


def _read(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding], Finding]:
    """Make the catalog of a source, with its schema and the classes that are kept.

    The last finding says what the source was taken for.
    """
    chosen, found = _detected(source, run_all)
    catalog, findings = found or ImagesKind().scan(source, chosen.place, run_all)
    if chosen.place.is_dir and (used := catalog.reader.sources()):
        findings = [*findings, *files_beside(chosen.place, used)]
    findings = without_used(with_statuses(findings, source.leave_out), source)
    missing_kinds = [*known_kinds(source).notes, *_annotation_notes(source)]
    findings = [*findings, *idle_patterns(findings, source.leave_out), *missing_kinds]
    if source.labels is None:  # `read_table` knows whether a table names the classes
        is_parts = source.parts or source.kind == "parts"
        is_tree = not found or source.annotations or (is_parts and not source.chooses)
        named = catalog.classes and is_tree
        require_effect("", {"--class-order": source.class_order}, named=bool(named))
    from dsprep.catalog import UNSETTLED  # imported late: loads polars
    from dsprep.sources.infer import with_schema

    if catalog.settled is UNSETTLED:
        every = source.needs_names or source.keep_classes is not None
        catalog, notes = with_schema(catalog, source.choice_of_samples, every, run_all)
        findings = [*findings, *notes]
    if not source.classes:
        from dsprep.sources.labels.classes import notes_on_names

        objects = catalog.settled.schema.objects
        findings = [
            *findings,
            *notes_on_names(catalog.classes or (objects.names if objects else ())),
        ]
    box = source.choice_of_samples.box
    if box and not catalog.settled.box:
        raise OptionError(
            f"--box {box} has no effect: it tells how the boxes of a table or of "
            "Hugging Face's data sets are read; give the table with --annotations"
        )
    if source.keep_classes is not None:
        from dsprep.sources.labels.subset import keep_classes

        catalog, notes = keep_classes(_widened(catalog), source)
        findings = [*findings, *notes]
    # Annotations that tell labels alone leave no trace in the catalog.
    is_annotated = catalog.sizes is not None or bool(source.annotations)
    is_annotated |= any(found.kind == "source" for found in findings)
    _require_own_options(source, chosen.kind, is_annotated)
    inferred = [*_inferred_kind(source, chosen, catalog), *catalog.inferred]
    return replace(catalog, inferred=tuple(inferred)), findings, chosen.finding


def _inferred_kind(source: Source, chosen: ChosenKind, catalog: Catalog) -> Iterator[Inferred]:
    """Yield what the source was taken for, for a layout."""
    from dsprep.catalog import Inferred  # imported late: loads polars

    if source.kind is not None or chosen.kind.adds:
        return
    names = chosen.kind.names
    name = next(filter(catalog.reader.reads_format, names), names[0])
    why = f"taken for {chosen.finding.detail}"
    yield Inferred("kind", name if chosen.kind.same_by_name else None, why)


def _class_advice(source: Source) -> str:
    """Say what to do about a class that the file of classes lacks."""
    if source.keep_classes is not None:
        return "leave out --classes, as it has to name the classes that are left out, too"
    if is_file(source.classes_file.removesuffix("classes.txt") + MANIFEST):
        return (
            "that file belongs to a data set, whose classes do not change: pack all samples again "
            "with a copy that has a line for each, or leave their images out"
        )
    return (
        "add a line for each to that file, or leave its images out: --keep-classes takes only the "
        "classes that a file names"
    )


def _require_own_options(source: Source, kind: SourceKind, is_annotated: bool) -> None:
    """Refuse options that only another kind of source has, or a kind of annotations.

    `annotated.recognized` refuses those of another kind of annotations.
    """
    of_kinds = options_in(SourceOptions).keys() - options_in(AnySourceOptions).keys()
    if not given_options({name: value for name, value in vars(source).items() if name in of_kinds}):
        return  # few sources need the options of all kinds of annotations, which are slow to load
    drawn = {declared.name for _, declared in all_annotation_kinds().options()}
    given = {**vars(source), **(source.kind_options or {})}
    known = dict[str, list[type[SourceKind]]]()
    for each, declared in known_kinds(source).options():
        known.setdefault(declared.name, []).append(each)
    for name in dict.fromkeys((*known, *drawn, *(source.kind_options or {}))):
        option, kinds = option_name(name), known.get(name, [])
        if type(kind) in kinds or (name in drawn and is_annotated):
            continue
        if option not in given_options({name: given.get(name)}):
            continue
        why = f"SOURCE is not {kinds[0].noun}" if kinds else "no kind of source has this option"
        if name in drawn:
            why = "SOURCE has no annotations that it could be about"
        raise OptionError(f"{shown(option, given[name])} has no effect: {why}; leave it out")


def _widened(catalog: Catalog) -> Catalog:
    from dsprep.catalog import widened

    return replace(catalog, table=widened(catalog.table))


# Which kind it is


def known_kinds(source: Source) -> KnownKinds[SourceKind]:
    """Return the kinds that may claim a source; those of other packages if they may be meant."""
    known = own_kinds() if source.kind in own_kinds().names else all_kinds()
    if source.kind is not None and source.kind not in known.names:
        raise OptionError(f"--from {source.kind}: choose one of {', '.join(known.names)}")
    return known


def _annotation_notes(source: Source) -> Sequence[Finding]:
    """Return notes about the kinds of annotations that are left out, if any may be meant."""
    return notes_on_other_kinds() if source.annotations or source.kind is None else ()


class ChosenKind(NamedTuple):
    """A kind that claims a source, with what it was asked about, and its claim."""

    kind: SourceKind
    source: Source
    place: SourcePlace
    why: str

    @property
    def finding(self) -> Finding:
        """The kind of the source and the reason, as ``--dry-run`` shows them."""
        because = "" if self.why == self.kind.noun else f", because of {self.why}"
        return Finding("source", "", f"{self.kind.noun}{because}")


def claims(source: Source) -> Iterator[ChosenKind]:
    """Yield the kinds that claim a source, the surest first."""
    kinds = [kind() for kind in known_kinds(source).kinds]
    named = next((kind.names[0] for kind in kinds if kind.is_implied(source)), source.kind)
    adding = [kind for kind in kinds if kind.adds and named not in ImagesKind.names]
    bases = [kind for kind in kinds if not kind.adds and (named is None or named in kind.names)]
    own = source.replace(kind=named)
    if source.chooses and named not in AugmentedManifestKind.names:
        # Lists name samples, and have classes of their own.
        own = own.replace(classes=None, needs_names=True)
    if not any(kind.takes_as_given(own) for kind in bases if named is not None):
        own = own.located()
    as_given = own.replace(root=source.root, others=source.others)
    below = SourcePlace(own.root, own.others)
    above = below if as_given == own else SourcePlace(source.root, source.others)

    def asked_about(kind: SourceKind) -> tuple[Source, SourcePlace]:
        return (as_given, above) if kind.takes_as_given(own) else (own, below)

    def ask(kind: SourceKind) -> Claim | None:
        asked, place = asked_about(kind)
        return kind.claim(place, asked)

    for some in (adding, bases):
        refused = partial(equally_sure, own.root)
        for kind, claim in ranked(some, ask, refused, is_named=named is not None):
            yield ChosenKind(kind, *asked_about(kind), claim.why)


def detect(source: Source, run_all: RunAll = map) -> SourceScan | None:
    """Make the catalog of a source; None if it is a tree of images."""
    return _detected(source, run_all)[1]


def _detected(source: Source, run_all: RunAll) -> tuple[ChosenKind, SourceScan | None]:
    """Return the kind of a source, and its catalog; None if it is a tree of images."""
    chosen: ChosenKind | None = None
    found: SourceScan | None = None
    try:
        for chosen in claims(source):
            kind, own, place, _ = chosen
            if isinstance(kind, ImagesKind) or (found := kind.scan(own, place, run_all)):
                break
    except OSError as error:
        path = as_given(error.filename) or source.root
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
    if found is None:
        if source.kind not in ImagesKind.names:
            source.require_alone()
            if source.kind is not None:
                raise SourceError(
                    f"{source.root}: holds nothing that --from {source.kind} reads; leave out "
                    "--from, so that dsprep finds out what it is"
                )
        place = SourcePlace(source.root)
        why = f"--from {source.kind}" if source.kind else ImagesKind.noun
        return ChosenKind(ImagesKind(), source, place, why), None
    assert chosen is not None
    if own.root != source.root:
        found = found[0], [Finding("note", "", f"the samples are those of {own.root}"), *found[1]]
    if not source.chooses or own.kind in AugmentedManifestKind.names:
        return chosen, found
    from dsprep.places.files import Files
    from dsprep.sources.infer import with_schema
    from dsprep.sources.pictures.tree import read_tree

    catalog, notes = with_schema(_widened(found[0]), source.choice_of_samples, True, run_all)
    if catalog.annotated is None:  # a list makes one data set of the images that it names
        catalog = replace(catalog, table=catalog.table.drop("side", strict=False), sides=())
    files = Files.of(catalog, [*found[1], *notes])
    return chosen, read_tree(source, files)
