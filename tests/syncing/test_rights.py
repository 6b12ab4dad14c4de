"""What the guide says about S3 and SageMaker is what the code calls, and what AWS takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dsprep.storage.s3.config import S3Config
from dsprep.storage.s3.errors import OPERATIONS
from dsprep.storage.s3.store import S3Store
from dsprep.syncing.sync import clean_uploads, sync
from tests.servers.bucket import Bucket
from tests.syncing.folders import data_set, tree
from tests.transfers import PART

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "sagemaker.md").read_text("utf-8")
RIGHT = re.compile(r"s3:\w+")

USES = {
    use: {right.removeprefix("s3:") for right in RIGHT.findall(rights)}
    for use, rights in re.findall(r"^\| ([^|]+) \| (`s3:.*) \|$", GUIDE, re.M)
}


class Limited:
    """Syncs as a user who has only the rights of a use, and keeps what was called."""

    def __init__(self, bucket: Bucket, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bucket, self.root = bucket, root
        self.config = S3Config(endpoint=bucket.endpoint)
        self._patch = monkeypatch
        self.called: set[str] = set()

    def become(self, use: str) -> None:
        env = self.bucket.allow(*USES[use])
        for name, value in env.items():
            self._patch.setenv(name, value)
        self.bucket = replace(self.bucket, env=env)  # its objects belong to who stores them
        call = S3Store.call

        def noted(client: S3Store, operation: str, *args: Any, **named: Any) -> Any:
            if client.bucket == self.bucket.name:  # a thread of another test may call yet
                self.called.add(operation)
            return call(client, operation, *args, **named)

        self._patch.setattr(S3Store, "call", noted)

    def sync(self, source: str, destination: str, **wishes: Any) -> None:
        report = sync(source, destination, config=self.config, part_size=PART, **wishes)
        assert not report.failures


@pytest.fixture
def limited(ceph: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Limited:
    return Limited(ceph, tmp_path, monkeypatch)


def begun(bucket: Bucket, key: str) -> None:
    """Leave an upload that is not finished behind, as the limited user does."""
    upload = bucket.s3.create_multipart_upload(Bucket=bucket.name, Key=key)["UploadId"]
    bucket.s3.upload_part(
        Bucket=bucket.name, Key=key, UploadId=upload, PartNumber=1, Body=b"x" * 100
    )


def up(limited: Limited, use: str) -> None:
    files = data_set(limited.root / "set")
    limited.become(use)
    begun(limited.bucket, "set/set-00.tar")
    limited.sync(str(limited.root / "set"), f"{limited.bucket.url}/set", verify=True)
    assert limited.bucket.contents("set/") == files


def replaced(limited: Limited, use: str) -> None:
    root = str(limited.root / "set")
    data_set(limited.root / "set", small=3)
    sync(root, f"{limited.bucket.url}/set", config=limited.config)
    (limited.root / "set" / "set-03.tar").unlink()
    files = data_set(limited.root / "set", seed=7)
    limited.become(use)
    begun(limited.bucket, "set/set-00.tar")
    limited.sync(root, f"{limited.bucket.url}/set", delete=True)
    assert limited.bucket.contents("set/") == files


def down(limited: Limited, use: str) -> None:
    files = data_set(limited.root / "set")
    sync(str(limited.root / "set"), f"{limited.bucket.url}/set", config=limited.config)
    limited.become(use)
    limited.sync(f"{limited.bucket.url}/set", str(limited.root / "got"), verify=True)
    assert tree(limited.root / "got") == files


def across(limited: Limited, use: str) -> None:
    files = data_set(limited.root / "set")
    sync(str(limited.root / "set"), f"{limited.bucket.url}/set", config=limited.config)
    limited.become(use)
    limited.sync(f"{limited.bucket.url}/set", f"{limited.bucket.url}/copy")
    assert limited.bucket.contents("copy/") == files


def tidy(limited: Limited, use: str) -> None:
    limited.become(use)
    begun(limited.bucket, "set/a.tar")
    assert len(clean_uploads(f"{limited.bucket.url}/set", config=limited.config)) == 1
    assert limited.bucket.uploads() == []


DO: dict[str, Callable[[Limited, str], None]] = {
    "to S3": up,
    "to S3, replacing shards, or with `--delete`": replaced,
    "from S3": down,
    "from S3 to S3": across,
    "`--clean-uploads`": tidy,
}


@pytest.mark.parametrize("use", DO)
def test_the_rights_of_the_guide_are_enough_and_all_are_used(limited: Limited, use: str) -> None:
    DO[use](limited, use)
    used = {right for each in limited.called for right in RIGHT.findall(OPERATIONS[each][1])}
    assert {right.removeprefix("s3:") for right in used} == USES[use]


def test_every_use_is_known() -> None:
    assert USES.keys() == DO.keys()


def blocks() -> list[Any]:
    return [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", GUIDE, re.M | re.S)]


def test_the_policy_is_that_of_the_first_use() -> None:
    (policy,) = (block for block in blocks() if "Statement" in block)
    actions = [action for each in policy["Statement"] for action in each["Action"]]
    assert sorted(actions) == sorted(f"s3:{right}" for right in USES["to S3"])
    for each in policy["Statement"]:
        on_bucket = each["Resource"].endswith("bucket")
        assert all(("ListBucket" in action) == on_bucket for action in each["Action"])


def test_the_lifecycle_rule_is_taken(ceph: Bucket) -> None:
    (rule,) = (block for block in blocks() if "Rules" in block)
    ceph.s3.put_bucket_lifecycle_configuration(Bucket=ceph.name, LifecycleConfiguration=rule)
    (there,) = ceph.s3.get_bucket_lifecycle_configuration(Bucket=ceph.name)["Rules"]
    assert there["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}


def test_the_channels_are_such_as_sagemaker_takes() -> None:
    from botocore.session import Session
    from botocore.validate import ParamValidator

    model = Session().get_service_model("sagemaker").operation_model("CreateTrainingJob")
    shape = model.input_shape.members["InputDataConfig"]
    values = {
        name: set(found.enum)
        for name, found in (
            *shape.member.members.items(),
            *shape.member.members["DataSource"].members["S3DataSource"].members.items(),
        )
        if found.type_name == "string"
    }
    channels = [block for block in blocks() if isinstance(block, list)]
    assert len(channels) == 2
    for (channel,) in channels:
        assert not ParamValidator().validate([channel], shape).has_errors()
        for name, value in (*channel.items(), *channel["DataSource"]["S3DataSource"].items()):
            assert value in values.get(name, ()) or not values.get(name)
