"""``dsprep sync``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from dsprep.cli.help import GroupedCommand, given_on_the_command_line, option_group
from dsprep.cli.options import Parsed, command, parse_pairs
from dsprep.cli.report import rows_of, show, some_of
from dsprep.declared import unchecked
from dsprep.errors import REJECTS_EXIT_CODE, DsprepError, OptionError
from dsprep.options import require_effect
from dsprep.syncing.options import Rule, SyncOptions
from dsprep.units import format_count, format_duration, format_size, parse_duration

if TYPE_CHECKING:
    from collections import Counter

    from dsprep.storage.s3.config import S3Config
    from dsprep.syncing.report import SyncReport

# By what decided: why a file is sent, and what shows that DST has it, or proves it.
_WORDS = {
    "missing": ("not there", ""),
    "size": ("of another size", "size"),
    "etag": ("of another ETag", "ETag"),
    "checksum": ("of another checksum", "checksum"),
    "metadata": ("of another checksum in its metadata", "the checksum in their metadata"),
    "download": ("of other bytes, which were read back", "reading them"),
    "time": ("older there", "time"),
    "withdrawn": ("removed there until all that it names is replaced", ""),
}

_s3, _objects = option_group("S3"), option_group("Objects")
_listed, _uploads = option_group("Files"), option_group("Unfinished uploads")

_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")

_IN_HEADERS = {"--storage-class": "storage_class", "--sse-kms-key-id": "kms_key", "--acl": "acl"}
"""Options whose values travel in HTTP's headers as they are, and what they are called here."""

_MOST_TAGS = 10
_LONGEST_TAG = 128
_LONGEST_TAG_VALUE = 256

s3_options = (
    _s3("--profile", metavar="NAME", help="Credentials of this profile in AWS's files."),
    _s3("--region", metavar="NAME", help="Region of the bucket."),
    _s3("--endpoint-url", "endpoint", metavar="URL", help="Server, if it is not AWS."),
    _s3("--path-style", is_flag=True, help="Bucket in the path, not in the host name."),
    _s3("--no-sign-request", "unsigned", is_flag=True, help="No credentials: for public buckets."),
    _s3(
        "--request-payer",
        type=click.Choice(["requester"]),
        help="Pay for requests to buckets whose owners do not.",
    ),
)

