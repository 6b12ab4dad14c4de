"""Samples whose image is bare pixels in one of their fields: where these are, and their shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dsprep.errors import BadSample, OptionError
from dsprep.frozen import Frozen
from dsprep.images.pixels import RAW, RAW_CHW, Shape, encode_raw, parse_shape, shape_of, unpack_npy
from dsprep.sample import Blobs, Ints, Sample, Value
from dsprep.schema import IMAGE_NAMES, Choice, Field, Table, is_image, shown

# Conventional names of the sizes that stand beside pixels, in the order of rows of pixels.
_SIZES = (("height",), ("width",), ("depth", "channels"))
# Conventional names of what says that there are bare pixels, and what it says, as it is quoted.
_FORMATS = ("image/format", "format")
BY_FORMAT = {quote % kind: kind for kind in (RAW, RAW_CHW) for quote in ("'%s'", "b'%s'")}
_SHOWN = 3  # examples that a message shows
CIFAR = Shape(32, 32, 3, True)


class RawPixels(Frozen):
    """Where raw samples have an image as bare pixels. Plain data: it is pickled for the workers."""

    place: str  # the raw name of the pixels
    # their shape; None if it lies beside them, or in front of them as NumPy writes it
    shape: Shape | None
    sizes: tuple[str, ...] = ()  # the raw names of height, width and channels beside them
    format: str = ""  # the raw name of what says `raw`, or `raw-chw` for planes; empty for none
    planes: bool = False  # whether these pixels are planes

    @property
    def type(self) -> str:
        """The type of a field of such pixels."""
        return RAW_CHW if (self.shape.planes if self.shape else self.planes) else RAW

    @property
    def beside(self) -> Mapping[str, str]:
        told = dict.fromkeys(self.sizes, "int") | {self.format: "text"}
        return {name: kind for name, kind in told.items() if name}

    def __call__(self, sample: Sample, quickly: bool = False) -> Sample:
        """Encode the pixels of a raw sample as a PNG, which also holds their size."""
        fields = dict(sample.fields)
        data = _one(fields.get(self.place))
        if not isinstance(data, bytes):
            return sample
        pixels, shape = data, self.shape
        if shape is None and self.sizes:
            shape = _shape_beside(fields, self.sizes, self.planes)
        elif shape is None:
            pixels, shape = unpack_npy(data, self.planes) or (data, None)
        if shape is None or len(pixels) != shape.bytes:
            if is_image(data):
                return sample
            sizes = shape or " x ".join(str(_one(fields.get(name)) or 0) for name in self.sizes)
            raise BadSample(f"has {len(pixels):,} bytes of pixels, and not {sizes or 'an array'}")
        fields[self.place] = encode_raw(pixels, shape, quickly)
        beside = self.beside
        sample.fields = {name: fields[name] for name in fields if name not in beside}
        return sample


def raw_pixels(
    samples: Iterable[Sample], table: Table, choice: Choice, known: Field | None = None
) -> RawPixels | None:
    """Return where raw samples have bare pixels; None if that is not the same in all of them."""
    looked_at = list(samples)
    found = {_pixels_of(sample.fields, table, choice, known) for sample in looked_at}
    if known is not None or choice.raw_image:
        found -= {None}  # None stands for samples without an image
    if choice.raw_image and not found:
        raise _no_such_shape(looked_at, choice)
    return found.pop() if len(found) == 1 else None


def _pixels_of(
    fields: Mapping[str, Value], table: Table, choice: Choice, known: Field | None
) -> RawPixels | None:
    # They are the bytes of a field that is called like an image: as many as height, width and
    # depth that stand beside them say, or as many as an image of CIFAR has.
    raws = {table.meaning(table.place_of(raw)).field or raw: raw for raw in fields}
    sizes = tuple(next((raws[each] for each in names if each in raws), "") for names in _SIZES)
    format = next((name for name in _FORMATS if name in fields), "")
    said = BY_FORMAT.get(shown(_one(fields.get(format))))
    planes = said == RAW_CHW if known is None else known.type == RAW_CHW
    format = format if said else ""
    own = known.places[0][0] if known is not None and known.places else choice.image
    for name in (own,) if own else IMAGE_NAMES:
        place = raws.get(name, name)
        pixels = _one(fields.get(place))
        if not isinstance(pixels, bytes):
            continue
        if choice.raw_image:
            shape = parse_shape(choice.raw_image)
            whole = sizes if all(sizes) else ()
            return RawPixels(place, shape, whole, format) if len(pixels) == shape.bytes else None
        beside = _shape_beside(fields, sizes, planes)
        if beside is not None and beside.bytes == len(pixels):
            return RawPixels(place, None, sizes, format, planes)
        if own and (unpacked := unpack_npy(pixels, planes if known else None)):
            return RawPixels(place, None, planes=unpacked[1].planes)
        if len(pixels) == CIFAR.bytes and not is_image(pixels):
            return RawPixels(place, CIFAR)
    return None


def _no_such_shape(samples: Sequence[Sample], choice: Choice) -> OptionError:
    wanted = parse_shape(choice.raw_image).bytes
    sizes: list[str] = []
    for sample in samples[:_SHOWN]:
        all_bytes = {name: _one(value) for name, value in sample.fields.items()}
        found = {name: len(each) for name, each in all_bytes.items() if isinstance(each, bytes)}
        for name in sorted(found, key=lambda name: -found[name])[:1]:
            sizes.append(f"{sample.key!r} has {found[name]:,} bytes in {name!r}")
    named = f"the field {choice.image!r}" if choice.image else "an image"
    return OptionError(
        f"--raw-image {choice.raw_image}: no sample looked at has {named} of {wanted:,} bytes; "
        f"{', '.join(sizes) or 'there are no bytes'}: give another shape, or --image-field NAME"
    )


def _shape_beside(fields: Mapping[str, Value], names: Sequence[str], planes: bool) -> Shape | None:
    sizes = [_one(fields.get(name)) for name in names]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    height, width, channels = sizes
    return shape_of(*Shape(height, width, channels, planes).sizes, planes=planes)


def _one(value: Value) -> Value:
    return value[0] if isinstance(value, Blobs | Ints) and len(value) == 1 else value
