"""Ask `dsprep bench` what limits 12 real loops, whose costs are random; needs PyTorch and Ceph.

python -m tests.benching.judge_limits [SEED]
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import boto3

import dsprep
from tests.images import image_folder
from tests.servers.fixtures import ENVIRONMENT
from tests.servers.proxy import Proxy
from tests.servers.start import start_ceph, stop

COMMON: dict[str, Any] = {"rounds": 1, "warmup": 2}


def compute(rng: random.Random, place: Path, _: Proxy) -> dict[str, Any]:
    """The training step takes much longer than reading."""
    image_folder(place, ("a",), 32, size=(64, 48))
    return {
        "sources": place,
        "readers": "raw",
        "work": "bytes",
        "workers": (0, 2),
        "steps": 30,
        "batch": rng.randint(1, 16),
        "compute": rng.uniform(20, 60),
    }


def processor(rng: random.Random, place: Path, _: Proxy) -> dict[str, Any]:
    """Images are large, and lie in the page cache."""
    width = rng.randint(800, 1600)
    image_folder(place, ("a",), 16, size=(width, width * 3 // 4))
    return {
        "sources": place,
        "readers": "raw",
        "work": "train",
        "workers": (0, 1),
        "steps": 30,
        "batch": rng.randint(2, 8),
        "cache": "warm",
    }


def latency(rng: random.Random, place: Path, proxy: Proxy) -> dict[str, Any]:
    """The server takes its time for each small image."""
    image_folder(place, ("a",), 64, size=(64, 48))
    url = f"s3://bench/{place.name}"
    dsprep.sync(place, url, config=dsprep.S3Config(endpoint=proxy.endpoint))
    wait = rng.uniform(0.03, 0.1)
    proxy.add("wait", method="GET", match=f"/{place.name}/", times=10**9, seconds=wait)
    return {
        "sources": url,
        "readers": "torch",
        "work": "bytes",
        "workers": (1, 3),
        "steps": 40,
        "batch": rng.randint(1, 3),
        "access": "boto3",
    }


def main() -> None:
    rng = random.Random(*sys.argv[1:])
    said = Counter[str]()
    with tempfile.TemporaryDirectory() as scratch:
        server = Path(scratch, "ceph")
        endpoint = start_ceph(server)["http"]
        os.environ.update(ENVIRONMENT, AWS_ENDPOINT_URL=endpoint)
        try:
            with Proxy(endpoint).running() as proxy:
                boto3.client("s3").create_bucket(Bucket="bench")
                os.environ["AWS_ENDPOINT_URL"] = proxy.endpoint
                for number in range(12):
                    kind = (compute, processor, latency)[number % 3]
                    report = dsprep.bench(
                        **kind(rng, Path(scratch, f"{kind.__name__}-{number}"), proxy), **COMMON
                    )
                    limits = [row.limit for row in report.rows]
                    judged = {"undecided": "undecided", kind.__name__: "right"}
                    said.update(found := [judged.get(limit, "wrong") for limit in limits])
                    print(f"{kind.__name__}: {', '.join(limits)}", flush=True)
                    assert "wrong" not in found, [row.error or row for row in report.rows]
        finally:
            stop(server)
    print(f"{said['right']} right, {said['undecided']} undecided, none wrong, of 24 rows")


if __name__ == "__main__":
    main()
