"""Folders of images with annotations, as COCO, Pascal VOC and YOLO have them.

The images of a side lie in a directory of its name. What the annotations cannot hold is counted,
and the listing beside the folder has everything, so that dsprep reads back what it wrote.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Self
from xml.sax.saxutils import escape

from dsprep.annotations.objects import (
    FLAGS,
    MOST_CLASSES,
    PARTS,
    Object,
    Objects,
    area_of_object,
    extent_of,
    numbers,
    to_objects,
)
from dsprep.errors import BadSample, OptionError
from dsprep.formats.folder import Folder
from dsprep.formats.listing import File, Listed, Samples, side_directory
from dsprep.formats.values import quote
from dsprep.images.header import read_header
from dsprep.sample import Sample
from dsprep.schema import FACTS, IMAGE_ID, Field, Schema
from dsprep.storage.stored import crc32c
from dsprep.units import format_some

if TYPE_CHECKING:
    import polars as pl

_ROUNDED = 1e-6  # share of an image's size that rounding may add to a box
_DIGITS = 6  # after the point: of pixels, far below what anybody draws


class AnnotatedFolder(Folder):
    """Images with annotations beside them."""

    divides: ClassVar[bool] = True
    holds_texts: ClassVar[bool] = False
    holds_masks: ClassVar[bool] = False
    image_id: ClassVar[str] = ""  # the field that its images are numbered by, if samples have it
    side: str = field(default="", kw_only=True)  # the side of the samples, if the source has one

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        objects, mask = schema.objects, self._mask_of(schema)
        if objects is None and mask is None:
            raise OptionError(
                f"--to {self.name}: its samples have no boxes; fields are "
                f"{format_some(list(schema.by_name))}"
            )
        kept = [each for each in schema.fields if each in (schema.image_field, objects, mask)]
        kept += [each for each in schema.fields if (each.name, each.type) == (self.image_id, "int")]
        lost = [each.name for each in schema.fields if each not in kept and each.name not in FACTS]
        note = f"left out, because {self.name} has no place for it: {format_some(lost)}"
        notes = [note] if lost else []
        if objects is not None and not objects.names:
            notes.append("classes are called by their numbers: give --classes FILE to name them")
        return self.laid_out(schema, kept), notes

    def is_listed(self, field: Field) -> bool:
        # What `arranged` leaves out is named when it is written.
        is_held = field.type in ("image", "objects") or field.name == self.image_id
        return is_held or (field.type == "mask" and self.holds_masks)

    def _mask_of(self, schema: Schema) -> Field | None:
        masks = (each for each in schema.fields if each.type == "mask")
        return next(masks, None) if self.holds_masks else None

    def lay_out(self, sample: Sample) -> tuple[Listed, list[bytes]]:
        listed, parts = super().lay_out(sample)
        column = self.written.objects
        objects: Objects = sample.fields.get(column.name, Objects()) if column else _none(sample)
        most = max((each.number for each in objects.items), default=0)
        if most >= MOST_CLASSES:
            raise BadSample(f"has the class {most}; give --classes FILE with the names of classes")
        directory = side_directory(listed.stem)
        side, below = _last(directory), listed.stem[len(directory) :]
        if self.side and _usual(self.side) != _usual(side):
            side, below = self.side, listed.stem
            listed = listed._replace(side=side)
        extension = listed.files[0].path[len(listed.stem) :]
        paths = self.paths(side, below)
        files = [listed.files[0]._replace(path=paths[0] + extension)]
        files += [file._replace(path=f"{paths[-1]}.png") for file in listed.files[1:]]
        extra = self.annotation(paths[0] + extension, objects)
        if extra is not None:
            files.append(File(paths[1], len(extra), crc32c(extra)))
            parts = [*parts, extra]
        width, height = extent_of(objects)
        fields = f'{listed.fields},"width":{width:g},"height":{height:g}'.lstrip(",")
        listed = listed._replace(
            stem=paths[0], files=tuple(files), fields=fields, label=None, class_name=None
        )
        return listed, parts

    @abstractmethod
    def paths(self, side: str, below: str) -> tuple[str, ...]:
        """Return where a sample's image lies, its annotation, and at last its mask.

        The image and the mask are without their extension; ``side`` may be empty.
        """

    def annotation(self, image: str, objects: Objects) -> bytes | None:
        """Return the file beside an image that lies at a path; None if there is none."""
        return None

    @property
    def _names(self) -> tuple[str, ...]:
        field = self.written.objects
        return field.names if field else ()

    def _class_names(self, samples: Samples) -> Sequence[str]:
        """Return the names of the classes: their numbers, if the source tells no names."""
        field = self.written.objects
        if field is None or field.names:
            return self._names
        told = (json.loads(f"{{{each.fields}}}").get(field.name) or () for each in samples())
        most = max((item["class"] for items in told for item in items), default=-1)
        return [*map(str, range(most + 1))]

    def listed_sample(self, listed: Listed, files: Mapping[str, bytes]) -> Sample:
        field, told = self.written.objects, json.loads(f"{{{listed.fields}}}")
        fields: dict[str, Any] = {}
        if field is not None and (objects := to_objects(told.get(field.name))) is not None:
            extent = numbers([told.get("width"), told.get("height")])
            if min(extent) <= 0:
                raise ValueError(f"the size of {listed.key} is {extent}")
            fields[field.name] = objects._replace(extent=(extent[0], extent[1]))
        if not listed.files:
            raise ValueError(f"{listed.key} has no files")
        if self.image_id in told:
            fields[self.image_id] = told[self.image_id]
        image, *others = listed.files
        mask = self._mask_of(self.written)
        for path, data in files.items():
            if path == image.path:
                fields[self.written.image or ""] = data
            elif mask is not None and others and path == others[0].path:
                fields[mask.name] = data
        return Sample(listed.key, fields, listed.id)


def _none(sample: Sample) -> Objects:
    """Return no objects, in the size of a sample's image."""
    header = read_header(sample.fields[sample.image or ""])
    return Objects(extent=(header.width, header.height))


