"""A Ray cluster: each try at a call is a task of Ray Core. Nothing else knows Ray."""

from __future__ import annotations

import itertools
import logging
import os
import platform
import signal
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from dsprep.errors import OptionError, RunStopped
from dsprep.extras import pip_install
from dsprep.progress import WAITS
from dsprep.units import format_count
from dsprep.workers.cluster import Answer, Call, Cluster, Sign, answer

_CONNECTS_WITHIN = 5.0  # seconds; Ray itself would try for minutes
# Ray speaks gRPC over HTTP/2, where each end begins with a frame of settings (RFC 9113, 3.4): its
# length, 3 bytes; its kind; flags, a byte; the number of a stream, 4 bytes.
_SETTINGS = b"\x04"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + _SETTINGS + bytes(5)
_OTHER = "something else does"
_RETRIES = "5"  # a second each, where something answers that is no cluster
_ANSWERS_WITHIN = 60.0  # seconds for a node's first process to start, and for any small call


class Mailbox:
    """Keeps the last sign of life of each try until the driver takes it; an actor."""

    def __init__(self) -> None:
        self._signs: dict[int, Sign] = {}
        self._needless: Collection[int] = ()

    def is_needless(self, number: int) -> bool:
        return number in self._needless

    def tell(self, number: int, sign: Sign) -> None:
        self._signs[number] = sign

    def take(self, needless: Collection[int]) -> Mapping[int, Sign]:
        signs, self._signs, self._needless = self._signs, {}, needless
        return signs


def run_task(call: Call, mailbox: Any) -> Answer:
    """Make a call on a node."""
    import ray

    util: Any = ray.util  # Any: the module has no types
    # While the main thread of a task waits, Ray lends its core to another task.
    with ThreadPoolExecutor(1) as aside:
        if aside.submit(ray.get, mailbox.is_needless.remote(call.number)).result():
            return Answer("lost", "another try was first")
    # Containers may share a host name.
    name = f"{platform.node()} ({util.get_node_ip_address()})"
    node: str = ray.get_runtime_context().get_node_id()
    return answer(call, node, name, mailbox.tell.remote)


