"""What dsprep understood of a source: as a layout, and as a manifest records it."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from typing import Any

from dsprep.catalog import Catalog, Inferred, SourceScan
from dsprep.declared import Options, options_in
from dsprep.errors import OptionError
from dsprep.findings import Finding
from dsprep.options import option_name
from dsprep.patterns import pattern
from dsprep.places.archive import is_archive
from dsprep.printable import visible
from dsprep.schema import Choice
from dsprep.sources.layout import (
    MARK,
    OF_KINDS,
    SCHEMA,
    TABLES,
    VERSION,
    Layout,
    below,
    checked,
    declared_of,
    is_path,
    key_of,
    known_options,
    table_of,
)
from dsprep.sources.options import FieldOptions
from dsprep.sources.source import Source, choice_of
from dsprep.storage.files import exists, full_path, is_dir, is_file, open_file
from dsprep.storage.stored import crc32c
from dsprep.tuples import NamedTuple
from dsprep.units import format_some

_DIGEST = "crc32c"  # the key of what a manifest records of a file outside of the source
_BLOCK = 1 << 20  # bytes of such a file that are read at once
_BARE = pattern(r"[A-Za-z0-9_-]+")
_SHOWN = 5  # files that are left over
_WIDTH = 100  # of a line of a list
_ABOUT = f"""\
# This file describes the inside of a data set: dsprep pack SOURCE DEST --layout FILE
# Options of the command line win over this file, and this file over what dsprep recognizes.
# All paths lie below SOURCE. A line that begins with # has no effect.
{MARK} = {VERSION}
"""

# As a layout


def layout_of(source: Source, options: Options, found: SourceScan) -> str:
    """Return the layout of a data set that was read: what was given, and what dsprep found out.

    Args:
        source: What was read.
        options: The options that were given.
        found: The samples, and what reading them noticed.
    """
    catalog, findings = found
    given = [*_given(source, options)]
    known = {each.option for each in given if each.value is not None}
    inferred = [*catalog.inferred, *_roles(catalog), *_left_over(findings)]
    if catalog.sides and not {"sides_from"}.intersection(each.option for each in inferred):
        inferred += [Inferred("sides_from", None, f"the sides are {format_some(catalog.sides)}")]
    inferred = [each for each in inferred if each.value is None or each.option not in known]
    return _text_of([*given, *inferred], source.kind_options or {})


def _roles(catalog: Catalog) -> Iterator[Inferred]:
    """Yield which fields are the image and the label, if samples have fields of their own."""
    schema = catalog.settled.schema
    if catalog.reader.reads_files:
        return
    for option, field in (("image_field", schema.image_field), ("label_field", schema.label_field)):
        if field is not None and field.told_by != "the files":
            role = option.partition("_")[0]
            yield Inferred(option, None, f"the {role} is the field {field.name}: {field.told_by}")


def _left_over(findings: Sequence[Finding]) -> Iterator[Inferred]:
    """Yield which files are not read, and what tells that samples would lack something."""
    left = [each for each in findings if each.kind == "left-over" and each.detail]
    for each in left[:_SHOWN]:
        yield Inferred("leave_out", None, f"left over: {each.path} {each.detail}")


def _given(source: Source, options: Options) -> Iterator[Inferred]:
    """Yield the options that were given, with paths below the data set."""
    for name in known_options():
        flag = option_name(name)
        if flag not in options.given:
            continue
        value = getattr(options, name)
        why = f"given by {flag}"
        if name == SCHEMA and not isinstance(value, str):
            yield Inferred(name, None, f"{flag} was given as a value; name its file below SOURCE")
        elif not _is_text(value):
            yield Inferred(name, None, f"{flag} is not UTF-8, so give it on the command line")
        elif not is_path(name, value):
            yield Inferred(name, value, why)
        elif (paths := _below_source(source.root, value)) is not None:
            yield Inferred(name, paths, why)
        else:
            outside = "lies outside of SOURCE, so give it on the command line"
            yield Inferred(name, None, f"{flag} {outside}")


def _below_source(root: str, value: Any) -> Any:
    """Return a path, or each of several, as it lies below a data set; None if one does not.

    Nor does one whose name is not UTF-8, which no text can have.
    """
    if not isinstance(value, str):
        found = [_below_source(root, each) for each in value]
        return None if None in found else found
    if not _is_text(value):
        return None
    top, path = full_path(root), full_path(value)
    if path == top:
        return "."
    if path.startswith(f"{top.rstrip('/')}/"):
        return path.removeprefix(f"{top.rstrip('/')}/")
    is_member = not (exists(value) or is_dir(root)) and is_archive(root)
    return posixpath.normpath(value) if is_member else None


def _is_text(value: Any) -> bool:
    """Return whether UTF-8 can hold a value: the command line also takes other bytes."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _text_of(lines: Sequence[Inferred], of_kinds: Mapping[str, Any]) -> str:
    """Write options as a layout; each with a comment that says where it comes from."""
    text = _ABOUT
    order = {name: number for number, name in enumerate(known_options())}
    for table in TABLES:
        own = [each for each in lines if table_of(known_options()[each.option]) == table]
        if own:
            text += f"\n[{table}]\n"
        text += "".join(map(_line, sorted(own, key=lambda each: order[each.option])))
    if of_kinds:
        text += f"\n[{OF_KINDS}]\n"
        text += "".join(f"{_key(name)} = {_written(each)}\n" for name, each in of_kinds.items())
    return text


