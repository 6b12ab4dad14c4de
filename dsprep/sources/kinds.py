"""The kinds of sources by name, and which of them a place is.

The registry has no order. Each kind says how sure it is that a place is its own, and the surest one
wins. Other packages add kinds by entry points of the group ``dsprep.sources``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from dsprep.declared import Option, Options, options_in
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.sources.kind import VERSION, Claim, SourceKind, Sure
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# A new kind is a module and a line here, in any order: --from shows the names in this one.
KINDS = {
    "shards": "shards.shards_kind:ShardsKind",
    "images": "pictures.images_kind:ImagesKind",
    "imagefolder": "pictures.described_kind:DescribedKind",
    "parts": "pictures.parts_kind:PartsKind",
    "pixels": "pictures.pixels_kind:PixelsKind",
    "stacks": "tables.stacks_kind:StacksKind",
    "parquet": "tables.parquet_kind:ParquetKind",
    "arrow": "tables.arrow_kind:ArrowKind",
    "csv": "tables.csv_kind:CsvKind",
    "numpy": "tables.numpy_kind:ArraysKind",
    "augmented-manifest": "annotated.augmented_kind:AugmentedManifestKind",
    "annotated": "annotated.annotated_kind:AnnotatedKind",
}

GROUP = "dsprep.sources"
"""The group of entry points by which other packages add kinds."""


class Kind(Protocol):
    """What kinds of sources and kinds of annotations have in common."""

    names: ClassVar[tuple[str, ...]]
    help: ClassVar[str]
    surest: ClassVar[Sure]
    options: ClassVar[type[Options]]

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]: ...


K = TypeVar("K", bound=Kind)


class KnownKinds(NamedTuple, Generic[K]):
    """The kinds that there are, and notes about those that are left out."""

    kinds: tuple[type[K], ...]
    notes: tuple[Finding, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What users call them; a name that two kinds have stands at the last of them."""
        found = [name for kind in self.kinds for name in kind.names]
        return tuple(reversed(dict.fromkeys(reversed(found))))

    def options(self) -> Iterator[tuple[type[K], Option]]:
        """Yield the options that only one kind has, each with the kind."""
        for kind in self.kinds:
            options: type = kind.options
            for option in options_in(options).values():
                yield kind, option


@cache
def own_kinds() -> KnownKinds[SourceKind]:
    """Load the kinds of dsprep itself."""
    return KnownKinds(kinds_at(KINDS.values()))


@cache
def all_kinds() -> KnownKinds[SourceKind]:
    """Load the kinds of dsprep, and those of other packages that fit this version."""
    return with_others(own_kinds(), GROUP, VERSION, "source", "--from")


def kinds_at(places: Iterable[str]) -> tuple[type[Any], ...]:
    """Load kinds, given the module and the name of each."""
    found = []
    for place in places:
        module, _, kind = place.partition(":")
        found.append(getattr(import_module(f"dsprep.sources.{module}"), kind))
    return tuple(found)


def with_others(
    known: KnownKinds[K], group: str, version: int, what: str, option: str
) -> KnownKinds[K]:
    """Add the kinds that entry points of a group name, if they are of this version.

    Args:
        known: The kinds of dsprep.
        group: The group of entry points.
        version: The version of the protocol.
        what: What the kinds are kinds of, for notes.
        option: The option that takes their names.
    """
    kinds, notes = [*known.kinds], list[Finding]()
    for point in entry_points_of(group):
        problem = ""
        try:
            kind = point.load()
        except Exception as error:  # importing a third-party package may raise anything
            kind, problem = None, f"it cannot be loaded ({error})"
        found, names = getattr(kind, "version", None), getattr(kind, "names", ())
        if kind is not None and found != version:
            problem = f"it is of version {found} of the protocol, and dsprep has {version}"
        elif taken := set(KnownKinds(tuple(kinds)).names).intersection(names):
            problem = f"there is another kind for {option} {min(taken)}"
        if problem:
            detail = f"the kind of {what} {point.name} ({point.value}) is left out: {problem}"
            notes.append(Finding("note", "", detail))
        else:
            kinds.append(kind)
    return KnownKinds(tuple(kinds), tuple(notes))


def entry_points_of(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, by which other packages add to it, in one order."""
    return sorted(_entry_points().select(group=group), key=lambda each: (each.name, each.value))


@cache
def _entry_points() -> Any:  # Any: the type is another one in Python 3.11
    """Return all entry points, for which a file of each installed package is read."""
    from importlib.metadata import entry_points  # slow to load

    return entry_points()


def ranked(
    kinds: Iterable[K],
    ask: Callable[[K], Claim | None],
    refused: Callable[[Sequence[tuple[K, Claim]]], SourceError],
    is_named: bool = False,
) -> Iterator[tuple[K, Claim]]:
    """Yield the kinds that claim a place, the surest first.

    Kinds are asked when their claims can count, and all at once if the user named them. Two that
    are equally sure are an error, which ``refused`` makes.
    """
    waiting, claims = list(kinds), list[tuple[K, Claim]]()
    for sure in sorted(Sure, reverse=True):
        asked = [kind for kind in waiting if kind.surest >= sure or is_named]
        waiting = [kind for kind in waiting if kind not in asked]
        claims += [(kind, claim) for kind in asked if (claim := ask(kind)) is not None]
        equal = [pair for pair in claims if pair[1].sure == sure]
        if len(equal) > 1:
            raise refused(equal)
        yield from equal


def equally_sure(root: str, equal: Sequence[tuple[SourceKind, Claim]]) -> SourceError:
    """Return the error about kinds of sources that claim one place."""
    whys = (claim.why for _, claim in equal)
    # reasons that name files come last
    seen = " and ".join(sorted(whys, key=lambda why: ("." in why, why)))
    names = " or ".join(sorted(kind.named for kind, _ in equal))
    return SourceError(f"{root}: holds {seen}: say which are the samples, {names}")
