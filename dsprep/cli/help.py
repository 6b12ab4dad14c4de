"""Commands whose help has options under headings, and groups that load one command only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from dsprep.cli.streams import echo_as_is
from dsprep.options import require_effect

_LAST = "Run"  # the group of `--help`, which click itself adds as the last option

_ORDER = (
    *("Check", "Source", "Labels", "", "List", "Output", "Images", "Samples"),
    *("Annotations", "Split", "Augmentation", "Fields", _LAST),
)
"""The order of groups of options; those that it does not name come at the empty name."""

_INSTEAD = {"--labels": ", with the rows of all tables in one file"}
"""What to do instead of giving an option twice, after ``give it once``."""

HELP_ALL = "dsprep.help_all"  # tells in the `meta` of a context that its help shows all options


class GroupedOption(click.Option):
    """An option with a heading in the help; ``rare`` ones are shown by ``--help-all`` only."""

    def __init__(self, *args: Any, group: str, rare: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group, self.rare = group, rare


class _Context(click.Context):
    """The context of a command, also of one without a name."""

    @property
    def command_path(self) -> str:
        return super().command_path.rstrip()


_DIRECTORIES = ("DIR",)
_FILES = (
    *("FILE", "SOURCE", "DEST", "DATA", "DATASET", "SRC", "DST", "ROOT"),
    *("LIST", "A", "B", "PATCH", "BASE", "OURS", "THEIRS"),
)
"""Metavars of paths, which shells complete."""


class _Place(click.types.StringParamType):
    """A path, ``s3://…`` or ``-``: text that a shell completes as a path."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type=self._kind)]


class GroupedCommand(click.Command):
    """A command that lists its options group by group, and whose paths a shell completes."""

    context_class = _Context

    def __init__(
        self,
        *args: Any,
        params: Callable[[], list[click.Parameter]],
        aliases: Mapping[str, str] = {},
        **kwargs: Any,
    ) -> None:
        """Take what click's commands take, and other names of options, which the help omits.

        ``params`` is a function: a module with many commands makes the options of one only.
        """
        super().__init__(*args, **kwargs)
        del self.params  # an attribute would hide the property of the same name
        self._declared = params
        if aliases:
            self.context_settings["token_normalize_func"] = lambda word: aliases.get(word, word)

    @cached_property
    def params(self) -> list[click.Parameter]:  # type: ignore[override]
        """The arguments and options."""
        params = self._declared()
        params.append(
            option_group(_LAST)(
                "--help-all",
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_all,
                hidden=not any(getattr(parameter, "rare", False) for parameter in params),
                help="Show this message with all options, and exit.",
            )
        )
        for parameter in params:
            named = (parameter.metavar or "").removesuffix("...")
            if named in _DIRECTORIES or named in _FILES:
                parameter.type = _Place("dir" if named in _DIRECTORIES else "file")
        return params

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; refuse an option that takes one path and is given twice."""
        if not ctx.resilient_parsing:
            *_, given = self.make_parser(ctx).parse_args([*args])  # it empties the list
            _require_once(ctx, given)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, unless an option that was given cannot take effect."""
        require_effect(command_name(ctx), self.given(ctx))
        return super().invoke(ctx)

    def given(self, ctx: click.Context) -> Mapping[str, Any]:
        """Return the options that were given, by their names."""
        return given_on_the_command_line(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if getattr(parameter, "rare", False) and HELP_ALL not in ctx.meta:
                continue
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                group = getattr(parameter, "group", _LAST)
                groups.setdefault(group, []).append(record)
        for heading in sorted(
            groups, key=lambda name: _ORDER.index(name if name in _ORDER else "")
        ):
            with formatter.section(heading):
                formatter.write_dl(groups[heading])


def _require_once(ctx: click.Context, given: Iterable[click.Parameter]) -> None:
    """Refuse a second path of an option: the first would silently not be read or written.

    Scripts put options such as --to behind others to replace them, which stays possible.
    """
    seen = set[str]()
    for each in given:
        if not isinstance(each, click.Option) or each.multiple or not isinstance(each.type, _Place):
            continue
        name = option_name(each)
        if name in seen:
            message = f"{name} is given twice: give it once{_INSTEAD.get(name, '')}"
            raise click.UsageError(message, ctx)
        seen.add(name)


def _show_all(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[HELP_ALL] = True
        echo_as_is(context.get_help(), color=context.color)
        context.exit()


def command_name(ctx: click.Context) -> str:
    """Return the name of a command, such as ``shard append``."""
    above = "" if ctx.parent is None else command_name(ctx.parent)
    return "" if ctx.parent is None else f"{above} {ctx.info_name or ''}".strip()


def option_name(parameter: click.Parameter) -> str:
    """Return the long name of an option."""
    return max(parameter.opts, key=len)


def given_on_the_command_line(ctx: click.Context) -> dict[str, Any]:
    """Return the options that were given, even if their values are the defaults."""
    return {
        option_name(each): ctx.params[each.name]
        for each in ctx.command.params
        if isinstance(each, click.Option)
        and each.name in ctx.params
        and ctx.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    }


class LazyGroup(click.Group):
    """A group that imports only the command that was called.

    A command is the function of its name in its module; ``_`` follows a name that Python has.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self._lazy:
            return None
        module = import_module(self._lazy[name][0])
        command = getattr(module, f"{name}_", None) or getattr(module, name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command and its arguments; suggest one for a misspelled name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from difflib import get_close_matches  # slow to load, and used only after a typo

            alike = get_close_matches(args[0], self._lazy)
            if args[0].startswith("-") or not alike:
                raise
            message = f"No such command {args[0]!r}. Did you mean {' or '.join(alike)}?"
            raise click.UsageError(message, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self._lazy.items()])


class DefaultGroup(LazyGroup):
    """A group with a default command, which runs if no command is named."""

    def __init__(self, *, default: click.Command, **kwargs: Any) -> None:
        super().__init__(help=default.help, no_args_is_help=True, **kwargs)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Choose the default command, unless the first argument names another one."""
        if args and args[0] not in (*self._lazy, "-h", "--help"):
            args = ["", *args]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return a command by name, or the default one for an empty name."""
        return super().get_command(ctx, name) if name else self._default

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of the other commands, and paths."""
        return [*super().shell_complete(ctx, incomplete), CompletionItem(incomplete, type="file")]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self._default.format_usage(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the default command, then the other commands."""
        self._default.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def option_group(group: str) -> Callable[..., GroupedOption]:
    """Return a function that makes options of one heading, from what ``click.option`` takes."""
    return lambda *names, **values: GroupedOption(names, group=group, **values)