_USUAL = dict.fromkeys(("val", "valid", "validation", "dev"), "val")
_USUAL |= {"train": "train", "training": "train", "test": "test"}


def _usual(side: str) -> str:
    """Return what readers of YOLO and VOC call a side: ``train`` for ``train2017``."""
    return _USUAL.get(side.rstrip("0123456789_-"), side)


def _last(directory: str) -> str:
    """Return the name of a directory that ends with a slash, without those that it lies in."""
    return directory.rstrip("/").rpartition("/")[2]


class Coco(AnnotatedFolder):
    """``SIDE/a.jpg`` and ``annotations/instances_SIDE.json``."""

    name: ClassVar[str] = "coco"
    object_parts: ClassVar[frozenset[str]] = frozenset((*FLAGS, *PARTS))
    image_id: ClassVar[str] = IMAGE_ID

    def fitted(self, objects: Objects, counts: Counter[str]) -> Objects:
        for each in objects.items:
            if "group_of" in each.flags:
                counts["object marked group-of written with iscrowd 1, its mark in COCO"] += 1
        return super().fitted(objects, counts)

    def paths(self, side: str, below: str) -> tuple[str, ...]:
        return (f"{side or 'images'}/{below}",)

    def metadata_lines(self, samples: Samples, counts: Counter[str]) -> Iterator[tuple[str, str]]:
        field = self.written.objects
        assert field is not None
        names = self._class_names(samples)
        ids = field.ids or range(1, len(names) + 1)
        tops = dict.fromkeys(each.stem.split("/")[0] for each in samples())
        for top in tops:
            path = f"annotations/instances{'' if top == 'images' else '_' + top}.json"
            images: list[int | None] = []
            sizes: list[tuple[int, int]] = []
            own: list[int | None] = []
            for each in _of(samples(), top):
                told = json.loads(f"{{{each.fields}}}")
                images.append(told.get(self.image_id))
                sizes.append((int(told["width"]), int(told["height"])))
                own += (item.get("id") for item in told.get(field.name) or ())
            numbers = _numbered("image", images, 0, counts)
            yield path, '{"info": {},\n"images": [\n'
            for at, each in enumerate(_of(samples(), top)):
                values = {"id": numbers[at], "file_name": each.files[0].path[len(top) + 1 :]}
                values |= zip(("width", "height"), sizes[at], strict=True)
                yield path, _item(values, at == 0)
            yield path, '\n],\n"annotations": [\n'
            # COCO's evaluation takes the id 0 for none.
            used = iter(_numbered("annotation", own, 1, counts))
            is_first = True
            for number, each in zip(numbers, _of(samples(), top), strict=True):
                told = json.loads(f"{{{each.fields}}}")
                for item in (to_objects(told.get(field.name)) or Objects()).items:
                    head = {"id": next(used), IMAGE_ID: number, "category_id": ids[item.number]}
                    values = head | coco_values(item)
                    both = sorted(item.more.keys() & values.keys())
                    if hidden := [name for name in both if item.more[name] != values[name]]:
                        said = f"other attributes called {' and '.join(hidden)}"
                        counts[f"annotation without {said}, as these are COCO's own"] += 1
                    yield path, _item({**head, **item.more, **values}, is_first)
                    is_first = False
            yield path, '\n],\n"categories": [\n'
            for number, name in enumerate(names):
                yield path, _item({"id": ids[number], "name": name}, number == 0)
            yield path, "\n]}\n"


