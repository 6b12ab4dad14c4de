"""How options are declared: as the attributes of classes, from which all else is made.

The public functions take them as plain keywords, and the command line makes its options of them
(:mod:`dsprep.cli.options`). A command's options are a frozen object, which is passed on whole. A
function that needs some of them takes the class that declares these: a ``PackOptions`` is also a
``SourceOptions``.

Importing this must stay cheap: ``dsprep pack --help`` does.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, wraps
from inspect import Parameter, Signature
from typing import Any, ParamSpec, Self, TypeVar, dataclass_transform, get_type_hints

from dsprep.arguments import accept
from dsprep.errors import OptionError
from dsprep.frozen import ShownSignature
from dsprep.opening import same_directory
from dsprep.options import given_options, option_name
from dsprep.tuples import NamedTuple

_LARGEST = (1 << 53) - 1  # the whole numbers that all readers of JSON tell apart

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class Option(NamedTuple):
    """An option as a class declares it."""

    name: str = ""
    hint: str = ""  # its type
    default: Any = Parameter.empty
    positional: bool = False
    group: str = ""  # its heading in the help; without one, it is no option of the command line
    help: str = ""
    choices: Sequence[str] = ()
    metavar: str = ""
    least: int | None = 1  # the smallest number that it takes; None if any
    most: int = _LARGEST  # the largest one
    rare: bool = False  # whether only `--help-all` shows it
    folders: bool = False  # whether the formats to choose from include those of a folder


def option(group: str, help: str, *, default: Any = None, **values: Any) -> Any:
    """Declare an option: its heading in the help, what it does, and which values it takes."""
    return Option(group=group, help=help, default=default, **values)


def field(*, kw_only: bool = True) -> Any:
    """Declare an option without a default; one that is not ``kw_only`` may be given by position."""
    return Option(positional=not kw_only)


@cache
def options_in(kind: type) -> dict[str, Option]:
    """Return the options that a class declares or inherits, by name."""
    found = {}
    for base in reversed(kind.__mro__):
        for name, hint in vars(base).get("__annotations__", {}).items():
            value = vars(base).get(name, Parameter.empty)
            declared = value if isinstance(value, Option) else Option(default=value)
            found[name] = declared._replace(name=name, hint=hint)
    return found


@cache
def _signature_of(kind: type) -> Signature:
    parameters = [
        Parameter(
            each.name,
            Parameter.POSITIONAL_OR_KEYWORD if each.positional else Parameter.KEYWORD_ONLY,
            default=each.default,
            annotation=each.hint,
        )
        for each in options_in(kind).values()
    ]
    return Signature(sorted(parameters, key=lambda each: each.kind))


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Options:
    """Options that travel together; each class declares some, like fields of a dataclass.

    They are not one: making the methods of all these classes would double the time of a start.
    """

    __signature__ = ShownSignature(_signature_of)

    def __init__(self, *args: Any, **values: Any) -> None:
        kind: type = type(self)
        bound = _signature_of(kind).bind(*args, **values)
        bound.apply_defaults()
        vars(self).update(bound.arguments)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the options."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: options do not change")

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given, by their names on the command line."""
        return given_options(vars(self))

    def replace(self, **values: Any) -> Self:
        """Return these options with other values."""
        return type(self)(**{**vars(self), **values})

    def values_of(self, *kinds: type) -> dict[str, Any]:
        """Return the options that these classes declare, by name."""
        return {name: getattr(self, name) for kind in kinds for name in options_in(kind)}


def words_of(kinds: Sequence[type], given: Mapping[str, Any]) -> list[str]:
    """Return the options of these classes as the command line takes them, without defaults."""
    words: list[str] = []
    declared_once = {name: each for kind in kinds for name, each in options_in(kind).items()}
    for declared in (each for each in declared_once.values() if each.group):
        name = option_name(declared.name)
        values = [value := given.get(name, declared.default)]
        if value == declared.default:
            continue
        if isinstance(value, bool):
            words.append(name if value else f"--no-{name[2:]}")
            continue
        if isinstance(value, Mapping):
            values = [f"{key}={each}" for key, each in value.items()]
        elif declared.hint.startswith("int | tuple") and isinstance(value, tuple):
            values = ["x".join(map(str, value))]
        elif isinstance(value, tuple | list):
            values = [",".join(map(str, value))] if "," in declared.metavar else [*value]
        words += (word for each in values for word in (name, str(each)))
    return words


_RAISED = """    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If what is read is missing, cannot be read, or does not fit.
        DestinationError: If the destination refuses.
        RunStopped: If a run ended early; calling again continues.
"""


