"""Images with annotations beside them: which belong together, and how a worker reads them.

The annotations of an image have a number in the catalog, and a place: where they lie. Rows that go
to a worker carry the places of their images only. The kinds of :class:`Annotations` are in modules
of their own, each with the function that scans what one tool writes.
"""

from __future__ import annotations

import posixpath
import shlex
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from hashlib import sha256
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.annotations.objects import Objects
from dsprep.errors import BadSample, OptionError, SourceError
from dsprep.findings import Finding
from dsprep.formats.folder import Folder
from dsprep.frozen import Frozen
from dsprep.numbering import require_lines
from dsprep.options import require_effect
from dsprep.rows import Reader, Rows, Wrapper
from dsprep.sample import Sample, key_of
from dsprep.schema import IMAGE_ID, LABEL, Field, Schema
from dsprep.sources.annotated.image_values import ImageValues, OfSamples, values_of_samples
from dsprep.sources.annotated.mask_files import (
    MaskFiles,
    find_masks,
    is_further,
    joining,
    mask_files,
    mask_names,
    without_mask_files,
)
from dsprep.sources.annotated.masks import BlackAndWhiteMasks, MaskData, Masks, TableMasks
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some, quoted, quoted_names

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Annotated, Catalog, Inferred, SourceScan
    from dsprep.places.files import Files
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

OBJECTS, MASK = "objects", "mask"  # the names of the fields
_NONE = -1  # the number of an image without annotations
_SHOWN = 3  # examples in a message
_AT_ONCE = 1 << 16  # rows of a table


class Annotations(Frozen, ABC):
    """The annotations of the images of a source. Plain data: it is pickled for the workers."""

    @property
    def is_copied(self) -> bool:
        """Whether they are read from a temporary copy, which only this machine has."""
        return False

    def image_id(self, place: Any) -> int:
        """Return the id that the annotations at a place have for their image, if scanned."""
        raise NotImplementedError

    @abstractmethod
    def opened(self, places: Sequence[Any]) -> AbstractContextManager[Callable[[int], Objects]]:
        """Return what reads the objects at one of these places, in a context of open files.

        It takes the position of the place. A ValueError or an OSError says why there are none.
        """


class AnnotatedReader(Wrapper):
    """Reads images with their annotations."""

    reads_samples: ClassVar[bool] = True
    table: ClassVar = Folder()
    annotations: Annotations | None = None
    masks: Masks | TableMasks | None = None
    has_image_ids: bool = False
    # the fields whose values places have: each place is that of the objects, and these values
    names: tuple[str, ...] = ()

    @property
    def facts(self) -> Mapping[str, bool]:
        return {**super().facts, "image_files": True}

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        samples = zip(rows.ids, rows.paths, rows.annotations, self.images(rows), strict=True)
        annotations, places = self.annotations, [place for _, place in rows.annotations]
        values: Sequence[Mapping[str, Any]] = ()
        if self.names:
            values = [self._values(place) for place in places]
            places = [None if place is None else place[0] for place in places]
        opened = nullcontext() if annotations is None else annotations.opened(places)
        with opened as objects_at:
            for at, ((id, path, (number, _), found), mask) in enumerate(
                zip(samples, self._mask_files(rows), strict=True)
            ):
                if not isinstance(found, bytes):
                    yield found
                    continue
                fields: dict[str, Any] = {"image": found}
                if values:
                    fields.update(values[at])
                effects: Counter[str] | None = None
                try:
                    if objects_at is not None:
                        fields[OBJECTS] = Objects() if places[at] is None else objects_at(at)
                        if self.has_image_ids and annotations is not None:
                            fields[IMAGE_ID] = annotations.image_id(places[at])
                    if isinstance(self.masks, TableMasks):
                        fields[MASK] = self.masks.mask(number, found)
                    elif self.masks is not None:
                        effects = Counter()
                        own = self.masks.mask(mask, fields.get(OBJECTS), effects)
                        fields |= {} if own is None else {MASK: own}
                except BadSample as error:
                    yield error
                except (ValueError, TypeError, KeyError, RecursionError) as error:
                    yield BadSample(f"its annotations: {error}")
                except OSError as error:
                    yield BadSample(f"its annotations cannot be read ({error.strerror})")
                else:
                    sample = Sample(key_of(path), fields, id, path, "image")
                    if effects is not None and any(effects.values()):
                        sample.effects = effects
                    yield self.typed(sample)

    def _values(self, place: Any) -> Mapping[str, Any]:
        """Return the further fields of an image that it has."""
        values = () if place is None else place[1]
        return {
            name: value
            for name, value in zip(self.names, values, strict=False)
            if value is not None
        }

    def _mask_files(self, rows: Rows) -> Iterator[MaskData]:
        """Read the files of masks; None for an image without one."""
        if not isinstance(self.masks, Masks):
            return repeat(None, len(rows.ids))
        return self.masks.files([number for number, _ in rows.annotations], self.inner)

    def in_frame(self, turn: str | None) -> AnnotatedReader:
        if not isinstance(self.masks, TableMasks):
            return self
        return replace(self, masks=replace(self.masks, stored=turn == "stored"))


