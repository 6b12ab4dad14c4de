"""How a row of a catalog becomes a sample to write: read, check, transform.

Workers run this once a sample, so it imports neither polars nor Pillow.

A transform changes images, objects and masks (:mod:`dsprep.moving`). A sample with other fields
that may depend on the geometry of its image is refused. A field can have any name, so the type and
the content of its value decide.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import repeat, starmap
from typing import Any

from dsprep.annotations.mxnet import is_detection_label, is_sized_header
from dsprep.annotations.objects import Warp
from dsprep.errors import BadSample, LeftOut, OptionError
from dsprep.findings import STORED_AS_PIXELS, Reject, reject_of
from dsprep.formats.base import Format
from dsprep.frozen import Frozen
from dsprep.images.augment import IDENTITY, Augment, affine_of
from dsprep.images.header import DEFAULT_MAX_PIXELS, ImageHeader, sniff
from dsprep.images.transform import (
    FACTS_OF,
    Decoded,
    Encoded,
    Transform,
    make_check,
    orientation_in,
    pillow,
    require_readable,
)
from dsprep.moving import AS_SHOWN, Frame, Mover, further_images, make_mover
from dsprep.patterns import pattern
from dsprep.rows import Reader, Rows
from dsprep.sample import (
    UNKNOWN_IMAGE,
    Blobs,
    Ints,
    Sample,
    Value,
    copy_id,
    copy_name,
    image_kind_of,
    key_of,
    original_name,
)
from dsprep.schema import FACTS, IMAGE, IMAGE_ID, TYPES, Field, Schema
from dsprep.tuples import NamedTuple
from dsprep.workers.worker import Report, counted

_LOST_FRAMES = "image of several frames kept only the first"


class Images(Frozen):
    """The transform of images, and which images become rejects."""

    transform: Transform | None = None  # None copies their bytes
    # `decode`, `header` or `none`; None for what suits format and source, until these are known
    check: str | None = None
    max_pixels: int = DEFAULT_MAX_PIXELS  # the most pixels that an image may have
    keep_fields: frozenset[str] = frozenset()  # fields that do not depend on the image's geometry
    frame: Frame = AS_SHOWN  # which picture of each image was annotated
    augment: Augment | None = None  # what is done to copies, after the transform

    def __post_init__(self) -> None:
        if IMAGE in self.keep_fields:
            raise OptionError("--keep-fields image: the image is what a transform changes")

    def kept(self, schema: Schema) -> list[str]:
        """Return the names of the fields that stay as they are."""
        named = map(schema.named, sorted(self.keep_fields))
        return [found.name for found in named if found]

    def moves_fields(self, schema: Schema) -> bool:
        """Whether more than the image changes, which needs typed samples."""
        if not self.changes:
            return False
        geometry = any(each.type in ("objects", "mask") for each in schema.fields)
        moves = self.moving_option is not None
        return geometry or (moves and bool(further_images(schema, self.kept(schema))))

    @property
    def changes(self) -> bool:
        """Whether images that are written may differ from those of the source."""
        return self.transform is not None or self.augment is not None

    @property
    def for_copies(self) -> Transform:
        """What is done to an image before it is augmented, and how copies are encoded."""
        if self.transform is not None or self.augment is None:
            return self.transform or Transform()
        return Transform(quality=self.augment.quality, min_visible=self.augment.min_visible)

    @property
    def probed(self) -> Transform | None:
        """A transform that shows whether another machine makes the same images."""
        return self.transform or (Transform(encode="jpeg") if self.augment else None)

    @property
    def moving_option(self) -> str | None:
        """The option that changes the geometry of images; None if none does."""
        if self.augment is not None and self.augment.moves:
            return "augmenting"
        moves = self.transform is not None and self.transform.moves
        return self.transform.moving_option if self.transform and moves else None

    def readable(self, layout: Format) -> frozenset[str] | None:
        """Return the kinds of image that may be written; None for any."""
        return None if self.check == "none" else layout.limits.images


class Pipeline(Frozen):
    """How a row of a catalog becomes an encoded sample. Plain data, pickled for the workers."""

    reader: Reader  # reads the source, as samples of its schema or, within a format, as raw ones
    schema: Schema  # the schema of the source
    layout: Format  # the format
    images: Images
    key: str = "path"  # `path` or `index`: where keys come from; `path` keeps those of samples
    classes: tuple[str, ...] | None = None  # class names by number
    copies: bool = False  # whether encoded samples are copied as they are
    overridden: frozenset[str] = frozenset()  # what rows change in samples: `label`, `id`

    @property
    def typed_facts(self) -> Mapping[str, str]:
        """The fields of samples of the format that tell facts of images, and which each tells."""
        schema = self.layout.schema
        fields = schema.fields if schema is not None else ()
        return {each.name: each.tells for each in fields if each.tells}

    @property
    def reads_images(self) -> bool:
        """Whether the source has images alone, and rows tell all the rest of the samples."""
        return not self.reader.reads_samples

    @property
    def moves(self) -> bool:
        """Whether samples have fields that depend on the size of their image."""
        others = (each for each in self.schema.fields if each.name != self.schema.image)
        return self.layout.schema is not None and any(
            each.type in ("objects", "mask") for each in others
        )

    @property
    def looks(self) -> bool:
        images = self.images
        checks = images.changes or images.check != "none"
        return checks or bool(self.typed_facts) or self.moves


def make_samples(pipeline: Pipeline, rows: Rows) -> Iterator[Sample | BadSample]:
    """Read the rows' images, or whole samples, and turn them into the samples to write."""
    copies = rows.copies or repeat(0, len(rows.ids))
    read = zip(read_samples(pipeline, rows), rows.paths, copies, strict=True)
    return starmap(sample_finisher(pipeline), read)