def _numbered(
    what: str, ids: Sequence[int | None], least: int, counts: Counter[str]
) -> Sequence[int]:
    """Return ids if all are there and differ; otherwise numbers from 1, and count these."""
    known = [id for id in ids if id is not None]
    # Ids of several sources may be the same.
    twice = sorted(id for id, count in Counter(known).items() if count > 1)
    small = sorted(id for id in known if id < least)
    if not (twice or small or len(known) < len(ids)):
        return known
    if known:
        examples = format_some([*map(str, twice or small)])
        why = f"ids are below {least}: {examples}" if small else "some have no id"
        why = f"several have the same id: {examples}" if twice else why
        counts[f"{what} renumbered from 1, as {why}"] += len(ids)
    return range(1, len(ids) + 1)


def _of(samples: Iterable[Listed], top: str) -> Iterator[Listed]:
    return (each for each in samples if each.stem.split("/")[0] == top)


def _item(values: Mapping[str, Any], is_first: bool) -> str:
    return ("" if is_first else ",\n") + json.dumps(values, ensure_ascii=False)


def coco_values(item: Object) -> dict[str, Any]:
    """Return what COCO's annotation says of an object, its ids and what else it tells aside."""
    x0, y0, x1, y1 = item.box
    values: dict[str, Any] = {
        "bbox": [round(each, _DIGITS) for each in (x0, y0, x1 - x0, y1 - y0)],
        "area": round(area_of_object(item), _DIGITS) if item.area is None else item.area,
        # What readers of COCO know of several objects in one box; `group_of` tells which it is.
        "iscrowd": int(not item.flags.isdisjoint(("crowd", "group_of"))),
        "segmentation": [list(polygon) for polygon in item.polygons],
    }
    if item.rle is not None:
        values["segmentation"] = item.rle.to_json()
    if item.keypoints:
        values["keypoints"] = list(item.keypoints)
        values["num_keypoints"] = sum(seen > 0 for seen in item.keypoints[2::3])
    values |= {flag: 1 for flag in FLAGS if flag in item.flags and flag != "crowd"}
    return values