class Scan(NamedTuple):
    """The images that annotations name, with counts of their objects, classes and sides.

    If annotations tell labels, tags or texts of whole images, `values` has them, beside objects or
    without any: then `annotations` is None, and `counts` and `texts` are empty.
    """

    annotations: Annotations | None  # None if there are masks or values of images alone
    names: Sequence[str]  # what each image is called, by number
    counts: Sequence[int]  # how many objects it has
    texts: Sequence[int]  # the bytes that tell them as JSON, at most, besides the boxes
    classes: tuple[str, ...]  # the names of the classes, by number
    ids: tuple[int, ...]  # their ids; empty if the source has none
    digest: str  # of everything that was read
    where: str  # the file or directory that was scanned, for messages
    findings: Sequence[Finding] = ()
    # whether some may be crowd, difficult or group-of; if nothing tells, they may
    flags: bool = True
    masks: Masks | TableMasks | None = None
    keeps_unlisted: bool = False  # whether an image without annotations is one without objects
    places: Sequence[Any] = ()  # where those of each image lie; if empty, that is the number
    sides: Sequence[str] = ()  # the side of each image; empty if there are none
    used: Collection[str] = ()  # the files below the root that were read
    in_shares: bool = False  # whether boxes are shares of the size of images
    boxes_alone: bool = False  # whether no object has polygons or a mask
    has_image_ids: bool = False  # whether each image has a whole number for an id
    elsewhere: Sequence[str] = ()  # what annotations that are not read call their images
    inferred: Sequence[Inferred] = ()  # what tells how to read them, if nobody said it
    values: ImageValues = ImageValues()  # what annotations tell of whole images: labels, fields
    # the file that names each image, and the directory its names start from; empty if one names all
    named_in: Sequence[tuple[str, str]] = ()


def by_rows(table: pl.DataFrame, code: str) -> array[Any]:
    """Return the numbers of a table, row after row, as an array of this type."""
    found = array(code)
    for part in table.iter_slices(_AT_ONCE):
        rows = array(code, bytes(found.itemsize * part.height * part.width))
        for at, column in enumerate(part):
            rows[at :: part.width] = array(code, column.to_list())
        found.extend(rows)
    return found


def list_images(source: Source, run_all: RunAll) -> Files:
    """List the images of a source, in a directory or in an archive."""
    from dsprep.places.archive import open_archive
    from dsprep.places.files import images_of, list_files
    from dsprep.places.scan import scan_below
    from dsprep.storage.files import is_dir

    if is_dir(source.root):
        return list_files(scan_below(source.root, source.suffixes, run_all))
    return images_of(open_archive(source.root), source.suffixes)


