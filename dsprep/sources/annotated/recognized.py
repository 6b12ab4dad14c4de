"""Which annotations a source has: those that a user names, or that lie in a folder or around it.

A folder of images with annotations must not become classes of its directories without a word. What
the listing of its images shows anyway decides, and at most two directories above are listed.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from dsprep.errors import OptionError, SourceError
from dsprep.options import require_effect
from dsprep.places.names import SPLITS
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.sources.annotated.annotated import Scan
from dsprep.sources.annotated.annotation_files import kind_of_file, kind_of_name
from dsprep.storage.files import entries, exists, full_path, is_dir, open_file

if TYPE_CHECKING:
    from dsprep.places.files import Files
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

_WORDS = {"coco": "COCO", "csv": "tables", "voc": "Pascal VOC", "yolo": "YOLO"}
_WORDS |= {"label-studio": "Label Studio", "lst": "MXNet", "manifest": "Ground Truth"}
_CONFIGS = ("data.yaml", "data.yml", "dataset.yaml")
_ROBOFLOW = "_annotations.coco.json"
_COCO = re.compile(
    r"(?:^|/)(?:_annotations\.coco|(?:instances|person_keypoints)(?:_[^/]*)?)\.json$", re.IGNORECASE
)
_XML = re.compile(r"(?:^|/)Annotations/[^/]+\.xml$", re.IGNORECASE)
_LABEL = re.compile(r"(?:^|/)labels/(?:.*/)?[^/]+\.txt$")
_TABLE = re.compile(r"\.[ct]sv$", re.IGNORECASE)
_OBJECTS = ("instances", "person_keypoints")
_PREFIX = re.compile(r"^(?:instances|person_keypoints|annotations?|coco)[-_]", re.IGNORECASE)
_ROW = re.compile(rb"\s*\d+(?:\.0*)?(?:[ \t]+-?\d[\d.eE+-]*){4,}[ \t]*(?:\r?\n|$)")
_SIDE = re.compile(rf"(?:{'|'.join(SPLITS)})\d*", re.IGNORECASE)
_IMAGES = frozenset({"images", "jpegimages", "segmentationclass", "segmentationobject"})
_LOOKED_AT = 1000  # names in a directory
_HEAD = 4096  # bytes of a file that show what it is
_MOST_LOOKED_AT = 1 << 26  # bytes of a file in an archive, which is read whole
_TEXTS = {"coco": _COCO, "voc": re.compile(r"(?i)\.(?:xml|txt)$")}
_TEXTS["yolo"] = re.compile(r"(?i)\.(?:txt|ya?ml|names|labels)$")


def named_scan(source: Source, files: Files, run_all: RunAll) -> Scan:
    """Scan the annotations that a user names."""
    inside = _inside(source, files)
    for path in source.annotations:
        if path not in inside and not exists(path):
            where = f", neither on the disk nor in {source.root}" if files.archive else ""
            raise SourceError(f"{path}: does not exist{where}")
    kinds = {source.annotation_format or _kind_of(path, inside) for path in source.annotations}
    if len(kinds) > 1:
        names = " and ".join(sorted(_WORDS[kind] for kind in kinds))
        raise OptionError(f"--annotations: are of {names}: give those of one of them")
    (kind,) = kinds
    require_effect("", source.given, annotations=_WORDS[kind])
    if kind == "coco":
        if inside:
            if others := [path for path in source.annotations if path not in inside]:
                raise OptionError(
                    f"--annotations {others[0]}: lies on the disk, and others in {source.root}: "
                    "give those of one place"
                )
            files = files._replace(texts=files.contents([*inside.values()]))
            named = [posixpath.join(source.root, path) for path in inside.values()]
        else:
            named = [found for path in source.annotations for found in _json_files(path)]
        return _scan_coco(source, files, named)
    first, *others = source.annotations
    if inside and kind != "csv":
        raise SourceError(
            f"--annotations {first}: those of {_WORDS[kind]} cannot be named in an archive: leave "
            f"this out if {source.root} has a whole set, or unpack it"
        )
    if others:
        raise OptionError(f"--annotations {others[0]}: give one path for {_WORDS[kind]}")
    if kind in ("csv", "lst"):
        from dsprep.sources.annotated.boxes import scan_boxes, scan_lst

        is_table = kind == "csv"
        return scan_boxes(source, first, files.archive) if is_table else scan_lst(source, first)
    if kind == "label-studio":
        from dsprep.sources.annotated.label_studio import scan_label_studio

        return scan_label_studio(source, first)
    if kind == "manifest":
        from dsprep.sources.annotated.ground_truth import scan_manifest

        return scan_manifest(source, first, run_all)
    if kind == "voc":
        from dsprep.sources.annotated.voc import scan_voc

        return scan_voc(source, files, first if is_dir(first) else os.path.dirname(first), run_all)
    from dsprep.sources.annotated.yolo import scan_yolo

    if is_dir(first):
        configs = (os.path.join(first, name) for name in _CONFIGS)
        config = next(filter(exists, configs), None)
        return scan_yolo(source, files, config, first, run_all)
    return scan_yolo(source, files, first, _labels_root(source.root, first), run_all)


def recognized_scan(source: Source, files: Files, run_all: RunAll) -> Scan | None:
    """Scan the annotations that a folder has; None if it has none. Refuse what is not plain."""
    root = source.root
    others = _others(files)
    signs = _signs(root, files, others)
    if len(signs) > 1:
        said = " and of ".join(f"{_WORDS[kind]} ({path})" for kind, path in sorted(signs.items()))
        raise SourceError(
            f"{root}: has annotations of {said}: name those to take with --annotations PATH, or "
            "give --from images to pack the images alone"
        )
    if signs:
        (kind,) = signs
        try:
            return _scan(source, files, kind, others, run_all)
        except SourceError as error:
            raise SourceError(
                *error.args,
                f"{signs[kind]} shows annotations of {_WORDS[kind]}; --from images packs the "
                "images without them",
            ) from None
    if source.masks is None:
        _require_no_table(root, files, others)
        _require_alone(root, files)
    return None


def below_top(source: Source, files: Files) -> tuple[Source, Files]:
    """Return the one directory of an archive and its files, unless annotations lie beside it."""
    from dsprep.sources.annotated.yolo import NAME_LISTS

    if not files.top:
        return source, files
    outside = [path for path in _others(files) if not path.startswith(f"{files.top}/")]
    ends = tuple(f"/{_within(source, path)}" for path in source.annotations)
    kinds = _COCO, _XML, _LABEL, _TABLE
    if any(
        path in (*_CONFIGS, *NAME_LISTS)
        or f"/{path}".endswith(ends)
        or any(kind.search(path) for kind in kinds)
        for path in outside
    ):
        return source, files
    return source.replace(root=f"{source.root.rstrip('/')}/{files.top}"), files.below_top()


def _within(source: Source, path: str) -> str:
    """Return what a user calls a path in an archive, with or without that of the archive."""
    return posixpath.normpath(path).removeprefix(f"{source.root.rstrip('/')}/")


def _inside(source: Source, files: Files) -> dict[str, str]:
    """Return the paths of annotations in an archive, by what the user calls them."""
    if files.archive is None:
        return {}
    named = [path for path in source.annotations if not exists(path)]
    found: dict[str, str] = {}
    for path in named:
        wanted = _within(source, path)
        own = [each for each in sorted(_others(files)) if f"/{each}".endswith(f"/{wanted}")]
        if len(own) > 1 and wanted not in own:
            raise SourceError(f"{path}: may be {' or '.join(own[:2])} of {source.root}")
        found |= {path: wanted if wanted in own else own[0]} if own else {}
    return found


def _require_no_table(root: str, files: Files, others: Collection[str]) -> None:
    """Refuse images beside a table of boxes or of runs, as their directories are no classes."""
    from dsprep.sources.annotated.boxes import holds_boxes

    for name in sorted(name for name in others if _TABLE.search(name)):
        if name.count("/") > 1:
            continue
        head = _head(root, files, name).decode("utf-8-sig", "replace").partition("\n")[0]
        path = name if files.archive else os.path.join(root, name)
        if holds_boxes(cell.strip().strip('"') for cell in re.split(r"[,;\t]", head)):
            raise SourceError(
                f"{root}: has a table of boxes or masks, {name}: give --annotations {path}, or "
                "--from images to pack the images alone"
            )


def _scan(
    source: Source, files: Files, kind: str, others: Collection[str], run_all: RunAll
) -> Scan:
    """Scan the annotations of a kind that a folder has."""
    require_effect("", source.given, annotations=_WORDS[kind])
    root = source.root
    if files.archive is not None:
        wanted = [path for path in others if _TEXTS[kind].search(path)]
        files = files._replace(texts=files.contents(wanted))
    if kind == "coco":
        named = sorted(os.path.join(root, path) for path in others if _COCO.search(path))
        _require_one_kind(root, named)
        return _scan_coco(source, files, named)
    if kind == "voc":
        from dsprep.sources.annotated.voc import scan_voc

        return scan_voc(source, files, root, run_all)
    from dsprep.sources.annotated.yolo import scan_yolo

    own = [os.path.join(root, name) for name in _CONFIGS if name in others]
    if files.archive is not None:
        return scan_yolo(source, files, own[0] if own else None, root, run_all)
    above = os.path.dirname(full_path(root))
    own += [path for name in _CONFIGS if exists(path := os.path.join(above, name))]
    return scan_yolo(source, files, own[0] if own else None, root, run_all)


def _require_one_kind(root: str, named: Sequence[str]) -> None:
    """Refuse COCO's own annotations, which have the persons of an image in two files."""
    parts = {kind: [p for p in named if f"{kind}_" in posixpath.basename(p)] for kind in _OBJECTS}
    if all(parts.values()):
        given = (" ".join(f"--annotations {path}" for path in paths) for paths in parts.values())
        raise SourceError(
            f"{root}: has files of instances and of person_keypoints for the same images: give "
            f"those to take: {', or '.join(given)}"
        )


