"""Give each file beside the samples a status, so that none is passed over silently.

A file is used, known and not read, harmless, or left over. Names tell which files are harmless. The
heads of some of those that are left over tell whether they have annotations, or name the samples.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os.path import commonprefix
from pathlib import PurePath
from typing import TYPE_CHECKING

from dsprep.findings import Finding
from dsprep.patterns import pattern
from dsprep.places.names import is_left_out, is_side_alone
from dsprep.sources.annotation_kinds import kind_by_content
from dsprep.sources.heads import (
    NAMING,
    begins_like_image,
    group_of,
    groups_of,
    groups_with_others,
    is_harmless,
    is_what_it_says,
    may_be_of_image,
    may_have_annotations,
    needs_a_look,
    pixel_columns,
    read_heads,
)
from dsprep.sources.kind import HEAD
from dsprep.sources.layout import is_path, known_options
from dsprep.sources.likely_masks import MAPS
from dsprep.sources.unread import text_of
from dsprep.storage.files import full_path
from dsprep.units import extension_in

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog, SourceScan
    from dsprep.places.files import Files
    from dsprep.places.scan import RunAll
    from dsprep.sources.kind import SourcePlace
    from dsprep.sources.source import Source

HOLDS, NAMES, BELONGS = "has annotations of", "names", "has the same name as an image"
OF_MATLAB = "has values of MATLAB, and nothing else tells what the images show"
PIXELS = "has columns of pixels"
UNNAMED = "is an image without an extension of images"
"""How the detail of a file begins that stops a command."""

LEAVES_OUT = "--leave-out"
"""How a note about a pattern without effect begins."""

STEMS = 1000  # names in heads that are looked up among those of the images
SOME = 50  # images, or rows of a table: half of them show whether both belong together

GUESSED = pattern(
    r"(?i)(?:^|[/_.-])(?:pred(?:iction)?s?|submissions?|scores?|results?|logits|probs?|features?"
    r"|embeddings?|metrics|history)(?=[_.-][^/]*$)"
)
"""Names of what a model made: it tells nothing that samples have to have."""

_STATUSES = frozenset({"left-over", "left-out", "harmless", "not-an-image", "no-part"})
_BESIDE = frozenset({".txt", ".json", ".xml", ".csv", ".mat", ".caption", ".tags", ".yaml", ".yml"})
_ARRAYS = frozenset(
    {".npy", ".npz", ".pt", ".pkl", ".bin"}
)  # features and masks, as a note at most
_MAPS = frozenset((".flo", ".pfm", ".dpt"))
"""Extensions of flow, of disparity or depth as portable float maps, and of MPI Sintel's depth.

