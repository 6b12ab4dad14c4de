"""Sets by GNU tar 1.34 in a shell, and a folder of classes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.foreign.make.pictures import CLASSES, jpeg, place, seen, truth

COUNT = 8
CLASS = {"image": "image", "label": "class"}
OWNER = "--owner=me:1000 --group=me:1000 --mtime=@0 --sort=name"
"""What would tell of the machine."""


def shell(command: str, where: Path) -> None:
    subprocess.run(["sh", "-c", command], cwd=where, check=True)


def files(where: Path) -> None:
    for seed in range(COUNT):
        (where / f"{seed:03d}.jpg").write_bytes(jpeg(seed))
        shell(f"echo {seed % 3} > {seed:03d}.cls", where)


def samples() -> list[dict[str, object]]:
    return [
        {"key": f"{seed:03d}", "image": seen(jpeg(seed)), "label": seed % 3}
        for seed in range(COUNT)
    ]


def main() -> None:
    tool = subprocess.run(["tar", "--version"], capture_output=True, text=True, check=True)
    version = tool.stdout.splitlines()[0]

    with TemporaryDirectory() as scratch:
        where = Path(scratch)
        files(where)
        dest = place("tar-apart")
        shell(f"tar cf {dest}/x.tar {OWNER} *.jpg *.cls", where)
        truth(dest.name, version, samples(), CLASS)

        for path in sorted(where.glob("*.jpg")):  # what macOS's tar adds
            (where / f"._{path.name}").write_bytes(
                b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(64)
            )
        dest = place("tar-dot")
        shell(f"tar cf {dest}/x.tar {OWNER} .", where)
        truth(dest.name, version, samples(), CLASS)

    dest = place("class-folder")
    found = []
    for seed in range(COUNT):
        path = dest / CLASSES[seed % 3] / f"n{seed % 3:08d}_{seed}.JPEG"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(jpeg(seed))
        key = path.relative_to(dest).with_suffix("").as_posix()
        found.append({"key": key, "image": seen(jpeg(seed)), "label": seed % 3})
    found.sort(key=lambda each: str(each["key"]))
    truth(dest.name, "mkdir and cp", found, CLASS, {"label": list(CLASSES)})


if __name__ == "__main__":
    main()
