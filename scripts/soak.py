"""Write data sets in six parts at once, kill some, and compare with what one process writes.

python -m scripts.soak [--rounds 20] [--seed 0] [--data FOLDER] [--only TROUBLE]

Each round takes the next source and format, and the next trouble: parts that are killed or run
twice, also on S3, that are stopped until others have done their work, that cannot read their
source, or the plain command in between; or runs on a Ray cluster whose nodes, or whose driver, die
or stop. FOLDER has images in a directory for each class; without it, some are drawn. It exits with
1 if a round has failed; what that round wrote stays there to look at.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tests import images
from tests.servers.bucket import Bucket
from tests.servers.fixtures import ENVIRONMENT
from tests.servers.start import start_ceph, stop

PARTS, KILLED = 6, 2
SAMPLES = 400  # enough for a part to take longer than its start
_DSPREP = [sys.executable, "-m", "dsprep"]
# On some network file systems, locks do not reach other machines.
_NO_LOCKS = "import fcntl; fcntl.flock = lambda *_: None; from dsprep.cli.main import main; main()"
_WITHOUT_LOCKS = [sys.executable, "-c", _NO_LOCKS]


class Round:
    """A destination that parts write to, and what they are told."""

    def __init__(self, dest: Path, words: Sequence[str], chance: random.Random) -> None:
        self.dest, self.words, self.chance = dest, words, chance
        self.source, self.place = Path(words[1]), str(dest)
        self.env: dict[str, str] = {}
        self.failures: list[str] = []

    def start(self, *more: str, dsprep: Sequence[str] = _DSPREP) -> subprocess.Popen[str]:
        words = [*dsprep, *self.words[:2], self.place, *self.words[2:], "-j", "1", *more]
        return subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=os.environ | self.env,
        )

    def on_machine(self, name: str) -> Round:
        """Let what is started next run on a machine of its own, which reaches the bucket."""
        own = self.dest.with_name(f"{self.dest.name}-{name}")
        own.mkdir()
        endpoint = self.bucket().endpoint
        self.env = {**ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint, "TMPDIR": str(own)}
        return self

    def part(self, number: int, dsprep: Sequence[str] = _DSPREP) -> subprocess.Popen[str]:
        return self.start("--part", f"{number}/{PARTS}", dsprep=dsprep)

    def on_ray(self) -> subprocess.Popen[str]:
        address = self.nodes().cluster.address
        return self.start("--engine", "ray", "--ray-address", address, "-j", "2")

    @staticmethod
    @cache
    def nodes() -> Nodes:
        return Nodes()

    @staticmethod
    @cache
    def bucket() -> Bucket:
        """A bucket on a server that ends with this program."""
        directory = Path(tempfile.mkdtemp(prefix="dsprep-soak-ceph-")) / "server"
        atexit.register(shutil.rmtree, directory.parent, ignore_errors=True)
        atexit.register(stop, directory)
        bucket = Bucket("ceph", start_ceph(directory)["http"], "soak", ENVIRONMENT)
        bucket.s3.create_bucket(Bucket=bucket.name)
        return bucket

    def end(self, what: str, process: subprocess.Popen[str], *codes: int) -> None:
        """Wait for a process, which exits with one of these codes, by default 0."""
        try:
            out, _ = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            self.failures.append(f"{what} does not end: {out[-600:]}")
            return
        if process.returncode not in (codes or (0,)):
            self.failures.append(f"{what} exits with {process.returncode}: {out[-600:]}")
        if "Traceback" in out:
            self.failures.append(f"{what} fails: {out[-600:]}")

    def expect_status(self, *codes: int) -> None:
        done = subprocess.run(
            [*_DSPREP, "status", self.place, "--json"],
            capture_output=True,
            check=False,
            env=os.environ | self.env,
        )
        if done.returncode not in codes:
            self.failures.append(f"status exits with {done.returncode}: {done.stdout.decode()}")

    def wait_for_plan(self) -> None:
        until = time.monotonic() + 60
        while not (self.dest / ".dsprep/plan.zip").exists() and time.monotonic() < until:
            time.sleep(0.01)

    def on_s3(self) -> str:
        """Write to a bucket; returns the prefix of the data set."""
        prefix = f"{self.dest.name}-{self.chance.random()}/"
        self.place = f"{self.bucket().url}/{prefix}"
        return prefix

    def take_from_s3(self, prefix: str) -> None:
        """Copy the data set, which is complete, from the bucket."""
        self.expect_status(0)
        self.dest.mkdir()
        for key, data in self.bucket().contents(prefix).items():
            path = self.dest / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if left := [each for each in self.bucket().uploads() if each[0].startswith(prefix)]:
            self.failures.append(f"unfinished uploads: {left}")

    def compare(self, alone: Path) -> None:
        there, expected = files_of(self.dest), files_of(alone)
        if there != expected:
            names = [each for each in {*there, *expected} if there.get(each) != expected.get(each)]
            self.failures.append(f"other files: {', '.join(sorted(names))}")


def killed(round: Round) -> None:
    """Kill a third of the parts at any moment, some without their workers; give these again."""
    live = [round.part(number) for number in range(PARTS)]
    victims = round.chance.sample(range(PARTS), KILLED)
    for number in victims:
        time.sleep(round.chance.random())
        kill = round.chance.choice((os.kill, os.killpg))
        with suppress(ProcessLookupError):
            kill(live[number].pid, signal.SIGKILL)
    for number, process in enumerate(live):
        round.end(f"part {number}", process, 0, *((-9,) if number in victims else ()))
    for number in victims:
        round.end(f"part {number} again", round.part(number))


def killed_on_s3(round: Round) -> None:
    """Kill a third of the parts at any moment; each of these is given again on another machine."""
    prefix = round.on_s3()
    live = [round.on_machine(f"machine-{number}").part(number) for number in range(PARTS)]
    victims = round.chance.sample(range(PARTS), KILLED)
    for number in victims:
        time.sleep(3 * round.chance.random())
        with suppress(ProcessLookupError):
            os.killpg(live[number].pid, signal.SIGKILL)
    again = [round.on_machine(f"another-{number}").part(number) for number in victims]
    for number, process in enumerate(live):
        round.end(f"part {number}", process, 0, *((-9,) if number in victims else ()))
    for number, process in zip(victims, again, strict=True):
        round.end(f"part {number} again", process)
    round.take_from_s3(prefix)


def twice_on_s3(round: Round) -> None:
    """Give each part on two machines at once, and kill some of the first ones."""
    prefix = round.on_s3()
    numbers = [*range(PARTS), *range(PARTS)]
    live = [round.on_machine(f"machine-{at}").part(number) for at, number in enumerate(numbers)]
    victims = round.chance.sample(range(PARTS), KILLED)
    for at in victims:
        time.sleep(3 * round.chance.random())
        with suppress(ProcessLookupError):
            os.killpg(live[at].pid, signal.SIGKILL)
    for at, process in enumerate(live):
        round.end(f"part {numbers[at]}", process, 0, 5, *((-9,) if at in victims else ()))
    for number in range(PARTS):
        round.end(f"part {number} again", round.on_machine(f"last-{number}").part(number))
    round.take_from_s3(prefix)


def failing(round: Round) -> None:
    """Let one part fail for good, because a file of its own is gone."""
    round.end("part 0", round.part(0))
    hidden = round.source.with_name("hidden")
    round.source.rename(hidden)
    round.end("part 1", round.part(1), 4)
    hidden.rename(round.source)
    live = {number: round.part(number) for number in range(2, PARTS)}
    for number, process in live.items():
        round.end(f"part {number}", process)
    round.expect_status(6)
    round.end("part 1 again", round.part(1))


def twice(round: Round) -> None:
    """Give each part twice at once: one of the two is refused, or finds its work done."""
    live = [(number, round.part(number)) for number in (*range(PARTS), *range(PARTS))]
    for number, process in live:
        round.end(f"part {number}", process, 0, 5)
    for number in range(PARTS):
        round.end(f"part {number} again", round.part(number))


def stopped(round: Round) -> None:
    """Stop a part until another machine has done its work, and let it go on then."""
    round.end("part 0", round.part(0, _WITHOUT_LOCKS))
    late = round.part(1, _WITHOUT_LOCKS)
    time.sleep(0.2 + round.chance.random())
    with suppress(ProcessLookupError):
        os.killpg(late.pid, signal.SIGSTOP)
    live = [round.part(number, _WITHOUT_LOCKS) for number in range(1, PARTS)]
    for number, process in enumerate(live, 1):
        round.end(f"part {number}", process)
    round.expect_status(0)
    with suppress(ProcessLookupError):
        os.killpg(late.pid, signal.SIGCONT)
    round.end("the part that was stopped", late, 0, 5)


def plain(round: Round) -> None:
    """Give the command without a part while parts run."""
    live = [round.part(number) for number in range(PARTS)]
    time.sleep(round.chance.random() * 2)
    round.end("the plain command", round.start(), 0, 5)
    for number, process in enumerate(live):
        round.end(f"part {number}", process, 0, 5)
    round.end("the plain command again", round.start())


class Nodes:
    """A Ray cluster: a head that does not work, and two nodes."""

    _own: Any = {"object_store_memory": 80 << 20}  # bytes; the least that Ray takes is 75 MiB

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, **self._own}
        self.cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.cluster.add_node(num_cpus=1, **self._own) for _ in range(2)]
        self.cluster.wait_for_nodes()

    def kill(self) -> None:
        """Kill a node; another one takes its place."""
        self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)
        self.nodes.append(self.cluster.add_node(num_cpus=1, **self._own))

    def processes(self) -> list[int]:
        """The ids of the processes of a node."""
        found = [self.nodes[0].all_processes["raylet"][0].process.pid]
        asked = ["ps", "-o", "pid=", "--ppid", str(found[0])]
        return found + list(map(int, subprocess.check_output(asked, text=True).split()))


def node_dies(round: Round) -> None:
    """Kill a node at any moment."""
    running = round.on_ray()
    time.sleep(2 + 3 * round.chance.random())
    round.nodes().kill()
    round.end("the run", running)


def driver_dies(round: Round) -> None:
    """Kill the driver at any moment, and go on, with the cluster or without."""
    running = round.on_ray()
    time.sleep(2 + 3 * round.chance.random())
    with suppress(ProcessLookupError):
        os.kill(running.pid, round.chance.choice((signal.SIGKILL, signal.SIGINT)))
    round.end("the run", running, 0, -9, 130)
    round.end("the run again", round.on_ray() if round.chance.random() < 0.5 else round.start())


def node_stops(round: Round) -> None:
    """Stop a node for two minutes; what it does after that harms nothing."""
    running = round.on_ray()
    time.sleep(2 + 3 * round.chance.random())
    processes, began = round.nodes().processes(), time.monotonic()
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    round.end("the run", running)
    time.sleep(max(0, 120 + began - time.monotonic()))
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
    time.sleep(3)
    round.nodes().kill()  # which Ray has given up


TROUBLES: tuple[Callable[[Round], None], ...] = (
    killed,
    failing,
    twice,
    node_dies,
    stopped,
    killed_on_s3,
    twice_on_s3,
    driver_dies,
    plain,
    node_stops,
)


def sources(root: Path, data: Path | None) -> dict[str, list[str]]:
    """Make the sources, and return the first words of a command for each."""
    folder = root / "folder"
    if data is None:
        for number in range(SAMPLES):
            path = folder / f"class-{number % 4}/{number:04}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(images.jpeg(number, (96, 64)))
    else:
        every = sorted(path for path in data.rglob("*") if path.is_file())
        for path in every[:: max(1, len(every) // SAMPLES)]:
            copy = folder / path.relative_to(data)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    with ZipFile(root / "folder.zip", "w") as archive:
        for path in sorted(folder.rglob("*.*")):
            archive.write(path, path.relative_to(folder))
    shards = [*_DSPREP, "pack", str(folder), str(root / "shards"), "--to", "tfrecord", "-q"]
    subprocess.run([*shards, "--shards", "7"], check=True)
    flat, listed = root / "coco", []
    for number, path in enumerate(sorted(folder.rglob("*.*"))):
        copy = flat / f"images/{number:04}{path.suffix}"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
        listed.append({"id": number, "file_name": copy.name, "width": 96, "height": 64})
    boxes = [
        {"id": each, "image_id": each, "category_id": each % 3, "bbox": [1, 2, 9, 8], "area": 72}
        for each in range(0, len(listed), 2)
    ]
    kinds = [{"id": each, "name": f"kind {each}"} for each in range(3)]
    coco = {"images": listed, "annotations": boxes, "categories": kinds}
    (flat / "instances.json").write_text(json.dumps(coco))
    annotated = [str(flat / "images"), "--annotations", str(flat / "instances.json")]
    return {
        "a folder": ["pack", str(folder), "--to", "webdataset", "--target-size", "60KB"],
        "shards": ["convert", str(root / "shards"), "--to", "parquet"],
        "a zip file": ["pack", str(root / "folder.zip"), "--to", "recordio", "--shards", "4"],
        "COCO": ["pack", *annotated, "--to", "tfrecord", "--resize", "48", "--shards", "14"],
        "other shards": ["shard", str(root / "shards"), "--shards", "9", "--shuffle"],
    }


def files_of(directory: Path) -> dict[str, bytes | None]:
    """Return what is in a directory, hidden files too."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
    }


def main() -> int:
    """Run the rounds; returns 1 if one has failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", choices=sorted({each.__name__ for each in TROUBLES}))
    asked = parser.parse_args()
    chance, failed = random.Random(asked.seed), 0
    root = Path(tempfile.mkdtemp(prefix="dsprep-soak-"))
    commands = sources(root, asked.data)
    troubles = [each for each in TROUBLES if asked.only in (None, each.__name__)]
    for number in range(asked.rounds):
        kind, words = [*commands.items()][number % len(commands)]
        trouble = troubles[number % len(troubles)]
        alone = root / f"alone-{number % len(commands)}"
        round = Round(root / f"round-{number}", words, chance)
        if not alone.exists():
            whole = Round(alone, words, chance)
            whole.end("one process", whole.start())
            round.failures += whole.failures
        trouble(round)
        round.compare(alone)
        state = "\n  ".join(["FAILED", *round.failures]) if round.failures else "ok"
        print(f"{number}: {kind}, {trouble.__name__}: {state}", flush=True)
        failed += bool(round.failures)
        if not round.failures:
            shutil.rmtree(round.dest)
    print(f"{failed} of {asked.rounds} rounds failed" + (f"; see {root}" if failed else ""))
    if not failed:
        shutil.rmtree(root)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
