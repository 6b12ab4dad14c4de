"""WebDataset: tar shards whose members share a key.

How a member's name becomes key and extension is webdataset's ``base_plus_ext`` (tariterators.py),
what an extension means its decoders' table (autodecode.py); the index is that of wids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

from dsprep.annotations.objects import FLAGS, PARTS, Objects
from dsprep.errors import ApartMembers, BadSample, OptionError
from dsprep.formats import tar
from dsprep.formats.base import (
    LONGEST_FACT,
    Entry,
    Format,
    Group,
    ShardFacts,
    Span,
    common_stem,
    refuse_lists_of_bytes,
)
from dsprep.formats.values import MAX_NAME, extension_of, field_of, json_writer, quote
from dsprep.images.header import sniff
from dsprep.images.pixels import Shape, pack_npy
from dsprep.patterns import pattern
from dsprep.sample import (
    IMAGE_EXTENSIONS,
    IMAGE_KINDS,
    UNKNOWN_IMAGE,
    Sample,
    Value,
    key_expr,
    key_of,
    key_size_expr,
)
from dsprep.schema import FACTS, IMAGE, LABEL, LABEL_TEXT, OBJECTS, Field, Meaning, Place, Schema
from dsprep.units import extension_in, format_count, format_some

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

_PLAIN_IMAGE = "*"  # the place of images whose extension says nothing but that: `KEY.jpg`
_JSON = "json"  # the extension of the one object that holds all numbers
_IMAGES = frozenset((*IMAGE_EXTENSIONS, "tga", "ico", "dib", "pcx", "psd", "dds", "jpf"))
# the types of values by the last part of the extension, the other ones that decoders know
_TYPES = {
    **dict.fromkeys(("txt", "text", "transcript"), "text"),
    **dict.fromkeys(("json", "jsn"), "json"),
    **dict.fromkeys(("index", "inx", "id", "cls2"), "int"),
    **dict.fromkeys(("npy", "npz", "pth", "pkl", "pickle", "pyd"), "bytes"),
    **dict.fromkeys(("mp", "msg", "cbor", "ten", "tb", UNKNOWN_IMAGE), "bytes"),
}
# what some extensions mean; the others mean fields of their own names
_NAMED = {
    _PLAIN_IMAGE: Meaning("image", "image", IMAGE),
    "cls": Meaning("label", LABEL_TEXT, LABEL),
    "label.json": Meaning("label", LABEL_TEXT, LABEL),
    **dict.fromkeys(("txt", "text", "transcript"), Meaning("text", "text")),
    **dict.fromkeys(("json", "jsn"), Meaning("json", "json")),
}

_NAME = re.compile(r"((?:.*/|)[^.]+)[.]([^/]*)")
_EXACT = pattern(r"[^\s./\0]+([.][^\s./\0]+)*")
_LONGEST_EXACT = 50
_PASSED_OVER = pattern(r"__[^/]*__($|/)")

_Member: TypeAlias = tuple[
    str | None, bytes, Mapping[str | None, bytes], Callable[[Value], bytes] | None
]
"""A member that samples have: the field, or None for the objects of JSON; its extension, or that of
each kind of image; and what makes bytes of a value, if that is no bytes."""

# what a `Group` is made of
_Group: TypeAlias = tuple[str, dict[str, tar.MemberFields], int, int]


class WebDataset(Format):
    """Tar members ``KEY.EXTENSION``."""

    name: ClassVar[str] = "webdataset"
    suffix: ClassVar[str] = ".tar"
    least: ClassVar[int] = 512  # the header of one member
    other_suffixes: ClassVar[tuple[str, ...]] = (".tgz",)
    numbering: ClassVar[str] = "{:06d}"
    shard_indexes: ClassVar[tuple[str, ...]] = ("dali", "energon")
    distinct: ClassVar[str] = "key"
    holds_pixels: ClassVar[bool] = True
    object_parts: ClassVar[frozenset[str]] = frozenset((*FLAGS, *PARTS))
    metadata: bool = False  # whether to write class, filename, width and height into the `.json`
    # the fields whose members come first in a sample, in this order
    order: tuple[str, ...] = field(default=(), kw_only=True, metadata={"recorded": True})
    # whether images keep the extensions that they have, such as `.jpeg`
    spellings: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        # JSON of a manifest has a list where the object has a tuple
        object.__setattr__(self, "order", tuple(self.order))

    @property
    def parts(self) -> tuple[Place, ...]:
        return ((_JSON, OBJECTS),)

    @staticmethod
    @lru_cache(maxsize=4096)
    def place_of(raw: str) -> str:
        stem, dot, last = raw.rpartition(".")
        if last not in _IMAGES or (dot and not stem):
            return raw
        return stem + dot + _PLAIN_IMAGE

    @staticmethod
    @lru_cache(maxsize=4096)
    def meaning(place: str) -> Meaning:
        known = _NAMED.get(place) or (_NAMED[_PLAIN_IMAGE] if place in _IMAGES else None)
        if known is not None:
            return known
        stem, _, last = place.rpartition(".")
        kind = "image" if last in _IMAGES or last == _PLAIN_IMAGE else _TYPES.get(last)
        kind = "class" if last == "cls" else kind
        # These types of fields are named without their extension: `KEY.mask.png` is `mask`.
        if stem and (kind in ("image", "text", "json", "class") or last == UNKNOWN_IMAGE):
            return Meaning(field_of(stem), kind)
        return Meaning(field_of(place), kind)

    def pack_pixels(self, pixels: bytes, shape: Shape) -> bytes:
        return pack_npy(pixels, shape)

    def renamed_image(self, raw: str, kind: str) -> str:
        stem, dot, last = raw.rpartition(".")
        if last not in _IMAGES or IMAGE_EXTENSIONS.get(last) == kind:
            return raw
        return stem + dot + kind

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        refuse_lists_of_bytes(schema, self.name)
        fields, told = [*schema.fields], {each.tells for each in schema.fields}
        if self.metadata or schema.objects:
            fields += [
                Field(name, "int", missing=True)
                for name in ("width", "height")
                if name not in schema.by_name and name not in told
            ]
        same = schema.format == self.name
        places = _places(fields, schema, same)
        left_out = _conflicts(places, self.metadata)
        taken = set(places.values())
        kept, notes = list[Field](), list[str]()
        for each in fields:
            place = places[each.name]
            own: list[Place] = [place]
            if each.type == "image" and place[0].endswith(_PLAIN_IMAGE):
                # Images whose kind is unknown have an extension of their own.
                unknown = place[0].removesuffix(_PLAIN_IMAGE) + UNKNOWN_IMAGE
                own.append((unknown if (unknown,) not in taken else f"image.{unknown}",))
            if each.name not in left_out:
                kept.append(replace(each, places=tuple(own)))
        notes += _unlike_names(kept, schema)
        if left_out:
            notes.append(
                f"left out, because the field 'json' takes their place: {format_some(left_out)}"
            )
        ranks = self._ranks(replace(schema, fields=tuple(kept)))
        kept.sort(key=lambda each: ranks.get(each.name, len(ranks)))
        return replace(self.laid_out(schema, kept), spellings=same), notes

    def _ranks(self, schema: Schema) -> dict[str, int]:
        """Return the number in the order of each field that it names."""
        ranks: dict[str, int] = {}
        for name in self.order:
            if (found := schema.named(name)) is None:
                there = format_some(list(schema.by_name))
                raise OptionError(f"--order {name}: no sample has this field; fields are {there}")
            if found.name in ranks:
                raise OptionError(
                    f"--order {','.join(self.order)}: {name} is there twice; name each field once"
                )
            ranks[found.name] = len(ranks)
        return ranks

    def encode(self, sample: Sample) -> list[bytes]:
        key, fields = sample.key, sample.fields
        if "." in key or "\n" in key or "\0" in key or key[:1] in "_" or key[-1] == "/":
            _require_found(key)
        stem = key.encode() + b"."
        if len(stem) > MAX_NAME:
            raise BadSample(f"a key of {len(stem) - 1} bytes, but names in a tar have {MAX_NAME}")
        parts: list[bytes] = []
        if self.schema is None:
            for raw, data in fields.items():
                parts += (tar.member(stem + raw.encode(), len(data)), data, tar.padding(len(data)))
        else:
            try:
                for name, extension, kinds, write in self._members:
                    if name is None:
                        parts += self._written_objects(stem, sample)
                        continue
                    if (value := fields.get(name)) is None:
                        continue
                    if kinds:
                        extension = kinds[sniff(value)]
                        if self.spellings and sample.path:
                            extension = _own_spelling(extension, sample, value)
                    elif write is not None:
                        value = write(value)
                    size = len(value)
                    parts += (tar.member(stem + extension, size), value, tar.padding(size))
            except UnicodeEncodeError:
                raise BadSample("has a text that is no Unicode: half of a surrogate pair") from None
        if not parts:
            raise BadSample("a sample without fields would have no member")
        return parts

    @cached_property
    def _members(self) -> list[_Member]:
        members: list[_Member] = []
        for each in self.written.fields:
            place, kind = each.places[0], each.kind
            if len(place) > 1:
                continue
            kinds: dict[str | None, bytes] = {}
            write: Callable[[Value], bytes] | None = None
            if each.type == "image" and place[0].endswith(_PLAIN_IMAGE):
                stem = place[0].removesuffix(_PLAIN_IMAGE)
                # A schema that was observed, and is imposed on what is appended, has one place.
                unknown = each.places[1][0] if len(each.places) > 1 else stem + UNKNOWN_IMAGE
                kinds = {name: (stem + name).encode() for name in IMAGE_KINDS}
                kinds[None] = unknown.encode()
            elif kind.is_integer:
                write = _number
            elif not kind.is_bytes:
                text = str if each.type == "text" else json_writer(kind)
                write = partial(_encoded, text)
            members.append((each.name, place[0].encode(), kinds, write))
        if self._objects:
            members.insert(self._objects_at, (None, b"", {}, None))
        return members

    @cached_property
    def _objects(self) -> dict[str, list[tuple[str, str, Callable[[Value], str]]]]:
        """The members that are objects of JSON: the name, key and writer of each field in them."""
        found: dict[str, list[tuple[str, str, Callable[[Value], str]]]] = {}
        if self.metadata:
            found[_JSON] = []
        for each in self.written.fields:
            if len(each.places[0]) > 1:
                extension, key = each.places[0]
                item = each.name, f"{quote(key)}:", json_writer(each.kind)
                found.setdefault(extension, []).append(item)
        return found

    @cached_property
    def _objects_at(self) -> int:
        """How many members stand before the objects of JSON: all, unless an order says less."""
        schema, ranks = self.written, self._ranks(self.written) if self.order else {}
        members = [each.name for each in schema.fields if len(each.places[0]) == 1]
        own = [ranks.get(name, len(ranks)) for name in members]
        others = [ranks[each.name] for each in schema.fields if each.name in ranks]
        others = [rank for rank in others if rank not in own]
        if not others:
            return len(members)
        return sum(rank < others[0] for rank in own)

    def _written_objects(self, stem: bytes, sample: Sample) -> list[bytes]:
        fields, parts = sample.fields, list[bytes]()
        for extension, items in self._objects.items():
            texts = [key + write(fields[name]) for name, key, write in items if name in fields]
            if self.metadata and extension == _JSON:
                used = {key for _, key, _ in items}
                texts += [text for key, text in self._bookkeeping(sample) if key not in used]
            if texts:
                data = f"{{{','.join(texts)}}}".encode()
                size = len(data)
                parts += (tar.member(stem + extension.encode(), size), data, tar.padding(size))
        return parts

    def _bookkeeping(self, sample: Sample) -> Iterator[tuple[str, str]]:
        """Write the file name and the class name of a sample."""
        path, name = sample.path, sample.class_name
        if not path and (image := sample.fields.get(self.written.image or "")) is not None:
            path = f"{sample.key}.{sniff(image) or UNKNOWN_IMAGE}"
        if path:
            yield '"filename":', f'"filename":{quote(path)}'
        label = self.written.label_field
        if name is None and label is not None:
            number = sample.fields.get(label.name)
            name = label.class_name(number) if isinstance(number, int) else None
        if name is not None:
            yield '"class":', f'"class":{quote(name)}'

    def trailer(self, size: int) -> bytes:
        return tar.ending(size)

    def capacity(self, target: int) -> int:
        # whole records, less the end blocks
        return target // tar.RECORD * tar.RECORD - len(tar.END)

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        key = rows.select(key_size_expr()).to_series()
        image = self.written.image_field
        extension = image.places[0][0] if image else _PLAIN_IMAGE
        total = _member_weights(key, extension.replace("*", "webp"), rows["image"])
        label = self.written.label_field
        place = label.places[0] if label else ("cls" if "cls" in rows.columns else "label.json",)
        if "cls" in rows.columns:
            text = rows["cls"].cast(str).str.len_bytes().cast(int)
            text += len(".0") * (place != ("cls",))
        elif "label" in rows.columns:
            text = rows["label"].list.len().cast(int) * 25 + len("[]")
        if "cls" in rows.columns or "label" in rows.columns:
            text += sum(len(quote(name)) + len("{:}") for name in place[1:])
            total += _member_weights(key, place[0], text).fill_null(0)
        if "masks" in rows.columns:
            # One with a palette becomes gray PNG, which may be larger.
            total += _member_weights(key, "mask.png", rows["masks"] * 2 + 1024)
        facts = 0  # bytes that facts take in the JSON object, if the user asked for facts
        for each in self.written.fields:
            if each.fact and len(each.places[0]) > 1:
                facts += len(quote(each.places[0][1])) + LONGEST_FACT + len('"":,')
            elif each.fact:
                total += _member_weights(key, each.places[0][0], key * 0 + LONGEST_FACT)
        if self.written.objects and "objects" in rows.columns:
            # A box has four numbers of at most 24 characters.
            text = rows["texts"] + rows["objects"] * 128 + len('{"width":,"height":}') + 32 + facts
            total += _member_weights(key, _JSON, text)
        elif self.metadata:
            own = '{"filename":,"width":2147483647,"height":2147483647}'
            text = _json_sizes(rows["path"]) + len(own) + facts
            if "class" in rows.columns:
                text += (_json_sizes(rows["class"]) + len('"class":,')).fill_null(0)
            total += _member_weights(key, _JSON, text)
        elif facts:
            total += _member_weights(key, _JSON, key * 0 + facts + len("{}"))
        return total

    def caveats(self, rows: pl.LazyFrame) -> Iterator[str]:
        import polars as pl

        most = tar.MAX_NAME - len(".jpeg")
        # A key has no more bytes than its path, so only long paths are looked into.
        paths = rows.select("path").filter(pl.col("path").str.len_bytes() > most)
        found = paths.collect(engine="streaming").filter(key_size_expr() > most)
        long = found.select(key_expr()).to_series()
        if len(long):
            yield (
                f"{format_count(len(long), 'name')} of about {tar.MAX_NAME} bytes or more, which "
                f"wids and DALI do not read: {format_some(long.to_list())}"
            )

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        for position, group in enumerate(_groups(stream, distinct=True)):
            key, members, start, stop = group
            fields: dict[str, Value] = {name: data for name, (*_, data) in members.items()}
            path = _path_of(key, members)
            yield Entry(start, stop - start, Sample(key, fields, position, path))

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        found = _groups(stream, with_data=False, distinct=True)
        for position, (key, members, start, stop) in enumerate(found):
            yield Span(start, stop - start, key, position, None, tuple(members))

    def groups(self, stream: ShardStream) -> Iterator[Group]:
        for key, members, start, stop in _groups(stream, with_data=False):
            yield Group(key, {name: tar.Member(*own) for name, own in members.items()}, start, stop)

    def dataset_index(self, name: str, shards: Sequence[ShardFacts]) -> dict[str, bytes]:
        # the index of wids, with urls relative to itself
        index = {
            "__kind__": "wids-shard-index-v1",
            "wids_version": 1,
            "name": common_stem(name),
            "shardlist": [
                {"url": shard.name, "nsamples": shard.samples, "filesize": shard.bytes}
                for shard in shards
            ],
        }
        return {f"{common_stem(name)}.json": json.dumps(index, indent=1).encode() + b"\n"}


# Where fields of a schema go


def _places(fields: Iterable[Field], schema: Schema, same: bool) -> dict[str, Place]:
    """Choose the place of each field: the one that it has, or that of the table."""
    whole = {place for each in fields for place in each.places if len(place) == 1}
    roles = {schema.image: IMAGE, schema.label: LABEL}
    places = {each.name: _exact_place(each) for each in fields if each.exact}
    tabled = []
    for each in fields:
        if each.exact:
            continue
        own = _own_place(each, schema) if same else ()
        # A part of JSON that is kept as well is a copy, which gets a member of its own.
        if len(own) == 1 or (len(own) == len(("json", "key")) and own[:1] not in whole):
            places[each.name] = own
        else:
            tabled.append(each)
    # The roles' places come last, because a field that is called so has them, too.
    for each in sorted(tabled, key=lambda each: each.name in roles):
        role = roles.get(each.name, "")
        role = "" if each.given and each.name != role else role
        places[each.name] = _free_place(each, role, places.values())
    _require_exact_alone(fields, places)
    return places


def _own_place(each: Field, schema: Schema) -> Place:
    """Return the place that a field has in its source, if it may keep that; empty otherwise."""
    if not each.places or each.given or each.kind.is_raw:
        return ()
    own = each.places[0]
    return own if len(own) == 1 or each.name != schema.label else ()


def _free_place(each: Field, role: str, taken: Collection[Place]) -> Place:
    """Return the first place that the table has for a field and that no other field has."""
    choices = dict.fromkeys((_place(each, role), _place(each, ""), (_JSON, each.name)))
    free = [place for place in choices if place not in taken]
    if not free or (len(free[0]) > 1 and each.kind.is_bytes):
        raise OptionError(
            f"webdataset: two fields would be the member .{_place(each, '')[0]}, one of them "
            f"{each.name!r}: give --rename {each.name}=NAME"
        )
    return free[0]


def _require_exact_alone(fields: Iterable[Field], places: Mapping[str, Place]) -> None:
    """Refuse a member that the user named and that another field may be as well."""
    for each in fields:
        if not each.exact:
            continue
        member = WebDataset.place_of(each.name)
        others = (name for name in places if name != each.name)
        if other := [name for name in others if WebDataset.place_of(places[name][0]) == member]:
            raise OptionError(
                f"--rename: the member .{each.name} may be that of the field {other[0]!r}: give "
                "another name"
            )


def _unlike_names(fields: Iterable[Field], schema: Schema) -> Iterator[str]:
    """Say which members are not called as the user named the image and the label."""
    for each in fields:
        member, name = each.places[0][0], each.name
        if not each.given or each.exact or name not in (schema.image, schema.label):
            continue
        if len(each.places[0]) == 1 and not member.startswith(name):
            shown = ".jpg, .png or the like" if member == _PLAIN_IMAGE else f".{member}"
            yield f"--rename {name}: its member is {shown}; give .{name} for exactly that member"


def _exact_place(each: Field) -> Place:
    """Return the member that the user named for a field."""
    name = each.name
    if _EXACT.fullmatch(name) is None or len(name) > _LONGEST_EXACT or name != name.lower():
        raise OptionError(
            f"--rename: .{name} is not what readers find behind a key: give at most "
            f"{_LONGEST_EXACT} characters in lower case, without blanks and slashes"
        )
    if each.kind.of is Objects:
        raise OptionError(f"--rename: boxes lie in .{_JSON}, and cannot be the member .{name}")
    return (name,)


def _place(each: Field, role: str) -> Place:
    """Return the place that the table has for a field that crosses formats."""
    kind, stem = each.type, extension_of(each.name)
    if kind == "mask":
        return (f"{stem}.png",)
    if each.kind.is_raw:  # bare pixels are saved as .npy, which holds their shape
        return ("npy" if role == IMAGE else f"{stem}.npy",)
    if kind == "image":
        return (_PLAIN_IMAGE if role == IMAGE else f"{stem}.{_PLAIN_IMAGE}",)
    if kind == "json":
        return (stem if stem == _JSON else f"{stem}.json",)
    if kind == "bytes":
        is_known = WebDataset.meaning(stem) == (each.name, "bytes", "") and stem != UNKNOWN_IMAGE
        return (stem if is_known else f"{stem}.{UNKNOWN_IMAGE}",)
    if kind == "text" and role == LABEL:
        return ("label.txt",)
    if kind == "text" and each.name not in FACTS:
        return ("txt" if stem == "text" else f"{stem}.txt",)
    if role == LABEL and each.kind.is_integer:
        return ("cls",)
    if role == LABEL and each.kind.is_number:
        return ("label.json",)
    return (f"{stem}.cls",) if kind == "class" else (_JSON, each.name)


def _conflicts(places: Mapping[str, Place], metadata: bool) -> list[str]:
    """Return the facts that a field of JSON leaves no place for."""
    whole = {place[0]: name for name, place in places.items() if len(place) == 1}
    inside = [name for name, place in places.items() if place[0] in whole and len(place) > 1]
    others = [name for name in inside if name not in FACTS]
    if metadata and _JSON in whole:
        raise OptionError(
            f"--metadata writes the member .json, which the field {whole[_JSON]!r} is: give "
            f"--rename {whole[_JSON]}=meta"
        )
    if others:
        taken = whole[places[others[0]][0]]
        raise OptionError(
            f"webdataset: numbers such as {format_some(others)} go into the member .json, which "
            f"the field {taken!r} is: give --rename {taken}=meta"
        )
    return inside


def _encoded(text: Callable[[Value], str], value: Value) -> bytes:
    return text(value).encode()


@lru_cache(maxsize=4096)
def _number(value: int) -> bytes:
    return b"%d" % value


def _own_spelling(extension: bytes, sample: Sample, data: bytes) -> bytes:
    """Return the extension of an image's file name, if it promises what the bytes are."""
    stem, dot, _ = extension.decode().rpartition(".")
    own = sample.path.rpartition(".")[2].lower()
    if stem or own not in _IMAGES or IMAGE_EXTENSIONS.get(own) != sniff(data):
        return extension
    return own.encode()