def read_samples(pipeline: Pipeline, rows: Rows) -> Iterator[Sample | BadSample]:
    """Read the rows' samples, with their labels, as they lie in the source."""
    read = pipeline.reader.read if not rows.copies else partial(_read_once, pipeline.reader)
    labels = rows.labels if rows.labels is not None else repeat(None, len(rows.ids))
    copies = rows.copies or repeat(0, len(rows.ids))
    found = zip(read(rows), rows.ids, rows.paths, labels, copies, strict=True)
    return starmap(_labeler(pipeline), found)


def _read_once(reader: Reader, rows: Rows) -> Iterator[bytes | Sample | BadSample]:
    """Read samples and their copies; one whose copies are neighbors is read once."""
    originals, starts = rows.originals()
    found: bytes | Sample | BadSample = b""
    read = reader.read(originals)
    for is_start in starts:
        found = next(read) if is_start else found
        if isinstance(found, Sample):
            yield replace(found, fields={**found.fields}, effects=Counter(found.effects or ()))
        else:
            yield found


def _labeler(pipeline: Pipeline) -> Callable[..., Sample | BadSample]:
    """Return a function that makes a sample of what was read, and of the other columns of its row.

    These are the id, the path, the label, and the number of the copy that is wanted.
    """
    schema, classes = pipeline.schema, pipeline.classes or ()
    count = len(classes)
    image_name = schema.image or "image"
    # rows of the catalog may give the label or the objects
    told = schema.label_field or _objects_of_rows(schema)
    label_name, kind = (told.name, told.type) if told else ("", "")
    replaces_labels = "label" in pipeline.overridden
    is_text = kind == "text"

    def value_of(label: tuple[float, ...]) -> Any:
        if kind == "objects":
            return TYPES[kind].convert(label)
        return label if kind.startswith("list") else label[0]

    def labeled(
        found: bytes | Sample | BadSample,
        id: int,
        path: str,
        label: int | tuple[float, ...] | None,
        copy: int,
    ) -> Sample | BadSample:
        if isinstance(found, bytes):
            own = original_name(path) if copy else path
            fields: dict[str, Value] = {image_name: found}
            sample = Sample(key_of(own), fields, id, own, image_name)
        elif isinstance(found, BadSample):
            return found
        else:
            sample = found
            sample.id = id if copy else sample.id
        if label is not None and label_name and (replaces_labels or sample is not found):
            if isinstance(label, int):
                name = sample.class_name = classes[label] if 0 <= label < count else None
                sample.fields[label_name] = name if is_text else label
                return sample
            sample.class_name = None
            try:
                sample.fields[label_name] = value_of(label)
            except ValueError as error:
                return BadSample(f"its label {error}")
        return sample

    return labeled


def _objects_of_rows(schema: Schema) -> Field | None:
    """Return the objects if rows tell them, as lists of boxes do, not annotations beside images."""
    objects = schema.objects
    return None if objects is None or (objects.type,) in objects.places else objects