def called_with(kind: Callable[P, T]) -> Callable[[Callable[[T], R]], Callable[P, R]]:
    """Let callers give the options of a class to a function as plain arguments."""

    def decorate(function: Callable[[T], R]) -> Callable[P, R]:
        def bound(*args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
            try:
                return parameters.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None

        def accepted(values: dict[str, Any]) -> dict[str, Any]:
            hints, name_of_call = _types_of(kind, function), function.__name__
            if name_of_call not in _WITHOUT_POLARS and _lacks_threads(os.getpid()):
                raise OptionError(
                    f"{name_of_call}(): this process was forked from one that had called dsprep or "
                    "polars, and polars does not work after a fork; start it with "
                    'multiprocessing.get_context("spawn")'
                )
            for name, given in values.items():
                values[name] = value = accept(f"{name_of_call}: {name}", hints[name], given)
                require_choice(declared[name], option_name(name), value)
            return values

        def options_of(values: dict[str, Any]) -> T:
            for name, value in values.items():
                if not declared[name].positional:
                    _keep_streams(value)
            return kind(**values)  # type: ignore[call-arg]

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with same_directory():
                return function(options_of(accepted(bound(*args, **kwargs))))

        def call_unchecked(*args: P.args, **kwargs: P.kwargs) -> R:
            with same_directory():
                return function(options_of(bound(*args, **kwargs)))

        call.unchecked = call_unchecked  # type: ignore[attr-defined]
        declared = options_in(kind)
        parameters = _signature_of(kind).replace(
            return_annotation=function.__annotations__["return"]
        )
        call.__signature__ = parameters  # type: ignore[attr-defined]
        del call.__wrapped__  # whose signature documentation would show instead
        told = "".join(
            f"        {each.name}: {each.help}\n" for each in declared.values() if each.help
        )
        text, returns, rest = (function.__doc__ or "").rstrip().partition("    Returns:")
        raised = "" if "Raises:" in rest else _RAISED
        parts = (text.rstrip(), f"    Args:\n{told}".rstrip(), returns + rest, raised)
        call.__doc__ = "\n\n".join(filter(None, parts)) + "\n"
        return call

    return decorate


def require_choice(declared: Option, name: str, value: Any) -> None:
    """Refuse a value that is none of the choices of an option, which messages call by a name."""
    if declared.choices and value is not None and value not in declared.choices:
        raise OptionError(f"{name} {value}: choose one of {', '.join(declared.choices)}")


def require_number(declared: Option, number: int, where: str = "") -> None:
    """Refuse a number that an option does not take; messages begin with ``where``."""
    least, most = declared.least, declared.most
    if least is not None and number < least:
        raise OptionError(f"{where}{number} is less than {least}")
    if number > most:
        raise OptionError(f"{where}{number} is more than {most}")


def unchecked(function: Callable[P, R]) -> Callable[P, R]:
    """Return a public function that takes its values as they are: click has checked them."""
    without_checks: Callable[P, R] = vars(function)["unchecked"]
    return without_checks


def _keep_streams(value: object) -> None:
    """Read what pipes among the values of an option hold, as files that are read are."""
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, str) and each.startswith(("/dev/", "/proc/")):
            # imported here because --help does not need it
            from dsprep.storage.local import keep_stream

            keep_stream(each)


# Functions that work in a forked child, because they hardly need polars or not at all.
_WITHOUT_POLARS = frozenset(("join", "status", "sync", "serve", "sagemaker", "cost"))


_TASKS = "/proc/self/task"  # the threads of this process, on Linux
_FIRST_THREAD = "polars-0"  # name of the first thread that polars starts


@cache
def _lacks_threads(process: int) -> bool:
    """Return whether polars, in this process, takes the threads of a parent for its own.

    They do not survive a fork, and polars would wait for them for ever. To ask for the size of its
    pool starts the pool if there is none, and waits for no thread.
    """
    polars = sys.modules.get("polars")
    if polars is None or not os.path.isdir(_TASKS):
        return False
    before = set(os.listdir(_TASKS))
    size = polars.thread_pool_size()
    if len(set(os.listdir(_TASKS)) - before) >= size:
        return False
    for _ in range(2):
        if _FIRST_THREAD in map(_name_of, os.listdir(_TASKS)):
            return False
        time.sleep(0.1)  # a new thread gets its name only after a moment
    return True


def _name_of(thread: str) -> str:
    """Return the name of a thread; empty if it has just ended."""
    from dsprep.storage.local import open_regular

    with suppress(OSError), open(f"{_TASKS}/{thread}/comm", "rb", opener=open_regular) as file:
        return file.read().decode("utf-8", "replace").rstrip("\n")
    return ""


@cache
def _types_of(kind: Callable[..., Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of options; some may be imported by the module of the function only."""
    from dsprep.images.transform import Transform
    from dsprep.progress import Progress
    from dsprep.schema import Schema
    from dsprep.storage.s3.config import S3Config

    known = {each.__name__: each for each in (Progress, S3Config, Schema, Transform)}
    return get_type_hints(kind, localns=function.__globals__ | known)
