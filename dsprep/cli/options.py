"""The options of the command line: those that rooms declare, and those it has by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from dsprep.cli.help import GroupedCommand, GroupedOption, given_on_the_command_line, option_group
from dsprep.declared import Option, options_in, require_number, unchecked
from dsprep.errors import OptionError
from dsprep.options import option_name
from dsprep.plan.image_options import TransformOptions
from dsprep.plan.options import CommandOptions
from dsprep.progress import WAITS
from dsprep.sources.options import ClassOptions, FieldOptions, SourceOptions
from dsprep.units import parse_size

if TYPE_CHECKING:
    from dsprep.images.transform import Transform
    from dsprep.sources.kinds import Kind
    from dsprep.sources.source import Source

T = TypeVar("T")
Declared: TypeAlias = "type | click.Parameter | Sequence[Declared]"


class Parsed(click.ParamType[T]):
    """A value that a function reads, such as ``200MB``."""

    def __init__(self, name: str, read: Callable[[str], T]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        try:
            return self._read(value) if isinstance(value, str) else value
        except OptionError as error:
            self.fail(str(error), param, ctx)


def count(declared: Option) -> Parsed[int]:
    """Return the type of the whole numbers that an option takes."""
    return Parsed("n", lambda text: _read_count(text, declared))


def _read_count(text: str, declared: Option) -> int:
    try:
        number = int(text)
    except ValueError:
        raise OptionError(f"{text!r} is not a whole number") from None
    require_number(declared, number)
    return number


def _parse_dimensions(text: str) -> int | tuple[int, int]:
    """Read ``N`` or ``WxH``."""
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdecimal() and part.strip("0") for part in parts):
        raise OptionError(f"{text!r} is neither a number of pixels nor WIDTHxHEIGHT")
    numbers = tuple(_read_count(part, Option()) for part in parts)
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def _split(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


class FormatChoice(click.Choice[str]):
    """The name of a format. The formats are loaded when a value or the help needs them."""

    case_sensitive = True

    def __init__(self, folders: bool) -> None:
        self._folders = folders

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        from dsprep.formats import FORMATS, SHARDED

        return tuple(FORMATS if self._folders else SHARDED)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from dsprep.formats import FORMATS

        if value in FORMATS and value not in self.choices:
            self.fail(f"{value!r} is not a format of shards; dsprep convert writes it.", param, ctx)
        return super().convert(value, param, ctx)


class KindChoice(click.Choice[str]):
    """The name of a kind. The kinds are loaded when a value or the help needs them.

    The help shows the names of those that say what they are; few have the others.
    """

    case_sensitive = True

    def __init__(self, kinds: Callable[[], Sequence[type[Kind]]]) -> None:
        self._kinds = kinds

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        return _names_of(self._kinds())

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the names that the help shows."""
        kinds = self._kinds()
        names = _names_of([kind for kind in kinds if kind.help])
        others = () if len(names) == len(self.choices) else ("...",)
        return f"[{'|'.join((*names, *others))}]"


def _names_of(kinds: Sequence[type[Kind]]) -> tuple[str, ...]:
    from dsprep.sources.kinds import KnownKinds

    return KnownKinds(tuple(kinds)).names


def _source_kinds() -> Sequence[type[Kind]]:
    from dsprep.sources.kinds import all_kinds

    return all_kinds().kinds


def _annotation_kinds() -> Sequence[type[Kind]]:
    from dsprep.sources.annotation_kinds import all_annotation_kinds

    return sorted(all_annotation_kinds().kinds, key=attrgetter("names"))


class KindOption(GroupedOption):
    """``--from``, whose help says what the kinds that many people have are."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from dsprep.sources.kinds import all_kinds

        kinds = "; ".join(kind.help for kind in all_kinds().kinds if kind.help)
        self.help = f"{options_in(SourceOptions)['kind'].help.rstrip('.')}: {kinds}."
        return super().get_help_record(ctx)


class AnnotationsOption(GroupedOption):
    """``--annotations``, whose help says what the kinds that many people have are."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from dsprep.sources.annotation_kinds import all_annotation_kinds

        takes = ", ".join(kind.help for kind in all_annotation_kinds().kinds if kind.help)
        first, _, rest = options_in(SourceOptions)["annotations"].help.partition(". ")
        self.help = f"{first}: {takes}. {rest}"
        return super().get_help_record(ctx)