def sample_finisher(
    pipeline: Pipeline,
) -> Callable[[Sample | BadSample, str, int], Sample | BadSample]:
    """Return a function from a sample that was read to the sample to write.

    It also takes the path, and the number of the copy that is wanted; 0 is the sample itself. A
    sample that was rejected stays so.
    """
    images, layout = pipeline.images, pipeline.layout
    name, fit = _namer(pipeline), _fitter(pipeline)
    renames = pipeline.key == "index" or _counts_by_key(pipeline)  # not only copies
    make_image, make_copy = image_maker(pipeline), _copy_maker(pipeline)
    check = _checker(pipeline)
    move, move_copy = _movers(pipeline)
    require_unspoiled = _spoil_finder(pipeline)
    renew = _fact_maker(pipeline)
    # An image that is a file has the kind that its bytes say, whatever its name says.
    looks = pipeline.looks or pipeline.reads_images or move is not None
    only_checks = images.transform is None and not pipeline.typed_facts and move is None

    def finish(sample: Sample | BadSample, path: str, copy: int = 0) -> Sample | BadSample:
        if isinstance(sample, BadSample):
            return sample
        key = sample.key
        if copy or renames:
            name(sample, copy)
        if not looks or sample.image is None:
            if copy:
                return BadSample("has no image to augment")
            fit(sample)
            return sample
        data, warp = sample.encoded, None
        try:
            if only_checks and not copy:
                if check is not None:
                    check(data)
                return sample
            if copy and images.augment is not None:
                image, warp = make_copy(data, key, copy)
            else:
                image = make_image(path, data)
            if copy:
                change(sample, data, image, warp, move_copy)
            else:
                change(sample, data, image, warp, move, images.transform)
        except BadSample as error:
            return error
        return sample

    def change(
        sample: Sample,
        data: bytes,
        image: Encoded,
        warp: Warp | None,
        mover: Mover | None,
        transform: Transform | None = None,
    ) -> None:
        """Give a sample its new image, and let what depends on the image follow."""
        require_unspoiled(sample, data)
        if mover is not None:
            image = mover(sample, data, image, warp)
            fit(sample)
        if image.data is not data:
            _replace_image(sample, image, layout)
        for effect in _effects_of(image, transform):
            sample.effects = sample.effects or Counter()
            sample.effects[effect] += 1
        renew(sample, image)

    return finish


def _namer(pipeline: Pipeline) -> Callable[[Sample, int], None]:
    """Return a function that gives a sample, or a copy of it, the names and ids to write."""
    by_index, counts_by_key = pipeline.key == "index", _counts_by_key(pipeline)
    objects = pipeline.schema.objects if pipeline.layout.schema is not None else None

    def name(sample: Sample, copy: int) -> None:
        key = sample.key
        if copy:
            sample.key = copy_name(key, copy)
            sample.path = sample.path and copy_name(sample.path, copy)
            _renumber(sample, objects, copy)
        elif by_index:
            sample.key, sample.path = f"{sample.id:09d}", ""
        elif counts_by_key and key.isascii() and key.isdecimal() and len(key) < 20:
            sample.id = int(key) if key == str(int(key)) else sample.id

    return name


def _counts_by_key(pipeline: Pipeline) -> bool:
    """Return whether keys of whole samples that are numbers are their ids."""
    return not pipeline.reads_images and "id" not in pipeline.overridden


def _renumber(sample: Sample, objects: Field | None, copy: int) -> None:
    """Give a copy ids of its own, as those of COCO are unique."""
    if type(id := sample.fields.get(IMAGE_ID)) is int:
        sample.fields[IMAGE_ID] = copy_id(id, copy)
    if objects is not None and (value := sample.fields.get(objects.name)) is not None:
        items = (
            each if each.id is None else each._replace(id=copy_id(each.id, copy))
            for each in value.items
        )
        sample.fields[objects.name] = value._replace(items=tuple(items))


def _fitter(pipeline: Pipeline) -> Callable[[Sample], None]:
    """Return a function that leaves out of objects what the format does not hold."""
    layout, objects = pipeline.layout, pipeline.schema.objects

    def fit(sample: Sample) -> None:
        if objects is None or (value := sample.fields.get(objects.name)) is None:
            return
        if sample.effects is None:
            sample.effects = Counter()
        sample.fields[objects.name] = layout.fitted(value, sample.effects)

    return fit if layout.schema is not None and objects is not None else lambda sample: None