def _others(files: Files) -> frozenset[str]:
    """Return the files of a listing that are not images."""
    found = [each for each in files.findings if each.kind == "not-an-image"]
    if files.others is None:
        return frozenset(each.path for each in found)
    named = {each.path for each in found if each.detail}  # those that cannot be read
    hidden = {found.path for found in files.findings if found.kind == "hidden"}
    tops = tuple(path for path in hidden if path.endswith("/"))
    own = (path for path in files.others["path"].to_list() if not path.startswith(tops))
    return frozenset(named.union(own).difference(hidden))


def _signs(root: str, files: Files, others: Collection[str]) -> Mapping[str, str]:
    """Return the kinds of annotations that a listing shows, each with a file that shows it."""
    found: dict[str, str] = {}
    beside: dict[str, str] = {}  # files that may be annotations of an image of the same name
    for path in sorted(others):
        if path.endswith((".json", ".JSON")) and _COCO.search(path):
            found.setdefault("coco", path)
        elif path in _CONFIGS or _LABEL.search(path):
            found.setdefault("yolo", path)
        elif path.endswith((".xml", ".txt")):
            if _XML.search(path):
                found.setdefault("voc", path)
            beside[path] = path[-3:]
    for kind, extension in (("voc", "xml"), ("yolo", "txt")):
        if kind in found:
            continue
        own = [path for path, other in beside.items() if other == extension][:_LOOKED_AT]
        endings = [*IMAGE_EXTENSIONS, *map(str.upper, IMAGE_EXTENSIONS)]
        images = {f"{path[:-4]}.{ending}": path for path in own for ending in endings}
        named = files.table["path"]
        first = min(named.filter(named.is_in(list(images))).to_list(), default="") if own else ""
        if first and _looks_like(kind, _head(root, files, images[first])):
            found[kind] = images[first]
    return found


