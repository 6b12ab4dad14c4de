"""The kind of a file of annotations, by its name and by how it begins."""

from __future__ import annotations

import codecs
import os
import re

from dsprep.errors import SourceError
from dsprep.formats.augmented import MANIFESTS
from dsprep.storage.files import open_file

CVAT_ADVICE = "export the task from CVAT as COCO 1.0, and give that JSON with --annotations"
_CVAT = re.compile(r"\s*<(?:\?xml[^>]*>\s*<)?annotations\b")
_BY_NAME = {".csv": "csv", ".tsv": "csv", ".lst": "lst", ".yaml": "yolo", ".yml": "yolo"}
_BY_NAME |= dict.fromkeys(MANIFESTS, "manifest")
_BY_MARK = {"[": "label-studio", "{": "coco", "<": "voc"}
_HEAD = 4096  # bytes that show what a file is


def kind_of_name(path: str) -> str | None:
    """Return the kind of a file of annotations that its name tells."""
    return _BY_NAME.get(os.path.splitext(path)[1].lower())


def kind_of_file(path: str) -> str | None:
    """Return the kind of a file as ``--annotation-format`` names it; None if nothing tells it."""
    if (kind := kind_of_name(path)) is not None:
        return kind
    with open_file(path) as file:
        data = file.pread(_HEAD, 0)
    encoding = "utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    head = data.decode(encoding, "replace").lstrip()
    if not data:
        raise SourceError(f"{path}: is empty")
    if _CVAT.match(head):
        raise SourceError(f"{path}: is CVAT's XML, which dsprep does not read: {CVAT_ADVICE}")
    return _BY_MARK.get(head[:1])