def _movers(pipeline: Pipeline) -> tuple[Mover | None, Mover | None]:
    """Return what moves the fields of samples with their images, and those of copies."""
    images, written = pipeline.images, _written(pipeline)
    if pipeline.layout.schema is None:
        return None, None
    further = images.max_pixels, images.frame, images.kept(pipeline.schema)
    move_copy = make_mover(written, images.for_copies, *further) if images.augment else None
    return make_mover(written, images.transform, *further), move_copy


def _effects_of(image: Encoded, transform: Transform | None) -> Iterator[str]:
    """Yield what happened to an image on the way, for the report."""
    size = image.before or (image.width, image.height)
    if transform is not None and (small := transform.too_small(size)):
        yield small
    if image.lost_frames:
        yield _LOST_FRAMES
    if image.shape is not None:
        yield f"{STORED_AS_PIXELS}{image.shape}"


def _written(pipeline: Pipeline) -> Schema:
    """Return the schema of the source, without masks and further images that are not written."""
    schema, layout = pipeline.schema, pipeline.layout.schema
    known = {schema.image, *(layout.by_name if layout is not None else ())}
    fields = (each for each in schema.fields if each.name in known or not each.kind.is_image)
    return replace(schema, fields=tuple(fields))


def image_maker(pipeline: Pipeline) -> Callable[[str, bytes], Encoded]:
    """Return a function from a path and the file's bytes to the image to write."""
    images, readable = pipeline.images, pipeline.images.readable(pipeline.layout)
    check = _checker(pipeline)

    def untransformed(path: str, data: bytes) -> Encoded:
        if check is None:
            return Encoded(image_kind_of(path) or UNKNOWN_IMAGE, data, 0, 0)
        header = check(data)
        return Encoded(header.kind, data, header.width, header.height)

    def transformed(path: str, data: bytes) -> Encoded:
        assert images.transform is not None
        image = images.transform.apply(data, images.max_pixels)
        if image.shape is not None:
            return image._replace(data=pipeline.layout.pack_pixels(image.data, image.shape))
        require_readable(image.kind, readable)
        return image

    return untransformed if images.transform is None else transformed


def _checker(pipeline: Pipeline) -> Callable[[bytes], ImageHeader] | None:
    """Return the check that each image passes; None if images are copied without one."""
    images, own = pipeline.images, pipeline.schema.image_field
    if own is not None and own.kind.is_raw and pipeline.reader.pixels is None:
        return None  # bare pixels are copied without a check
    # To write the width of an image, dsprep reads its header even if nothing is checked.
    level = images.check or "header"
    if level == "none":
        if not (pipeline.typed_facts or pipeline.moves):
            return None
        level = "header"
    readable = images.readable(pipeline.layout)
    return make_check(level, readable=readable, max_pixels=images.max_pixels)


def _copy_maker(pipeline: Pipeline) -> Callable[[bytes, str, int], tuple[Encoded, Warp | None]]:
    """Return a function from an image, the key of its sample and a number to that copy of it."""
    images, readable = pipeline.images, pipeline.images.readable(pipeline.layout)
    transform, augment = images.for_copies, images.augment
    # the image that was decoded last: copies of one image mostly follow one another
    last: tuple[bytes, Decoded] | None = None

    def copied(data: bytes, key: str, copy: int) -> tuple[Encoded, Warp | None]:
        nonlocal last
        assert augment is not None
        if last is None or last[0] is not data:
            last = data, transform.decoded(data, images.max_pixels)
        before, params = last[1], augment.draw(key, copy)
        affine = affine_of(params, before.pixels.size)
        with pillow("cannot augment it", images.max_pixels):
            pixels = augment.apply(before.pixels.copy(), params, key, copy)
        image = transform.encoded(before._replace(pixels=pixels), images.max_pixels)
        if image.shape is not None:
            image = image._replace(data=pipeline.layout.pack_pixels(image.data, image.shape))
        else:
            require_readable(image.kind, readable)
        return image, None if affine == IDENTITY else Warp(affine, augment.mask_fill)

    return copied


def _replace_image(sample: Sample, image: Encoded, layout: Format) -> None:
    """Put the new image in the place of the old one, typed or raw."""
    before = str(sample.image)
    after = before if layout.schema is not None else layout.renamed_image(before, image.kind)
    if after != before and after in sample.fields:
        raise BadSample(f"its new image would replace its field {after}: give --drop {after}")
    value = sample.fields[before]
    if isinstance(value, dict):
        value = value | {"bytes": image.data}
    else:
        value = Blobs((image.data,)) if isinstance(value, Blobs) else image.data
    if after == before:
        sample.fields[before] = value
    else:
        items = sample.fields.items()
        sample.fields = dict((after, value) if item[0] == before else item for item in items)
        sample.image = after


