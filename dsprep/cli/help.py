"""Help texts whose options stand in named groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_LAST = "Run"
"""The group of ``--help``, which click itself adds as the last option."""


class GroupedOption(click.Option):
    """An option that knows which group of the help text it belongs to."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        """Take what click's options take.

        Args:
            *args: Passed on.
            group: The heading that it stands under.
            **kwargs: Passed on.
        """
        super().__init__(*args, **kwargs)
        self.group = group


class GroupedCommand(click.Command):
    """A command that lists its options group by group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings, in the order in which they were declared."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                group = getattr(parameter, "group", _LAST)
                groups.setdefault(group, []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def option_group(group: str) -> Callable[..., Callable[[F], F]]:
    """Declare options of one group: what this returns is used like ``click.option``."""

    def option(*args: Any, **kwargs: Any) -> Callable[[F], F]:
        return click.option(*args, cls=GroupedOption, group=group, **kwargs)

    return option