def catalog_of(source: Source, scan: Scan | None, files: Files, run_all: RunAll) -> SourceScan:
    """Make the catalog of images with annotations, with masks, or with both."""
    import polars as pl

    from dsprep.catalog import PLACE_COLUMNS
    from dsprep.places.files import FILES, with_sides_of_directories
    from dsprep.sources.likely_masks import without_masks
    from dsprep.sources.readers import FileReader

    beside, are_runs = None, scan is not None and isinstance(scan.masks, TableMasks)
    if source.masks is not None and not are_runs:
        beside = mask_files(source, files, run_all)
        files = without_mask_files(source, files, beside)
        if scan is None:  # other masks, which are no samples either
            files = without_masks(source.root, files, are_given=True)
            scan = None if source.chooses else _scan_of_labels(source, files)
    table, findings = files.table.sort("path"), files.findings
    paths = table["path"].to_list()
    if not paths:
        raise SourceError(
            f"{source.root}: holds no image files, to which annotations and masks belong; "
            "shards have their own"
        )
    numbers, sides = [_NONE] * len(paths), tuple[str, ...]()
    table = table.with_row_index("annotation").cast({"annotation": pl.Int64})
    if scan is not None:
        _require_names(scan)
        kinds = ("not-read", "left-out")
        others = {found.path for found in scan.findings if found.kind in kinds}
        numbers, missing = matched(scan, table["path"], others.union(_masks_in(source, scan)))
        taken, sides = _taken(source, scan, paths, numbers)
        masks_left = _likely_masks(source, scan, files) if _NONE in numbers else {}
        if scan.keeps_unlisted:  # masks are no images without objects
            named = {path for path, at in zip(paths, numbers, strict=True) if at != _NONE}
            known = named | others  # of the scan itself
            masks_left = {path: why for path, why in masks_left.items() if path not in known}
            others.update(masks_left)
            kind = "not-read" if are_runs else "left-over"
            findings = [*findings, *(Finding(kind, *each) for each in masks_left.items())]
            if masks_left and are_runs:
                said = f"{format_count(len(masks_left), 'likely mask')} not read"
                said = f"{said}, such as {min(masks_left)}: the table has the masks"
                findings.append(Finding("note", "", said))
        if others:  # images that are none of the samples, such as masks
            taken = [_NONE if path in others else at for path, at in zip(paths, taken, strict=True)]
        own = pl.Series("side", taken, dtype=pl.Int64)
        findings = _with_findings_of(scan, findings, missing)
        left = [path for path in table.filter(own < 0)["path"].to_list() if path not in others]
        for path in left:
            is_mask = path in masks_left
            findings.append(
                Finding("left-over" if is_mask else "unlisted", path, masks_left.get(path, ""))
            )
        table = table.with_columns(own).filter(own >= 0)
    told = scan or Scan(None, (), (), (), (), (), "", "")
    rows = table["annotation"].to_list()
    taken_images = _TakenImages(source, told, numbers, rows)
    values = taken_images.values()
    images = files.reader or FileReader(source.root)
    masks, mask_fields, notes = _masks_of(source, told, beside, paths, numbers, rows, images)
    if isinstance(masks, Masks):
        findings = _without_masks(findings, masks, beside)
        if beside is not None and source.mask_colors is None and masks.colors:
            colors = beside.table.removeprefix(f"{source.root.rstrip('/')}/")
            findings = [each for each in findings if each.path != colors]
            notes.append(Finding("note", "", f"the colors of classes are those of {colors}"))
    if values.without:
        said = f"{format_count(values.without, 'image')} without a label"
        notes.append(Finding("note", "", said))
    columns = [*FILES, *(name for name in PLACE_COLUMNS if name in table.columns), "annotation"]
    columns += ["side"] if sides else []
    table = table.select(pl.int_range(pl.len()).alias("index"), *columns)
    table = table.with_columns([] if values.column is None else [values.column])
    catalog, more = taken_images.catalog(table, images, values, masks, mask_fields)
    catalog = replace(catalog, sides=sides, inferred=tuple(told.inferred))
    if not sides and source.sides_from is None:
        catalog, said_of_sides = with_sides_of_directories(catalog)
        notes += said_of_sides
    return catalog, sorted([*findings, *more, *notes], key=lambda found: found.path)


def _likely_masks(source: Source, scan: Scan, files: Files) -> Mapping[str, str]:
    """Return the images that are likely masks, with what is said of each; none if masks are read.

    Those of a table of runs lie beside it as files as well.
    """
    from dsprep.sources.likely_masks import likely_masks

    are_read = source.masks is not None or (scan.masks is not None and not scan.keeps_unlisted)
    return {} if are_read or not source.takes_masks else likely_masks(source.root, files)


def _scan_of_labels(source: Source, files: Files) -> Scan | None:
    """Scan the labels of images that have masks and no annotations; None if nothing tells any."""
    from dsprep.sources.annotated.mask_labels import labels_beside_masks

    paths = files.table["path"].sort()
    values, notes = labels_beside_masks(source, paths)
    if values.label is None and not notes:
        return None
    told = repr((values.classes, [] if values.label is None else values.label.to_list()))
    digest = sha256(told.encode()).hexdigest()
    where = source.root
    return Scan(None, paths.to_list(), (), (), (), (), digest, where, notes, values=values)


