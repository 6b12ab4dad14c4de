"""Every kind of source to every format: the kinds and formats are those of the registries.

The sources are those of the contracts, `SourceTests` and `AnnotationTests`: a kind that has a test
class is here. Samples arrive, as `verify --against` sees it, or the format refuses them.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

import dsprep
from dsprep.errors import DsprepError
from dsprep.formats import FORMATS
from dsprep.testing import MadeSource, samples
from tests.sources.annotation_contract import AnnotationTests, MaskSetTests
from tests.sources.boxes import write
from tests.sources.contract import SourceTests, all_made, classes_of

KINDS: dict[str, type[SourceTests] | type[AnnotationTests]] = {
    each.__name__.removeprefix("Test"): each
    for contract in (SourceTests, AnnotationTests)
    for each in classes_of(contract)
}
PAIRS = [
    (kind, to)
    for kind, to in product(KINDS, FORMATS)
    if issubclass(KINDS[kind], SourceTests) or to in ("tfrecord", "coco")
]
"""Annotations of all kinds are alike when they are read: two formats with objects show that."""
BOXES = r"its samples have no boxes; fields are (?!.*objects)"
SIDES = "a folder keeps sides in directories of their names, and "
REFUSED = {
    "recordio": r"format recordio: a record |images? of \d+ without objects",
    "recordio-protobuf": "holds no boxes, which the field 'objects' is",
    "csv": "csv holds numbers, and no images",
    "folder": rf"has nothing that could be a file|{SIDES}",
    "augmented-manifest": rf"its lines have an image or a text, and the samples have|{SIDES}",
    "coco": BOXES,
    "voc": BOXES,
    "yolo": BOXES,
}
"""What a format says to samples that it cannot hold; others hold all."""


def made(kind: str, factory: pytest.TempPathFactory) -> MadeSource:
    test = KINDS[kind]
    if issubclass(test, SourceTests):
        return all_made(factory)[test]
    root = write(factory.mktemp(kind), test.files)
    if issubclass(test, MaskSetTests):  # recognized: others may read the directory, too
        return MadeSource(root, root, {})
    return MadeSource(root, root, {"annotations": (f"{root}/{test.named}",)})


@pytest.mark.parametrize(("kind", "to"), PAIRS)
def test_it_arrives_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, kind: str, to: str
) -> None:
    source, out = made(kind, tmp_path_factory), str(tmp_path / "out")
    how = {"to": to, "no_image": True, "workers": 1, **source.options}
    try:
        report = dsprep.convert(str(source.path), out, **how)
    except DsprepError as error:
        assert to in REFUSED, error
        assert re.search(REFUSED[to], str(error)), error
        return
    assert report.samples == len(samples(source.source()))
    verified = dsprep.verify(out, against=source.source(no_image=True), workers=1)
    # CelebA has a face without a box.
    assert not [each for each in verified.problems if "is empty: 0 0 0 0" not in each.message]