def _looks_like(kind: str, head: bytes) -> bool:
    """Return whether a file beside an image is an annotation, judged by its beginning."""
    return b"<annotation" in head if kind == "voc" else _ROW.match(head) is not None


def _head(root: str, files: Files, path: str) -> bytes:
    """Return the beginning of a file beside images; of a large one in an archive, nothing."""
    if files.archive is None:
        with open_file(os.path.join(root, path)) as file:
            return file.pread(_HEAD, 0)
    assert files.others is not None
    found = files.others.filter(files.others["path"] == path)
    is_small = found["size"].sum() <= _MOST_LOOKED_AT and not found.is_empty()
    return files.contents([path])[path][:_HEAD] if is_small else b""


# Annotations around a folder


def _require_alone(root: str, files: Files) -> None:
    """Refuse a folder of images that annotations above it may be for."""
    paths = files.table["path"]
    masks = paths.filter(paths.str.contains("Segmentation", literal=True))  # fast: few have it
    masks = masks.filter(masks.str.contains(r"(?:^|/)Segmentation(?:Class|Object)/"))
    if not masks.is_empty():
        advice = f"give --masks {os.path.join(root, posixpath.dirname(masks[0]))}"
        if files.archive is not None:
            advice = "masks in an archive are not read: unpack it, and give --masks DIR"
        raise SourceError(
            f"{root}: has masks, such as {masks[0]}, which are no images of a class: {advice} and "
            "the directory of the images as SOURCE, or --from images to pack all as images"
        )
    if files.archive is not None:
        return
    full = full_path(root)
    name = posixpath.basename(full).lower()
    is_flat = not paths.str.contains("/", literal=True).any()
    above = posixpath.dirname(full)
    found = ""
    if name in _IMAGES or is_flat:
        found = _around(above, name)
    if not found and (is_flat or _SIDE.fullmatch(name)):
        name = posixpath.basename(above).lower()
        found = _around(posixpath.dirname(above), name) if name in _IMAGES else ""
    if found:
        raise SourceError(
            f"{root}: {found} may be its annotations: give --annotations {found} to take them, or "
            "--from images to pack the images alone"
        )


