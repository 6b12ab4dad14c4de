"""A headless Chromium that opens pages: what they show, say, and load. The fixture is ``browser``.

It is driven through a pipe by Chromium's DevTools protocol. All traffic of pages, also to
loopback, goes to a server that notes the first line of each connection and answers none. What
Chromium asks for itself goes to a port where nobody listens. Some of it takes the way of a page all
the same, such as a connection to the search engine in advance. So only hosts count that the tab
has asked for, or that the page names.
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import signal
import socketserver
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.missing import need_commands

PATIENCE = 120
"""Seconds without any answer after which Chromium is taken for dead."""

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-default-apps", "--disable-extensions", "--no-pings", "--hide-scrollbars"),
    *("--disable-domain-reliability", "--disable-client-side-phishing-detection"),
    *("--disable-field-trial-config", "--no-default-browser-check", "--no-service-autorun"),
    *("--disable-search-engine-choice-screen", "--safebrowsing-disable-auto-update"),
    "--disable-features="
    "PreconnectToSearch,NavigationPredictor,OptimizationHints,OptimizationGuideModelDownloading,"
    "MediaRouter,Translate,AutofillServerCommunication,InterestFeedContentSuggestions,"
    "CertificateTransparencyComponentUpdater,SearchEnginePreconnector2,SpeculationRulesPrefetchProxy",
    "--proxy-server=http://127.0.0.1:9",
)

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass
class View:
    """A page as it was opened once."""

    overflow: int = 0  # CSS pixels by which the page is wider than the window
    dom: str = ""  # its elements, after scripts
    picture: bytes = b""  # PNG of the whole page
    messages: list[str] = field(default_factory=list)  # the console's, with what its policy refused
    loaded: list[str] = field(default_factory=list)  # addresses besides its own
    requests: list[str] = field(default_factory=list)  # what reached the network
    answers: list[Any] = field(default_factory=list)  # values of the expressions


class Browser:
    """Chromium, with a tab that opens one page after another."""

    def __init__(self, commands: int, events: int, proxy: str, requests: list[str]) -> None:
        self._commands, self._events, self._requests = commands, events, requests
        self.proxy = proxy  # the address that all requests of its pages go to
        self._numbers = itertools.count(1)
        self._rest = b""
        self._heard: list[dict[str, Any]] = []
        self._session: dict[str, str] = {}
        context = self._call(
            "Target.createBrowserContext", proxyServer=proxy, proxyBypassList="<-loopback>"
        )
        target = self._call("Target.createTarget", url="about:blank", **context)["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(
        self, page: Path, width: int = 1280, dark: bool = False, ask: tuple[str, ...] = ()
    ) -> View:
        """Open a file in a window of a width in CSS pixels; ``ask`` is what to evaluate in it."""
        self._heard.clear()
        self._requests.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        sizes = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **sizes)
        address = page.absolute().as_uri()
        went = self._call("Page.navigate", url=address)
        assert "errorText" not in went, went
        while not any(each["method"] == "Page.loadEventFired" for each in self._heard):
            self._hear()
        overflow, dom, *answers = map(
            self._value, (OVERFLOW, "document.documentElement.outerHTML", *ask)
        )
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self._call(
            "Page.captureScreenshot", captureBeyondViewport=True, clip={**size, "scale": 1}
        )
        loaded = [url for each in self._heard if (url := _asked_for(each)) and url != address]
        return View(
            overflow,
            dom,
            base64.b64decode(shot["data"]),
            [text for each in self._heard if (text := _said(each))],
            loaded,
            requests_of(self._requests, "\n".join((*loaded, dom, page.read_text("utf-8")))),
            answers,
        )

    def close(self) -> None:
        self._session = {}
        with suppress(AssertionError, OSError):  # it may be gone before it has answered
            self._call("Browser.close")

    def _value(self, expression: str) -> Any:
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        text = json.dumps({"id": number, "method": method, "params": params, **self._session})
        os.write(self._commands, text.encode() + b"\0")
        while (answer := self._hear()).get("id") != number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _hear(self) -> dict[str, Any]:
        """Wait for the next message; events are kept."""
        while b"\0" not in self._rest:
            assert select.select([self._events], [], [], PATIENCE)[0], "Chromium does not answer"
            data = os.read(self._events, 1 << 20)
            assert data, "Chromium has ended"
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._heard.append(message)
        return message


def _said(event: dict[str, Any]) -> str:
    """The text of a message on the console."""
    params = event["params"]
    match event["method"]:
        case "Log.entryAdded":
            return f"{params['entry']['source']}: {params['entry']['text']}"
        case "Runtime.consoleAPICalled":
            values = (str(each.get("value")) for each in params["args"])
            return f"console.{params['type']}: {' '.join(values)}"
        case "Runtime.exceptionThrown":
            return f"exception: {params['exceptionDetails']['text']}"
    return ""


def _asked_for(event: dict[str, Any]) -> str:
    """The address of a request, unless it is of a file in the page itself."""
    if event["method"] != "Network.requestWillBeSent":
        return ""
    url: str = event["params"]["request"]["url"]
    return "" if url.startswith("data:") else url


def requests_of(lines: Sequence[str], text: str) -> list[str]:
    """Return the requests to hosts that a text names: what a tab has asked for, and its page.

    Args:
        lines: The first lines of requests to a proxy: `CONNECT HOST:PORT …`, `GET http://HOST/ …`.
        text: The addresses that the tab has asked for, and the source of its page.
    """
    return [line for line in lines if _host_of(line) in text]


def _host_of(line: str) -> str:
    _, _, rest = line.partition(" ")
    target = rest.partition(" ")[0]
    return urlsplit(target if "://" in target else f"//{target}").hostname or ""


@contextmanager
def _noted(requests: list[str]) -> Iterator[int]:
    """Listen on a port, and note what comes."""

    class Note(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            requests.append(self.rfile.readline().decode("latin-1").strip())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Note) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    """Start Chromium; whatever happens, it has ended afterwards."""
    requests: list[str] = []
    with ExitStack() as stack:
        port = stack.enter_context(_noted(requests))
        ours_in, theirs_out, theirs_in, ours_out = *os.pipe(), *os.pipe()
        # Chromium's ends are its descriptors 3 and 4; from 10 on, none is overwritten on the way.
        given = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (theirs_in, theirs_out)]
        os.close(theirs_in)
        os.close(theirs_out)
        stack.callback(os.close, ours_in)
        stack.callback(os.close, ours_out)
        command = ["chromium", *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{given[0]} 4>&{given[1]}', "bash", *command],
            env={**os.environ, "HOME": str(profile)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=given,
            start_new_session=True,
        )
        for each in given:
            os.close(each)
        try:
            browser = Browser(ours_out, ours_in, f"http://127.0.0.1:{port}", requests)
            yield browser
            browser.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium; left out where there is none."""
    need_commands("Chromium", "chromium", "bash")
    with started(tmp_path_factory.mktemp("chromium")) as running:
        yield running
