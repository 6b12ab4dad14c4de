"""Which part of a run a process does, as ``--part`` or a scheduler's environment says."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from dsprep.errors import OptionError
from dsprep.storage.local import read_whole
from dsprep.tuples import NamedTuple

T = TypeVar("T")

# Documentation of AWS Batch, "Array jobs"; Kubernetes, "Indexed Job"; Slurm, "Job Array Support";
# SageMaker, "How Amazon SageMaker Processing runs your container".
_SLURM = "SLURM_ARRAY_TASK_"
_CONFIG = "config/resourceconfig.json"
_SAGEMAKER = Path("/opt/ml") / _CONFIG, Path("/opt/ml/input") / _CONFIG  # processing, training


class Part(NamedTuple):
    """One of the parts of a run, each of which writes some of the shards."""

    number: int  # from 0
    of: int  # how many parts there are
    told_by: str = ""  # what tells the number, if it was not given

    @property
    def name(self) -> str:
        return f"part-{self.number}"

    def __str__(self) -> str:
        return f"part {self.number}/{self.of}"

    def share(self, units: Sequence[T]) -> Sequence[T]:
        """Return those of all units of the run that this part writes."""
        return units[self.number :: self.of]


def parse_part(text: str) -> Part:
    """Return the part that ``3/8``, ``auto`` or ``auto/8`` means; raises `OptionError`."""
    auto = re.fullmatch(r"auto(?:/(\d{1,6}))?", text)
    if auto is not None:
        part = _from_environment(text, int(auto[1]) if auto[1] else None)
    elif (found := re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)) is not None:
        part = Part(int(found[1]), int(found[2]))
    else:
        raise OptionError(f"--part {text}: give a number of a part and how many there are, as 0/8")
    if part.of < 1:
        raise OptionError(f"--part {text}: there is at least one part")
    if not 0 <= part.number < part.of:
        raise OptionError(
            f"--part {text}: parts count from 0, so the last of {part.of} is "
            f"{part.of - 1}/{part.of}"
        )
    return part


def _from_environment(text: str, count: int | None) -> Part:
    known = os.environ

    def part(variable: str, number: str, of: str | None) -> Part:
        if count is None and of is None:
            raise OptionError(
                f"--part {text}: {variable} does not tell how many parts there are: give "
                "--part auto/N"
            )
        try:
            return Part(int(number), int(of or "") if count is None else count, variable)
        except ValueError:
            raise OptionError(f"--part {text}: {variable} is {number!r}, not a number") from None

    if (index := known.get("AWS_BATCH_JOB_ARRAY_INDEX")) is not None:
        return part("AWS_BATCH_JOB_ARRAY_INDEX", index, known.get("AWS_BATCH_JOB_ARRAY_SIZE"))
    if (index := known.get("JOB_COMPLETION_INDEX")) is not None:
        return part("JOB_COMPLETION_INDEX", index, None)
    if (index := known.get(f"{_SLURM}ID")) is not None:
        return _slurm(text) if count is None else part(f"{_SLURM}ID", index, None)
    for path in filter(Path.is_file, _SAGEMAKER):
        try:
            config = json.loads(read_whole(path))
            hosts = sorted(config["hosts"])
            return part(str(path), str(hosts.index(config["current_host"])), str(len(hosts)))
        except (OSError, ValueError, LookupError, TypeError):
            raise OptionError(f"--part {text}: {path} does not tell the hosts") from None
    raise OptionError(
        f"--part {text}: the environment is not that of an array job of Slurm, AWS Batch or "
        "Kubernetes, or of a SageMaker job: give --part 0/8"
    )


def _slurm(text: str) -> Part:
    """Return the part of a task of a Slurm array, whose numbers may begin and step anyhow."""
    names = ("ID", "MIN", "MAX", "STEP", "COUNT")
    with suppress(KeyError, ValueError, ZeroDivisionError):
        task, least, most, step, tasks = (int(os.environ[f"{_SLURM}{name}"]) for name in names)
        if (most - least) // step + 1 == tasks:
            return Part((task - least) // step, tasks, f"{_SLURM}ID")
    raise OptionError(
        f"--part {text}: this Slurm array does not tell how many parts there are: number its tasks "
        "from 0 to N-1 and give --part auto/N"
    )