def _around(directory: str, name: str) -> str:
    """Return the annotations in a directory that are for its directory of a name; empty if none."""
    try:
        found = {entry.name: entry for entry in islice(entries(directory), _LOOKED_AT)}
        for entry in found.values():
            lower = entry.name.lower()
            if lower == "annotations" and entry.is_dir():
                inside = list(islice(entries(entry.path), _LOOKED_AT))
                jsons = sorted(each.path for each in inside if _COCO.search(each.name))
                own = (path for path in jsons if _side_of(path).lower() == name)
                if jsons:
                    return next(own, jsons[0])
                if any(each.name.endswith(".xml") for each in inside):
                    return entry.path
            is_labels = lower == "labels" and name == "images" and entry.is_dir()
            if is_labels and _has_texts(entry.path):
                return next((found[name].path for name in _CONFIGS if name in found), entry.path)
    except (OSError, SourceError):
        pass  # what cannot be listed is nobody's annotations
    return ""


def _has_texts(directory: str, depth: int = 1) -> bool:
    """Return whether texts lie in a directory or right below, judged by the first names there."""
    return any(
        entry.name.endswith(".txt")
        or (depth > 0 and entry.is_dir() and _has_texts(entry.path, depth - 1))
        for entry in islice(entries(directory), _LOOKED_AT)
    )


# Files of each kind


def _kind_of(path: str, inside: Collection[str] = ()) -> str:
    """Return the kind of annotations at a path, or in an archive."""
    if path in inside:
        kind = kind_of_name(path) or ("coco" if path.lower().endswith(".json") else None)
    elif not is_dir(path):
        kind = kind_of_file(path)
    else:
        names = sorted(_names_below(path))
        kinds = {kind for kind, is_own in _TELLS.items() if any(is_own(name) for name in names)}
        kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None and path.lower().endswith((".gz", ".bz2", ".xz", ".zst")):
        raise OptionError(f"--annotations {path}: is compressed: decompress it first")
    if kind is None:
        raise OptionError(
            f"--annotations {path}: its format is unclear: give --annotation-format "
            f"{' or '.join(_WORDS)}"
        )
    return kind


_TELLS: Mapping[str, Callable[[str], bool]] = {
    "coco": lambda name: name.lower().endswith(".json"),
    "voc": lambda name: name.lower().endswith(".xml"),
    "yolo": lambda name: name.endswith(".txt") or name in _CONFIGS,
}


def _names_below(directory: str, depth: int = 2) -> Iterator[str]:
    """Return names in a directory and, if there are no files, in those below."""
    found = list(islice(entries(directory), _LOOKED_AT))
    files = [entry.name for entry in found if entry.is_file()]
    yield from files
    if depth and not files:
        for entry in found[:8]:
            yield from _names_below(entry.path, depth - 1)


def _json_files(path: str) -> Iterable[str]:
    if not is_dir(path):
        return [path]
    inside = [entry.path for entry in entries(path) if entry.name.lower().endswith(".json")]
    return sorted(each for each in inside if _COCO.search(each)) or sorted(inside)


def _scan_coco(source: Source, files: Files, named: Sequence[str]) -> Scan:
    """Scan files of COCO's, whose images may lie beside them, or in directories of their names."""
    from dsprep.sources.annotated.coco import CocoFile, scan_coco

    paths = files.table["path"].to_list()
    by_name: dict[str, list[str]] = {}
    for directory in {path.rpartition("/")[0] for path in paths}:
        by_name.setdefault(directory.rpartition("/")[2], []).append(directory)
    top = full_path(source.root)
    found = []
    for path in named:
        side = _side_of(path)
        beside = full_path(os.path.dirname(path) or ".").removeprefix(top).lstrip("/")
        own = by_name.get(side, []) if not path.endswith(_ROBOFLOW) else [beside]
        below = full_path(path).removeprefix(f"{top}/")
        data = None if files.texts is None else files.texts[below]
        found.append(CocoFile(path, own[0] if len(own) == 1 else beside, side, data))
    are_sides = len(found) > 1 and all(_SIDE.fullmatch(file.side) for file in found)
    apart = are_sides and len({file.side for file in found}) == len(found)
    if not apart:
        found = [file._replace(side="") for file in found]
    read = [full_path(path).removeprefix(f"{top}/") for path in named]
    scan = scan_coco(found, frozenset(paths), source.class_names())
    return scan._replace(read=read)


def _side_of(path: str) -> str:
    """Return what a file of COCO's is for, by its name or, for Roboflow's, its directory's."""
    directory, name = os.path.split(path)
    if name == _ROBOFLOW:
        return os.path.basename(directory)
    return _PREFIX.sub("", os.path.splitext(name)[0])


def _labels_root(root: str, config: str) -> str:
    """Return the directory that the texts of images are in, or below."""
    beside = os.path.dirname(config) or "."
    if f"{full_path(root)}/".startswith(f"{full_path(beside)}/"):
        return beside
    before, mark, _ = f"{root.rstrip('/')}/".rpartition("/images/")
    return before if mark else root