class _TakenImages(NamedTuple):
    """What is known of the images of a source and their annotations."""

    source: Source
    scan: Scan
    numbers: Sequence[int]  # the number in the scan of each image, or -1
    rows: Sequence[int]  # the images that are taken, as positions among these

    @property
    def taken(self) -> Sequence[int]:
        """The number in the scan of each image that is taken."""
        return [self.numbers[row] for row in self.rows]

    def values(self) -> OfSamples:
        """Return the labels and the further fields of the images that are taken."""
        scan, label_type = self.scan, self.source.choice.label_type
        return values_of_samples(scan.values, self.taken, label_type, scan.where)

    def catalog(
        self,
        table: pl.DataFrame,
        images: Reader,
        values: OfSamples,
        masks: Masks | TableMasks | None,
        mask_fields: Sequence[Field],
    ) -> tuple[Catalog, list[Finding]]:
        """Make the catalog of a table, with its reader and schema."""
        from dsprep.catalog import Catalog

        root, scan = self.source.root, self.scan
        classes = scan.values.classes
        if scan.annotations is None and masks is None and not values.fields:
            # Nothing but labels, which the table has: samples are images, as those of a folder.
            return Catalog(table.drop("annotation"), root, classes, images), []
        ids, notes = _image_id_fields(scan, self.taken)
        fields = [
            Field("image", "image", places=(("image",),)),
            *(*_objects_fields(scan, root), *ids, *mask_fields, *values.fields),
        ]
        label = None
        if scan.values.label is not None:
            fields += [Field(LABEL, "class")] if values.column is not None else []
            label = LABEL
        fields = [replace(each, told="the files") for each in fields]
        names = tuple(each.name for each in values.fields)
        return Catalog(
            *(table, root, classes),
            AnnotatedReader(images, scan.annotations, masks, bool(ids), names),
            Schema(tuple(fields), "image", label, "folder"),
            schema_known=True,
            overridden=frozenset({LABEL} if values.column is not None else ()),
            annotated=self._annotated(values, masks),
        ), notes

    def _annotated(self, values: OfSamples, masks: Masks | TableMasks | None) -> Annotated:
        import polars as pl

        from dsprep.catalog import Annotated

        scan, nothing = self.scan, [0] * len(self.scan.names)
        # The last row is for images without annotations, whose number is -1.
        counts = {"objects": [*(scan.counts or nothing), 0], "texts": [*(scan.texts or nothing), 0]}
        sizes = pl.DataFrame(counts).cast(pl.Int64)
        own = pl.Series(self.numbers, dtype=pl.Int64)
        sizes = sizes[own.replace(_NONE, sizes.height - 1)]
        digest = sha256(scan.digest.encode())
        if masks is not None:
            sizes = sizes.with_columns(pl.Series("masks", masks.sizes, dtype=pl.Int64))
            digest.update(masks.digest())
        places = scan.places
        if values.fields:
            places = list(zip(places or range(len(nothing)), values.values, strict=True))
        return Annotated(
            *(sizes, digest.hexdigest(), self.numbers, places),
            in_shares=scan.in_shares,
            boxes_alone=scan.boxes_alone,
            has_fields=bool(values.fields),
        )


def _masks_in(source: Source, scan: Scan) -> Collection[str]:
    """Return the masks of a scan that lie among the images."""
    if isinstance(scan.masks, Masks) and scan.masks.root == source.root:
        return scan.masks.paths
    return ()


def _with_findings_of(
    scan: Scan, findings: Sequence[Finding], missing: Sequence[str]
) -> list[Finding]:
    """Return the findings about files without those that a scan used, and with its own."""
    named_in = dict[str, list[tuple[str, str]]]()  # several files may name images alike
    wanted = frozenset(missing if scan.named_in else ())
    for name, place in zip(scan.names, scan.named_in, strict=False):
        if name in wanted:
            named_in.setdefault(name, []).append(place)
    lost = ((name, *named_in.get(name, [(scan.where, "")]).pop(0)) for name in missing)
    named = [
        (posixpath.join(top, name), f"named in {posixpath.basename(file)}")
        for name, file, top in lost
    ]
    hidden = {found.path for found in findings if found.kind == "hidden"}
    below_hidden = tuple(path for path in hidden if path.endswith("/"))
    told = []
    for path, said in named:
        is_hidden = path in hidden or path.startswith(below_hidden)
        told.append(Finding("concealed" if is_hidden else "missing", path, said))
    used = hidden.intersection(path for path, _ in named).union(scan.used)
    others = [found for found in findings if found.path not in used]
    return [*others, *scan.findings, *told]


def _objects_fields(told: Scan, root: str) -> list[Field]:
    """Return the field of objects, if there are annotations."""
    if told.annotations is None:
        return []
    require_lines(told.classes, root, "objects.classes.txt")
    objects = Field(OBJECTS, "objects", False, told.classes, ((OBJECTS,),), ids=told.ids)
    return [replace(objects, flags=told.flags)]


