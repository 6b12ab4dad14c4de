"""Samples of several files each: files that share a stem, also in an archive, or parallel folders.

The paths of a sample's files follow from the path of its row, so that a reader is small however
many samples there are, and one sample is in memory at a time.
"""

from __future__ import annotations

import re
import shlex
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from operator import attrgetter
from typing import TYPE_CHECKING

import polars as pl

from dsprep.catalog import COLUMNS, LABEL_COLUMNS, PLACE_COLUMNS, Catalog, SourceScan
from dsprep.errors import OptionError, SourceError
from dsprep.findings import REJECT_KINDS, Finding
from dsprep.numbering import Known
from dsprep.places.archive import is_archive, open_archive
from dsprep.places.files import Files, files_of, list_files, with_sides_of_directories
from dsprep.places.scan import RunAll, scan_below
from dsprep.rows import Reader
from dsprep.sample import IMAGE_EXTENSIONS, UNKNOWN_IMAGE
from dsprep.sources.labels.classes import (
    classes_of_directories,
    depth_unless_classes,
    labels_in_paths,
)
from dsprep.sources.readers import ArchivedParts, PartFiles, PartReader, stem_of
from dsprep.storage.files import is_dir
from dsprep.tuples import NamedTuple
from dsprep.units import extension_in, format_some

if TYPE_CHECKING:
    from dsprep.sources.source import Source

_MOST_SUFFIXES = 256  # a worker looks for each of them, for every sample
_SHOWN = 5  # parts that a message suggests to name
# what follows the first dot of a base name: WebDataset's keys end there
_SUFFIX = r"[^./][.]([^/]+)$"
_NAME = "/?[^/]*$"
_COLUMNS = (*COLUMNS, *PLACE_COLUMNS, *LABEL_COLUMNS)
# kinds of findings in archives, and the kinds that they become
_KINDS = {"not-an-image": "no-part"}
_IMAGE_RANKS = {kind: rank for rank, kind in enumerate(dict.fromkeys(IMAGE_EXTENSIONS.values()))}
_IS_IMAGE = pl.col("field").is_in(list(_IMAGE_RANKS))


def read_parts(source: Source, run_all: RunAll = map, downloaded: bool = False) -> SourceScan:
    """Make the catalog of a directory or an archive whose samples are several files each."""
    # A row's path is the stem that a sample's files share and the extension of its image; without
    # an image, the stem alone. Its size is that of all its files together, so that the digest
    # changes when one is added, removed or changes size. `downloaded` is a folder that img2dataset
    # wrote.
    root, known = source.root, source.known_classes()
    if is_dir(root):
        patterns = _parse_pairs(source.pairs or {})
        files = list_files(scan_below(root, None, run_all))
        paths = files.table["path"]
        if len(paths) and paths.str.ends_with(".tar").all() and not source.choice.no_image:
            raise SourceError(
                f"{root}: holds only tars ({format_some(paths.sort()[:4].to_list())}): --from "
                "parts takes one directory of files or one archive; name one of the tars"
            )
        if patterns:
            _require_one_class(source, known, patterns)
            catalog, findings = _read_pairs(root, files, patterns)
            catalog, notes = _with_classes_in_names(catalog, source, known)
            return catalog, [*findings, *notes]
        if not downloaded:
            return _read_stems(source, root, files, known)
        # Its own tables lie in the root, and its directories are no classes.
        files = files._replace(table=files.table.filter(pl.col("path").str.contains("/")))
        catalog, findings = _read_stems(source, root, files, known, by_directory=False)
        note = (
            "files that share a name are one sample, as img2dataset writes them: its tables are "
            "passed over; --from images takes the images alone"
        )
        return catalog, [Finding("note", "", note), *findings]
    if source.pairs:
        raise SourceError(f"{root}: --pair takes one directory")
    if not is_archive(root):
        raise SourceError(f"{root}: --from parts takes one directory or one archive")
    archive = open_archive(root)
    extensions = frozenset(extension_in(name)[1:] for name in archive.names)
    files = files_of(archive, extensions).below_top()
    return _read_stems(source, archive.path, files, known)


