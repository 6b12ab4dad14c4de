"""A layout: the options that describe the inside of a data set, as a file of TOML.

``dsprep inspect -o birds.toml`` writes one, and ``--layout birds.toml`` takes it. Its tables are
the headings of ``--help``, and its keys are the names of options. All paths lie below the data set,
so that a folder, its archive and its copy on S3 share a layout.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, get_type_hints

from dsprep.arguments import AnyPath, accept
from dsprep.declared import Option, Options, options_in, require_choice, require_number
from dsprep.errors import OptionError
from dsprep.options import option_name
from dsprep.sources.options import ClassOptions, FieldOptions, SourceOptions
from dsprep.tuples import NamedTuple

VERSION = 1
MARK = "dsprep_layout"
KINDS = (SourceOptions, ClassOptions, FieldOptions)
"""The classes of options that a layout may have."""

TABLES = ("source", "labels", "annotations", "fields")
OF_KINDS = "kind-options"  # the table of options that kinds of other packages have

SCHEMA = "schema"  # the option of a path that Python also takes as a value

_PATHS = "AnyPath"  # in the types of options that are paths
_TELL_LABELS = ("labels", "list_file", "label_regex")  # where labels come from
# The classes of a data set that is added to stay as they are.
_OF_DATASET = frozenset({"classes", "class_order"})

OptionsT = TypeVar("OptionsT", bound=Options)


class Layout(NamedTuple):
    """The options of a layout, with paths that lie below a data set.

    Attributes:
        path: The file, for messages.
        values: The values of options, as classes of options call them.
        of_kinds: Those of options that kinds of other packages have.
    """

    path: str
    values: Mapping[str, Any]
    of_kinds: Mapping[str, Any]

    def added_to(self, options: OptionsT) -> OptionsT:
        """Return options with those of this layout, for the ones that are not given."""
        root, *others = _places(options)
        kind: type = type(options)
        declared = options_in(kind)
        added = dict[str, Any]()
        for name, value in self.beside(options.given).values.items():
            if name not in declared:
                if name in _OF_DATASET:
                    continue
                raise OptionError(f"{self.path}: {key_of(name)}: this command has no such option")
            if is_path(name, value) and others:
                raise OptionError(
                    f"{self.path}: {key_of(name)}: a layout is of one data set: give one SOURCE"
                )
            added[name] = below(root, value) if is_path(name, value) else value
        if self.of_kinds:
            given = getattr(options, "kind_options", None) or {}
            added["kind_options"] = {**self.of_kinds, **given}
        return options.replace(**added)

    def beside(self, given: Mapping[str, Any]) -> Layout:
        """Return what is left of this layout beside the options that were given.

        If these say where labels come from, they replace all that a layout says of that.
        """
        left = {name: each for name, each in self.values.items() if option_name(name) not in given}
        told = [name for name in _TELL_LABELS if option_name(name) in given]
        if told and not {*told}.intersection(self.values):
            left = {name: each for name, each in left.items() if name not in _of_labels()}
        return self._replace(values=left)

    @property
    def given(self) -> dict[str, Any]:
        """The options by their names on the command line."""
        every = {**self.values, **self.of_kinds}
        return {option_name(name): value for name, value in every.items()}


def with_layout(options: OptionsT) -> OptionsT:
    """Return options with those of ``--layout``, which they win over."""
    path = vars(options)["layout"]
    return options if path is None else read_layout(str(path)).added_to(options)


def _places(options: Options) -> Sequence[str]:
    """Return the paths of what is read."""
    values = vars(options)
    if "sources" not in values:
        return [values["root"], *values["others"]]
    given = values["sources"]
    return [given] if isinstance(given, str) else [*given]


@cache
def known_options() -> Mapping[str, Option]:
    """Return the options that a layout may have, by name."""
    found = {name: each for kind in KINDS for name, each in options_in(kind).items() if each.group}
    return {name: each for name, each in found.items() if name != "layout"}


@cache
def _of_labels() -> frozenset[str]:
    """Return the options that say how labels are read, but for the classes."""
    found = {name for name, each in known_options().items() if table_of(each) == "labels"}
    return frozenset(found.difference(options_in(ClassOptions)))


def key_of(name: str) -> str:
    """Return the table and the key of an option: ``labels.label-column``."""
    return f"{table_of(known_options()[name])}.{option_name(name)[2:]}"


def table_of(declared: Option) -> str:
    """Return the table of an option: its heading in the help."""
    return declared.group.lower()


def is_path(name: str, value: Any) -> bool:
    """Return whether the value of an option is a path, or several."""
    declared = known_options().get(name)
    if declared is None or _PATHS not in declared.hint:
        return False
    return declared.hint.startswith("Sequence") or isinstance(value, str)


def below(root: str, value: Any) -> Any:
    """Return a path, or each of several, below a data set."""
    if not isinstance(value, str):
        return tuple(below(root, each) for each in value)
    path = posixpath.normpath(value)
    return root if path == "." else posixpath.join(root, path)


# Reading


def read_layout(path: str) -> Layout:
    """Read a layout; refuse what it cannot have, by the table and the key."""
    import tomllib  # few runs need it

    from dsprep.text import read_text

    try:
        tables = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"{path}: is not TOML: {error}") from None
    except RecursionError:
        raise OptionError(f"{path}: is not TOML: its values are nested too deep") from None
    first = next(iter(tables), None)
    if first != MARK:
        raise OptionError(f"{path}: is not a layout: its first key has to be {MARK} = {VERSION}")
    version = tables.pop(MARK)
    if type(version) is not int or version != VERSION:
        raise OptionError(
            f"{path}: {MARK}: version {version!s:.20}; this dsprep reads version {VERSION}"
        )
    values = dict[str, Any]()
    of_kinds = dict[str, Any]()
    for table, content in tables.items():
        if not isinstance(content, dict):
            raise OptionError(f"{path}: {table}: has to be in a table, such as [labels]")
        if table == OF_KINDS:  # those of other packages, which their kinds check
            of_kinds = {key.replace("-", "_"): value for key, value in content.items()}
            continue
        for key, value in content.items():
            declared, hint = declared_of(path, table, key)
            values[declared.name] = checked(f"{path}: {table}.{key}", declared, hint, value)
    return Layout(path, values, of_kinds)


def declared_of(path: str, table: str, key: str) -> tuple[Option, Any]:
    """Return the option that a key is, and its type."""
    by_key = {option_name(each.name)[2:]: (each, hint) for each, hint in _with_types()}
    if key in by_key:
        own = table_of(by_key[key][0])
        if own == table:
            return by_key[key]
        raise OptionError(f"{path}: {table}.{key}: belongs to the table {own}")
    from difflib import get_close_matches  # slow to load

    alike = get_close_matches(key, by_key, 1)
    advice = f"; did you mean {key_of(by_key[alike[0]][0].name)}?" if alike else ""
    raise OptionError(f"{path}: {table}.{key}: no such option{advice}")


def checked(where: str, declared: Option, hint: Any, value: Any) -> Any:
    """Return a value as the public functions take it, or refuse it as they do."""
    found = accept(where, hint, value)
    require_choice(declared, where, found)
    if isinstance(found, int) and not isinstance(found, bool):
        require_number(declared, found, f"{where}: ")
    if is_path(declared.name, found):
        for path in (found,) if isinstance(found, str) else found:
            _require_inside(where, path)
    return found


@cache
def _with_types() -> Sequence[tuple[Option, Any]]:
    """Return the options that a layout may have, with their types."""
    from dsprep.schema import Schema

    hints = {
        name: hint
        for kind in KINDS
        for name, hint in get_type_hints(kind, localns={Schema.__name__: Schema}).items()
    }
    hints[SCHEMA] = AnyPath  # of the file of a schema, which has no second spelling
    return [(each, hints[name]) for name, each in known_options().items()]


def _require_inside(where: str, path: str) -> None:
    """Refuse a path that does not lie below the data set."""
    leads_out = path.startswith("/") or "://" in path or ".." in path.split("/")
    if leads_out or not path:
        raise OptionError(
            f"{where}: {path!r:.80} is not a path below SOURCE: give other files on the command "
            "line"
        )
