"""What the figures were measured on: no names of hosts, no paths."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from .s3.clients import AWS, RCLONE, S5CMD

_NUMBERS = re.compile(r"[0-9]+(\.[0-9]+)+")
_PACKAGES = (
    "dsprep",
    "pillow",
    "polars",
    "webdataset",
    "tensorflow-cpu",
    "mxnet",
    "opencv-python-headless",
    "simplejpeg",
    "numpy",
    "pandas",
)


def describe(places: Mapping[str, Path]) -> dict[str, str]:
    """Describe the machine and the software, for a reader.

    Args:
        places: A directory on each file system that is written to, by what it is called.
    """
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{_total_memory() / 2**30:.0f} GiB",
        "file systems": ", ".join(
            f"{_file_system(path)} ({place})" for place, path in places.items()
        ),
        "system": f"Linux {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
        "GNU tar": _tar_version(),
        **{name: _version(name) for name in _PACKAGES},
        **_versions_of_clients(),
    }


def commit() -> str:
    """The version of dsprep, by its repository."""
    command = ("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty")
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _total_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _file_system(path: Path) -> str:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    above = {mount[1]: mount[2] for mount in mounts if path.resolve().is_relative_to(mount[1])}
    return above[max(above, key=len)]


def _tar_version() -> str:
    said = subprocess.run(("tar", "--version"), capture_output=True, text=True, check=True).stdout
    return said.splitlines()[0].rpartition(" ")[2]


def _versions_of_clients() -> dict[str, str]:
    """Of what programs of S3 are installed; Ceph's is that of its server."""
    programs = {
        "Ceph": ("radosgw", "--version"),
        "awscli": (AWS, "--version"),
        "s5cmd": (S5CMD, "version"),
        "rclone": (RCLONE, "version"),
    }
    found = {}
    for name, command in programs.items():
        if shutil.which(command[0]):
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            version = _NUMBERS.search(said)
            found[name] = version[0] if version else "unknown"
    return found


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
