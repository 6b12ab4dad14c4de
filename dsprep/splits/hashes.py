"""Hashes of files: of their bytes, and of their looks, which differ in few bits if they are alike.

Workers call this, so nothing heavy is imported before the first image.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from hashlib import blake2b, file_digest

from dsprep.errors import BadImage, OptionError, SourceError
from dsprep.extras import pip_install
from dsprep.images.header import DEFAULT_MAX_PIXELS, NAMES, read_header, require_whole
from dsprep.images.phash import can_hash, quick_hash
from dsprep.images.transform import open_image, orientation_of, pillow
from dsprep.storage.files import read_bytes, read_sized, system_path
from dsprep.storage.local import LARGEST_TABLE, open_regular
from dsprep.storage.pool import ahead

_HASH = partial(blake2b, digest_size=16)


def require_numpy() -> None:
    """Refuse to go on without the library that hashes images."""
    if not can_hash():
        raise OptionError(f"--near: numpy is not installed; {pip_install('numpy')}")


def hash_images(task: tuple[str, Sequence[str]], report: Callable[..., None]) -> list[int | None]:
    """Hash images by what they show; flat ones show nothing."""
    root, paths = task
    hashes: list[int | None] = []
    for path in paths:
        try:
            data = read_bytes(os.path.join(root, path), LARGEST_TABLE)
            header = read_header(data)
            require_whole(data, header)
            with pillow(f"cannot decode this {NAMES[header.kind]}", DEFAULT_MAX_PIXELS):
                image = open_image(data, header, DEFAULT_MAX_PIXELS)
                turn = 1 if header.kind == "tif" else orientation_of(image)
                hashes.append(quick_hash(image, turn))
        except (BadImage, OSError):
            hashes.append(None)
    report(len(paths), 0)
    return hashes


def digest_files(
    task: tuple[str, Sequence[tuple[str, int]]], report: Callable[..., None]
) -> list[bytes]:
    """Hash the bytes of files, given with their sizes; some are read at once."""
    root, files = task
    # What the system does not open is in memory as a whole.
    is_kept = system_path(root) is None
    calls = (
        (size if is_kept else 0, partial(_digest, os.path.join(root, path), size))
        for path, size in files
    )
    with closing(ahead(calls)) as found:
        digests = list(found)
    report(len(files), sum(size for _, size in files))
    return digests


def _digest(path: str, size: int) -> bytes:
    try:
        if (full := system_path(path)) is None:
            data = read_sized(path, size)
            if data is not None:
                return _HASH(data).digest()
        else:
            with open(full, "rb", buffering=0, opener=open_regular) as file:
                if os.fstat(file.fileno()).st_size == size:
                    return file_digest(file, _HASH).digest()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
    raise SourceError(f"{path}: has changed; give the same command again")
