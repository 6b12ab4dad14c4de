"""Hold a contest on S3: every client once for its memory and what it leaves, then for time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ..commands import OUT
from ..measure import ENVIRONMENT, Command, CommandError, ended_well, memory_of_run, time_run
from ..results import Result
from ..run import new_directory
from .clients import BUCKET, CLIENTS, Client
from .contests import S3Contest
from .files import ensure
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
    ensure(contest.data)
    results = {c: Result(contest.name, "S3", c.name) for c in CLIENTS}
    for number in range(1 + runs):
        with fresh_server() as server:
            # Its memory fills: it is not always the same client that comes last.
            turn = number % len(CLIENTS)
            for client in (*CLIENTS[turn:], *CLIENTS[:turn]):
                result = results[client]
                if result.error is not None:
                    continue
                try:
                    with new_directory(directory) as out:
                        _Try(contest, client, server, out, result).hold(first=number == 0)
                except CommandError as error:
                    result.error = str(error)
                    print(f"{contest.name}: {client.name}: {error}", file=sys.stderr, flush=True)
    return list(results.values())


class _Try:
    """One client's turn, in a new bucket."""

    def __init__(
        self, contest: S3Contest, client: Client, server: Server, out: Path, result: Result
    ) -> None:
        self.contest, self.client, self.server = contest, client, server
        self.out, self.result = out, result
        self.bucket = server.new_bucket()
        self.whole = Sum(contest.data.count, contest.data.total)
        self.up = self.command(client.up(contest.data.root))

    def command(self, words: Command) -> Command:
        return tuple(
            word.replace(BUCKET, self.bucket).replace(OUT, str(self.out)) for word in words
        )

    def hold(self, first: bool) -> None:
        """Do what comes before, then what is measured, and see that all is there."""
        if self.contest.before == "up":
            ended_well(self.up, self.out, self.server.env)
        if self.contest.before == "killed":
            self.kill_at_half()
        before = self.server.received()
        timed = [self.command(self.client.down) if self.contest.down else self.up]
        if first:
            memory = memory_of_run(timed, self.out, self.server.env)
            self.result.memory = memory.total
            self.result.sent = self.server.received() - before
            self.result.left = self.server.uploads(self.bucket)
        else:
            self.result.runs.append(time_run(timed, self.out, self.server.env))
        there = self.fetched() if self.contest.down else self.server.objects(self.bucket)
        if there != self.whole:
            raise CommandError(f"{there} of {self.whole} is there")

    def fetched(self) -> Sum:
        sizes = [path.stat().st_size for path in self.out.rglob("*") if path.is_file()]
        return Sum(len(sizes), sum(sizes))

    def kill_at_half(self) -> None:
        """Upload until half of the bytes have arrived, and end that as a failing machine would."""
        half = self.server.received() + self.whole.size // 2
        process = subprocess.Popen(
            self.up,
            cwd=self.out,
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