def parse_pairs(pairs: tuple[str, ...], option: str, form: str = "NAME=VALUE") -> Mapping[str, str]:
    """Read ``NAME=VALUE`` options."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise OptionError(f"{option} {pair}: write it as {option} {form}")
        if name in found:
            raise OptionError(f"{option} {pair}: {name} is given twice")
        found[name] = value
    return found


def command(
    arguments: str,
    *declared: Declared,
    without: Sequence[str] = (),
    rare: Sequence[str] = (),
    cls: type[GroupedCommand] = GroupedCommand,
    **about: Any,
) -> Callable[[Callable[..., Any]], GroupedCommand]:
    """Declare a command with arguments of these metavars, its options and those of its report.

    Only ``--help-all`` shows the options that are ``rare`` here, and those that are declared so.
    """

    def parameters() -> list[click.Parameter]:
        found: list[click.Parameter] = []
        for word in (words := arguments.split()):
            values: dict[str, Any] = {"metavar": word}
            if word.endswith("..."):
                values |= {"nargs": -1, "required": True}
                if word != words[-1]:  # click takes a single word for what follows
                    values |= {"required": False, "callback": _require_all}
            found.append(click.Argument([word.rstrip(".").lower()], **values))
        found += [*_parameters(declared), *output_options]
        for each in found:
            if isinstance(each, GroupedOption) and each.name in rare:
                each.rare = True
        return [each for each in found if each.name not in without]

    def decorate(function: Callable[..., Any]) -> GroupedCommand:
        values: dict[str, Any] = {"name": function.__name__, "help": function.__doc__, **about}
        reads = cls is GroupedCommand and any(map(_takes_source, declared))
        return (_SourceCommand if reads else cls)(callback=function, params=parameters, **values)

    return decorate


def _takes_source(declared: Declared) -> bool:
    if isinstance(declared, type):
        return issubclass(declared, SourceOptions)
    return not isinstance(declared, click.Parameter) and any(map(_takes_source, declared))


class _SourceCommand(GroupedCommand):
    """A command whose sources may be of kinds with options of their own.

    The kinds are loaded for its help, and for an option that is not one of `SourceOptions`.
    """

    _added: Sequence[click.Parameter] = ()

    def _add_options(self) -> Sequence[click.Parameter]:
        """Add the options that `SourceOptions` does not have; return these."""
        from dsprep.sources.annotation_kinds import all_annotation_kinds
        from dsprep.sources.kinds import all_kinds

        if not self._added:
            known = options_in(SourceOptions)
            declared = (*all_kinds().options(), *all_annotation_kinds().options())
            every = {each.name: each for _, each in declared if each.name not in known}
            self._added = list(map(_click_option, every.values()))
            self.params += self._added
        return self._added

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, [*args])
        except click.NoSuchOption:
            if not self._add_options():
                raise
            return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self._add_options()
        super().format_options(ctx, formatter)

    def given(self, ctx: click.Context) -> Mapping[str, Any]:
        """Return the options that were given, those of a layout as well."""
        given = super().given(ctx)
        if (path := ctx.params.get("layout")) is None:
            return given
        from dsprep.sources.layout import read_layout  # few runs need it

        return {**read_layout(path).beside(given).given, **given}

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with the options of kinds together."""
        given = given_on_the_command_line(ctx)
        values = {str(each.name): ctx.params.pop(str(each.name)) for each in self._added}
        own = {name: value for name, value in values.items() if option_name(name) in given}
        ctx.params |= {"kind_options": own} if own else {}
        return super().invoke(ctx)


def _parameters(declared: Iterable[Declared]) -> Iterator[click.Parameter]:
    for each in declared:
        if isinstance(each, click.Parameter):
            yield each
        elif isinstance(each, type):
            yield from map(_click_option, shown_in(each))
        else:
            yield from _parameters(each)


def shown_in(kind: type) -> list[Option]:
    """Return the options of the command line that a class declares."""
    return [each for each in options_in(kind).values() if each.group]