object_options = (
    _objects("--storage-class", metavar="CLASS", default="", help="Such as STANDARD_IA."),
    _objects(
        "--sse",
        type=click.Choice(["AES256", "aws:kms", "aws:kms:dsse"]),
        default=None,
        help="Encryption by the server.",
    ),
    _objects("--sse-kms-key-id", "kms_key", metavar="ID", default="", help="Its key in KMS."),
    _objects("--acl", metavar="ACL", default="", help="Such as bucket-owner-full-control."),
    _objects("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="A tag of each object."),
    _objects("--metadata", metavar="NAME=VALUE", multiple=True, help="Metadata of each object."),
)


class _SyncCommand(GroupedCommand):
    """Keeps the order of ``--include`` and ``--exclude``; writes errors as JSON with ``--json``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rules = []
        for word, following in pairwise([*args, ""]):
            name, equals, value = word.partition("=")
            if name in ("--include", "--exclude"):
                rules.append(Rule(name == "--include", value if equals else following))
        ctx.meta["rules"] = rules
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from dsprep.cli.sync_events import json_events

        try:
            return super().invoke(ctx)
        except (DsprepError, OSError) as error:
            if not ctx.params["as_json"]:
                raise
            code = error.exit_code if isinstance(error, DsprepError) else DsprepError.exit_code
            json_events(sys.stderr)("error", text=str(error), code=code)
            return code


@command(
    "",
    click.Argument(["source"], metavar="SRC"),
    click.Argument(["destination"], metavar="DST", required=False),
    _listed(
        "--include",
        metavar="PATTERN",
        multiple=True,
        help="Include these files, even if excluded before.",
    ),
    _listed(
        "--exclude",
        metavar="PATTERN",
        multiple=True,
        help="Exclude these files; * matches slashes too. The last match wins.",
    ),
    SyncOptions,
    _uploads(
        "--clean-uploads",
        is_flag=True,
        help="Abort your own unfinished uploads below SRC, which are billed until then; takes no "
        "DST. Without --older-than, uploads of other runs that are still going are aborted too.",
    ),
    _uploads(
        "--older-than",
        type=Parsed("time", parse_duration),
        help="Only uploads older than this, such as 7d.",
    ),
    s3_options,
    object_options,
    cls=_SyncCommand,
)
@click.pass_context
def sync(
    context: click.Context,
    /,
    source: str,
    destination: str | None,
    clean_uploads: bool,
    older_than: float | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Copy the files of SRC that DST does not have. At least one is on S3: s3://bucket/prefix.

    Files are compared by contents and verified by checksum. After a kill, the same command resumes,
    on any machine. Shards are sent before the manifest that names them. With --json, stderr has one
    JSON object a line for each event; the last one is the error, if the command fails.

    \b
    Examples:
      dsprep sync shards/ s3://bucket/train/
      dsprep sync s3://bucket/train/ shards/
      dsprep sync shards/ s3://bucket/train/ --delete --dry-run
      dsprep sync shards/ s3://bucket/train/ --exclude '*' --include '*.tar'
      dsprep sync shards/ s3://bucket/train/ --verify
      dsprep sync --clean-uploads s3://bucket/train/ --older-than 7d
    """
    from dsprep.cli.sync_events import events_for
    from dsprep.storage.files import system_path
    from dsprep.syncing import sync as syncing

    del options["include"], options["exclude"]  # their order is in the rules
    config = take_config(options)
    if clean_uploads:
        if destination is not None:
            raise OptionError(f"--clean-uploads {source} {destination}: one place at a time")
        found = unchecked(syncing.clean_uploads)(
            source, older_than=older_than or 0.0, dry_run=options["dry_run"], config=config
        )
        show({"place": source, "uploads": found}, orphan_lines, as_json, quiet)
        return 0
    if destination is None:
        raise click.UsageError("Name both, SRC and DST.", context)
    from_disk, to_disk = (system_path(place) is not None for place in (source, destination))
    given = given_on_the_command_line(context)
    require_effect("sync", given, local_source=from_disk, remote=not to_disk)
    with events_for(sys.stderr, as_json, quiet) as events:
        options |= {"rules": context.meta["rules"], "config": config, "events": events}
        report = unchecked(syncing.sync)(source, destination, **options)
    show(report, _lines, as_json, quiet and not report.failures)
    return REJECTS_EXIT_CODE if report.failures else 0


def take_config(options: dict[str, Any]) -> S3Config:
    """Take these options out of all others."""
    from dsprep.storage.s3.config import S3Config, require_endpoint

    if options["endpoint"]:
        require_endpoint("--endpoint-url", options["endpoint"])
    for option, name in _IN_HEADERS.items():
        value = options.get(name)
        if value and not _HEADER_VALUE.fullmatch(value):
            raise OptionError(f"{option} {value}: is not of printable ASCII characters")
    metadata = parse_pairs(options["metadata"], "--metadata")
    for name, value in metadata.items():
        problem = ""
        if not _HEADER_NAME.fullmatch(name):
            problem = (
                "names of metadata are of ASCII letters, digits and characters such as - and _"
            )
        elif not _HEADER_VALUE.fullmatch(value):
            problem = "metadata is of printable ASCII characters, without blanks around it"
        if problem:
            raise OptionError(f"--metadata {name}={value}: {problem}")
    tags = parse_pairs(options["tags"], "--tag")
    if len(tags) > _MOST_TAGS:
        raise OptionError(f"--tag: an object has {_MOST_TAGS} tags at most, not {len(tags)}")
    for name, value in tags.items():
        problem = ""
        if len(name) > _LONGEST_TAG or len(value) > _LONGEST_TAG_VALUE:
            problem = (
                f"a tag's name has {_LONGEST_TAG} characters at most, its value "
                f"{_LONGEST_TAG_VALUE}"
            )
        elif not (name + value).isprintable():
            problem = "tags are of printable characters"
        if problem:
            raise OptionError(f"--tag {name}={value}: {problem}")
    given = {each.name: options.pop(each.name) for each in fields(S3Config) if each.name in options}
    given["sign"] = not options.pop("unsigned")
    given["request_payer"] = given["request_payer"] is not None
    return S3Config(**given | {"sse": given["sse"] or "", "tags": tags, "metadata": metadata})


def orphan_lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield which unfinished uploads there were, and what became of them."""
    place, orphans = report["place"], report["uploads"]
    count = format_count(len(orphans), "unfinished upload")
    size = format_size(sum(orphan.bytes for orphan in orphans))
    if not orphans:
        yield f"{place}: no unfinished uploads of your own"
    elif all(orphan.aborted for orphan in orphans):
        yield f"{place}: {count} of your own, {size}, aborted"
    else:
        yield f"{place}: {count}, {size}; those that you began would be aborted"
    texts = []
    for orphan in orphans:
        by = f" by {orphan.initiator}" if orphan.initiator else ""
        parts, size = format_count(orphan.parts, "part"), format_size(orphan.bytes)
        age = format_duration(orphan.seconds)
        texts.append(f"{orphan.url}: begun {age} ago{by}, {parts}, {size}")
    yield from _indented(texts)


def _lines(report: SyncReport) -> Iterator[str]:
    yield f"{report.source} → {report.destination}: {report.state}"
    planned = report.state == "planned"
    would = "would be " if planned else ""
    sent = f"{format_count(len(report.sent), 'file')}, {format_size(report.bytes)}"
    parts = sum(send.parts for send in report.sent)
    if parts > len(report.sent):
        sent += f" in {parts:,} parts"
    yield from _rows((f"{would}sent", sent if report.sent or not report.same else ""))
    if planned:
        yield from _indented(f"{send.path}: {_WORDS[send.by][0]}" for send in report.sent)
    requests = report.requests.writes + report.requests.reads
    resumed = f"{format_size(report.resumed)} were there from an earlier run"
    yield from _rows(
        ("requests", planned and f"about {requests:,}"),
        ("resumed", report.resumed and resumed),
        ("there already", _by(report.same)),
    )
    yield from _files(f"{would}deleted", report.deleted)
    yield from _rows(("verified", _by(report.verified)))
    yield from _files("left out", map(": ".join, report.left))
    yield from _files("failed", map(": ".join, report.failures))
    rate = f", {format_size(report.bytes / report.seconds)}/s" if report.bytes else ""
    took = f"{format_duration(report.seconds)}{rate}"
    yield from _rows(*(("note", note) for note in report.notes), ("time", not planned and took))
    if planned:
        from dsprep.cli.cost import sync_lines

        yield from sync_lines(report)


_rows = partial(rows_of, width=16)


def _files(name: str, texts: Iterable[str]) -> Iterator[str]:
    texts = list(texts)
    yield from _rows((name, texts and format_count(len(texts), "file")))
    yield from _indented(texts)


def _indented(texts: Iterable[str]) -> Iterator[str]:
    return (f"    {text}" for text in some_of(list(texts), 10))


def _by(counts: Counter[str]) -> str:
    """Format a number of files, and what decided: ``3 files (2 by etag, 1 by checksum)``."""
    files = format_count(counts.total(), "file")
    if len(counts) < 2:
        return "".join(f"{files}, by {_WORDS[by][1]}" for by in counts)
    return f"{files} ({', '.join(f'{n:,} by {_WORDS[by][1]}' for by, n in counts.most_common())})"
