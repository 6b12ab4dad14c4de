"""What is written to disk or printed as JSON has names of its own: no attribute names by chance."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from dsprep.findings import Reject
from dsprep.printable import json_value
from dsprep.storage.stored import Facts
from dsprep.verifying.report import Problem
from dsprep.verifying.status import StatusReport

PACKAGE = Path(__file__).parents[2] / "dsprep"
ROOMS = ("dataset", "run", "plan", "verifying", "training", "cli")


def test_attribute_names_are_not_written() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for room in ROOMS
        for path in (PACKAGE / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("asdict", "_asdict")
    }
    assert not found, "write an explicit to_json with fixed names instead"


# The objects that reports with `--json` consist of, with the names of their values, in their order.
# Programs read them: a name stays when an attribute is renamed.
NAMES = {
    "WriteReport": "destination format state shards samples bytes estimated classes per_class "
    "rejects rejects_file skipped skipped_counts duplicates collisions sides chosen existing "
    "source notes schema fields objects seconds",
    "ShardFacts": "name samples bytes",
    "Chosen": "filtered unknown unmatched",
    "VerifyReport": "destination format manifest shards samples bytes checked problems seconds "
    "proof notes fields objects",
    "StatusReport": "destination state shards done samples bytes missing problems commands running",
    "ServeReport": "place channels exit_code rejects notes seconds",
    "ChannelServed": "name format files epochs closed_early bytes",
    "SagemakerReport": "request job channels lists notes",
    "JobChannel": "name uri data",
    "DataFacts": "place format samples classes bytes side files",
    "CostReport": "samples bytes prices layouts transfer conversion epoch file_systems",
    "LayoutCost": "layout objects storage upload whole ranges samples",
    "EpochCost": "full input_bound",
    "FileSystemCost": "name bytes storage upload epoch date needed",
    "Problem": "file offset sample message",
    "FieldFound": "name type classes role told samples",
    "ObjectCounts": "objects classes samples without per_class",
    "IndexReport": "destination format state shards samples bytes files problems notes seconds",
    "IndexFile": "name kind state detail",
    "SplitReport": "destination state method samples lists parts classes off groups seed leaks "
    "rejects skipped skipped_counts materialized notes seconds written",
    "InspectReport": "data output samples looked_at decoded hashed fields sides alike suspects "
    "rejects skipped shown notes seconds",
    "DedupReport": "data output samples near sets copies bytes conflicts rejects skipped notes "
    "seconds",
    "SideFigures": "name samples looked_at bytes classes classes_of_all objects kinds modes "
    "orientations sizes distributions channels",
    "Distribution": "name images least p5 median mean p95 most edges counts",
    "Channels": "mean std",
    "Suspect": "side path why",
    "SampleShown": "key path fields",
    "Shown": "side path label",
    "Alike": "kind is_leak differ samples",
    "BenchReport": "state rows sentence notes work batch cores memory seconds",
    "BenchRow": "data format reader access workers name cache figures rounds busy idle "
    "noise cached_share requests fetched copy_seconds limit windows error",
    "Figures": "images_per_second bytes_per_second step_mean step_variance step_p50 step_p95 "
    "step_p99 first_batch cpu_per_1000 memory utilization",
    "ListFacts": "name path samples wanted",
    "ClassFacts": "name counts off",
    "Leak": "kind samples",
    "SyncReport": "source destination state sent bytes resumed same deleted verified left failures "
    "requests notes seconds",
    "Send": "path size by parts",
    "LeftOutFile": "path why",
    "Failure": "path message",
    "Requests": "writes reads parts",
    "Orphan": "url id seconds initiator parts bytes aborted",
    "CreateReport": "lists added known classes per_class rejects skipped skipped_counts duplicates "
    "seed written notes already_done",
    "EditReport": "path rows changed removed selected written already_done",
    "PatchReport": "path rows added removed changed reordered written already_done",
    "Relabeled": "lists unit moves classes dropped idle written already_done",
    "DiffReport": "a b rows counts classes relabelings other_names unread",
    "Merged": "path rows ours theirs order renumbered conflicts decided new_classes",
    "ListCheckReport": "list rows classes root reader kinds faults",
    "Statistics": "list rows kind widths distinct classes largest smallest imbalance unused "
    "objects objects_per_row",
    "SampleReport": "list output rows kept wanted classes short seed written already_done",
    "ListWritten": "path rows",
    "ClassMove": "old new moved",
    "Change": "line old new",
    "ClassChange": "number name before after added removed gained lost",
    "OtherName": "number before after",
    "Edits": "added removed changed",
    "Renumbered": "path old new",
    "Conflict": "what base ours theirs",
    "Fault": "line kind message",
    "ClassCount": "number name rows objects",
}


def names_in(kind: ast.ClassDef) -> str | None:
    """Return the names that a class has in JSON; None if no report has it."""
    for node in kind.body:
        if isinstance(node, ast.FunctionDef) and node.name == "to_json":
            match node.body[-1]:
                case ast.Return(ast.Call(ast.Name("json_values"), [ast.Dict(keys)])):
                    return " ".join(str(ast.literal_eval(key)) for key in keys if key)
    return None


def test_reports_have_these_names() -> None:
    found = {
        kind.name: names
        for path in PACKAGE.rglob("*.py")
        for kind in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(kind, ast.ClassDef) and (names := names_in(kind)) is not None
    }
    assert found == NAMES


def test_a_report_is_values_of_json() -> None:
    problem = Problem("a.tar", "https://me:secret@host/a", offset=3)
    report = StatusReport("out", "damaged", 1, 0, 0, 0, (), (problem,), ())
    made = json_value({"status": report, "seconds": float("inf"), "rejects": [Reject("a", "b")]})
    assert json.loads(json.dumps(made)) == made
    said = {"file": "a.tar", "offset": 3, "sample": "", "message": "https://***@host/a"}
    assert (made["status"]["missing"], made["status"]["problems"]) == ([], [said])
    assert (made["seconds"], made["rejects"]) == (None, [{"path": "a", "reason": "b"}])


def test_a_tuple_with_names_is_no_list() -> None:
    with pytest.raises(TypeError, match="Facts has no to_json"):
        json_value([Facts(1, 2)])
