"""A proxy on loopback that passes requests on to a server, and spoils some of them."""

from __future__ import annotations

import http.client
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

AT_ONCE = 64 * 1024
FOR_ONE_HOP = {"connection", "content-length", "expect", "keep-alive", "transfer-encoding"}


@dataclass
class Fault:
    """What happens to some requests.

    Attributes:
        kind: ``reset`` and ``stall`` while the request's body comes, ``flip`` a bit of it; ``lose``
            the answer; ``reset-answer``, ``stall-answer``, ``truncate`` and ``flip-answer`` while
            the answer's body goes; ``answer`` with `status` and `code` instead; ``wait`` so many
            seconds; ``headers`` besides its own in the answer.
        method: The requests that it befalls.
        match: What is in their URLs.
        times: How many of them.
        at: The byte of the body at which it happens.
        seconds: For ``wait``.
        pace: For ``wait``: bytes of the answer's body in a second; 0 for as many as come.
        status: For ``answer``.
        code: For ``answer``.
        headers: For ``headers``.
    """

    kind: str
    method: str = "PUT"
    match: str = ""
    times: int = 1
    at: int = 100_000
    seconds: float = 0.0
    pace: float = 0.0
    status: int = 0
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class Proxy:
    """A proxy; its requests are noted as ``PUT /bucket/key?partNumber=1``."""

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target)
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("", (_Handler,), {"proxy": self}))
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def add(self, kind: str, **facts: Any) -> None:
        """Spoil the next requests that match."""
        self.faults.append(Fault(kind, **facts))

    def fault_of(self, method: str, path: str) -> Fault:
        with self._lock:
            self.requests.append(f"{method} {path}")
            for fault in self.faults:
                if fault.times and fault.method == method and fault.match in path:
                    fault.times -= 1
                    return fault
        return Fault("none")

    def counted(self, method: str, match: str = "") -> int:
        """How many requests there were."""
        return sum(each.startswith(method + " ") and match in each for each in self.requests)

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield self
        finally:
            self.over.set()
            self._server.shutdown()
            self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    proxy: Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # the client has gone
            self.close_connection = True

    def handle_expect_100(self) -> bool:
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def log_message(self, *_: object) -> None:
        pass

    def pass_on(self) -> None:
        fault = self.proxy.fault_of(self.command, self.path)
        time.sleep(fault.seconds)
        upstream = http.client.HTTPConnection(str(self.proxy.target.netloc), timeout=60)
        try:
            if fault.kind == "answer":
                self._answer(fault)
            elif self._send(upstream, fault):
                self._pass_back(upstream.getresponse(), fault)
        finally:
            upstream.close()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on

    def _send(self, upstream: http.client.HTTPConnection, fault: Fault) -> bool:
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in FOR_ONE_HOP - {"content-length", "transfer-encoding"}:
                upstream.putheader(name, value)
        upstream.endheaders()
        done = 0
        for data in self._body():
            before, done = done, done + len(data)
            if before <= fault.at < done or done == self._size():
                if fault.kind == "reset":
                    return self._reset()
                if fault.kind == "stall":
                    return self._stall()
            if before <= fault.at < done and fault.kind == "flip":
                data = flipped(data, fault.at - before)
            upstream.send(data)
        if fault.kind == "reset" and not self._size():
            return self._reset()
        if fault.kind == "lose":
            upstream.getresponse().read()
            return self._reset()
        return True

    def _body(self) -> Iterator[bytes]:
        left = self._size()
        while left:
            data = self.rfile.read1(min(AT_ONCE, left))
            if not data:
                raise ConnectionResetError
            left -= len(data)
            yield data

    def _size(self) -> int:
        return int(self.headers.get("Content-Length", 0))

    def _pass_back(self, answer: http.client.HTTPResponse, fault: Fault) -> None:
        size = answer.length
        rest = answer.read() if answer.chunked else b""
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in FOR_ONE_HOP:
                self.send_header(name, value)
        for name, value in fault.headers.items():
            self.send_header(name, value)
        told = answer.getheader("Content-Length") if self.command == "HEAD" else size
        if answer.status != 204:
            self.send_header("Content-Length", str(len(rest) if answer.chunked else told or 0))
        self.end_headers()
        self.wfile.write(rest)
        done = 0
        while not answer.chunked and (data := answer.read(AT_ONCE)):
            before, done = done, done + len(data)
            now = before <= fault.at < done or done == size
            if now and fault.kind in ("truncate", "reset-answer", "stall-answer"):
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                self.close_connection = True
                if fault.kind == "reset-answer":
                    self._reset()
                if fault.kind == "stall-answer":
                    self._stall()
                return
            if before <= fault.at < done and fault.kind == "flip-answer":
                data = flipped(data, fault.at - before)
            self.wfile.write(data)
            if fault.pace:
                time.sleep(len(data) / fault.pace)

    def _answer(self, fault: Fault) -> None:
        for _ in self._body():
            pass
        body = f"<Error><Code>{fault.code}</Code><Message>of the test</Message></Error>".encode()
        if self.command == "HEAD":
            body = b""
        self.send_response_only(fault.status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/xml")
        self.send_header("x-amz-request-id", "REQUEST-1")
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> bool:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())
        self.close_connection = True
        return False

    def _stall(self) -> bool:
        self.proxy.over.wait(60)
        self.close_connection = True
        return False


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
