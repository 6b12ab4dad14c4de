"""Start Ceph and LocalStack, let the processes of one run share them, stop them with the last.

A server that does not start is a failure, never a skip.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

Facts = dict[str, str]


def start_ceph(directory: Path) -> Facts:
    """Start Ceph; returns its addresses, and the certificate that its https has."""
    http, https, monitor = free_ports(3)
    _run(HERE / "ceph.sh", directory, http, https, monitor)
    facts = {
        "http": f"http://127.0.0.1:{http}",
        "https": f"https://127.0.0.1:{https}",
        "certificate": str(directory / "tls.crt"),
    }
    _wait_for(facts["http"], directory)
    return facts


def start_localstack(directory: Path) -> Facts:
    """Start LocalStack; returns its address."""
    (port,) = free_ports(1)
    _run(HERE / "localstack.sh", ROOT / ".cache" / "localstack", directory, port)
    facts = {"http": f"http://127.0.0.1:{port}"}
    _wait_for(f"{facts['http']}/_localstack/health", directory)
    return facts


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens to."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _run(script: Path, *args: object) -> None:
    done = subprocess.run(
        [script, *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, (
        f"{script.name} failed ({done.stdout.strip()}); scripts/servers.sh installs what it needs"
    )


def _wait_for(url: str, directory: Path) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return  # it answers
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer; see the logs in {directory}")


@contextmanager
def shared(place: Path, start: Callable[[Path], Facts]) -> Iterator[Facts]:
    """Start a server, or use that which another process of this run has started.

    Args:
        place: A directory of the run, the same in all processes, that is not there yet.
        start: Starts the server in a directory.
    """
    place.mkdir(exist_ok=True)
    told = place / "facts.json"
    with (place / "users").open("a") as users:
        with _first(place):
            if not told.exists():
                told.write_text(json.dumps(start(place / "server")))
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield json.loads(told.read_text())
        finally:
            with _first(place):
                fcntl.flock(users, fcntl.LOCK_UN)
                with suppress(BlockingIOError):  # others still use it
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    told.unlink()
                    stop(place / "server")
                    (place / "server").rename(place / f"stopped-{os.getpid()}")


@contextmanager
def _first(place: Path) -> Iterator[None]:
    with (place / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def stop(directory: Path) -> None:
    """Kill the server of a directory: Ceph would take its time to say goodbye to its memory."""
    for file in (directory / "run").glob("*.pid"):
        with suppress(ProcessLookupError, ValueError):
            os.kill(int(file.read_text()), signal.SIGKILL)
