"""Samples whose parts lie in parallel folders: which files are parts, and of which sample."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import attrgetter

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.findings import REJECT_KINDS, Finding
from dsprep.readers.parts import Pair, ParallelFolders
from dsprep.sample import IMAGE_EXTENSIONS, UNKNOWN_IMAGE
from dsprep.sources.files import Files

_PAIR_NAME = re.compile(r"[a-z0-9_-]+([.][a-z0-9_-]+)*")
_GLOB = re.compile(r"([^*?\[\]]*)([*]{1,2}(?:/[*]{1,2})*)([^*?\[\]]*)")


@dataclass(frozen=True)
class Pattern:
    """One of the pairs."""

    option: str  # what was given
    part: Pair  # what it means
    run: str  # A regular expression for stems

    @property
    def literal(self) -> int:
        """The bytes of a path that are not the stem's."""
        return len((self.part.before + self.part.after).encode())

    def stem(self) -> tuple[pl.Expr, pl.Expr]:
        """Whether the column ``path`` is a file of this part, and its stem if so."""
        before, after, path = self.part.before, self.part.after, pl.col("path")
        stem = path.str.strip_prefix(before).str.strip_suffix(after)
        fits = path.str.starts_with(before) & path.str.ends_with(after)
        return fits & (path.str.len_bytes() > self.literal) & stem.str.contains(self.run), stem


def parse_pairs(pairs: Mapping[str, str]) -> list[Pattern]:
    """Make sense of pairs."""
    if not pairs:
        raise OptionError("--pair: give each part, as in --pair image=images/*.jpg")
    patterns = [_parse_pair(name, glob) for name, glob in pairs.items()]
    for one, other in combinations(patterns, 2):
        if one.part.field == other.part.field:
            raise OptionError(f"{one.option} and {other.option} are both the part {one.part.field}")
        if one.part[1:3] == other.part[1:3] and one.run == other.run:
            raise OptionError(f"{one.option} and {other.option} are the same files")
    return patterns


def _parse_pair(name: str, glob: str) -> Pattern:
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
    return Pattern(option, Pair(field, before, after, is_image), _regex(wild))


def _regex(wild: str) -> str:
    """Translate a run of wildcards; ``**/`` stands for any number of directories, or none."""
    inner = re.sub(r"[*]{2}/", "D", wild).replace("**", "A").replace("*", "N")
    meanings = {"D": "([^/]+/)*", "A": ".+", "N": "[^/]+", "/": "/"}
    return "(?s)^" + "".join(meanings[each] for each in inner) + "$"


def read_pairs(
    root: str, files: Files, patterns: Sequence[Pattern], classes: tuple[str, ...] | None
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of samples that have all the parts; those that lack one are lost."""
    fields = [pattern.part.field for pattern in patterns]
    if classes is not None and "cls" not in fields:
        raise OptionError(
            f"{root}: its samples have no class, but a list of {len(classes)} classes was given: "
            "name the part that holds their numbers, as in --pair cls=labels/*.cls"
        )
    placed = _placed(files.table, patterns)
    for number, pattern in enumerate(patterns):
        if not (placed["part"] == number).any():
            raise OptionError(f"{pattern.option}: no file below {root} is such a part")
    unread = [finding for finding in files.findings if finding.kind in REJECT_KINDS]
    findings = [finding for finding in files.findings if finding.kind not in REJECT_KINDS]
    findings += [
        Finding("no-part", path) for path in placed.filter(pl.col("part").is_null())["path"]
    ]
    stems, others = _unread_stems(unread, patterns)
    findings += others
    extension = _row_extension(patterns)
    parts = placed.drop_nulls("part").select("stem", "size", "mtime", "part")
    samples = (
        pl.concat([parts, stems], how="diagonal")
        .group_by("stem")
        .agg(pl.col("size").sum(), pl.col("mtime").max(), pl.col("part").drop_nulls())
        .sort("stem")
        .with_columns(path=pl.col("stem") + extension)
    )
    numbers = set(range(len(patterns)))
    is_whole = pl.col("part").list.len() == len(patterns)
    lost = [
        Finding("missing", path, ", ".join(fields[each] for each in sorted(numbers - set(held))))
        for path, held in samples.filter(~is_whole).select("path", "part").iter_rows()
    ]
    samples = samples.filter(is_whole)
    if samples.is_empty():
        raise SourceError(
            f"{root}: no sample has all of its parts: {lost[0].path} lacks {lost[0].detail}"
        )
    reader = ParallelFolders(root, tuple(pattern.part for pattern in patterns), extension)
    table = samples.select(pl.int_range(pl.len()).alias("index"), "path", "size", "mtime")
    return Catalog(table, root, classes, reader), sorted(findings + lost, key=attrgetter("path"))


def _placed(rows: pl.DataFrame, patterns: Sequence[Pattern]) -> pl.DataFrame:
    """Add to each path its ``stem`` and which ``part`` it is, nulls where it is none.

    A file that fits several patterns is the part of the one that says most: ``a_mask.png`` is one
    of ``*_mask.png`` rather than of ``*.png``.
    """
    stem, part = pl.lit(None, pl.String), pl.lit(None, pl.Int64)
    for number in sorted(range(len(patterns)), key=lambda each: patterns[each].literal):
        fits, its_stem = patterns[number].stem()
        stem = pl.when(fits).then(its_stem).otherwise(stem)
        part = pl.when(fits).then(pl.lit(number, pl.Int64)).otherwise(part)
    return rows.with_columns(stem=stem, part=part)


def _unread_stems(
    unread: Sequence[Finding], patterns: Sequence[Pattern]
) -> tuple[pl.DataFrame, list[Finding]]:
    """The stems of files that cannot be had, and what is to be said of other such files."""
    paths = pl.DataFrame({"path": [finding.path for finding in unread]}, {"path": pl.String()})
    placed = _placed(paths, patterns)
    others, odd = [], set()
    for finding, stem in zip(unread, placed["stem"], strict=True):
        if stem is None:
            others.append(finding._replace(kind="no-part"))
        elif finding.kind == "bad-name" and stem not in odd:  # each sample is lost once
            odd.add(stem)
            others.append(finding)
    return placed.select("stem").drop_nulls().filter(~pl.col("stem").is_in(list(odd))), others


def _row_extension(patterns: Sequence[Pattern]) -> str:
    """What rows' paths end in: the extension of the image or, where there is none, the first."""
    image = next((each for each in patterns if each.part.is_image), patterns[0])
    return "." + image.part.after.rpartition(".")[2]
