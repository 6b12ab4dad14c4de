"""Run a loop, and note each request to S3 that botocore or aiobotocore makes in its processes.

Arguments: a file for the notes, the loop, and its arguments. Like the loop, it imports no dsprep.
"""

import runpy
import sys
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def _note(path: str, request: Any, answer: Any) -> Any:
    size = int(answer.headers.get("Content-Length") or 0) if request.method != "HEAD" else 0
    # Appending is one call of the system: lines of several processes do not mix.
    with open(path, "ab", buffering=0) as file:
        file.write(b"%d\n" % size)
    return answer


def _main() -> None:
    notes, loop, *arguments = sys.argv[1:]
    kind = import_module("botocore.httpsession").URLLib3Session
    send = kind.send

    @wraps(send)
    def noted(self: Any, request: Any) -> Any:
        return _note(notes, request, send(self, request))

    kind.send = noted
    if find_spec("aiobotocore"):  # what s3fs is made of
        async_kind = import_module("aiobotocore.httpsession").AIOHTTPSession
        send_async = async_kind.send

        @wraps(send_async)
        async def noted_async(self: Any, request: Any) -> Any:
            return _note(notes, request, await send_async(self, request))

        async_kind.send = noted_async
    sys.argv = [loop, *arguments]
    runpy.run_path(loop, run_name="__main__")


if __name__ == "__main__":
    _main()
