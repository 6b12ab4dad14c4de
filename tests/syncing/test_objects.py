"""What is stored: many keys, large objects, copies in parts, and the options of objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsprep.storage import transfer as parts
from dsprep.storage.s3.config import S3Config
from dsprep.syncing.sync import sync
from tests.conftest import Finished
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy
from tests.syncing.folders import data_set, tree
from tests.transfers import MIB, PART, copy, data_of, file_of, store_of

GIB = 1 << 30


def test_more_keys_than_a_page_holds(ceph: Bucket, tmp_path: Path) -> None:
    config = S3Config(endpoint=ceph.endpoint)
    root = tmp_path / "many"
    for number in range(1500):
        path = root / f"{number % 3} +%" / f"ü{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    names = set(tree(root))
    first = sync(str(root), ceph.url, config=config)
    assert len(first.sent) == 1500
    assert set(ceph.keys()) == names
    again = sync(str(root), ceph.url, config=config)
    assert (again.state, again.same) == ("already there", {"size": 1500})
    for path in sorted(root.rglob("ü*"))[1:]:
        path.unlink()
    last = sync(str(root), ceph.url, delete=True, config=config)
    assert len(last.deleted) == 1499
    assert set(ceph.keys()) == set(tree(root))


def test_a_plan_of_large_files(
    ceph: Bucket, run_here: Callable[..., Finished], tmp_path: Path
) -> None:
    for name, size in (("large", 5 * GIB), ("larger", 700 * GIB)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    done = run_here("sync", tmp_path, ceph.url, "--dry-run", "--json", *ceph.options)
    plan = json.loads(done.out)
    large, larger = 5 * GIB // (32 * MIB), -(-700 * GIB // (72 * MIB))
    assert [each["parts"] for each in plan["sent"]] == [large, larger]
    assert plan["requests"] == {
        "writes": large + larger + 2 * 3 + 1,
        "reads": 2,
        "parts": large + larger,
    }
    text = run_here("sync", tmp_path, ceph.url, "--dry-run", *ceph.options).out
    assert f"757 GB in {large + larger:,} parts" in text
    assert "requests         about 10,125" in text
    assert ceph.keys() == []


def test_requests_are_as_many_as_planned(localstack: Bucket, tmp_path: Path) -> None:
    data_set(tmp_path / "set")
    with Proxy(localstack.endpoint).running() as proxy:
        config = S3Config(endpoint=proxy.endpoint)
        report = sync(str(tmp_path / "set"), localstack.url, part_size=PART, config=config)
    preflight = 3
    assert len(proxy.requests) == report.requests.writes + report.requests.reads + preflight


@pytest.fixture
def small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """What CopyObject takes is a thousandth of what it is."""
    monkeypatch.setattr(parts, "LARGEST_COPY", PART)
    monkeypatch.setattr(parts, "COPY_PART", PART)


ABOUT: dict[str, Any] = {
    "ContentType": "application/x-tar",
    "CacheControl": "no-store",
    "Metadata": {"who": "me"},
}


def put_tagged(bucket: Bucket) -> bytes:
    data = data_of(2 * PART + 1)
    bucket.s3.put_object(
        Bucket=bucket.name, Key="a/k", Body=data, Tagging="project=cats%20and%20dogs", **ABOUT
    )
    return data


@pytest.mark.usefixtures("small_copies")
def test_a_copy_in_parts(ceph: Bucket) -> None:
    data = put_tagged(ceph)
    ceph.s3.create_multipart_upload(Bucket=ceph.name, Key="b/k")  # of a run that was killed
    config = S3Config(endpoint=ceph.endpoint)
    report = sync(f"{ceph.url}/a", f"{ceph.url}/b", config=config)
    assert [(each.path, each.parts) for each in report.sent] == [("k", 3)]
    assert ceph.contents("b/") == {"k": data}
    assert ceph.uploads() == []
    told = ceph.s3.head_object(Bucket=ceph.name, Key="b/k")
    assert {name: told[name] for name in ABOUT} == ABOUT
    assert told["ETag"].endswith('-3"')


@pytest.mark.usefixtures("small_copies")
def test_a_copy_in_parts_keeps_tags(localstack: Bucket) -> None:
    """Of which Ceph 16 keeps none; LocalStack keeps no checksums of parts that are copied."""
    data = put_tagged(localstack)
    source, target = store_of(localstack), store_of(localstack)
    target.checksums = False
    assert copy(source, "a/k", target, "b/k").parts == 3
    assert localstack.contents("b/") == {"k": data}
    tags = localstack.s3.get_object_tagging(Bucket=localstack.name, Key="b/k")["TagSet"]
    assert tags == [{"Key": "project", "Value": "cats and dogs"}]


def test_metadata_is_added_to_what_a_copy_has(localstack: Bucket) -> None:
    localstack.s3.put_object(
        Bucket=localstack.name, Key="a/k", ContentType="image/png", Metadata={"who": "me"}
    )
    config = S3Config(endpoint=localstack.endpoint, metadata={"when": "now"})
    sync(f"{localstack.url}/a", f"{localstack.url}/b", config=config)
    told = localstack.s3.head_object(Bucket=localstack.name, Key="b/k")
    assert told["Metadata"] == {"who": "me", "when": "now"}
    assert told["ContentType"] == "image/png"


@pytest.mark.parametrize(
    "options", [("--storage-class", "NONSENSE"), ("--acl", "nonsense", "--tag", "a=b")]
)
def test_a_refused_option_is_named(
    localstack: Bucket, run_here: Callable[..., Finished], tmp_path: Path, options: tuple[str, ...]
) -> None:
    file_of(tmp_path / "file", 10)
    done = run_here("sync", tmp_path, localstack.url, "-q", *localstack.options, *options)
    assert done.code == 5
    assert f"what is refused may be an option: {' '.join(options)}" in done.err
    assert not localstack.contents()


KMS = ("--sse", "aws:kms", "--sse-kms-key-id", "k1")


@pytest.mark.parametrize(("server", "sse"), [("localstack", ("--sse", "AES256")), ("ceph", KMS)])
def test_options_of_objects(
    request: pytest.FixtureRequest,
    run_here: Callable[..., Finished],
    tmp_path: Path,
    server: str,
    sse: tuple[str, ...],
) -> None:
    bucket: Bucket = request.getfixturevalue(server)
    root = tmp_path / "set"
    root.mkdir()
    file_of(root / "large", PART + 1)
    file_of(root / "small", 10)
    done = run_here(
        *("sync", root, bucket.url, "-q", "--part-size", "5MiB", *bucket.options, *sse),
        *("--bandwidth", "500MB/s"),
        *("--storage-class", "STANDARD_IA", "--acl", "public-read", "--request-payer", "requester"),
        *("--tag", "project=cats and dogs", "--metadata", "who=me"),
    )
    assert (done.code, done.err) == (0, "")
    for name in ("large", "small"):
        place = {"Bucket": bucket.name, "Key": name}
        told = bucket.s3.head_object(**place)
        assert told["StorageClass"] == "STANDARD_IA"
        assert told["ServerSideEncryption"] == sse[1]
        assert told.get("SSEKMSKeyId", "k1") == "k1"
        assert told["Metadata"]["who"] == "me"
        grants = bucket.s3.get_object_acl(**place)["Grants"]
        assert "READ" in [each["Permission"] for each in grants]
        if server == "localstack" or name == "small":  # as above
            tags = bucket.s3.get_object_tagging(**place)["TagSet"]
            assert tags == [{"Key": "project", "Value": "cats and dogs"}]
    again = run_here("sync", root, bucket.url, "--json", *bucket.options)
    assert json.loads(again.out)["sent"] == []
