"""Can each node of a cluster do the work of a run? This is asked before anything is written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.images.probe import differing, probe, versions
from dsprep.images.transform import Transform
from dsprep.run.notes import Target
from dsprep.storage.files import facts, is_shared
from dsprep.storage.local import destination_errors
from dsprep.tuples import NamedTuple
from dsprep.workers.executor import Executor
from dsprep.workers.worker import machine_name

if TYPE_CHECKING:
    from dsprep.plan.plan import Plan

_LOOKS = 100  # the most files of the source that are looked for on a node


class NodeTask(NamedTuple):
    """What a worker's machine must see, and what it must make of the built-in image."""

    target: Target
    source: list[str]
    transform: Transform | None
    image: str  # the SHA-256 of what the driver makes of it
    versions: str


def require_nodes(plan: Plan, target: Target, pool: Executor) -> None:
    """Let each node of a cluster be checked, also those that come later."""
    from dsprep.plan.saved import inputs, probe_of, require_shared  # imported late: loads polars

    require_shared(plan)
    if plan.job.destination.remote is not None and plan.unpacked():
        raise OptionError(
            f"{plan.catalog.root}: is compressed, and has to be unpacked on a disk that all nodes "
            "see: write to such a disk, or unpack it first"
        )
    with destination_errors(target.temporary):
        target.temporary.mkdir(exist_ok=True)  # what nodes must see; the run has not begun yet
    root = plan.catalog.root
    ends = plan.shards[:1] if is_shared(root) else [plan.shards[0], plan.shards[-1]]
    files = list(dict.fromkeys(each.path for each in inputs(plan, ends)))
    seen = files[:: math.ceil(len(files) / _LOOKS)]
    pool.prepare(check_node, NodeTask(target, seen, plan.job.images.probed, *probe_of(plan.job)))


def check_node(task: NodeTask) -> None:
    """Raise an error if this node cannot do the work of a run."""
    task.target.require_seen()
    node = machine_name()
    for path in task.source:
        try:
            facts(path)
        except OSError as error:
            raise SourceError(
                f"{path}: {node} does not see it ({error.strerror}): let all nodes see the source "
                "under this name"
            ) from None
    if task.transform is not None and probe(task.transform) != task.image:
        raise DestinationError(
            f"{task.target.destination}: images would not be the same on all machines: {node} "
            f"{differing(versions(task.transform), task.versions, 'the driver')}same libraries on "
            "all nodes"
        )