def _fact_maker(pipeline: Pipeline) -> Callable[[Sample, Encoded], None]:
    """Return a function that sets facts of an image: after a transform all, else those missing."""
    layout, is_new = pipeline.layout, pipeline.images.changes
    typed = pipeline.typed_facts
    known = {each.name for each in pipeline.schema.fields if each.places or not each.fact}

    def renew_typed(sample: Sample, image: Encoded) -> None:
        for name, fact in typed.items():
            if (is_new or image.before or name not in sample.fields) and (
                (value := FACTS_OF[fact](image)) is not None
                and (name not in known or name in sample.fields or image.shape)
            ):
                sample.fields[name] = value

    # Those that a user named are known by the schema alone.
    places = pipeline.schema.by_place.items()
    named = {place[0]: each.fact for place, each in places if len(place) == 1}

    def renew_raw(sample: Sample, image: Encoded) -> None:
        for raw, before in sample.fields.items():
            name = named.get(raw) or layout.fact_of(raw)
            if not name or (fact := FACTS_OF[name](image)) is None:
                continue
            if isinstance(before, Ints) and isinstance(fact, int):
                sample.fields[raw] = Ints((fact,))
            elif isinstance(before, Blobs | bytes):
                data = str(fact).encode()
                sample.fields[raw] = Blobs((data,)) if isinstance(before, Blobs) else data
            else:
                sample.fields[raw] = fact

    if layout.schema is not None:
        return renew_typed
    return renew_raw if is_new else lambda sample, image: None


# Measuring a few samples before anything is written


class TriedSamples(NamedTuple):
    """What trying a few samples showed."""

    # bytes of each encoded image, or of each encoded sample where samples are read whole; -1 where
    # the sample would be rejected
    sizes: array[int]
    rejects: list[Reject]  # samples that were rejected, and why
    effects: Counter[str]  # what happened to how many


def measure(task: tuple[Pipeline, Rows], report: Report) -> TriedSamples:
    """Make some samples, write nothing."""
    pipeline, rows = task
    layout = pipeline.layout
    sizes = array("q")
    rejects: list[Reject] = []
    effects = Counter[str]()
    total = 0
    samples = counted(make_samples(pipeline, rows), report, lambda: total)
    for path, sample in zip(rows.paths, samples, strict=True):
        size = -1
        try:
            if isinstance(sample, BadSample):
                raise sample
            fields = sample.fields
            parts = layout.encode(sample) if layout.in_spans else []
            size = 0 if sample.image is None else len(fields[sample.image])
            if not pipeline.reads_images:
                texts = (value for value in fields.values() if isinstance(value, bytes))
                size = sum(map(len, parts)) or sum(map(len, texts))
            effects.update(sample.effects or {})
        except LeftOut as error:
            effects[str(error)] += 1
        except BadSample as error:
            rejects.append(reject_of(path, error))
        sizes.append(size)
        total += max(size, 0)
    return TriedSamples(sizes, rejects, effects)


# Fields that depend on the geometry of the image

