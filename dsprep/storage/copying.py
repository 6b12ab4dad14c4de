"""Whole files between stores that have no transfers in parts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from uuid import uuid4

from dsprep.errors import SourceError, StoreError, source_errors
from dsprep.storage.local import SCRATCH, OutputFile, destination_errors, publish, read_whole
from dsprep.storage.store import Store
from dsprep.storage.stored import Stored, crc32c, ignore, md5, metadata_of, said_mtime_ns
from dsprep.storage.transfer import TransferOptions, Transferred


def hidden_beside(path: Path) -> Path:
    """Return a name for an unfinished file, in the directory of the file that it becomes."""
    return path.with_name(f".{uuid4().hex}{SCRATCH}")


def send_whole(
    store: Store, path: Path, key: str, options: TransferOptions, expected: int | None
) -> Transferred:
    """Store a file of this machine in one piece, with this crc32c if given."""
    with source_errors(path):
        mtime_ns = os.stat(path).st_mtime_ns
        data = read_whole(path, os.stat(path).st_size)
    value = crc32c(data)
    if expected not in (None, value):
        raise SourceError(
            f"{path}: its crc32c is {value:08x}, and {expected:08x} was expected: "
            "it is not the file that its manifest names; check it with dsprep verify"
        )
    name = store.url(key)
    options.events("begin", name=name, bytes=len(data), parts=1)
    options.pace.take(len(data))
    stored = store.put(
        *(key, data), replaces=options.replaces, crc32c=value, metadata=metadata_of(mtime_ns, value)
    )
    options.events("moved", name=name, bytes=len(data))
    options.events("end", name=name, bytes=len(data), proof="crc32c")
    return Transferred(stored, value, 1, 0, len(data), "crc32c")


def fetch_whole(
    store: Store,
    key: str,
    path: Path,
    options: TransferOptions,
    listed: Stored | None,
    expected: int | None,
) -> Transferred:
    """Fetch a file in one piece, with this crc32c if given. It gets its name when it is whole."""
    name, temporary = store.url(key), hidden_beside(path)
    with destination_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with store.open(key, etag=listed.etag if listed else "") as reading:
            stored = reading.stored
            options.events("begin", name=name, bytes=stored.size, parts=1)
            with destination_errors(path):
                output = OutputFile(str(temporary))
            try:
                while data := reading.read():
                    options.pace.take(len(data))
                    with destination_errors(path):
                        output.write(data)
                    options.events("moved", name=name, bytes=len(data))
            finally:
                output.close()
        proof = _proof(stored, output, expected, temporary)
        if not proof:
            raise StoreError(
                f"{name}: what arrives is not what is stored there (crc32c or MD5 differ): it was "
                "damaged on its way, or before it was stored; nothing was kept of it",
                "damaged",
            )
        told = said_mtime_ns(stored.metadata)
        mtime_ns = int(stored.modified * 1e9) if told is None else told
        with destination_errors(path):
            os.utime(temporary, ns=(mtime_ns, mtime_ns))
        publish(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    options.events("end", name=name, bytes=stored.size, proof=proof)
    return Transferred(stored, output.crc32c, 1, 0, output.bytes, proof)


def copy_whole(
    source: Store, stored: Stored, store: Store, key: str, options: TransferOptions
) -> Transferred:
    """Copy a file from one store to another by way of this machine."""
    with tempfile.TemporaryDirectory(prefix="dsprep-") as directory:
        path = Path(directory, "file")
        # The run hears of the file once, when it is sent.
        fetched = source.fetch_file(stored.key, path, options._replace(events=ignore), stored)
        return store.send_file(path, key, options, fetched.crc32c)


def _proof(stored: Stored, output: OutputFile, expected: int | None, path: Path) -> str:
    """Return what proves that the bytes of a file are those of the store; empty if they are not."""
    if output.bytes != stored.size:
        return ""
    if expected is not None:
        return "crc32c" if output.crc32c == expected else ""
    return stored.confirmed_by(output.crc32c, lambda: md5(read_whole(path, output.bytes)))