# Members


def _groups(
    stream: ShardStream, *, with_data: bool = True, distinct: bool = False
) -> Iterator[_Group]:
    """Read the runs of members that share a key; if keys are distinct, no key comes twice."""
    seen: set[str] = set()
    key: str | None = None
    # what other names of the sample begin with, if that alone makes them its own
    begin = ""
    members: dict[str, tar.MemberFields] = {}
    start = stop = 0
    for member in tar.members(stream, with_data):
        offset, name, _, _, end, _ = member
        extension = name.removeprefix(begin)
        if len(extension) == len(name) or "/" in extension:
            match = _NAME.fullmatch(name)
            if match is None or (name.startswith("__") and _PASSED_OVER.match(name)):
                stream.passed_over[extension_in(name)] += 1
                continue
            stem, extension = match.groups()
            begin = "" if stem.startswith("__") else f"{stem}."
            own_key = stem.removeprefix("./")  # `tar cf x.tar .` puts ./ before each name
            if own_key != key:
                if key is not None:
                    yield key, members, start, stop
                if own_key in seen:
                    raise ApartMembers(
                        f"{stream.path}: the members of the sample {own_key!r} are not adjacent, "
                        "or two samples have this key: give --from parts, with one tar as SOURCE"
                    )
                if distinct:
                    seen.add(own_key)
                key, members, start = own_key, {}, offset
        extension = extension.lower()
        if extension in members:
            raise stream.damaged(f"the sample {key!r} has two members .{extension}", offset)
        members[extension] = member
        stop = end
    if key is not None:
        yield key, members, start, stop