def _read_stems(
    source: Source, root: str, files: Files, known: Known, by_directory: bool = True
) -> SourceScan:
    """Make the catalog of files, or members of an archive, that are samples by their stems."""
    findings, classes, depth = list[Finding](), known.classes, 0
    suffix = pl.col("path").str.extract(_SUFFIX).alias("suffix")
    named = files.table.lazy().with_columns(suffix).collect(engine="streaming")
    unused = dict.fromkeys(
        named.filter(pl.col("suffix").is_null())["path"], "its name has no extension"
    )
    key = pl.col("path").str.strip_suffix("." + pl.col("suffix"))
    named = named.drop_nulls("suffix").with_columns(key=key)
    if named.is_empty():
        raise SourceError(f"{root}: holds no files that could be parts of samples")
    fields = _fields_of(named["suffix"].unique(), root)

    # Order the files by sample, and number the samples.
    parts = named.join(fields, on="suffix").sort("key", "order")
    is_new = (pl.col("key") != pl.col("key").shift()).fill_null(True)
    is_first = is_new | (pl.col("field") != pl.col("field").shift())
    parts = parts.with_columns(sample=is_new.cum_sum(), is_first=is_first)
    for path, field in parts.filter(~pl.col("is_first")).select("path", "field").iter_rows():
        unused[path] = f"the sample has another file that is its {field}"
    parts = parts.filter("is_first")
    _require_together(parts, root)
    path = pl.when(_IS_IMAGE).then("path").otherwise("key")  # images come first, the best ahead
    samples = parts.group_by("sample", maintain_order=True).agg(
        pl.col("key").first(),
        pl.col("size").sum(),
        pl.col("mtime").max(),
        images=_IS_IMAGE.sum(),
        parts=pl.len(),
        path=path.first(),
        directory=pl.col("key").first().str.replace(_NAME, ""),
    )
    if by_directory and "cls" not in fields["field"]:
        # Images have the classes of their directories, as in a folder of images.
        has_image = samples["images"] > 0
        imaged = samples.filter(has_image if has_image.any() else ~has_image)
        depth = source.sides_from or depth_unless_classes(imaged["path"], known, root)
        numbers, classes, notes = classes_of_directories(imaged["path"], root, known, depth=depth)
        findings += notes
        if numbers is not None:
            own = imaged.select("directory", numbers).unique("directory")
            samples = samples.join(own, on="directory", maintain_order="left")
        apart = parts.join(samples, on="sample", how="anti")["path"]
        unused |= dict.fromkeys(apart, "of no image, nor in the directory of a class")
        parts = parts.join(samples, on="sample", how="semi", maintain_order="left")
    findings += [Finding("no-part", path, why) for path, why in unused.items()]
    others = files.findings
    if files.archive is not None:  # in a folder, such a finding is not a regular file
        others = [it._replace(kind=_KINDS.get(it.kind, it.kind)) for it in others]
    findings += [*_lacking(parts, samples), *_of_samples(others, samples)]
    findings.sort(key=attrgetter("path"))
    used = fields.filter(pl.col("suffix").is_in(parts["suffix"].unique().implode()))
    table = samples.with_columns(index=pl.int_range(pl.len()))
    reader: Reader
    if files.archive is None:
        endings = used.select("field", "suffix").iter_rows()
        reader = PartReader(
            root, tuple(PartFiles(field, "", f".{suffix}") for field, suffix in endings)
        )
    else:
        names = used["field"].unique(maintain_order=True).to_list()
        kinds = parts["field"].replace_strict(names, range(len(names)), return_dtype=pl.Int64)
        starts = array("q", [0, *samples["parts"].cum_sum()])
        arrays = (array("q", each) for each in (kinds, *parts["offset", "size", "stored"]))
        reader = ArchivedParts(files.archive.reader, tuple(names), starts, *arrays)
        table = table.with_columns(file=pl.lit(0, pl.Int64), offset="index")
    there = [name for name in _COLUMNS if name in table.columns]
    catalog = Catalog(table.select(there), root, classes, reader)
    if depth and source.sides_from is None:
        catalog, notes = with_sides_of_directories(catalog)
        findings += notes
    return catalog, findings