https://vision.middlebury.edu/flow/code/flow-code/README.txt has the first,
https://netpbm.sourceforge.net/doc/pfm.html the second, and `sintel_io.py` of Sintel the third.
"""

_GRAY = frozenset((".pgm", ".pnm"))  # which may be maps as well

_CLASSES = pattern(r"(?i)(?:^|/)class(?:es|_?mapping|_?names)?\.csv$")
_OF_CLASSES = pattern(r"(?:[^,\r\n]+,[ \t]*\d{1,6}[ \t]*(?:\r?\n|$)){1,5}")
_ARCHIVE = pattern(r"(?i)\.(?:zip|tar|tgz|tar\.gz)$")
_CELLS = pattern(r"[,;\t| ]+")
_STRING = pattern(r'"((?:[^"\\]|\\.){1,300})"')
_NAME_IN_MAT = pattern(rb"[\w./ -]{3,200}")
_COUNT = pattern(r"#\d+$")  # how Flickr's captions number those of an image


# By names


def with_statuses(findings: Iterable[Finding], leave_out: Sequence[str] = ()) -> list[Finding]:
    """Give each file that is no image its status: harmless, left out by the user, or left over."""
    return [_with_status(each, leave_out) for each in findings]


def _with_status(finding: Finding, leave_out: Sequence[str]) -> Finding:
    kind, path, detail = finding
    if kind == "left-over":
        return Finding("left-out", path) if is_left_out(path, leave_out) else finding
    if kind != "not-an-image" or detail or path.endswith("/"):
        return finding
    if is_left_out(path, leave_out):
        return Finding("left-out", path)
    return Finding("harmless" if is_harmless(path) else "left-over", path)


def idle_patterns(findings: Sequence[Finding], patterns: Sequence[str]) -> list[Finding]:
    """Note which patterns leave nothing out."""
    left_out = [each.path for each in findings if each.kind == "left-out"]
    idle = [each for each in patterns if not any(is_left_out(path, (each,)) for path in left_out)]
    why = "names no file that is left over, by its path below SOURCE"
    return [Finding("note", "", f"{LEAVES_OUT} {shlex.quote(each)} {why}") for each in idle]


def without_used(findings: Iterable[Finding], source: Source) -> list[Finding]:
    """Return the findings without the files that options name: lists, tables, classes."""
    top = f"{full_path(source.root)}/"
    values = [getattr(source, name, None) for name in known_options() if is_path(name, "")]
    named = (*source.lists, *(each for each in values if isinstance(each, str)))
    given = {path for each in named if each for path in (each, full_path(each).removeprefix(top))}
    return [each for each in findings if each.kind not in _STATUSES or each.path not in given]


_OF_TOOLS = pattern(
    r"(?i)^(?:"
    r"(?:dataset_infos?|dataset_dict|features|state)\.json|[^/]*\.labels\.txt|_success"  # TFDS, Hub
    r"|(?:[^/]+\.)?(?:manifest\.json|classes\.txt|(?:rejects|skipped|files)\.jsonl)"  # dsprep
    r"|index\.json"  # MDS
    r"|label_map\.pbtxt|labels\.txt"  # names of classes: Object Detection API, TF-Slim
    r"|[^/]*_stats\.json|[^/]*\.parquet"  # img2dataset's reports and tables beside its shards
    r"|[^/]*\.(?:idx|index|lst|tfindex)"  # indexes of shards
    r"|batches\.meta(?:\.txt)?|meta|[^/]*label_names\.txt|[^/]*-idx\d-\w+(?:\.[gx]z)?"  # pixels
    r")$"
)
"""What tools write beside shards, tables and pixels, by the names of files."""

_WIDS = pattern(r'\s*\{\s*"__kind__":\s*"wids-shard-index-')


def files_beside(place: SourcePlace, used: Collection[str]) -> list[Finding]:
    """Return findings about the files right in a directory that a kind of source does not read.

    They are as a listing of images has them, and `with_statuses` tells what becomes of them. What
    dsprep and other tools write beside shards is none of them, such as the index `train.json`.
    """
    read = {path.rpartition("/")[2] for path in used}
    stem = commonprefix([*read])
    others = [
        entry.name
        for entry in place.entries
        if not (entry.name.startswith(".") or entry.name in read or _OF_TOOLS.search(entry.name))
        and entry.is_file()
    ]
    own = [
        name
        for name in others
        if name.endswith(".json")
        and (stem.startswith(name[:-5]) or _is_index_of_side(place, name, read))
    ]
    return [Finding("not-an-image", name) for name in sorted(set(others).difference(own))]


def _is_index_of_side(place: SourcePlace, name: str, shards: Collection[str]) -> bool:
    """Return whether a JSON file is webdataset's index of some of the shards: each side has one."""
    if not any(shard.startswith(name[:-5]) for shard in shards):
        return False
    try:
        return _WIDS.match(text_of(place.head(name))) is not None
    except OSError:
        return False


# By content


def _with_false_names(
    root: str, files: Files, findings: list[Finding], leave_out: Sequence[str], images: pl.Series
) -> tuple[list[Finding], dict[str, bytes]]:
    """Return as left over the files of harmless names that are of images, or begin like others.

    A few of each directory and extension are looked into, and tell what all of these are. The heads
    of those that are left over are returned as well.
    """
    doubtful = [each.path for each in findings if each.kind == "harmless"]
    texts = [path for path in doubtful if may_be_of_image(path)]
    doubtful = [path for path in doubtful if needs_a_look(path)]
    known = _stems_among(images, set(map(_stem_of, texts))) if texts else ()
    own = [path for path in texts if _stem_of(path) in known]
    if not doubtful and not own:
        return findings, {}
    heads = read_heads(root, files, groups_of([*doubtful, *own]))
    false = {group_of(path) for path, head in heads.items() if not is_what_it_says(path, head)}
    left = {path for path in doubtful if group_of(path) in false}.union(own)
    out = {path for path in left if is_left_out(path, leave_out)}
    findings = [
        Finding("left-out" if each.path in out else "left-over", each.path)
        if each.kind == "harmless" and each.path in left
        else each
        for each in findings
    ]
    return findings, {path: heads[path] for path in heads if path in left - out}