def _path_of(key: str, members: Mapping[str, tar.MemberFields]) -> str:
    """Return the name of the image's file; empty if nothing tells it."""
    images = [path for extension, (_, path, *_) in members.items() if extension in _IMAGES]
    *_, described = members.get(_JSON, (b"",))
    if b'"filename"' in described:
        try:
            path = json.loads(described).get("filename")
        except (ValueError, AttributeError, RecursionError):
            path = None
        if isinstance(path, str) and path and key_of(path) == key:
            return path
    return images[0].removeprefix("./") if len(images) == 1 else ""


def _require_found(key: str) -> None:
    """Refuse a key that readers would not find in the names of members."""
    if _PASSED_OVER.match(key + "."):
        raise BadSample(f"webdataset passes over names that begin with {key.split('/')[0]}/")
    if "\n" in key:
        raise BadSample("webdataset may not find the extension of a name with a line break")
    if "\0" in key:
        raise BadSample("a name in a tar holds no zero byte")
    match = _NAME.fullmatch(key + ".x")
    if match is None or match[1] != key:
        raise BadSample("webdataset would find another key: its base name is empty or has dots")


def _member_weights(key: pl.Series, extension: str, size: pl.Series) -> pl.Series:
    name = key + (len(extension.encode()) + 1)
    record = name + len("123 path=\n")
    record += (record > 999).cast(int)
    blocks, more = ((each + (2 * tar.BLOCK - 1)) // tar.BLOCK for each in (size, record))
    return (blocks + (name > tar.MAX_NAME).cast(int) * more) * tar.BLOCK


def _json_sizes(text: pl.Series) -> pl.Series:
    """The most bytes that texts take as JSON: an escaped character takes up to six."""
    escaped = text.str.count_matches(r'["\\\x00-\x1f]').cast(int)
    return text.str.len_bytes().cast(int) + 5 * escaped + 2
