"""Measure the structure of dsprep: hops, circles, questions about kinds, names used twice.

python -m scripts.house          prints each figure
python -m scripts.house -v       prints also the places that a figure counts

Each figure is the length of a list of places, which a function below makes; its docstring defines
what counts. All of them read the source as text, except the path of a sample, which a run shows.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from tests.house.test_architecture import untested
from tests.house.test_imports import MODULES, circles, imports, inside, layer
from tests.images import image_folder

REPOSITORY = Path(__file__).parents[1]

Places: TypeAlias = list[str]
N = TypeVar("N", bound=ast.AST)

# A source with a reader and a name for --from, and a kind of annotation: the text that means it,
# and the word that the names of its own files have.
KINDS = {
    "source": (r"parquet_rows|ParquetRows|read_parquet|\bparquet\.read", "parquet"),
    "annotation": (r"label[_-]studio|LabelStudio", "label_studio"),
}

# What one module does for all others, and the text that does it.
ONE_PLACE = {
    "number class names": (
        r"name in (reversed\(list\()?enumerate\((classes|names|label\.names)\)\)?\}"
        r"|replace_strict\(\s*(classes|order),|(classes|given)\.index\(name\)"
        r"|in enumerate\(ids\)\}|numbers\.setdefault\(name, number\)$"
    ),
    "read CSV": r"\bcsv\.(DictR|r)eader\(|\bpl\.(read|scan)_csv\(",
}

# Loaded by every Python of the run that is traced. It notes which functions of dsprep are active
# when the driver sends a shard to a worker, when the worker first reads an image, and when it first
# writes.
_TRACER = """
import json, os, sys, threading

def functions(frame):
    found = []
    while frame is not None:
        path, marker, rest = frame.f_code.co_filename.rpartition("/dsprep/")
        if marker and rest.endswith(".py"):
            name = frame.f_code.co_qualname
            if "<genexpr>" not in name and "<listcomp>" not in name and name != "<module>":
                found.append(rest[:-3].replace("/", ".") + ":" + name)
        frame = frame.f_back
    return found

def note(name, found):
    path = os.path.join(os.environ["DSPREP_HOPS"], name)
    if not os.path.exists(path):
        with open(path, "w") as file:
            json.dump(found, file)

def sends_shard(frame):
    while frame is not None:
        for value in frame.f_locals.values():
            if isinstance(value, tuple) and value[:1] == ("dsprep.run.shard",):
                return True
        frame = frame.f_back
    return False

def watch(frame, event, called):
    if event != "c_call" or called.__name__ not in READS + WRITES:
        return
    found = functions(frame)
    if not found:
        return
    sending = found[0].startswith("workers.")
    if sending and not is_worker and sends_shard(frame):
        note("driver", found)
    elif is_worker and not sending and "run.shard:write_shard" in found:
        note("reads" if called.__name__ in READS else "writes", found)

