"""SageMaker's augmented manifest, as a kind of source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.errors import OptionError
from dsprep.sources.kind import Claim, SourceKind, SourcePlace

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source


class AugmentedManifestKind(SourceKind):
    """An augmented manifest of SageMaker, as the source or as the list of a directory."""

    names: ClassVar[tuple[str, ...]] = ("augmented-manifest",)
    help: ClassVar[str] = "an augmented manifest of SageMaker"
    noun: ClassVar[str] = "an augmented manifest of SageMaker"

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.augmented import TextReader

        return {"text-reader": TextReader}

    def is_implied(self, source: Source) -> bool:
        return source.kind is None and source.is_manifest

    def takes_as_given(self, source: Source) -> bool:
        return True

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        return self.named_claim(source)

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        from dsprep.sources.annotated.augmented import read_augmented

        source.require_alone()
        if source.parts or source.pairs:
            path = source.list_file or source.root
            raise OptionError(
                f"{path}: is a manifest, which goes with images, not --parts and --pair"
            )
        return read_augmented(source, run_all)