class Yolo(AnnotatedFolder):
    """``images/SIDE/a.jpg``, ``labels/SIDE/a.txt`` and ``data.yaml``."""

    name: ClassVar[str] = "yolo"
    object_parts: ClassVar[frozenset[str]] = frozenset()

    def paths(self, side: str, below: str) -> tuple[str, ...]:
        # Ultralytics replaces the last `images` of a path by `labels`: there may be but one.
        *directories, name = below.split("/")
        where = "/".join(
            [side or "train", *(part for part in directories if part != "images"), name]
        )
        return f"images/{where}", f"labels/{where}.txt"

    def fitted(self, objects: Objects, counts: Counter[str]) -> Objects:
        # Readers refuse an image with a box that reaches over the edge, if only by rounding.
        objects = super().fitted(objects, counts)
        if objects.extent is None:
            return objects
        width, height = objects.extent
        items = []
        for each in objects.items:
            x0, y0, x1, y1 = each.box
            box = max(x0, 0.0), max(y0, 0.0), min(x1, width), min(y1, height)
            if box[0] >= box[2] or box[1] >= box[3]:
                counts["object dropped, as nothing of its box lies in the image"] += 1
                continue
            reach = max(-x0 / width, -y0 / height, x1 / width - 1, y1 / height - 1)
            counts["object cut at the edge of its image"] += reach > _ROUNDED
            items.append(each._replace(box=box))
        return objects._replace(items=tuple(items))

    def annotation(self, image: str, objects: Objects) -> bytes:
        width, height = extent_of(objects)
        lines = []
        for each in objects.items:
            shares = [at / of for at, of in zip(each.box, (width, height) * 2, strict=True)]
            x0, y0, x1, y1 = (min(max(share, 0.0), 1.0) for share in shares)
            center = (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0
            lines.append(f"{each.number} {' '.join(f'{share:.8g}' for share in center)}\n")
        return "".join(lines).encode()

    def caveats(self, rows: pl.LazyFrame) -> Iterator[str]:
        import polars as pl  # a worker must not load it

        if "side" in rows.collect_schema():
            own: Iterable[str] = rows.select(pl.col("side").unique()).collect()["side"]
        else:
            directory = pl.col("path").str.extract(r"^(.*/)").fill_null("")
            found = rows.select(directory.unique()).collect(engine="streaming").to_series()
            own = [_last(side_directory(each)) for each in found]
        if "images" in own:
            yield "ultralytics finds no labels of a side called images: give it another name"
        sides = {_usual(each or "train") for each in own}
        if lacks := [side for side in ("train", "val") if side not in sides]:
            yield (
                f"data.yaml names no {' and no '.join(lacks)}, which ultralytics needs: no image "
                "lies in a directory of this name"
            )

    def metadata_lines(self, samples: Samples, counts: Counter[str]) -> Iterator[tuple[str, str]]:
        sides: dict[str, dict[str, None]] = {}
        for each in samples():
            side = each.stem.split("/")[1]
            sides.setdefault(_usual(side), {})[f"images/{side}"] = None
        # data.yaml gets no `path`: YOLO resolves that against its settings, other paths against
        # data.yaml
        lines = []
        for side, paths in sides.items():
            texts = [*map(_yaml, paths)]
            value = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            lines.append(f"{_yaml(side)}: {value}\n")
        names = enumerate(self._class_names(samples))
        lines += ["names:\n", *(f"  {at}: {_yaml(name, plain=False)}\n" for at, name in names)]
        yield from (("data.yaml", line) for line in lines)


def _yaml(text: str, plain: bool = True) -> str:
    """Return text as YAML has it, without quotes if it is plain and may be."""
    if plain and _PLAIN.fullmatch(text):
        return text
    # JSON's strings are YAML's but for these, which YAML takes for line breaks or refuses.
    return _ODD.sub(lambda found: f"\\u{ord(found[0]):04x}", quote(text))


_PLAIN = re.compile(r"[a-zA-Z][a-zA-Z0-9_./-]*")
_ODD = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class Voc(AnnotatedFolder):
    """``JPEGImages``, ``Annotations``, ``ImageSets``, and ``SegmentationClass`` for masks."""

    name: ClassVar[str] = "voc"
    object_parts: ClassVar[frozenset[str]] = frozenset({"difficult", "truncated"})
    holds_masks: ClassVar[bool] = True

    def paths(self, side: str, below: str) -> tuple[str, ...]:
        name = below.replace("/", "_")
        return f"JPEGImages/{name}", f"Annotations/{name}.xml", f"SegmentationClass/{name}"

    def annotation(self, image: str, objects: Objects) -> bytes | None:
        if self.written.objects is None:
            return None
        width, height = extent_of(objects)
        name = _xml(image.rpartition("/")[2])
        lines = [
            "<annotation>",
            f"  <folder>JPEGImages</folder>\n  <filename>{name}</filename>",
            f"  <size><width>{width:g}</width><height>{height:g}</height><depth>3</depth></size>",
            f"  <segmented>{int(self._mask_of(self.written) is not None)}</segmented>",
        ]
        for each in objects.items:
            x0, y0, x1, y1 = each.box
            # Pixels are counted from 1, and the last one lies inside.
            edges = {"xmin": x0 + 1, "ymin": y0 + 1, "xmax": x1, "ymax": y1}
            box = "".join(f"<{edge}>{_pixel(at)}</{edge}>" for edge, at in edges.items())
            label = self._names[each.number] if each.number < len(self._names) else each.number
            lines.append(
                f"  <object>\n    <name>{_xml(str(label))}</name>\n"
                f"    <truncated>{int('truncated' in each.flags)}</truncated>\n"
                f"    <difficult>{int('difficult' in each.flags)}</difficult>\n"
                f"    <bndbox>{box}</bndbox>\n  </object>"
            )
        return "\n".join([*lines, "</annotation>", ""]).encode()

    def metadata_lines(self, samples: Samples, counts: Counter[str]) -> Iterator[tuple[str, str]]:
        directory = "Segmentation" if self.written.objects is None else "Main"
        for each in samples():
            side = _usual(each.own_side or "train")
            stem = each.stem.removeprefix("JPEGImages/")
            yield f"ImageSets/{directory}/{side}.txt", f"{stem}\n"


def _xml(text: str) -> str:
    """Return text as XML has it, which has no place for most control characters."""
    return escape(_NO_XML.sub("\ufffd", text))


def _pixel(value: float) -> str:
    rounded = round(value, 2)
    return str(int(rounded)) if rounded == int(rounded) else str(rounded)