def looked_into(source: Source, files: Files, found: SourceScan, run_all: RunAll) -> SourceScan:
    """Look into files that are left over, and say what they have that the samples lack.

    Texts beside images are taken in. If a list or a table chooses the samples, the user has said
    what they are: other files are a note at most.

    Args:
        source: What was read.
        files: All files there, as they were listed.
        found: The catalog, and findings with the files that nothing has read.
        run_all: A ``map`` over worker processes.
    """
    catalog, findings = found
    findings = without_used(with_statuses(findings, source.leave_out), source)
    left = _left_over(findings)
    are_chosen = source.chooses or bool(source.extensions)
    groups = groups_of(left) if are_chosen else groups_with_others(left)
    read = read_heads(source.root, files, groups)
    images = {path for path, head in read.items() if begins_like_image(head)}
    heads = {path: read[path] for path in read if may_have_annotations(path)}
    paths_of_images = catalog.table["path"]
    findings, more = _with_false_names(
        source.root, files, findings, source.leave_out, paths_of_images
    )
    heads |= more
    paths = _left_over(findings)
    if not paths:
        return catalog, findings
    if catalog.annotated is None and not source.chooses:
        from dsprep.sources.pictures.captions import with_texts  # imported late: loads polars

        catalog, findings = with_texts(source, files, (catalog, findings), heads, run_all)
        paths = _left_over(findings)
        still_left = set(paths)
        heads = {path: head for path, head in heads.items() if path in still_left}
    said, notes = _said_of(source, catalog, paths, heads)
    notes += _notes_on_classes(source, heads)
    if files.archive is None:
        notes += _notes_on_archives(source, paths)
    if not are_chosen:
        said |= {path: Finding("left-over", path, UNNAMED) for path in images}
    return catalog, [*(said.get(each.path, each) for each in findings), *notes]


def _notes_on_classes(source: Source, heads: Mapping[str, bytes]) -> Iterator[Finding]:
    """Note a table that has the numbers of classes, as Keras-RetinaNet has it."""
    own = (path for path in sorted(heads) if _CLASSES.search(path))
    found = next((path for path in own if _OF_CLASSES.match(text_of(heads[path]))), "")
    if found and not source.classes:
        full = shlex.quote(f"{source.root.rstrip('/')}/{found}")
        yield not_read(f"{found} has numbers of classes", f"--classes {full} takes them")


def _notes_on_archives(source: Source, paths: Sequence[str]) -> Iterator[Finding]:
    """Note archives beside the images, which may hold more of them."""
    found = [path for path in paths if _ARCHIVE.search(path)]
    for path in found[:1]:
        count = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
        full = shlex.quote(f"{source.root.rstrip('/')}/{path}")
        yield not_read(f"{path} is an archive{count}", f"to pack it, dsprep pack {full}")


def _said_of(
    source: Source, catalog: Catalog, paths: Sequence[str], heads: Mapping[str, bytes]
) -> tuple[dict[str, Finding], list[Finding]]:
    """Return the findings about files that are left over, by path, and notes about others."""
    said = _annotations_in(heads, catalog, are_given=bool(source.annotations))
    table = PurePath(source.labels or "").name  # one outside of the source replaces the one in it
    others = {
        path: head
        for path, head in heads.items()
        if path not in said and PurePath(path).name != table
    }
    images, is_bare = catalog.table["path"], lacks_labels(catalog) and not source.chooses
    told, notes = _names_in(others, images, is_bare)
    if not source.chooses:
        maps = _maps_among(paths, images).items()
        told |= {path: Finding("left-over", path, detail) for path, detail in maps}
    for path, detail in _beside(paths, images).items():
        if is_bare and extension_in(path) in _BESIDE:
            told.setdefault(path, Finding("left-over", path, detail))
        elif path not in said:
            notes.append(not_read(f"{path} {detail}"))
    if is_bare:
        matrices = (path for path in others if extension_in(path) == ".mat")
        told = {path: Finding("left-over", path, OF_MATLAB) for path in matrices} | told
        pixels = (path for path, head in others.items() if pixel_columns(path, head))
        told |= {path: Finding("left-over", path, PIXELS) for path in pixels}
    if not source.chooses:
        return told | said, notes
    first = {group_of(path): finding for path, finding in reversed(said.items())}
    notes += [not_read(f"{each.path} {each.detail}") for each in first.values() if each.detail]
    return told, notes