def _require_together(parts: pl.DataFrame, root: str) -> None:
    """Refuse samples whose files lie in different directories, as those of VOC do."""
    # `Annotations` holds parts of the images in `JPEGImages`, and is not a class, if it has no kind
    # of file that lies there, and at least half of its files are called like one of the images.
    files = parts.select("path", "key", "field", directory=pl.col("key").str.replace(_NAME, ""))
    kinds = pl.col("field").unique().sort().str.join(" ")
    files = files.with_columns(kinds=kinds.over("directory"))
    totals = files.group_by("kinds").agg(images=_IS_IMAGE.sum(), files=pl.len())
    commonest, images, _ = totals.sort(
        "images", "files", "kinds", descending=[False, False, True]
    ).row(-1)  # if several are equally frequent, prefer jpg to png: masks are PNG
    own = set(commonest.split(" "))
    others = [text for text in totals["kinds"] if own.isdisjoint(text.split(" "))]
    if not others:
        return
    main = files.filter(pl.col("kinds") == commonest).filter(_IS_IMAGE if images else True)
    apart = files.filter(pl.col("kinds").is_in(others))
    for column, above in (("by name", "^.*/"), ("by path", "^[^/]*/")):
        named = pl.col("key").str.replace(above, "").alias("named")
        known = main.select(named, pl.col("path").alias(column)).filter(pl.col("named").is_unique())
        apart = apart.with_columns(named).join(known, on="named", how="left").drop("named")
    apart = apart.with_columns(image=pl.coalesce("by name", "by path"))
    apart = apart.filter(pl.col("image").is_not_null().mean().over("directory") >= 0.5)
    apart = apart.drop_nulls("image")
    if apart.is_empty():
        return
    firsts = apart.sort("path").unique("directory", keep="first", maintain_order=True)
    pairs = list(firsts.select("image", "path").iter_rows())
    options = dict.fromkeys(option for pair in pairs for option in _pair_options(*pair))
    image, path = pairs[0]
    raise OptionError(
        f"{root}: --parts takes files that lie side by side, and {path} lies in another directory "
        f"than {image}; name the parts instead: {' '.join(list(options)[:_SHOWN])}"
    )


def _pair_options(image: str, path: str) -> Iterator[str]:
    """Write the ``--pair`` options of an image and of a part in another directory."""
    ours, theirs = image.split("/"), path.split("/")
    differ = [at for at, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other]
    depth = differ[0] if len(ours) == len(theirs) and len(differ) == 2 else -1
    for parts in (ours, theirs):
        above = parts[:-1] if depth < 0 else parts[: depth + 1]
        suffix = parts[-1].partition(".")[2]
        wild = "*" if len(above) == len(parts) - 1 else "**"
        name = re.sub("[^a-z0-9_-]", "", "".join(above[-1:]).lower())
        field = f"{name}.{suffix.lower()}" if name else suffix.lower()
        field = "image" if parts is ours and suffix.lower() in IMAGE_EXTENSIONS else field
        pattern = "/".join([*above, f"{wild}.{suffix}"])
        yield f"--pair {shlex.quote(f'{field}={pattern}')}"


def _fields_of(suffixes: pl.Series, root: str) -> pl.DataFrame:
    """Name the field that each ending of names means: ``suffix``, ``field`` and ``order``."""
    # If a sample has several files for one field, the one of the lowest `order` is taken.
    if len(suffixes) > _MOST_SUFFIXES:
        first = suffixes.sort().head(3).to_list()
        raise SourceError(
            f"{root}: its names go on in {len(suffixes):,} ways after their first dots, where the "
            f"name of a sample ends, as in {', '.join(map(repr, first))}: rename the files, or "
            "name the parts with --pair"
        )
    lower = pl.col("suffix").str.to_lowercase()
    fields = suffixes.to_frame("suffix").with_columns(field=lower.replace(IMAGE_EXTENSIONS))
    rank = pl.col("field").replace_strict(_IMAGE_RANKS, default=len(_IMAGE_RANKS))
    fields = fields.sort(rank, "field", pl.col("suffix") != pl.col("field"), "suffix")
    return fields.with_columns(order=pl.int_range(pl.len()))


