"""What is printed where: reports on stdout, progress and errors on stderr, and nothing else."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import re
import shlex
import signal
import subprocess
import termios
import time
import timeit
from collections.abc import Callable
from pathlib import Path

import pytest

import dsprep
from dsprep.images.transform import Transform
from dsprep.progress import BarProgress, LogProgress, Progress, progress_for
from tests.conftest import Finished
from tests.images import draw, encode, jpeg
from tests.limits import without_streams

RunCli = Callable[..., Finished]

FORMAT = ("--format", "webdataset")
SURROUNDINGS = {
    "posix": {"LC_ALL": "POSIX", "LANG": ""},
    "encoding": {"PYTHONIOENCODING": "ascii"},
    "strict": {"PYTHONIOENCODING": "utf-8:strict"},
    "no home": {"HOME": "", "USER": "", "TMPDIR": "/nowhere", "TERM": ""},
    "warnings": {"PYTHONWARNINGS": "error"},
}


class TestJson:
    def test_is_all_that_stdout_gets(
        self, run_cli: RunCli, run_here: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        dest = tmp_path / "out"
        (tmp_path / "bad").mkdir()
        (tmp_path / "bad" / "0.jpg").touch()
        (tmp_path / "bad" / "1.jpg").write_bytes(jpeg())
        for code, *args in (
            (0, "pack", photos, dest, *FORMAT, "--dry-run"),
            (0, "pack", photos, dest, *FORMAT),
            (0, "pack", photos, dest, *FORMAT),
            (3, "pack", tmp_path / "bad", tmp_path / "some", *FORMAT),
            (0, "verify", dest),
            (3, "verify", dest, "--against", tmp_path / "bad"),
        ):
            for run, *quiet in ((run_cli,), (run_here, "-q")):
                finished = run(*args, "--json", *quiet)
                assert finished.code == code
                assert isinstance(json.loads(finished.out), dict)
                assert finished.err == ""

    def test_is_nothing_after_an_error(self, run_cli: RunCli, tmp_path: Path) -> None:
        finished = run_cli("pack", tmp_path / "nothing", tmp_path / "out", *FORMAT, "--json")
        assert (finished.code, finished.out) == (4, "")
        assert finished.err.startswith("dsprep: ")


class TestAFullDisk:
    @pytest.mark.parametrize(
        "args",
        [
            ("pack", "{photos}", "{out}", *FORMAT, "--dry-run"),
            ("pack", "{photos}", "{out}", *FORMAT, "--json"),
            ("inspect", "{photos}"),
            ("lst", "create", "{photos}", "-o", "-"),
        ],
    )
    def test_is_told_with_the_stream(
        self, command: Path, photos: Path, tmp_path: Path, args: tuple[str, ...]
    ) -> None:
        places = {"photos": photos, "out": tmp_path / "out"}
        line = [command, *(each.format(**places) for each in args)]
        with open("/dev/full", "wb") as full:
            done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.stderr == "dsprep: <stdout>: cannot be written: No space left on device\n"
        assert done.returncode == 5

    @pytest.mark.parametrize(("code", "args"), [(2, ["unknown"]), (4, ["inspect", "unknown"])])
    def test_keeps_the_exit_code_of_an_error(
        self, command: Path, code: int, args: list[str]
    ) -> None:
        with open("/dev/full", "wb") as full:
            assert subprocess.run([command, *args], stderr=full, check=False).returncode == code


class TestAReport:
    @pytest.mark.parametrize("name", SURROUNDINGS)
    def test_is_printed_anywhere_and_as_json_the_same(
        self, run_cli: RunCli, run_here: RunCli, photos: Path, tmp_path: Path, name: str
    ) -> None:
        dest = tmp_path / "caf\udce9 ねこ"
        env = SURROUNDINGS[name]
        packed = run_cli("pack", photos, dest, *FORMAT, env=env)
        assert (packed.code, "caf" in packed.out, packed.err) == (0, True, "")
        again = ("pack", photos, dest, *FORMAT, "--json")
        plain, here = (
            json.loads(each.out) for each in (run_here(*again), run_cli(*again, env=env))
        )
        assert (plain.pop("seconds") > 0, here.pop("seconds") > 0) == (True, True)
        assert here == plain
        assert (here["state"], here["classes"]) == ("already packed", ["cat", "dog", "pets/ねこ"])
        refused = run_cli("pack", photos, dest, *FORMAT, "--seed", 1, env=env)
        assert (refused.code, "caf" in refused.err) == (5, True)
        if name == "warnings":  # are none of what verify imports
            verified = run_cli("verify", dest, "--against", photos, env=env)
            assert (verified.code, "caf" in verified.out, verified.err) == (0, True, "")

    def test_is_not_printed_if_one_wants_quiet(
        self, run_cli: RunCli, photos: Path, tmp_path: Path
    ) -> None:
        dest = tmp_path / "out"
        assert run_cli("pack", photos, dest, *FORMAT, "-q") == (0, "", "")
        assert run_cli("verify", dest, "-q") == (0, "", "")
        (dest / "classes.txt").unlink()
        assert "classes.txt" in run_cli("verify", dest, "-q").out


class TestStreams:
    @pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
    def test_may_be_closed(
        self, run_cli: RunCli, photos: Path, tmp_path: Path, closed: tuple[int, ...]
    ) -> None:
        dest = tmp_path / "out"
        for args in (
            ("pack", photos, dest, *FORMAT, "-j2"),
            ("verify", dest, "--decode", "--against", photos),
        ):
            finished = run_cli(*args, under=without_streams(closed))
            assert finished.code == 0, finished
            assert (finished.out == "") == (1 in closed)
            assert finished.err == ""
        if 2 in closed:  # an error cannot be told
            again = ("pack", photos, dest, "--format", "recordio")
            assert run_cli(*again, under=without_streams(closed)).code == 5

    def test_may_end_early(self, command: Path, photos: Path, tmp_path: Path) -> None:
        """`dsprep … | head`: the exit code is still that of the run."""
        (tmp_path / "photos").mkdir()
        for number in range(3000):
            name = f"{number} {'x' * 200}"
            (tmp_path / "photos" / f"{name}.txt").touch()
        (tmp_path / "photos" / "0.jpg").write_bytes(jpeg())
        (tmp_path / "photos" / "1.jpg").touch()
        for args, code in (
            (("pack", photos, tmp_path / "out", *FORMAT), 0),
            (("verify", tmp_path / "out"), 0),
            (("pack", tmp_path / "photos", tmp_path / "some", *FORMAT, "--json"), 3),
            (("--help",), 0),
        ):
            line = shlex.join(map(str, (command, *args)))
            for reader in ("true", "head -n1"):
                script = f"{line} | {reader} >/dev/null; exit ${{PIPESTATUS[0]}}"
                done = subprocess.run(
                    ["bash", "-c", script], capture_output=True, text=True, check=False
                )
                assert done.stderr == ""
                assert done.returncode in ((0, 1) if args == ("--help",) else (code,))

    def test_of_which_stderr_ends_early_do_not_end_the_run(
        self, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Progress is told to whoever listens."""

        class Gone(io.StringIO):
            def write(self, text: str) -> int:
                raise BrokenPipeError(errno.EPIPE, "Broken pipe")

        monkeypatch.setattr("dsprep.progress._LINE_EVERY", 0)
        monkeypatch.setattr("dsprep.progress._PATIENCE", 0)
        for kind in (LogProgress, BarProgress):
            dest = str(tmp_path / kind.__name__)
            dsprep.pack(str(photos), dest, format="webdataset", progress=kind(Gone()))
            assert dsprep.verify(dest, progress=kind(Gone())).problems == []


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (LogProgress, r"unpacking: ([0-9.]+ KB) of \1, [0-9.]+ [KM]B/s"),
        (BarProgress, r"unpacking +0% .* 0.00/[0-9.]+kB "),
    ],
)
def test_unpacking_counts_bytes(
    kind: type[LogProgress],
    line: str,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dsprep.progress._LINE_EVERY", 0)
    monkeypatch.setattr("dsprep.progress._PATIENCE", 0)
    archive, shown = tmp_path / "photos.tar.gz", io.StringIO()
    subprocess.run(["tar", "-czf", archive, "-C", photos, "."], check=True)
    dest = str(tmp_path / "out")
    dsprep.pack(str(archive), dest, format="webdataset", shuffle=True, progress=kind(shown))
    assert re.search(line, shown.getvalue())


@pytest.mark.parametrize("size", [(0, 0), (24, 0), (0, 60), (24, 60)])
def test_a_terminal_that_reports_no_size_gets_a_bar(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So do those of ``script`` and ``docker run -t``."""
    monkeypatch.setattr("dsprep.progress._PATIENCE", 0)
    own, other = os.openpty()
    termios.tcsetwinsize(other, size)
    with os.fdopen(other, "w") as stream:
        bar = BarProgress(stream)
        bar.begin("writing", 10, 100)
        bar.advance(5, 50)
        bar.end()
        shown = os.read(own, 65536).decode()
    os.close(own)
    assert "writing" in shown
    assert "/10" in shown


def test_a_sample_that_takes_long_is_no_silence(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first sample is done, nobody knows how long the others take."""
    monkeypatch.setattr("dsprep.progress._LINE_EVERY", 0)
    monkeypatch.setattr("dsprep.workers.pool._BEAT", 0.001)
    shown = io.StringIO()
    dsprep.pack(
        photos,
        tmp_path / "out",
        to="webdataset",
        transform=Transform(resize=8, encode="png"),
        progress=LogProgress(shown),
    )
    first = [line for line in shown.getvalue().splitlines() if ": 0 of " in line]
    assert {line.partition(":")[0] for line in first} >= {"estimating sizes", "writing"}
    assert not any("left" in line for line in first)


def test_estimating_sizes_is_shown(photos: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []

    class Told(Progress):
        def begin(self, task: str, samples: int, size: int) -> None:
            self.task, self.samples, self.done = task, samples, 0

        def advance(self, samples: int, size: int) -> None:
            self.done += samples

        def end(self) -> None:
            told.append((self.task, self.samples, self.done))

    dsprep.pack(
        str(photos),
        str(tmp_path / "out"),
        format="recordio",
        transform=Transform(resize=8, encode="jpeg"),
        progress=Told(),
    )
    assert [task for task, _, _ in told] == ["estimating sizes", "writing"]
    assert all(samples == done > 0 for _, samples, done in told)


class Terminal:
    """A terminal of eighty columns that a command believes in, and what is to be seen on it."""

    def __init__(self, *command: object) -> None:
        self._own, other = os.openpty()
        termios.tcsetwinsize(other, (24, 80))
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *map(str, command)], stdin=other, stdout=other, stderr=other
        )
        os.close(other)
        self.printed = ""

    def read(self, until: str | None = None) -> None:
        """Read until something is printed, or else to the end."""
        while until is None or until not in self.printed:
            try:
                data = os.read(self._own, 65536)
            except OSError:  # nobody holds the other end any more
                break
            self.printed += data.decode()

    def press(self, key: bytes) -> None:
        os.write(self._own, key)

    def end(self) -> int:
        self.read()
        os.close(self._own)
        return self.process.wait(timeout=60)

    def screen(self) -> str:
        """What is left to be seen, line by line, without blanks at their ends."""
        lines, row, column = [""], 0, 0
        for part in re.findall(r"\x1b\[\d*[A-K]|[\r\n]|[^\r\n\x1b]+", self.printed):
            if part == "\r":
                column = 0
            elif part == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif part.endswith("A") and part.startswith("\x1b"):
                row -= int(part[2:-1] or 1)
            elif part.startswith("\x1b"):
                lines[row] = lines[row][:column]
            else:
                line = lines[row].ljust(column)
                lines[row] = line[:column] + part + line[column + len(part) :]
                column += len(part)
        return "\n".join(line.rstrip() for line in lines).strip()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many names of one image, so that a worker takes a second or more to encode it."""
    root = tmp_path_factory.mktemp("many") / "many"
    root.mkdir()
    picture = draw(0, (600, 450))
    (root / "0000.jpg").write_bytes(encode(picture, "JPEG"))
    seconds = min(timeit.repeat(lambda: encode(picture, "WEBP"), number=1, repeat=5))
    for number in range(1, math.ceil(1 / seconds)):
        (root / f"{number:04}.jpg").hardlink_to(root / "0000.jpg")
    return root


class TestATerminal:
    @pytest.fixture(autouse=True)
    def impatient(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let commands show a bar soon."""
        place = tmp_path / "site"
        place.mkdir()
        (place / "sitecustomize.py").write_text("import dsprep.progress as p\np._PATIENCE = 0.2\n")
        monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)

    SLOW = (*FORMAT, "--encode", "webp", "--samples-per-shard", "2", "-j1")

    def test_shows_a_bar_and_is_left_clean(self, command: Path, many: Path, tmp_path: Path) -> None:
        terminal = Terminal(command, "pack", many, tmp_path / "out", *self.SLOW)
        assert terminal.end() == 0
        assert "writing" in terminal.printed
        assert "%" in terminal.printed
        assert "samples/s" in terminal.printed
        assert "left" in terminal.printed
        screen = terminal.screen()
        assert screen.startswith(f"{tmp_path}/out: packed as webdataset"[:80])
        assert "writing" not in screen
        assert "%" not in screen

    def test_shows_none_if_one_wants_quiet(
        self, command: Path, photos: Path, tmp_path: Path
    ) -> None:
        terminal = Terminal(command, "pack", photos, tmp_path / "out", *FORMAT, "-q")
        assert terminal.end() == 0
        assert terminal.printed == ""
        with open(os.openpty()[1], "w") as screen:
            kinds = [type(progress_for(screen, quiet)) for quiet in (True, False)]
        assert kinds == [Progress, BarProgress]

    def test_on_which_somebody_presses_ctrl_c_is_left_clean(
        self, command: Path, many: Path, tmp_path: Path
    ) -> None:
        terminal = Terminal(command, "pack", many, tmp_path / "out", *self.SLOW)
        terminal.read(until="writing")
        terminal.press(b"\x03")
        assert terminal.end() == 130
        screen = terminal.screen().replace("^C", "").strip()
        assert screen.startswith("dsprep: interrupted")
        assert "Traceback" not in screen

    @pytest.mark.parametrize(("hangup", "code"), [("default", -signal.SIGHUP), ("ignore", 0)])
    def test_that_goes_away_ends_the_run_and_its_workers(
        self, command: Path, many: Path, tmp_path: Path, hangup: str, code: int
    ) -> None:
        words = ("env", f"--{hangup}-signal=HUP", command, "pack", many, tmp_path / "out")
        terminal = Terminal(*words, *self.SLOW)
        terminal.read(until="writing")
        os.close(terminal._own)
        assert terminal.process.wait(timeout=60) == code
        for _ in range(600):
            alive = subprocess.run(
                ["pgrep", "-s", str(terminal.process.pid)], capture_output=True, check=False
            )
            if alive.returncode:
                return
            time.sleep(0.1)
        raise AssertionError("workers that nobody is waiting for")