def _annotations_in(
    heads: Mapping[str, bytes], catalog: Catalog, are_given: bool
) -> dict[str, Finding]:
    """Return the findings about files whose heads have annotations, by path."""
    said = {}
    for path, head in heads.items():
        kind = kind_by_content(path, head)
        if kind is None:
            continue
        if catalog.annotated is not None and (not kind.advice or are_given):
            detail = f"{path} is not read: the annotations of the images are others"
            said[path] = Finding("not-read", path, detail)
        else:
            said[path] = Finding("left-over", path, f"{HOLDS} {kind.name}")
    return said


def _names_in(
    heads: Mapping[str, bytes], images: pl.Series, is_bare: bool
) -> tuple[dict[str, Finding], list[Finding]]:
    """Return the findings about files that name images, by path, and notes about further ones.

    They tell something if nothing else tells the images apart, unless a model made them.
    """
    told, notes = {}, list[Finding]()
    for path, head in heads.items():
        named = names_of(path, head, images) if extension_in(path) in NAMING else ""
        if not named:
            continue
        if GUESSED.search(path):
            notes.append(not_read(f"{path} {NAMES} {named}", "its name is that of predictions"))
        elif is_bare:
            told[path] = Finding("left-over", path, f"{NAMES} {named}")
        else:
            notes.append(not_read(f"{path} {NAMES} {named}", way_to_take(path)))
    return told, notes


def way_to_take(path: str, shown: str = "") -> str:
    """Say how to take a file that names images; ``shown`` is what follows ``--labels``."""
    extension = extension_in(path)
    if extension == ".lst":
        return "--list takes a list"
    if extension == ".json":  # no table, such as the names of class numbers
        return ""
    if extension == ".mat":  # such as `train_list.mat` of Stanford Dogs
        side = posixpath.basename(path).partition("_")[0].partition(".")[0]
        is_of_side = is_side_alone(side)
        way = f"move these images into a directory {side}/ to have them as a side"
        return way if is_of_side else "convert it to a table for --labels"
    return f"--labels {shown}".rstrip() + " takes the labels of a table"


def not_read(what: str, why: str = "") -> Finding:
    """Return the note that something is not read, and what reads it."""
    return Finding("note", "", f"{what} and is not read{f': {why}' if why else ''}")


def _left_over(findings: Iterable[Finding]) -> list[str]:
    return [each.path for each in findings if each.kind == "left-over"]


def lacks_labels(catalog: Catalog) -> bool:
    """Return whether nothing tells samples apart; one class of all of them does not."""
    if catalog.annotated is not None:
        return False
    return catalog.label_column is None or len(catalog.classes or ()) == 1


# Which samples a file names


def names_of(path: str, head: bytes, images: pl.Series) -> str:
    """Say how many samples a file names, if these are half of some; empty if it names few."""
    extension = extension_in(path)
    is_table = extension not in (".mat", ".json", ".jsonl", ".manifest")
    if extension == ".mat":
        rows = [[text] for text in _texts_of_mat(head)]
    elif not is_table:
        rows = [[text] for text in dict.fromkeys(_STRING.findall(text_of(head)))]
    else:
        lines = text_of(head).split("\n")
        lines = lines[:-1] if len(head) == HEAD else lines
        cells = (_CELLS.split(line.strip()) for line in lines if line.strip())
        rows = [[cell.strip("\"'") for cell in row[:8]] for row in islice(cells, SOME + 1)]
    if is_table and all(len(row) == 1 for row in rows):
        return ""  # file names alone hold nothing that samples would miss
    wanted = {text: _stem_of(text) for row in rows for text in row}
    wanted = dict(list(wanted.items())[:STEMS])
    known = _stems_among(images, {stem for stem in wanted.values() if stem})
    hits = 0
    named = set()
    is_headed = False  # whether the first row names columns
    for at, row in enumerate(rows):
        own = {wanted[text] for text in row if wanted.get(text) in known}
        own = {stem for stem in own if not stem.isdigit() or wanted[row[0]] == stem}
        hits += bool(own)
        is_headed |= at == 0 and not own
        named |= own
    of = min(SOME, len(images))
    if is_table and hits and 2 * hits >= min(SOME, len(rows)):
        return f"the images in {hits:,} of {len(rows) - is_headed:,} rows looked at"
    if 2 * len(named) >= of:
        return f"{len(named):,} of {len(images):,} images"
    return ""


def share_of(names: Sequence[str], images: pl.Series) -> float:
    """Return the share of names that are those of images, which masks may add something to."""
    stems = [[*_stems_of(name)] for name in names]
    known = _stems_among(images, {stem for own in stems for stem in own})
    return sum(not known.isdisjoint(own) for own in stems) / max(1, len(names))


