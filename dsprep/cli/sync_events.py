"""What happens in a sync for programs: a JSON object a line, as it happens."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from dsprep.storage.events import Events

if TYPE_CHECKING:
    from dsprep.errors import StoreError


class JsonEvents(Events):
    """Writes ``{"event": "part", "name": "s3://…", "number": 3}`` and its like."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream."""
        self._stream = stream
        self._writing = threading.Lock()

    def plan(self, files: int, size: int) -> None:
        """How much is to go."""
        self._write("plan", files=files, bytes=size)

    def begin(self, name: str, size: int, parts: int) -> None:
        """A file begins."""
        self._write("begin", name=name, bytes=size, parts=parts)

    def found(self, name: str, size: int, parts: int) -> None:
        """What an earlier run has left."""
        self._write("found", name=name, bytes=size, parts=parts)

    def part(self, name: str, number: int) -> None:
        """A part is whole."""
        self._write("part", name=name, number=number)

    def end(self, name: str, size: int, proof: str) -> None:
        """A file is whole."""
        self._write("end", name=name, bytes=size, proof=proof)

    def retry(self, error: StoreError, delay: float) -> None:
        """A request is made again."""
        self._write("retry", error=str(error), kind=error.kind, seconds=round(delay, 3))

    def fallback(self, text: str) -> None:
        """Something is done without."""
        self._write("fallback", text=text)

    def waiting(self, what: str) -> None:
        """Nothing can be done now."""
        self._write("waiting", text=what)

    def error(self, text: str, code: int) -> None:
        """It ends, with this exit code."""
        self._write("error", text=text, code=code)

    def close(self) -> None:
        """Nothing is left to be written."""

    def _write(self, event: str, **facts: Any) -> None:
        with self._writing, suppress(OSError):  # nobody may be reading any more
            print(json.dumps({"event": event, **facts}), file=self._stream, flush=True)