def _line(each: Inferred) -> str:
    comment = f"# {visible(each.why)}\n"
    if each.value is None:
        return comment
    return f"{comment}{option_name(each.option)[2:]} = {_written(each.value)}\n"


def _written(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(name)} = {_written(each)}" for name, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    items = [*map(_written, value)]
    line = f"[{', '.join(items)}]"
    if len(line) <= _WIDTH:
        return line
    return "[\n" + "".join(f"  {item},\n" for item in items) + "]"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    # The escapes of JSON are those of TOML, which also has one for DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# As a manifest records it


class Record(NamedTuple):
    """The options that a manifest records.

    Attributes:
        layout: Those that need not be given again.
        outside: The crc32c of files that lay outside of the source, by the option that names them.
    """

    layout: Layout
    outside: Mapping[str, Any]


def recorded(
    source: Source, given: Mapping[str, Any], inferred: Sequence[Inferred]
) -> dict[str, dict[str, Any]]:
    """Return the options that were used, as a manifest records them: without paths of this machine.

    The names of classes, and a schema, are in the manifest already.

    Args:
        source: What was read.
        given: The options that were given, by their names on the command line.
        inferred: What dsprep found out.
    """
    values = {each.option: each.value for each in inferred if each.value is not None}
    values |= {name: each for name in known_options() if (each := given.get(option_name(name)))}
    found = dict[str, dict[str, Any]]()
    for name in known_options():
        value = values.get(name)
        if value is None or name == SCHEMA or (name == "classes" and not isinstance(value, str)):
            continue
        if is_path(name, value) and option_name(name) in given:
            value = _without_place(source.root, value)
        if not _is_text(value):
            continue
        table, _, key = key_of(name).partition(".")
        found.setdefault(table, {})[key] = value
    return found


def _without_place(root: str, value: Any) -> Any:
    """Return a path, or each of several, below a data set; or the crc32c of what lies elsewhere."""
    if not isinstance(value, str):
        return [_without_place(root, each) for each in value]
    path = _below_source(root, value)
    return {_DIGEST: _digest_of(value)} if path is None else path


def _digest_of(path: str) -> str | None:
    """Return the crc32c of a file; None of a directory or a pattern."""
    try:
        if not is_file(path):
            return None
        value = 0
        with open_file(path) as file:  # which may be larger than memory
            while block := file.read(_BLOCK):
                value = crc32c(block, value)
    except OSError:
        return None
    return f"{value:08x}"


def read_recorded(values: Mapping[str, Any], where: str) -> Record:
    """Read the options that a manifest records, which may come from anywhere."""
    found, outside = dict[str, Any](), dict[str, Any]()
    for table, content in values.items():
        if not isinstance(content, dict):
            raise OptionError(f"{where}: {table} is no table of options")
        for key, value in content.items():
            declared, hint = declared_of(where, table, key)
            if is_path(declared.name, "") and _has_digest(value):
                outside[declared.name] = value
            else:
                own = checked(f"{where}: {table}.{key}", declared, hint, value)
                found[declared.name] = own
    return Record(Layout(where, found, {}), outside)


def _has_digest(value: Any) -> bool:
    return any(isinstance(each, dict) for each in (value if isinstance(value, list) else [value]))


def described(source: Source, layout: Layout) -> Source:
    """Return a source with the options of a layout, where the user gave none."""
    values = layout.beside(source.given).values
    fields = {name: each for name, each in values.items() if name in options_in(FieldOptions)}
    others = {name: each for name, each in values.items() if name not in fields}
    for name, value in fields.items():
        fields[name] = below(source.root, value) if is_path(name, value) else value
    told = choice_of(FieldOptions(**fields))
    plain = Choice()
    own = {
        each.name: getattr(told, each.name)
        for each in dataclass_fields(Choice)
        if getattr(source.choice, each.name) == getattr(plain, each.name)
    }
    choice = replace(source.choice, **own)
    return layout._replace(values=others).added_to(source).replace(choice=choice)