def _image_id_fields(told: Scan, numbers: Sequence[int]) -> tuple[list[Field], list[Finding]]:
    """Return the field of ids of images, if all images that are taken have one, and notes."""
    if not told.has_image_ids:
        return [], []
    if _NONE in numbers:
        said = "ids of images not kept, as those that are not listed have none"
        return [], [Finding("note", "", said)]
    return [Field(IMAGE_ID, "int", False, places=((IMAGE_ID,),))], []


def _masks_of(
    source: Source,
    told: Scan,
    beside: MaskFiles | None,
    paths: Sequence[str],
    numbers: Sequence[int],
    rows: Sequence[int],
    images: Reader,
) -> tuple[Masks | TableMasks | None, list[Field], list[Finding]]:
    """Return the masks of images, their field, and notes about images without one.

    The annotations have them, or the directory of ``--masks``. ``rows`` are the images that are
    taken, as positions in ``paths`` and ``numbers``.
    """
    if told.masks is not None:
        are_runs = isinstance(told.masks, TableMasks)
        require_effect("", source.given, own_masks=True, own_runs=are_runs)
        own = told.masks.of(numbers)
        lacks = isinstance(own, Masks) and not all(own.paths[row] for row in rows)
        return own, [_mask_field(own.names, told.where, lacks=lacks)], []
    if beside is None:
        return None, [], []
    masks, others = find_masks(source, beside, paths, images)
    taken = [path for path in masks.paths if path]
    stems = {posixpath.splitext(path)[0] for path in taken}
    again = [path for path in others if is_further(path, stems)]
    alone = sorted({*others}.difference(again))
    notes = []
    joins = shlex.quote(joining(str(source.masks), taken, again))
    why_again = f"not read, as a sample has one mask; --masks {joins} joins them"
    for files, why in (alone, "without an image"), (again, why_again):
        if files:
            said = f"{format_count(len(files), 'file')} in {source.masks} {why}"
            notes.append(f"{said}: {format_some(files)}")
    if masks.further:
        joined = sum(map(bool, masks.further[0].paths))
        notes.append(f"{format_count(joined, 'image')} with several masks, which are joined")
    if isinstance(masks, BlackAndWhiteMasks):
        notes.append(
            "the masks looked at are of 0 and 255 alone: 255 is taken for class 1; if it stands "
            "for pixels of no class, give --mask-values 255=255"
        )
    bare = sum(not masks.paths[row] for row in rows)
    if bare:
        notes.append(f"{format_count(bare, 'image')} without a mask in {source.masks}")
    names = mask_names(source) or masks.names
    named_in = source.mask_classes or beside.table or str(source.masks)
    field = _mask_field(names, named_in, lacks=bare > 0)
    return masks, [field], [Finding("note", "", note) for note in notes]


def _mask_field(names: tuple[str, ...], where: str, *, lacks: bool) -> Field:
    """Return the field of masks whose classes have these names."""
    require_lines(names, where, "mask.classes.txt")
    _require_distinct(names, where)
    _require_whole(names, where)
    return Field(MASK, "mask", lacks, names, ((MASK,),))


def _without_masks(
    findings: Iterable[Finding], masks: Masks, beside: MaskFiles | None
) -> list[Finding]:
    """Return the findings without images that are left out and are the masks of others."""
    own = {*masks.paths} - {""}
    used = own if beside is None else beside.as_images(own)
    return [each for each in findings if each.kind != "unlisted" or each.path not in used]


def _require_names(scan: Scan) -> None:
    """Refuse names of several classes, and such that UTF-8 has no bytes for, as JSON may have."""
    _require_distinct(scan.classes, scan.where)
    _require_whole((*scan.names, *scan.classes), scan.where)


def _require_distinct(classes: Sequence[str], where: str) -> None:
    twice = sorted(name for name, count in Counter(classes).items() if count > 1)
    if twice:
        raise SourceError(
            f"{where}: several classes have one name: {quoted_names(twice, _SHOWN)}: give each "
            "its own name"
        )


def _require_whole(names: Iterable[str], where: str) -> None:
    """Refuse names with half a character, which UTF-8 has no bytes for, and JSON may have."""
    try:
        "\n".join(names).encode()
    except UnicodeEncodeError as error:
        line = error.object[: error.end].count("\n")
        name = error.object.split("\n")[line]
        raise SourceError(f"{where}: the name {quoted(name)} has half a character") from None