def _stem_of(text: str) -> str:
    """Return what may be the stem of an image; leading zeros of a number do not count."""
    base = _COUNT.sub("", text).replace("\\", "/").rpartition("/")[2]
    stem, dot, ending = base.rpartition(".")
    stem = stem if dot and stem and len(ending) <= 5 else base
    return stem.lstrip("0") or "0" if stem.isdigit() else stem


def _stems_among(images: pl.Series, stems: Collection[str]) -> frozenset[str]:
    """Return which stems are those of images."""
    found = images.str.extract(r"([^/]+?)(?:\.[^./]*)?$").str.replace(r"^0+(\d+)$", "$1")
    return frozenset(found.filter(found.is_in(list(stems))))


def _beside(paths: Sequence[str], images: pl.Series) -> Mapping[str, str]:
    """Say of a file of each extension how many images have one, if these are half of some."""
    some = images.gather_every(max(1, len(images) // SOME)).head(SOME)
    stems = [_stem_of(path) for path in some]
    found = {}
    for extension in sorted((_BESIDE | _ARRAYS).intersection(map(extension_in, paths))):
        own = [path for path in paths if extension_in(path) == extension]
        own = [path for path in own if not GUESSED.search(path)]
        known = {stem: path for path in reversed(own) for stem in _stems_of(path)}
        hits = [stem for stem in stems if stem in known]
        if len(own) > 1 and 2 * len(hits) >= len(stems):
            count = f"{len(hits):,} of {len(stems):,} images looked at have such a file"
            found[known[hits[0]]] = f"{BELONGS} ({count})"
    return found


def _maps_among(paths: Sequence[str], images: pl.Series) -> Mapping[str, str]:
    """Say of the first map of each extension which image it may be of.

    That is one of the same path except for one directory, if a tenth of the images may have a map.
    Or it is one beside it, if half of the directories of images have a map.
    """
    found = {}
    for extension in sorted(_MAPS.intersection(map(extension_in, paths))):
        own = sorted(path for path in paths if extension_in(path) == extension)
        first, stem = own[0], PurePath(own[0]).stem
        alike = images.filter(images.str.contains(rf"(?:^|/){re.escape(stem)}\.[^./]*$")).sort()
        parallel = (path for path in alike if _differ_in_one(path, first))
        above = images.str.replace(r"/?[^/]*$", "").unique()
        has_map = above.is_in([posixpath.dirname(path) for path in own])
        if 10 * len(own) >= len(images) and (image := next(parallel, "")):
            found[first] = f"{MAPS} {image}"
        elif 2 * has_map.sum() >= len(above):
            directory = re.escape(posixpath.dirname(first))
            beside = images.filter(images.str.contains(rf"^{directory}/?[^/]*$")).to_list()
            beside.sort(key=lambda path: (extension_in(path) in _GRAY, path))
            if beside:
                found[first] = f"{MAPS} {beside[0]}"
    return found


def _differ_in_one(image: str, path: str) -> bool:
    """Return whether two paths without their extensions differ in one directory."""
    pairs = [*zip(image.split("/")[:-1], path.split("/")[:-1], strict=False)]
    return image.count("/") == path.count("/") and sum(one != two for one, two in pairs) <= 1


def _stems_of(path: str) -> Iterable[str]:
    """Return the stems of the image that `1.txt`, `1.jpg.txt` or `1_atr.txt` may lie beside."""
    stem = path.rpartition("/")[2].rpartition(".")[0]
    ends = [at for at, mark in enumerate(stem) if mark in "_-"]
    return dict.fromkeys(
        (_stem_of(path), _stem_of(stem), *(_stem_of(stem[:at]) for at in ends[-1:]))
    )


def _texts_of_mat(head: bytes) -> list[str]:
    """Return the names in a file of MATLAB, whose elements may be compressed."""
    texts, at = list[str](), 128
    blocks = [head]
    while at + 8 <= len(head):
        kind, size = (int.from_bytes(head[n : n + 4], "little") for n in (at, at + 4))
        if kind == 15:  # data type miCOMPRESSED of MATLAB's format
            try:
                blocks.append(zlib.decompressobj().decompress(head[at + 8 :], HEAD))
            except zlib.error:
                break
        at += 8 + size
    for block in blocks:
        plain = block.replace(b"\0", b"")  # UTF-16 has a zero byte in each ASCII character
        texts += [each.decode("ascii", "replace") for each in _NAME_IN_MAT.findall(plain)]
    return list(dict.fromkeys(texts))[:STEMS]