class RayMachines:
    """The nodes of a cluster that has been started already."""

    def __init__(self, address: str) -> None:
        """Connect; raises `OptionError` if there is no such cluster, or no Ray."""
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", _RETRIES)
        try:
            import ray
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        except ImportError:
            raise OptionError(f"--engine ray needs Ray: {pip_install('ray')}") from None
        if ray.is_initialized():
            raise OptionError(
                "--engine ray: this process is connected to Ray already; call ray.shutdown() first"
            )
        self._ray: Any = ray  # typed as Any because Ray has types for some functions only
        self._on = NodeAffinitySchedulingStrategy
        address = _reachable(address)
        handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            with _quiet():
                # the address may be that of another gRPC server, such as Ray Client
                if address != "auto":
                    self._ray._raylet.GcsClient(address=address, cluster_id=None)
                ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
            # It prints the logs of nodes that have died, to stdout, and has no option for that.
            worker: Any = ray._private.worker
            worker.print_to_stdstream = lambda *_, **__: None
        except ray.exceptions.RpcError:
            raise _silence(address, _OTHER) from None
        except (ConnectionError, RuntimeError, ValueError) as error:
            if address == "auto":
                raise OptionError(
                    "--engine ray: this machine is not in a running Ray cluster: run dsprep on one "
                    "of its nodes, or start a cluster with: ray start --head"
                ) from None
            reason = str(error).strip().split("\n")[0]
            raise OptionError(f"--ray-address {address}: {reason}") from None
        finally:
            with suppress(ValueError):  # signals can be set only in the main thread
                for each, handler in handlers.items():
                    signal.signal(each, handler)
        here = self._on(ray.get_runtime_context().get_node_id(), soft=False)
        mailbox: Any = ray.remote(num_cpus=0)(Mailbox)
        self._mailbox = mailbox.options(scheduling_strategy=here).remote()
        self._task = ray.remote(num_cpus=1, max_retries=0)(run_task)
        self._others = itertools.count()

    @classmethod
    def executor(cls, address: str, workers: int | None) -> Cluster:
        """Return the executor on the cluster at this address, or the one that ``auto`` finds."""
        return Cluster(cls(address), workers)

    def cores(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))

    def describe(self) -> str:
        if not (nodes := self._nodes()):
            return "no node; the run waits for one"
        return f"{format_count(len(nodes), 'node')}, {format_count(self.cores(), 'core')}"

    def _nodes(self) -> dict[str, str]:
        """Return the names of the nodes that can work, by id."""
        return {
            each["NodeID"]: f"{each['NodeManagerHostname']} ({each['NodeManagerAddress']})"
            for each in self._ray.nodes()
            if each["Alive"] and each["Resources"].get("CPU")
        }

    def submit(self, call: Call, avoid: Collection[str] = ()) -> Any:
        task = self._task
        if avoid and (others := sorted(self._nodes().keys() - {*avoid})):
            node = others[next(self._others) % len(others)]
            task = task.options(scheduling_strategy=self._on(node, soft=True))
        return task.remote(call, self._mailbox)

    def everywhere(self, call: Call) -> list[Answer]:
        asked = {
            self._task.options(num_cpus=0, scheduling_strategy=self._on(node, soft=False)).remote(
                call, self._mailbox
            ): name
            for node, name in self._nodes().items()
        }
        if not asked:  # machines that were not asked for will join
            return []
        ready, silent = self._ray.wait([*asked], num_returns=len(asked), timeout=_ANSWERS_WITHIN)
        names = ", ".join(sorted(asked[each] for each in silent))
        if not ready:
            raise RunStopped(
                f"no node of the Ray cluster answers: {names}; give the same command again when "
                "one does"
            )
        if silent:
            WAITS.tell(f"{names}: does not answer; the run goes on with the other nodes")
        return [self.answer(each) for each in ready]

    def wait(self, handles: Sequence[Any], seconds: float) -> Sequence[Any]:
        return self._ray.wait(list(handles), timeout=seconds)[0]  # type: ignore[no-any-return]

    def answer(self, handle: Any) -> Answer:
        errors = self._ray.exceptions
        try:
            return self._ray.get(handle)  # type: ignore[no-any-return]
        except errors.OutOfMemoryError:
            return Answer("lost", "a worker was ended by Ray because memory ran out on its node")
        except (
            errors.RayTaskError,
            errors.RuntimeEnvSetupError,
        ) as error:  # dsprep is not there, say
            return Answer("crash", str(error))
        except errors.RayError:
            return Answer("lost", "a worker died, or its node")

    def signs(self, needless: Collection[int]) -> Mapping[int, Sign]:
        try:
            asked = self._mailbox.take.remote(needless)
            return self._ray.get(asked, timeout=_ANSWERS_WITHIN)  # type: ignore[no-any-return]
        except self._ray.exceptions.RayError:
            raise RunStopped(
                "the Ray cluster does not answer any more; give the same command again to continue"
            ) from None

    def close(self) -> None:
        self._ray.shutdown()  # the nodes end what still runs


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep away from the terminal what Ray's own code writes to stderr."""
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


def _reachable(address: str) -> str:
    """Return the address of a cluster, when something answers there."""
    found = os.environ.get("RAY_ADDRESS") or "auto" if address == "auto" else address
    if found == "auto":
        return found  # Ray itself searches this machine for its processes
    host, _, port = found.rpartition(":")
    if not host or not port.isdecimal():
        raise OptionError(f"--ray-address {found}: give HOST:PORT, such as 10.0.0.7:6379, or auto")
    place = host.strip("[]"), int(port)
    try:
        with socket.create_connection(place, _CONNECTS_WITHIN) as connection:
            connection.sendall(_GREETING)
            with connection.makefile("rb") as stream:
                is_ray = stream.read(4)[3:] == _SETTINGS
        why = "" if is_ray or os.environ.get("RAY_USE_TLS") == "1" else _OTHER
    except (OSError, OverflowError) as error:
        why = str(error)
    if why:
        raise _silence(found, why)
    return found


def _silence(address: str, why: str) -> OptionError:
    return OptionError(f"--ray-address {address}: no Ray cluster answers there ({why})")