def _lacking(parts: pl.DataFrame, samples: pl.DataFrame) -> Iterator[Finding]:
    """Find the samples that lack what more than half of all samples have."""
    # The one image of a sample may be of any kind; where most samples have several, as where masks
    # are images, each kind is a part of its own.
    field = pl.col("field")
    parts = parts.select("sample", "field")
    if (samples["images"] < 2).sum() * 2 >= samples.height:
        parts = parts.with_columns(field=pl.when(_IS_IMAGE).then(pl.lit("image")).otherwise(field))
        parts = parts.unique()
    counts = parts.group_by("field").len().filter(pl.col("len") * 2 > samples.height)
    lacking: dict[str, list[str]] = {}
    for expected in sorted(counts["field"]):
        having = parts.filter(field == expected).select("sample")
        for path in samples.join(having, on="sample", how="anti")["path"]:
            lacking.setdefault(path, []).append(expected)
    for path, names in lacking.items():
        yield Finding("incomplete", path, f"lacks {', '.join(names)}")


def _of_samples(findings: Iterable[Finding], samples: pl.DataFrame) -> Iterator[Finding]:
    """Say of an unreadable file which sample lacks it, or, once, that a sample is lost."""
    unread = [finding for finding in findings if finding.kind in REJECT_KINDS]
    yield from (finding for finding in findings if finding.kind not in REJECT_KINDS)
    paths = dict(samples.select("key", "path").iter_rows()) if unread else {}
    lost = set()
    for finding in unread:
        key = stem_of(finding.path)
        suffix = finding.path[len(key) + 1 :]
        if not suffix:
            yield finding._replace(kind="no-part")
        elif key in paths:
            yield Finding("incomplete", paths[key], f"lacks {suffix}: {finding.detail}")
        elif key not in lost:
            lost.add(key)
            yield finding


# Parallel folders

_PAIR_NAME = re.compile(r"[a-z0-9_-]+([.][a-z0-9_-]+)*")
_GLOB = re.compile(r"([^*?\[\]]*)([*]{1,2}(?:/[*]{1,2})*)([^*?\[\]]*)")


class _Pattern(NamedTuple):
    option: str  # the option, for messages
    part: PartFiles
    stems: str  # a regular expression
    literal: int  # bytes of a path besides the stem


def _parse_pairs(pairs: Mapping[str, str]) -> list[_Pattern]:
    patterns = [_parse_pair(name, glob) for name, glob in pairs.items()]
    for one, other in combinations(patterns, 2):
        if one.part.field == other.part.field:
            raise OptionError(f"{one.option} and {other.option} are both the part {one.part.field}")
        if one.part[1:3] == other.part[1:3] and one.stems == other.stems:
            raise OptionError(f"{one.option} and {other.option} are the same files")
    return patterns


def _parse_pair(name: str, glob: str) -> _Pattern:
    option = f"--pair {name}={glob}"
    if not _PAIR_NAME.fullmatch(name):
        raise OptionError(f"{option}: a part's name is made of a-z, 0-9, _, - and dots")
    matched = _GLOB.fullmatch(re.sub(r"^([.]/+)+", "", glob))
    if not matched:
        raise OptionError(
            f"{option}: give a path in which one * stands for what the parts of a sample share, "
            "or ** where that goes over several directories, as in images/*.jpg"
        )
    before, wild, after = matched.groups()
    extension = after.rpartition(".")[2].lower() if "." in after else ""
    if not extension or "/" in extension:
        raise OptionError(
            f"{option}: let it end in an extension, as in images/*.jpg: what * stands for has to "
            "be the same in all parts of a sample"
        )
    is_image = name == "image"
    if is_image:
        field = IMAGE_EXTENSIONS.get(extension, UNKNOWN_IMAGE)
    else:
        field = name if "." in name or name in ("cls", extension) else f"{name}.{extension}"
    # `**/` stands for any number of directories, or none
    inner = re.sub(r"[*]{2}/", "D", wild).replace("**", "A").replace("*", "N")
    meanings = {"D": "([^/]+/)*", "A": ".+", "N": "[^/]+", "/": "/"}
    stems = "(?s)^" + "".join(meanings[mark] for mark in inner) + "$"
    literal = len((before + after).encode())
    return _Pattern(option, PartFiles(field, before, after, is_image), stems, literal)


