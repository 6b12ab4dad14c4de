"""What a transfer tells while it goes: for bars, for ``--json``, or for nobody."""

from __future__ import annotations

from dsprep.errors import StoreError


class Events:
    """Listens to transfers, from several threads at once; this one does nothing."""

    def plan(self, files: int, size: int) -> None:
        """So many files, and bytes, are to go, besides those that were to go before."""

    def begin(self, name: str, size: int, parts: int) -> None:
        """A file begins: its name (an S3 URL), its bytes, its parts."""

    def found(self, name: str, size: int, parts: int) -> None:
        """Bytes and parts are there from an earlier run and need not go again."""

    def moved(self, name: str, size: int) -> None:
        """Bytes went; a negative number went in vain and will go again."""

    def part(self, name: str, number: int) -> None:
        """A part is whole."""

    def end(self, name: str, size: int, proof: str) -> None:
        """A file is whole, and what proves it: ``crc32c``, ``md5``, ``parts`` or ``size``."""

    def retry(self, error: StoreError, delay: float) -> None:
        """A request failed and is tried again after so many seconds."""

    def fallback(self, text: str) -> None:
        """The server cannot do something, and it is done without."""

    def waiting(self, what: str) -> None:
        """Nothing can be done now; told once."""
