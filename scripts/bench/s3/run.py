"""Hold a contest on S3: every client once for its memory and what it leaves, then for time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ..commands import OUT
from ..measure import ENVIRONMENT, Command, CommandError, memory_of_run, time_run
from ..results import Result
from ..run import new_directory
from .clients import BUCKET, Client
from .contests import S3Contest
from .server import Server, Sum, fresh_server

_LOOK_SECONDS = 0.005
_SETTLE_SECONDS = 0.5
"""What a server may take to finish the requests of a client that was killed."""


def hold_on_s3(contest: S3Contest, directory: Path, runs: int) -> list[Result]:
    """Hold a contest; a round before the timed ones warms the caches up.

    Args:
        contest: The contest.
        directory: Where downloads go.
        runs: How many timed rounds, each with a server of its own.
    """
    clients = contest.contenders
    results = {c: [Result(name, "S3", c.name) for name in contest.names] for c in clients}
    for number in range(1 + runs):
        # A server's memory fills: it is not always the same client that comes last.
        turn = number % len(clients)
        left = [c for c in (*clients[turn:], *clients[:turn]) if _goes_on(contest, results[c])]
        if not left:
            break
        with fresh_server() as server:
            for client in left:
                tried = _Try(contest, client, server, directory)
                for step, result in zip(contest.steps, results[client], strict=True):
                    try:
                        tried.hold(step, result, first=number == 0)
                    except CommandError as error:
                        print(f"{result.contest}: {client.name}: {error}", file=sys.stderr)
                        for each in results[client]:
                            each.error = str(error)
                        break
    return [results[c][step] for step in range(len(contest.steps)) for c in clients]


def _goes_on(contest: S3Contest, steps: list[Result]) -> bool:
    spent = sum(result.spent for result in steps)
    failed = any(result.error for result in steps)
    return not failed and not (spent and spent >= contest.seconds)


class _Try:
    """One client's turn, in a new bucket."""

    def __init__(self, contest: S3Contest, client: Client, server: Server, directory: Path) -> None:
        self.client, self.server, self.directory = client, server, directory
        self.root = contest.data.root
        self.bucket = server.new_bucket()
        self.whole = Sum(contest.data.count, contest.data.total)

    def hold(self, step: str, result: Result, first: bool) -> None:
        """Measure a step, and check that all files have arrived."""
        with new_directory(self.directory) as out:
            words = self.client.down if step == "down" else self.client.up(self.root)
            command = tuple(
                word.replace(BUCKET, self.bucket).replace(OUT, str(out)) for word in words
            )
            if step == "resume":
                self.kill_at_half(command, out)
            before = self.server.received()
            if first:
                result.memory = memory_of_run([command], out, self.server.env).total
                result.sent = self.server.received() - before
                result.left = self.server.uploads(self.bucket)
            else:
                result.runs.append(time_run([command], out, self.server.env))
            there = _files_in(out) if step == "down" else self.server.objects(self.bucket)
            if there != self.whole:
                raise CommandError(f"{there} of {self.whole} is there")

    def kill_at_half(self, command: Command, out: Path) -> None:
        """Upload until half of the bytes have arrived, and end that as a failing machine would."""
        half = self.server.received() + self.whole.size // 2
        process = subprocess.Popen(
            command,
            cwd=out,
            env={**ENVIRONMENT, **self.server.env},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while process.poll() is None and self.server.received() < half:
            time.sleep(_LOOK_SECONDS)
        if process.poll() is not None:
            raise CommandError(f"ended with {process.returncode} before half of it was there")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(_SETTLE_SECONDS)


def _files_in(directory: Path) -> Sum:
    sizes = [path.stat().st_size for path in directory.rglob("*") if path.is_file()]
    return Sum(len(sizes), sum(sizes))