def _taken(
    source: Source, scan: Scan, paths: Sequence[str], numbers: Sequence[int]
) -> tuple[list[int], tuple[str, ...]]:
    """Return the number of the side of each image, -1 for one to leave out, and the sides."""
    from dsprep.places.match import find_elsewhere  # imported late: workers do not need it
    from dsprep.places.names import in_order, side_above

    if not any(number != _NONE for number in numbers):
        raise SourceError(
            f"{scan.where}: not one of the {format_count(len(scan.names), 'image')} that it names "
            f"lies below {source.root}, such as {scan.names[0]!r}: give their directory as SOURCE"
            if scan.names
            else f"{scan.where}: names no images: has no list of them, or an empty one"
        )
    keeps = scan.keeps_unlisted if source.unlisted is None else source.unlisted == "keep"
    if not scan.sides:
        elsewhere = () if source.unlisted == "keep" else scan.elsewhere
        meant = find_elsewhere(elsewhere, paths if elsewhere else ())
        others = {*meant.first, *meant.last}
        pairs = zip(paths, numbers, strict=True)
        kept = (number != _NONE or (keeps and path not in others) for path, number in pairs)
        return [0 if is_kept else _NONE for is_kept in kept], ()
    sides = in_order(filter(None, set(scan.sides)))
    ranks = {side: at for at, side in enumerate(sides)}
    ranks[""] = _NONE
    taken = [_NONE if at == _NONE else ranks[scan.sides[at]] for at in numbers]
    if keeps:  # those without a word of them are of the side of their directory
        taken = [
            ranks.get(side_above(path), _NONE) if rank == _NONE else rank
            for path, rank in zip(paths, taken, strict=True)
        ]
    if source.unlisted == "keep" and _NONE in taken:
        path, count = paths[taken.index(_NONE)], format_count(taken.count(_NONE), "image")
        raise OptionError(
            f"--unlisted keep: {count} that no side names, such as {path}: leave it out"
        )
    return taken, sides


# Which image a name means


def matched(
    scan: Scan, images: pl.Series, others: Collection[str] = ()
) -> tuple[list[int], list[str]]:
    """Return the number of the annotations of each image, and the names of images not there.

    ``others`` are images that are none of the samples, such as masks.
    """
    import polars as pl

    from dsprep.places.match import find_elsewhere
    from dsprep.sources.mask_names import without

    meant = find_elsewhere(scan.names, without(images, others))
    meant.refuse_several(
        scan.where, lambda one, two: ": give the directory that its paths start from as SOURCE"
    )
    rows = pl.DataFrame({"path": meant.paths, "name": meant.names}).with_row_index("number")
    if not meant.are_paths.all():
        rows = rows.with_columns(loose=~meant.are_paths)
        # An image that is named as it is belongs to this name alone.
        exact = rows["path"].filter(meant.are_paths)
        is_taken = pl.col("loose") & pl.col("path").is_in(exact.implode())
        rows = rows.with_columns(path=pl.when(~is_taken).then("path"))
        rows = rows.sort("loose", maintain_order=True)
    missing = rows.filter(pl.col("path").is_null())["name"].to_list()
    rows = rows.drop_nulls("path")
    _require_one_entry(rows, scan.where)
    joined = images.to_frame("path").join(rows, on="path", how="left", maintain_order="left")
    return joined["number"].cast(pl.Int64).fill_null(_NONE).to_list(), missing


def _require_one_entry(rows: pl.DataFrame, where: str) -> None:
    """Refuse several entries for one image."""
    again = rows.filter(~rows["path"].is_first_distinct())
    if again.is_empty():
        return
    firsts = rows.unique("path", keep="first").select("path", first="name")
    pairs = again.join(firsts, on="path", maintain_order="left").select("path", "first", "name")
    said = (
        f"{path}: {one!r} and {two!r}" if one != two else path
        for path, one, two in pairs.iter_rows()
    )
    instead = ", or name the file to take with --annotations" if ", " in where else ""
    raise SourceError(
        f"{where}: {format_count(again.height, 'image')} named by several entries: merge "
        f"these, or correct the names{instead}:",
        *some_lines(said, again.height),
    )


def some_lines(lines: Iterable[str], count: int) -> list[str]:
    """Return the first few lines, indented, and how many more there are."""
    shown = [f"  {line}" for line, _ in zip(lines, range(_SHOWN), strict=False)]
    return [*shown, f"  and {count - _SHOWN:,} more"] if count > _SHOWN else shown