_LOOKED_AT = 1 << 16  # bytes of a text that are judged
_NUMBER = pattern(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_CONTROL = pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")

# Words in the name of a number that is a place or a size.
_COORDINATE = (
    r"(?<![a-z])([xywh]|c[xy]|[xy]_?(min|max|[0-9]|center)|left|top|right|bottom|width|height|size"
    r"|area|b?box(es)?|coords?|points?|keypoints?|polygons?)(?![a-z])"
)


def count_dependents(task: tuple[Pipeline, Rows]) -> tuple[int, Counter[str]]:
    """Read some samples; count them, and by field those where it may depend on geometry."""
    pipeline, rows = task
    dependents = _dependents_finder(pipeline)
    samples = [found for found in pipeline.reader.read(rows) if isinstance(found, Sample)]
    return len(samples), Counter(name for sample in samples for name in dependents(sample))


def dependent_fields(sample: Sample) -> list[str]:
    """Return the fields of a sample, typed or raw, that may depend on its image's geometry."""
    if sample.image is None:
        return []
    return [
        name
        for name, value in sample.fields.items()
        if name != sample.image and _depends(name, value)
    ]


def label_depends(label: Value | None) -> bool:
    """Return whether a label has boxes, or the size of its image."""
    return isinstance(label, tuple) and (is_detection_label(label) or is_sized_header(label))


def _depends(name: str, value: Value) -> bool:
    if isinstance(value, tuple | list):
        if len(value) == 1:
            return _depends(name, value[0])
        texts = [item for item in value if isinstance(item, str | bytes)]
        return len(texts) < len(value) or any(_depends(name, text) for text in texts)
    if isinstance(value, int | float):
        return re.search(_COORDINATE, name, re.IGNORECASE) is not None
    if isinstance(value, str):
        return _is_no_prose(value)
    if isinstance(value, bytes):
        try:  # A character that is cut off at the end is no reason.
            errors = "strict" if len(value) <= _LOOKED_AT else "ignore"
            text = value[:_LOOKED_AT].decode("utf-8", errors)
        except UnicodeDecodeError:
            return True
        return _CONTROL.search(text) is not None or _is_no_prose(text)
    return value is not None


def _is_no_prose(text: str) -> bool:
    """Return whether a text is JSON, XML, or lines of numbers."""
    if text.lstrip().startswith(("{", "[", "<")):
        return True
    words = [re.split(r"[\s,;]+", line.strip()) for line in text[:_LOOKED_AT].splitlines()]
    numbers = [sum(_NUMBER.fullmatch(word) is not None for word in line) for line in words]
    only_numbers = sum(numbers) == sum(any(line) and len(line) for line in words)
    # A line of YOLO's or KITTI's labels has more than three numbers, a line of prose has not.
    return any(count > 3 for count in numbers) or (only_numbers and sum(numbers) > 1)


def _dependents_finder(pipeline: Pipeline) -> Callable[[Sample], list[str]]:
    """Return a function that names the fields of a sample that may depend on geometry."""
    schema, label, layout = pipeline.schema, pipeline.schema.label_field, pipeline.layout
    typed = layout.schema is not None
    kept = {*pipeline.images.kept(schema)}
    moving = {each.name for each in schema.fields if each.type in ("objects", "mask")}
    facts = {each.name for each in schema.fields if each.tells}
    judged = kept | facts | {*FACTS, schema.label} | moving
    images, moves = further_images(schema), pipeline.images.moving_option is not None

    def name_of(raw: str) -> str:
        if layout.schema is not None:
            return raw
        found = schema.by_place.get((raw,)) or schema.by_place.get((layout.place_of(raw),))
        return found.name if found else raw

    def dependents(sample: Sample) -> list[str]:
        fields = [
            name
            for raw in dependent_fields(sample)
            if (name := name_of(raw)) not in judged
            and not (typed and name in images and (moves or sniff(sample.fields[raw]) == "jpg"))
        ]
        if label is not None and label.name not in kept:
            for raw, value in sample.fields.items():
                # a value that does not fit is rejected when the sample is written
                with suppress(ValueError, TypeError):
                    if name_of(raw) == label.name and label_depends(
                        TYPES[label.type].convert(value)
                    ):
                        return [*fields, label.name]
        return fields

    return dependents


def _spoil_finder(pipeline: Pipeline) -> Callable[[Sample, bytes], None]:
    """Return a function that refuses a sample with fields that a transform makes stale."""
    # It takes the sample, and the bytes of its image before the transform. A transform that changes
    # the geometry of all images is an OptionError; one that only turns some of them upright makes
    # these samples rejects.
    if not pipeline.images.changes:
        return lambda sample, data: None
    option = pipeline.images.moving_option
    dependents = _dependents_finder(pipeline)

    def require_unspoiled(sample: Sample, data: bytes) -> None:
        fields = dependents(sample)
        if fields and option is not None:
            where = f"as in the sample {sample.key!r}"
            raise geometry_error(option, dict.fromkeys(fields, where))
        if fields and orientation_in(data) != 1:
            raise BadSample(
                f"its EXIF orientation turns the image, but not {', '.join(fields)}, which may "
                f"depend on it: {_remedy(fields)}"
            )

    return require_unspoiled


def geometry_error(option: str, fields: Mapping[str, str]) -> OptionError:
    """Return the error for fields that a transform would make stale, with the samples by field."""
    named = ", ".join(f"{name} ({samples})" for name, samples in fields.items())
    return OptionError(
        f"{option} changes the geometry of images, but not {named}, which may depend on it: "
        f"{_remedy(fields)}"
    )


def _remedy(fields: Collection[str]) -> str:
    names, it_does = ",".join(fields), "it does" if len(fields) == 1 else "they do"
    return f"give --keep-fields {names} if {it_does} not depend on it, or --drop {names}"
