"""Start Ceph and LocalStack, for all processes of a run of pytest.

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
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

HERE = Path(__file__).parent
LOCALSTACK = HERE.parents[1] / ".cache" / "localstack"

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
    _run(HERE / "localstack.sh", LOCALSTACK, directory, port)
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
    logs = "".join(each.read_text(errors="replace")[-2000:] for each in directory.rglob("*log*"))
    raise AssertionError(f"{url} does not answer; the logs of its server end with:\n{logs}")


def shared(place: Path, start: Callable[[Path], Facts]) -> Facts:
    """Start a server, unless another process of this run has done so; return its facts.

    Args:
        place: A directory of the run, the same in all processes.
        start: Starts the server in a directory.
    """
    place.mkdir(exist_ok=True)
    told = place / "facts.json"
    with (place / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            try:
                facts = start(place / "server")
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                facts = {"failed": str(error)}  # the others need not try again
            told.write_text(json.dumps(facts))
    facts = json.loads(told.read_text())
    assert "failed" not in facts, facts["failed"]
    return facts


def stop(directory: Path) -> None:
    """Kill the server of a directory: Ceph would take its time to say goodbye to its memory."""
    for file in (directory / "run").glob("*.pid"):
        with suppress(ProcessLookupError, ValueError):
            os.kill(int(file.read_text()), signal.SIGKILL)
