"""Who may import whom: the layers, the third-party packages, and what a start must not load."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

import dsprep
from dsprep.formats import SHARDED
from dsprep.sources.kinds import KINDS
from dsprep.sources.pictures.images_kind import ImagesKind
from tests.images import image_folder
from tests.sources.contract import all_made

PACKAGE = Path(__file__).parents[2] / "dsprep"

# Lowest first. A room imports itself and the rooms of lower layers, never another of its own layer.
# A room is a module of dsprep, or a package with all its modules; dsprep itself is `__init__`.
LAYERS = [
    "frozen opening patterns printable tuples",
    "errors",
    "extras units",
    "arguments findings numbering options progress sample",
    "annotations images storage workers",
    "schema",
    "moving rows",
    "formats",
    "declared pages",
    "catalog csv_parsers text",
    "dataset",
    "lists",
    "places",
    "sources",
    "pipeline",
    "plan",
    "splits",
    "run",
    "syncing verifying",
    "benching editing inspecting splitting training",
    "__init__",
    "cli",
    "__main__ testing",
]
LAYER_OF = {name: i for i, names in enumerate(LAYERS) for name in names.split()}

# The only places of packages that are slow to load, or not always there.
ALLOWED_IN = {
    "click": ["cli", "cli.*"],
    "tqdm": ["cli.*", "progress"],
    "boto3": [],
    "botocore": ["storage.s3.client"],
    "mxnet": ["verifying.loaders"],
    "tensorflow": ["verifying.loaders"],
    "streaming": ["verifying.loaders"],
    "webdataset": ["verifying.loaders"],
    "zstandard": ["formats.stream"],
    "numpy": ["images.phash", "sources.tables.hdf5", "verifying.loaders"],
    "h5py": ["sources.hdf5_file"],
    "cv2": ["images.bilinear"],
    "simplejpeg": ["images.bilinear"],
    "pyarrow": ["formats.arrow"],
    "ray": ["workers.ray"],
    "jinja2": ["pages.page"],
    "markupsafe": ["pages.page"],
    "yaml": ["annotations.yolo"],
}

SLOW = {"polars", "PIL", *ALLOWED_IN}

# What pyproject.toml promises to install, by the name that is imported.
DEPENDENCIES = {
    "boto3",
    "botocore",
    "click",
    "google_crc32c",
    "jinja2",
    "markupsafe",
    "PIL",
    "polars",
    "tqdm",
    "yaml",
}
EXTRAS = {
    "cv2",
    "h5py",
    "mxnet",
    "numpy",
    "pyarrow",
    "ray",
    "simplejpeg",
    "streaming",
    "tensorflow",
    "webdataset",
    "zstandard",
}


class Import(NamedTuple):
    """One import statement of dsprep: at module level, or deferred into a function."""

    module: str  # "formats.tfrecord": without the leading "dsprep."; dsprep itself is "__init__"
    line: int
    target: str  # "dsprep.units", "polars.datatypes"
    deferred: bool
    typing: bool  # under `if TYPE_CHECKING`: seen by the type checker, never executed

    def __str__(self) -> str:
        return f"dsprep.{self.module}, line {self.line}, imports {self.target}"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    assert not node.level, "write imports in full: from dsprep.units import …"
    base = node.module or ""
    for alias in node.names:
        # `from dsprep.formats import tfrecord` imports a module, `… import Format` the package.
        inner = f"{base}.{alias.name}"
        yield inner if inner.removeprefix("dsprep.") in MODULES else base


def imports_of(module: str) -> Iterator[Import]:
    def visit(node: ast.AST, deferred: bool, typing: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for target in targets(node):
                yield Import(module, node.lineno, target, deferred, typing)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            deferred = True
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            typing = True
        for child in ast.iter_child_nodes(node):
            yield from visit(child, deferred, typing)

    yield from visit(ast.parse(MODULES[module].read_text("utf-8")), False, False)


@cache
def imports() -> list[Import]:
    """Return all imports of dsprep."""
    return [found for module in MODULES for found in imports_of(module)]


def layer(module: str) -> int:
    return LAYER_OF.get(module.partition(".")[0], 0)


def inside(found: Import) -> str | None:
    """Return the module of dsprep that an import is of, if it is."""
    if found.target == "dsprep":
        return "__init__"
    return found.target.removeprefix("dsprep.") if found.target.startswith("dsprep.") else None


def circles() -> list[str]:
    """List the sets of modules that import each other, directly or not.

    Imports in functions and imports for type checkers count.
    """
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in imports():
        target = inside(found)
        if target and target in graph and target != found.module:
            graph[found.module].add(target)
    return [f"{len(circle)}: {', '.join(sorted(circle))}" for circle in strongly_connected(graph)]


def strongly_connected(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of two or more nodes that reach each other, the largest first."""
    reached = {node: reachable(graph, node) for node in graph}
    found: list[set[str]] = []
    for node in graph:
        circle = {other for other in reached[node] if node in reached[other]} | {node}
        if len(circle) > 1 and circle not in found:
            found.append(circle)
    return sorted(found, key=len, reverse=True)


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return all nodes that a node leads to."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for following in graph[waiting.pop()] - seen:
            seen.add(following)
            waiting.append(following)
    return seen


