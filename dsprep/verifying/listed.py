"""The files of a folder on S3, as the listing beside it names them."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

from dsprep.dataset.manifest import FileReceipt
from dsprep.errors import StoreError
from dsprep.formats.folder import LISTING, File, Listed
from dsprep.storage.crc import crc32c
from dsprep.storage.readback import read_small
from dsprep.verifying.inspection import Problem
from dsprep.verifying.published import Claim, Published


def claims_of_folder(published: Published) -> tuple[list[Claim], list[Problem]]:
    """The files that the listing of a folder names, and those below the folder that it does not.

    A listing that is missing, or is not the one that the manifest names, names nothing: that is
    found when it is looked at like all other files.
    """
    place, name = published.place, f"{published.single}.{LISTING}"
    told = {claim.file.name: claim.file for claim in published.claims()}.get(name)
    try:
        data, _ = read_small(place.store, place.key(name))
    except StoreError as error:
        if error.kind != "missing":
            raise
        return [], []
    if told is None or told.crc32c != crc32c(data):
        message = "is not as it was written: the files that it names are not looked at"
        return [], [Problem(place.url(name), None, "", message)]
    try:
        claims = list(_claims(data, f"{published.single}/"))
    except ValueError as error:
        return [], [Problem(place.url(name), None, "", f"cannot be read: {error}")]
    known = {place.key(claim.file.name) for claim in claims}
    strays = [
        Problem(place.store.url(stored.key), None, "", "is there, but not in the listing")
        for page in place.store.list(place.key(f"{published.single}/"))
        for stored in page
        if stored.key not in known
    ]
    return claims, strays


def _claims(data: bytes, before: str) -> Iterator[Claim]:
    """The files of each sample; the first stands for it."""
    for line in BytesIO(data):
        for number, file in enumerate(Listed.from_json(line).files):
            yield Claim(_receipt(file, before), 1 if number == 0 else 0, True)


def _receipt(file: File, before: str) -> FileReceipt:
    if [type(value) for value in file] != [str, int, int]:
        raise ValueError(f"{file!r:.100} tells no file")
    return FileReceipt(before + file.path, file.bytes, file.crc32c)