def _click_option(declared: Option) -> click.Parameter:
    """Return an option of click; the type that is declared says what it takes."""
    name, hint = option_name(declared.name), declared.hint
    about: dict[str, Any] = {"help": declared.help, "default": declared.default}
    if declared.metavar:
        about["metavar"] = declared.metavar
    if declared.name == "to" and not declared.choices:
        about["type"] = FormatChoice(declared.folders)
    elif declared.choices:
        about |= {"type": click.Choice(declared.choices), "show_default": True}
    elif hint == "bool":
        about["is_flag"] = True
        name += f"/--no-{name[2:]}" if declared.default else ""
    elif hint.startswith("Mapping"):
        form = name, declared.metavar
        about |= {"multiple": True, "callback": lambda *given: parse_pairs(given[-1], *form)}
        del about["default"]
    elif hint.startswith("Sequence"):
        about["multiple"] = True
        if kind := _list_type(declared):  # given again, the option adds to the list
            del about["default"]
            about["type"] = kind
            about["callback"] = lambda *given: sum(given[-1], ()) if given[-1] else declared.default
    elif number := _number_type(declared):
        about["type"] = number
    return _option_of_group(declared, name, about)


def _list_type(declared: Option) -> Parsed[Any] | None:
    """Return what reads several values at once; None if the option takes one at a time."""
    if declared.hint == "Sequence[int]":
        return Parsed(
            "n[,n...]", lambda text: tuple(_read_count(each, declared) for each in _split(text))
        )
    return Parsed("name[,name...]", _split) if "," in declared.metavar else None


def _number_type(declared: Option) -> click.ParamType[Any] | None:
    """Return what reads a number or a size; None for text."""
    hint = declared.hint
    if hint.startswith("int | tuple"):
        return Parsed("n|wxh", _parse_dimensions)
    if hint.startswith("int | str"):
        return Parsed("size", parse_size)
    if declared.name == "bandwidth":
        return Parsed("size", lambda text: float(parse_size(text.removesuffix("/s"))))
    if hint.startswith("float"):
        return click.FLOAT
    if hint.startswith("int"):
        return click.INT if declared.least is None else count(declared)
    return None


def _option_of_group(declared: Option, name: str, about: dict[str, Any]) -> click.Parameter:
    """Return an option under its heading, with its short name and with names of kinds."""
    short = {"--workers": ["-j"], "--output": ["-o"]}.get(name, [])
    names = {"kind": _source_kinds, "annotation_format": _annotation_kinds}.get(declared.name)
    if names is not None:
        about |= {"type": KindChoice(names), "show_default": True}
    helped = {"kind": KindOption, "annotations": AnnotationsOption}.get(declared.name)
    if helped is not None:
        about["group"] = declared.group
        return helped([name, declared.name], rare=declared.rare, **about)
    group = option_group(declared.group)
    return group(*short, name, declared.name, rare=declared.rare, **about)


def _require_all(context: click.Context, argument: click.Parameter, value: Any) -> Any:
    """Say what is missing, if an argument is that another one follows."""
    if not value:
        named = " and ".join(
            each.make_metavar(context)
            for each in context.command.params
            if isinstance(each, click.Argument)
        )
        raise click.UsageError(f"Name both, {named}.", context)
    return value


source_options = (SourceOptions, ClassOptions, FieldOptions)


def take_source(options: dict[str, Any], root: str, *others: str) -> Source:
    """Pop the options of a source out of all options."""
    from dsprep.sources.source import make_source

    shown = [each.name for kind in source_options for each in shown_in(kind)]
    given = {name: options.pop(name) for name in (*shown, "kind_options") if name in options}
    return unchecked(make_source)(root, others=others, needs_names=True, **given)


def take_transform(options: dict[str, Any]) -> Transform | None:
    """Pop the image options out of all options; None if they change nothing."""
    from dsprep.images.transform import Transform

    values = {name: options.pop(name) for name in options_in(TransformOptions)}
    crop = values.pop("crop")
    transform = Transform(crop=(crop, crop) if isinstance(crop, int) else crop, **values)
    return None if transform == Transform() else transform


_run = option_group("Run")
workers_option = _click_option(options_in(CommandOptions)["workers"])


def _hush(context: click.Context, option: click.Parameter, quiet: bool) -> bool:
    """With --quiet, print nothing about waits either."""
    if quiet:
        WAITS.listen(None)
    return quiet


output_options = (
    _run("--json", "as_json", is_flag=True, help="Print the report as JSON."),
    _run(
        "-q",
        "--quiet",
        is_flag=True,
        callback=_hush,
        help="Print no progress, and no report on success.",
    ),
)