def _read_pairs(root: str, files: Files, patterns: Sequence[_Pattern]) -> SourceScan:
    """Make the catalog of samples that have all the parts; those that lack one are lost."""
    fields = [pattern.part.field for pattern in patterns]
    matched = _matched(files.table, patterns)
    there = set(matched["part"].unique())
    for pattern in patterns:
        if pattern.part.field not in there:
            raise OptionError(f"{pattern.option}: no file below {root} is such a part")
    findings = [finding for finding in files.findings if finding.kind not in REJECT_KINDS]
    findings += [
        Finding("no-part", path) for path in matched.filter(pl.col("part").is_null())["path"]
    ]

    # An unreadable file makes its sample lost, once; one with a bad name has no stem to name.
    unread = [finding for finding in files.findings if finding.kind in REJECT_KINDS]
    paths = pl.DataFrame({"path": [finding.path for finding in unread]}, {"path": pl.String()})
    stems = _matched(paths, patterns)["stem"]
    odd = set()
    for finding, stem in zip(unread, stems, strict=True):
        if stem is None:
            findings.append(finding._replace(kind="no-part"))
        elif finding.kind == "bad-name" and stem not in odd:
            odd.add(stem)
            findings.append(finding)
    lost_stems = stems.drop_nulls().to_frame().filter(~pl.col("stem").is_in(list(odd)))

    # Rows' paths end in the extension of the image or, without an image, of the first part.
    main = next((pattern for pattern in patterns if pattern.part.is_image), patterns[0])
    extension = "." + main.part.after.rpartition(".")[2]
    parts = matched.drop_nulls("part").select("stem", "size", "mtime", "part")
    samples = (
        pl.concat([parts, lost_stems], how="diagonal")
        .group_by("stem")
        .agg(pl.col("size").sum(), pl.col("mtime").max(), pl.col("part").drop_nulls())
        .sort("stem")
        .with_columns(path=pl.col("stem") + extension)
    )
    is_complete = pl.col("part").list.len() == len(patterns)
    lost = [
        Finding("missing", path, ", ".join(field for field in fields if field not in own))
        for path, own in samples.filter(~is_complete).select("path", "part").iter_rows()
    ]
    samples = samples.filter(is_complete)
    if samples.is_empty():
        raise SourceError(
            f"{root}: no sample has all of its parts: {lost[0].path} lacks {lost[0].detail}"
        )
    reader = PartReader(root, tuple(pattern.part for pattern in patterns), extension)
    table = samples.select(pl.int_range(pl.len()).alias("index"), "path", "size", "mtime")
    return Catalog(table, root, None, reader), sorted(findings + lost, key=attrgetter("path"))


def _require_one_class(source: Source, known: Known, patterns: Sequence[_Pattern]) -> None:
    """Refuse names of classes that no sample has, and classes that two options tell."""
    named = next((each for each in patterns if each.part.field == "cls"), None)
    if source.label_regex is not None and named is not None:
        raise OptionError(
            f"--label-regex {source.label_regex!r} and {named.option} both tell the class: leave "
            "one out"
        )
    if known.classes is not None and named is None and source.label_regex is None:
        raise OptionError(
            f"{source.root}: its samples have no class, but a list of {len(known.classes)} classes "
            "was given: name the part that holds their numbers, as in --pair cls=labels/*.cls, or "
            "give --label-regex"
        )


def _with_classes_in_names(catalog: Catalog, source: Source, known: Known) -> SourceScan:
    """Return samples with the classes that ``--label-regex`` finds in their names, if given."""
    if source.label_regex is None:
        return replace(catalog, classes=known.classes), []
    column, classes, notes = labels_in_paths(catalog.table["path"], source, known)
    table = catalog.table.with_columns([] if column is None else [column])
    return replace(catalog, table=table, classes=classes), notes


def _matched(rows: pl.DataFrame, patterns: Sequence[_Pattern]) -> pl.DataFrame:
    """Add to each path its ``stem`` and the field of its ``part``, null if there is none."""
    # A file that matches several patterns is the part of the most specific one: `a_mask.png`
    # matches `*_mask.png` rather than `*.png`.
    path, stem, part = pl.col("path"), pl.lit(None, pl.String), pl.lit(None, pl.String)
    for pattern in sorted(patterns, key=attrgetter("literal")):
        field, before, after, _ = pattern.part
        own = path.str.strip_prefix(before).str.strip_suffix(after)
        fits = path.str.starts_with(before) & path.str.ends_with(after)
        fits &= (path.str.len_bytes() > pattern.literal) & own.str.contains(pattern.stems)
        stem = pl.when(fits).then(own).otherwise(stem)
        part = pl.when(fits).then(pl.lit(field)).otherwise(part)
    return rows.with_columns(stem=stem, part=part)