def matches(module: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(module, pattern) for pattern in patterns)


# Loaded by each Python of a run: a worker notes what it imports, also by `import_module`, which
# raises no event of auditing.
_NOTE = """
import os, sys

class Note:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("dsprep."):
            with open(os.environ["DSPREP_IMPORTED"], "a") as file:
                file.write(name + "\\n")

if sys.argv[:1] == ["-c"]:
    sys.meta_path.insert(0, Note)
"""


def imported_by_workers(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return what workers import while they read each kind of source, and write each format."""
    work = tmp_path_factory.mktemp("workers")
    (work / "hooks").mkdir()
    (work / "hooks" / "sitecustomize.py").write_text(_NOTE)
    import_module("tests.sources.test_kinds")  # has a source of each kind
    made = all_made(tmp_path_factory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(work / "hooks"), str(PACKAGE.parent)]))
        patch.setenv("DSPREP_IMPORTED", str(work / "imported"))
        for number, each in enumerate(made.values()):
            options = {"to": "tfrecord", "no_image": True, "workers": 1, **each.options}
            dsprep.pack(str(each.path), str(work / f"{number}"), **options)
        images = str(next(each.path for test, each in made.items() if test.kind is ImagesKind))
        for name in {*SHARDED, "folder"} - {"csv"}:  # which hold images without boxes
            transform = dsprep.Transform(resize=8)
            dsprep.convert(images, str(work / name), to=name, workers=1, transform=transform)
        dsprep.verify(str(work / "webdataset"), decode=True, workers=1)
        dsprep.inspect(images, workers=1)
        dsprep.dedup(images, workers=1)
    imported = (work / "imported").read_text().split()
    return {name.removeprefix("dsprep.") for name in imported} & MODULES.keys()


# What a folder of images needs nothing of: kinds of sources and annotations load what reads them
# when they claim a source, and formats when a name or an option asks for them.
NOT_FOR_A_FOLDER = [
    *("benching*", "editing*", "inspecting*", "pages*", "splitting*", "syncing*", "training*"),
    *("dataset.joined", "lists.[cdefm]*", "places.match", "plan.saved", "plan.select"),
    *("plan.tables", "plan.values", "run.join*", "run.preview", "run.stream", "storage.s3.*"),
    *("formats.a[nr]*", "formats.csv*", "formats.litdata*", "formats.mds*", "formats.offset_table"),
    *("formats.p*", "formats.recordio*", "formats.tfrecord*"),
    *("sources.annotated.annotated", "sources.annotated.boxes", "sources.annotated.mask_*s"),
    *("sources.labels.arrange", "sources.labels.c[eh]*", "sources.labels.table"),
    *("sources.pictures.parts", "sources.pictures.pixels", "sources.shards.shards"),
    *("sources.tables.arrays", "sources.tables.csv_rows", "sources.tables.parquet"),
    *("sources.tables.stack_*", "sources.tables.stacks", "sources.tables.tabular"),
]


def loaded_by(code: str) -> set[str]:
    """Run Python code in a process of its own; return the slow packages that it loaded."""
    report = f"import sys; print(*set({sorted(SLOW)!r}).intersection(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_a_layer(module: str) -> None:
    assert module.partition(".")[0] in LAYER_OF, f"give dsprep.{module} a place in LAYERS"


@pytest.mark.parametrize("names", LAYERS)
def test_the_docs_tell_the_layers(names: str) -> None:
    assert f"| `{names}` |" in (PACKAGE.parent / "docs" / "architecture.md").read_text("utf-8")


def test_imports_go_down() -> None:
    found = {
        (found.module.partition(".")[0], target.partition(".")[0])
        for found in imports()
        if (target := inside(found)) and layer(target) >= layer(found.module)
    }
    assert {pair for pair in found if pair[0] != pair[1]} == set()


def test_packages_of_kinds_do_not_import_each_other() -> None:
    """All of them may use `labels`, and the modules beside the packages."""
    kinds = {place.partition(".")[0] for place in KINDS.values()}
    packages = {*kinds, "labels"}
    found = [
        str(found)
        for found in imports()
        if found.module.startswith("sources.")
        and (target := inside(found))
        and target.startswith("sources.")
        and (own := found.module.split(".")[1]) in packages
        and target.split(".")[1] in kinds - {own}
    ]
    assert len(kinds) >= 4
    assert not found


def test_only_formats_ask_which_format_it_is() -> None:
    from dsprep.formats import FORMATS

    names = {each.__name__ for each in FORMATS.values()}
    strays = [
        f"dsprep.{module}, line {node.lineno}"
        for module, path in MODULES.items()
        if module.partition(".")[0] != "formats"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
        if names.intersection(ast.unparse(node.args[1]).replace("|", " ").split())
    ]
    assert not strays


def test_imports_make_no_circle() -> None:
    found = circles()
    assert not found, "\n".join(["modules import each other, directly or not:", *found])


@pytest.mark.parametrize("package", ALLOWED_IN)
def test_package_stays_in_its_place(package: str) -> None:
    strays = [
        str(found)
        for found in imports()
        if found.target.partition(".")[0] == package
        and not found.typing
        and not matches(found.module, ALLOWED_IN[package])
    ]
    assert not strays


def test_packages_are_dependencies() -> None:
    known = DEPENDENCIES | EXTRAS | {"dsprep", "_typeshed"} | sys.stdlib_module_names
    assert {
        top for found in imports() if (top := found.target.partition(".")[0]) not in known
    } == set()


def test_workers_load_nothing_slow(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A worker starts in tens of milliseconds, and polars does not survive a fork."""
    in_worker = imported_by_workers(tmp_path_factory)
    eager = [
        str(found)
        for found in imports()
        if found.module in in_worker
        and found.target.partition(".")[0] in SLOW
        and not found.deferred
        and not found.typing
    ]
    assert not eager
    wanted = {"run.shard", "pipeline", "sources.tables.csv_rows", "formats.recordio"}
    assert not wanted - in_worker, sorted(in_worker)
    assert loaded_by(f"import {', '.join(f'dsprep.{name}' for name in in_worker)}") == set()


def test_polars_is_loaded_while_workers_list_the_source() -> None:
    assert "polars" not in loaded_by("import dsprep.run.augment, dsprep.run.write")


def loaded_by_command(work: Path, *command: str) -> set[str]:
    """Run a command in a process of its own; return the modules of dsprep that it loaded."""
    code = f"""
import sys
from dsprep.cli.main import main
sys.argv = ["dsprep", *{command!r}, "--quiet", "-j", "1"]
try:
    main()
finally:
    print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=work, capture_output=True, text=True, check=True
    )
    return {name.removeprefix("dsprep.") for name in done.stdout.split()} & MODULES.keys()


def test_pack_of_a_folder_loads_little(tmp_path: Path) -> None:
    image_folder(tmp_path / "in")
    modules = loaded_by_command(tmp_path, "pack", "in", "out", "--to", "webdataset")
    assert "formats.webdataset" in modules
    assert not [name for name in modules if matches(name, NOT_FOR_A_FOLDER)]


def test_shard_loads_no_kinds_of_annotations(tmp_path: Path) -> None:
    image_folder(tmp_path / "in")
    dsprep.pack(str(tmp_path / "in"), str(tmp_path / "shards"), to="webdataset", workers=1)
    modules = loaded_by_command(tmp_path, "shard", "shards", "out", "--shards", "2")
    own = {"sources.annotated.annotated_kind", "sources.annotated.augmented_kind"}
    assert {name for name in modules if matches(name, ["sources.annotated.*_kind"])} == own


def test_a_worker_that_writes_shards_loads_little() -> None:
    code = """
import sys
import dsprep.formats.webdataset, dsprep.run.shard, dsprep.run.target, dsprep.sources.readers
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"hashlib", "random", "tempfile", "uuid"}.intersection(done.stdout.split())


def test_importing_dsprep_loads_nothing_slow() -> None:
    assert loaded_by("import dsprep") == set()


def test_help_loads_only_click() -> None:
    code = """
import sys
from dsprep.cli.main import main
sys.argv = ["dsprep", "--help"]
try:
    main()
except SystemExit as end:
    assert not end.code
"""
    assert loaded_by(code) == {"click"}
