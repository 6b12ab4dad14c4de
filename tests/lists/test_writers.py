"""Lists that several people write at once, or whose writers are killed: whole, and no edit lost."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from tests.conftest import Finished, Running

RunCli = Callable[..., Finished]


def test_no_update_is_lost(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "train.lst"
    path.write_text("".join(f"{number}\t0\t{number}.jpg\n" for number in range(12)))
    failed: list[Finished] = []

    def write(numbers: range) -> None:
        for number in numbers:
            done = run_cli("lst", "set", path, "--id", number, "--label", number + 1)
            if done.code:
                failed.append(done)

    writers = [Thread(target=write, args=(range(start, 12, 4),)) for start in range(4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert len(path.read_text().splitlines()) == 12, "a reader sees whole lists"
        time.sleep(0.005)
    assert failed == []
    assert path.read_text() == "".join(
        f"{number}\t{number + 1}\t{number}.jpg\n" for number in range(12)
    )
    assert os.listdir(tmp_path) == ["train.lst"]


def test_a_killed_writer_leaves_the_old_list_or_the_new_one(
    run_cli: RunCli, run_here: RunCli, start_cli: Callable[..., Running], tmp_path: Path
) -> None:
    rng = random.Random(0)
    path, classes, changes = (tmp_path / name for name in ("a.lst", "classes.txt", "map.tsv"))
    count = 20_000
    names = ["ant", "bee"]
    path.write_text("".join(f"{number}\t{number % 2}\t{number}.jpg\n" for number in range(count)))
    classes.write_text("\n".join(names) + "\n")
    # Renamed so that the numbers swap: a list with the other's classes would be wrong silently.
    changes.write_text("ant\tcow\nbee\tape\n")
    back = tmp_path / "back.tsv"
    back.write_text("cow\tant\nape\tbee\n")
    began = time.monotonic()
    assert run_cli("lst", "relabel", path, "--map", changes).code == 0
    whole = time.monotonic() - began

    states = {("ape", "cow"): ("1", "0"), ("ant", "bee"): ("0", "1")}
    for _ in range(8):
        now = tuple(classes.read_text().split())
        running = start_cli("lst", "relabel", path, "--map", back if "cow" in now else changes)
        time.sleep(rng.uniform(0.5, 1.05) * whole)
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait()
        assert run_here("lst", "set", path, "--id", 0, "--new-path", "0.jpg").code == 0
        now = tuple(classes.read_text().split())
        first, second = states[now]
        lines = path.read_text().splitlines()
        assert len(lines) == count
        assert (lines[0], lines[1]) == (f"0\t{first}\t0.jpg", f"1\t{second}\t1.jpg")
    left = {each.name for each in tmp_path.iterdir() if each.name.startswith(".")}
    assert not [name for name in left if name.endswith((".lock", ".journal"))]
