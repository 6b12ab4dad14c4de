"""Single samples, as people read them: all fields of each, in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dsprep.annotations.objects import Objects, to_json
from dsprep.catalog import AT_ONCE, Catalog
from dsprep.errors import BadImage, BadSample, SourceError
from dsprep.images.header import read_header
from dsprep.pipeline import Pipeline, read_samples
from dsprep.printable import json_values
from dsprep.sample import Sample
from dsprep.schema import Field
from dsprep.tuples import NamedTuple
from dsprep.units import format_size


class SampleShown(NamedTuple):
    """A sample with its fields."""

    key: str
    path: str  # what a list calls it
    fields: Mapping[str, Any]  # values as JSON has them; images and bytes as a description
    image: bytes  # the encoded image; none if there is no image, or it cannot be read

    def to_json(self) -> dict[str, Any]:
        return json_values({"key": self.key, "path": self.path, "fields": self.fields})


def row_of_key(catalog: Catalog, pipeline: Pipeline, key: str) -> int:
    """Return the row of the sample of a key, or of a path.

    Raises:
        SourceError: If there is no such sample.
    """
    known = [catalog.names(), *([catalog.keys()] if catalog.keys_known else [])]
    for names in known:
        if len(places := (names == key).arg_true()):
            return int(places[0])
    for at in range(0, 0 if catalog.keys_known else len(catalog), AT_ONCE):
        rows = catalog.slice(at, AT_ONCE).rows()
        for row, sample in enumerate(read_samples(pipeline, rows), at):
            if isinstance(sample, Sample) and sample.key == key:
                return row
    example = known[-1][0] if len(catalog) else ""
    raise SourceError(f"{catalog.root}: has no sample {key!r}; keys look like {example!r}")


def show_samples(
    catalog: Catalog, names: Iterable[str], pipeline: Pipeline
) -> Iterator[SampleShown]:
    """Yield all samples of a catalog, which have these names, with their fields."""
    schema = pipeline.schema
    read = read_samples(pipeline, catalog.rows())
    for path, sample in zip(names, read, strict=True):
        if isinstance(sample, BadSample):
            yield SampleShown("", path, {"problem": str(sample)}, b"")
            continue
        known = [name for name in schema.by_name if name in sample.fields]
        values = {
            name: _described(sample.fields[name], schema.by_name.get(name), sample)
            for name in dict.fromkeys((*known, *sample.fields))
        }
        yield SampleShown(sample.key, path, values, sample.encoded)


def _described(value: Any, field: Field | None, sample: Sample) -> Any:
    if field is not None and field.name == sample.image:
        return _image(sample.encoded)
    if isinstance(value, bytes) and field is not None and field.type == "json":
        return value.decode(errors="replace")
    if isinstance(value, bytes):
        return format_size(len(value))
    if isinstance(value, Objects):
        names = field.names if field else ()
        found: list[dict[str, Any]] = json.loads(to_json(value._replace(extent=None)))
        for each in found:
            number = each["class"]
            each["class"] = names[number] if 0 <= number < len(names) else number
        return found
    if field is not None and field.type == "class" and isinstance(value, int):
        return sample.class_name or field.class_name(value) or value
    if isinstance(value, tuple):
        return [_described(each, None, sample) for each in value]
    return value


def _image(data: bytes) -> str:
    try:
        header = read_header(data)
    except BadImage as error:
        return str(error)
    return f"{header.kind}, {header.width}x{header.height}, {format_size(len(data))}"