READS, WRITES = ("read", "readv", "pread", "preadv", "readinto"), ("write", "writev", "pwrite")
is_worker = sys.argv[:1] == ["-c"]
sys.setprofile(watch)
threading.setprofile(watch)
"""


def hops() -> Places:
    """List the functions between the command and a byte.

    The distinct functions of dsprep on the driver's stack when it sends a shard to a worker, and on
    the worker's stacks when it first reads an image and first writes, in
    `dsprep pack photos out --to webdataset -j 1`.
    """
    with tempfile.TemporaryDirectory(prefix="dsprep-house-") as directory:
        work = Path(directory)
        (work / "hooks").mkdir()
        (work / "hooks" / "sitecustomize.py").write_text(_TRACER)
        image_folder(work / "photos", ("cat", "dog"), 4)
        paths = os.pathsep.join([str(work / "hooks"), str(REPOSITORY)])
        subprocess.run(
            [sys.executable, "-m", "dsprep", "pack", "photos", "out", "--to", "webdataset", "-j1"],
            cwd=work,
            env={**os.environ, "PYTHONPATH": paths, "DSPREP_HOPS": str(work / "hooks")},
            check=True,
            capture_output=True,
        )
        stacks = (
            json.loads((work / "hooks" / name).read_text())
            for name in ("driver", "reads", "writes")
        )
        return list(dict.fromkeys(name for stack in stacks for name in reversed(stack)))


def upward() -> Places:
    """List the imports of a room of the same or a higher layer."""
    return [
        str(found)
        for found in imports()
        if (target := inside(found))
        and target.partition(".")[0] != found.module.partition(".")[0]
        and layer(target) >= layer(found.module)
    ]


def store_questions() -> Places:
    """List the calls of `is_s3` outside `storage`."""
    return calls("is_s3", outside="storage")


def reader_types() -> Places:
    """List the calls of isinstance on `reader` or something that ends in `.reader`."""
    return [
        place(module, node)
        for module, node in nodes(ast.Call)
        if ast.unparse(node.func) == "isinstance"
        and re.search(r"(^|\.)reader$", ast.unparse(node.args[0]))
    ]


def reader_questions() -> Places:
    """List the places that ask another object for `reads_samples` or `is_tree`."""
    return [
        place(module, node)
        for module, node in nodes(ast.Attribute)
        if node.attr in ("reads_samples", "is_tree") and isinstance(node.ctx, ast.Load)
        if ast.unparse(node.value) != "self"
    ]


def twice() -> Places:
    """List the names of classes that several modules define."""
    found = defaultdict(list)
    for module, node in nodes(ast.ClassDef):
        found[node.name].append(module)
    return [f"{name}: {', '.join(found[name])}" for name in sorted(found) if len(found[name]) > 1]


def touched_by_source() -> Places:
    """List the files that name Parquet as a source, besides its own."""
    return touched(*KINDS["source"])


def touched_by_annotation() -> Places:
    """List the files that name Label Studio, besides its own."""
    return touched(*KINDS["annotation"])


def touched(pattern: str, own: str) -> Places:
    """List the files of the repository that have a text, without those that a word names."""
    tracked = subprocess.run(
        ["git", "ls-files", "dsprep", "tests", "CONTRIBUTING.md"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    found = []
    for name in tracked:
        path = REPOSITORY / name
        if own in path.stem or path.suffix not in (".py", ".md") or not path.is_file():
            continue
        if re.search(pattern, path.read_text("utf-8")):
            found.append(name)
    return found


def modules_with(pattern: str) -> Places:
    """List the modules whose text has a match."""
    return [
        module
        for module, path in MODULES.items()
        if re.search(pattern, path.read_text("utf-8"), re.MULTILINE)
    ]


def long_functions() -> Places:
    """List the functions with more than ten decisions.

    Decisions are `if`, `for`, `while`, `except`, conditional expressions, filters of
    comprehensions, and each further operand of `and` and `or`.
    """
    found = []
    for module, node in nodes(ast.FunctionDef):
        if (count := decisions(node)) > 10:
            found.append((count, f"{count}: {place(module, node)} {node.name}"))
    return [line for _, line in sorted(found, reverse=True)]


def decisions(function: ast.AST) -> int:
    """Count the decisions of a function, without those of the functions inside it."""
    count = 0
    for node in own_nodes(function):
        if isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += len(node.ifs)
        elif isinstance(node, ast.If | ast.For | ast.While | ast.ExceptHandler | ast.IfExp):
            count += 1
    return count


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of the functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from own_nodes(child)


def lines() -> Places:
    """List the lines of all modules."""
    return [line for path in MODULES.values() for line in path.read_text("utf-8").splitlines()]


@cache
def trees() -> dict[str, ast.Module]:
    """Parse each module."""
    return {module: ast.parse(path.read_text("utf-8")) for module, path in MODULES.items()}


def nodes(kind: type[N]) -> Iterator[tuple[str, N]]:
    """Yield each node of a kind, with the module that it is in."""
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, kind):
                yield module, node


def calls(name: str, outside: str) -> Places:
    """List the calls of a function outside a room."""
    return [
        place(module, node)
        for module, node in nodes(ast.Call)
        if ast.unparse(node.func) == name and module.partition(".")[0] != outside
    ]


def place(module: str, node: ast.AST) -> str:
    """Return where a node is, as people write it."""
    return f"{MODULES[module].relative_to(REPOSITORY)}:{getattr(node, 'lineno', 0)}"


FIGURES: dict[str, Callable[[], Places]] = {
    "functions between `pack` and a byte": hops,
    "circles of imports, typing imports included": circles,
    "imports of a higher layer, typing imports included": upward,
    "files that name one kind of source (Parquet)": touched_by_source,
    "files that name one kind of annotation (Label Studio)": touched_by_annotation,
    "calls of `is_s3` outside storage": store_questions,
    "isinstance of a reader": reader_types,
    "questions `reads_samples` and `is_tree`": reader_questions,
    "class names that several classes share": twice,
    **{
        f"modules that {what}": partial(modules_with, pattern)
        for what, pattern in ONE_PLACE.items()
    },
    "functions with more than ten decisions": long_functions,
    "modules that no test of their name, and none that the page names, proves": untested,
    "lines in dsprep/": lines,
}


def main() -> None:
    """Print each figure."""
    parser = argparse.ArgumentParser(description="Measure the structure of dsprep.")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the counted places")
    given = parser.parse_args()
    for title, figure in FIGURES.items():
        found = figure()
        print(f"{len(found):>7,}  {title}")
        if given.verbose and figure is not lines:
            print("".join(f"         {each}\n" for each in found), end="")


if __name__ == "__main__":
    main()
