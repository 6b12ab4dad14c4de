"""``--engine ray`` on a real cluster of Ray: a head and two nodes, of which one dies."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import DamagedShard, OptionError, SourceError
from dsprep.workers.ray import RayMachines
from tests.conftest import Finished
from tests.images import image_folder
from tests.run.test_part import contents
from tests.workers import called

_STORE = 80 << 20  # bytes of the object store of a node; the least that Ray takes is 75 MiB


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that does not work, and two nodes that run one task each."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "object_store_memory": _STORE, "include_dashboard": False}
    started = Cluster(initialize_head=True, head_node_args=head)
    with RayMachines.executor(started.address, None) as executor:
        assert str(executor) == "no node; the run waits for one"
    for _ in range(2):
        started.add_node(num_cpus=1, object_store_memory=_STORE)
    started.wait_for_nodes()
    yield started
    started.shutdown()


def test_calls_run_on_the_nodes(cluster: Any, tmp_path: Path) -> None:
    told: list[tuple[int, list[str]]] = []
    with RayMachines.executor(cluster.address, None) as executor:
        assert (executor.size, str(executor)) == (2, "2 nodes, 2 cores")
        executor.prepare(called.leave_a_file, str(tmp_path / "prepared"))
        assert executor.map(called.slow_square, range(5)) == [0, 1, 4, 9, 16]
        executor.map(called.doing, [5, 7], lambda *args: told.append(args))
        assert sum(count for count, _ in told) == 12
        assert len(list(tmp_path.glob("prepared-*"))) >= 2
        with pytest.raises(OptionError, match="connected to Ray already"):
            RayMachines(cluster.address)
        # A worker that is killed is replaced; an error of dsprep comes back whole.
        assert executor.map(called.dying_once, [str(tmp_path)], lambda *_: None) == [None]
        with pytest.raises(DamagedShard) as caught:
            executor.map(called.damaged, [1])
        assert caught.value.offset == 7
        with pytest.raises(SourceError, match="not here"):
            executor.prepare(called.not_here, None)


def test_a_silent_node_is_left_out(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsprep.workers.ray._ANSWERS_WITHIN", 5.0)
    raylet = next(iter(cluster.worker_nodes)).all_processes["raylet"][0].process
    told: list[str] = []
    monkeypatch.setattr("dsprep.workers.ray.WAITS.tell", told.append)
    with RayMachines.executor(cluster.address, None) as executor:
        raylet.send_signal(signal.SIGSTOP)
        try:
            executor.prepare(called.leave_a_file, str(tmp_path / "prepared"))
        finally:
            raylet.send_signal(signal.SIGCONT)
    assert len(told) == 1
    assert "does not answer; the run goes on with the other nodes" in told[0]
    assert len(list(tmp_path.glob("prepared-*"))) == 1


def test_a_node_dies(
    cluster: Any, run_cli: Callable[..., Finished], start_cli: Callable[..., Any], tmp_path: Path
) -> None:
    source, shared, alone = tmp_path / "photos", tmp_path / "shared", tmp_path / "alone"
    image_folder(source, ("a", "b"), 100)
    options = ("--to", "webdataset", "--shards", 20, "--resize", 16, "--encode", "png")
    engine = ("--engine", "ray", "--ray-address", cluster.address)
    started = start_cli("pack", source, shared, *options, *engine)
    while started.process.poll() is None and not any(shared.glob("train-*.tar")):
        time.sleep(0.02)
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    out, err = started.process.communicate(timeout=120)
    assert started.process.returncode == 0, err
    assert "raylet" not in out + err
    assert run_cli("pack", source, alone, *options).code == 0
    assert contents(shared) == contents(alone)
    done = run_cli("verify", shared, *engine)
    assert done.code == 0, done.err
