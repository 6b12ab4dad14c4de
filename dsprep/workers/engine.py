"""Where the work of a command runs, as ``--engine`` says."""

from __future__ import annotations

from collections.abc import Sequence

from dsprep.workers.executor import Executor


def open_executor(
    workers: int | None,
    engine: str | None = None,
    address: str | None = None,
    ahead: Sequence[str] = (),
) -> Executor:
    """Return what runs the work of a command, as its options ask."""
    if engine == "ray":
        from dsprep.workers.ray import RayMachines  # few runs need a cluster

        return RayMachines.executor(address or "auto", workers)
    from dsprep.workers.pool import Pool, available_cores

    return Pool(available_cores() if workers is None else workers, ahead)
