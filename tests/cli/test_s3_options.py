"""What S3 could not take is refused before anything is asked of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Finished

TAGS = tuple(word for number in range(11) for word in ("--tag", f"t{number}=x"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--metadata", "ü=o"), "--metadata ü=o: names of metadata are of ASCII letters"),
        (("--metadata", "a b=c"), "names of metadata are of ASCII letters"),
        (("--metadata", "u=ö"), "--metadata u=ö: metadata is of printable ASCII"),
        (("--metadata", "a=b\nc"), "metadata is of printable ASCII"),
        (("--metadata", "a= b"), "without blanks around it"),
        (TAGS, "--tag: an object has 10 tags at most, not 11"),
        (("--tag", f"{'k' * 129}=v"), "a tag's name has 128 characters at most, its value 256"),
        (("--tag", f"k={'v' * 257}"), "a tag's name has 128 characters at most, its value 256"),
        (("--tag", "k=a\nb"), "tags are of printable characters"),
        (("--storage-class", "ÄRCHIVE"), "--storage-class ÄRCHIVE: is not of printable ASCII"),
        (("--acl", "a\nb"), "is not of printable ASCII"),
        (("--sse-kms-key-id", "ü"), "--sse-kms-key-id ü: is not of printable ASCII"),
        (("--endpoint-url", "localhost:9000"), "localhost:9000: is no endpoint; write"),
        (("--endpoint-url", "ftp://host"), "ftp://host: is no endpoint; write it as http://"),
        (("--endpoint-url", "http://"), "http://: is no endpoint; write it as http://"),
        (("--endpoint-url", "http://a:x"), "http://a:x: is no endpoint; write it as http://"),
    ],
)
def test_what_s3_could_not_take(
    options: tuple[str, ...], said: str, run_here: Callable[..., Finished], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    done = run_here("sync", tmp_path, "s3://some-bucket/x", *options)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_endpoint_of_the_environment(
    name: str, run_here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "localhost:9000")
    done = run_here("verify", f"s3://{name.lower().replace('_', '-')}/x")
    assert (done.code, done.out) == (2, "")
    assert f"{name} localhost:9000: is no endpoint; write it as http://" in done.err


def test_a_profile_that_is_not_there(run_here: Callable[..., Finished]) -> None:
    done = run_here("sync", ".", "s3://some-bucket/x", "--profile", "nobody")
    assert done.code == 5
    assert "there is no profile nobody in AWS's configuration files" in done.err
