"""Sources on S3 that are odd, that change or that refuse: counted, or told; never silently less."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest

import dsprep
import dsprep.run.write
from dsprep.errors import BadSample, SourceError
from dsprep.sample import Sample
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from dsprep.storage.files import entries, find_files, open_file
from dsprep.storage.s3.store import bucket_of
from tests.attack.trees import contents
from tests.conftest import Finished
from tests.here import Lasting
from tests.house.test_guides import feature_store
from tests.images import image_folder
from tests.servers.bucket import Bucket
from tests.servers.proxy import Proxy

RunCli = Callable[..., Finished]


@pytest.fixture(autouse=True)
def way(ceph: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the server as they find AWS: in the environment."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", ceph.endpoint)


@pytest.fixture
def images(ceph: Bucket, tmp_path: Path) -> dict[str, bytes]:
    """Two classes of three images, on S3 and in the directory ``images``."""
    files = image_folder(tmp_path / "images", ("a", "b"), 3)
    for path, data in files.items():
        ceph.put(f"images/{path}", data)
    return files


@pytest.fixture
def proxy(ceph: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with Proxy(ceph.endpoint).running() as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
        yield running


def test_keys_of_all_kinds(ceph: Bucket, images: dict[str, bytes]) -> None:
    data = images["a/000.jpg"]
    wanted = dict(images)
    for name in ("with blank.jpg", "a+b%20c&d=e?.jpg", "größe 😀.jpg", "x#y;z~'\".JPG"):
        ceph.put(f"images/a/{name}", data)
        wanted[f"a/{name}"] = data
    for name in ("images/", "images/a/", "images/empty/", "images/a/notes.txt", "images/.x/y.jpg"):
        ceph.put(name)
    for name in ("a//b.jpg", "../c.jpg", "a/./d.jpg", "/e.jpg", "b/../"):
        ceph.put(f"images/{name}", data)
    ceph.put("images-of-others/f.jpg", data)
    catalog, findings = read_source(make_source(f"{ceph.url}/images"))
    paths = catalog.table["path"].to_list()
    assert paths == sorted(wanted)
    assert [*catalog.reader.read(catalog.rows())] == [wanted[path] for path in paths]
    assert [each[:2] for each in findings] == [
        ("bad-name", "../c.jpg"),
        ("hidden", ".x/"),
        ("bad-name", "/e.jpg"),
        ("bad-name", "a/./d.jpg"),
        ("bad-name", "a//b.jpg"),
        ("left-over", "a/notes.txt"),
        ("not-an-image", "b/../"),
    ]


def test_more_than_a_page(ceph: Bucket) -> None:
    names = [f"{number:04d}.jpg" for number in range(1100)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: bucket_of(ceph.name).put(f"many/{name}", b""), names))
    url = f"{ceph.url}/many"
    catalog, _ = read_source(make_source(url))
    assert catalog.table["path"].to_list() == names
    assert [each.name for each in entries(url)] == names
    found = find_files(f"{ceph.url}/m*/[01][0!-]99.jp?")
    assert found == [f"{url}/0099.jpg", f"{url}/1099.jpg"]


def test_objects_that_go_or_change_are_rejects(
    ceph: Bucket, images: dict[str, bytes], tmp_path: Path
) -> None:
    catalog, _ = read_source(make_source(f"{ceph.url}/images"))
    ceph.s3.delete_object(Bucket=ceph.name, Key="images/a/001.jpg")
    ceph.put("images/b/000.jpg", b"another")
    found = dict(zip(images, catalog.reader.read(catalog.rows()), strict=True))
    gone, changed = found.pop("a/001.jpg"), found.pop("b/000.jpg")
    assert "there is no such object" in str(gone)
    assert "has changed" in str(changed)
    assert isinstance(gone, BadSample)
    assert isinstance(changed, BadSample)
    assert found == {path: images[path] for path in found}
    for path in images:
        ceph.s3.delete_object(Bucket=ceph.name, Key=f"images/{path}")
    with pytest.raises(SourceError, match="is gone"):
        list(catalog.reader.read(catalog.rows()))


def test_a_shard_that_changes_is_an_error(
    ceph: Bucket, images: dict[str, bytes], tmp_path: Path
) -> None:
    dsprep.pack(str(tmp_path / "images"), str(tmp_path / "x.rec"), workers=1)
    shard = (tmp_path / "x.rec").read_bytes()
    ceph.put("x.rec", shard)
    catalog, _ = read_source(make_source(f"{ceph.url}/x.rec"))
    rows = catalog.rows()
    reading = catalog.reader.read(rows)
    assert isinstance(next(reading), Sample)
    ceph.put("x.rec", shard[:-1] + b"\1")
    with pytest.raises(SourceError, match="has changed"):
        list(catalog.reader.read(rows))


def test_a_file_that_changes_while_it_is_read(ceph: Bucket) -> None:
    data = bytes(range(256)) * (6 << 12)
    ceph.put("x", data)
    with open_file(f"{ceph.url}/x") as file:
        assert file.pread(100, 5_000_000) == data[5_000_000:5_000_100]
        assert file.read(10) == data[:10]
        file.seek(-3, 2)
        assert file.read() == data[-3:]
        file.seek(0)
        read = b"".join(iter(lambda: file.read(1_000_000), b""))
        assert read == data
        ceph.put("x", data[::-1])
        with pytest.raises(SourceError, match="has changed while it was being read"):
            file.pread(10, 100)


def test_what_is_not_there(ceph: Bucket) -> None:
    for source, said in (
        (f"{ceph.url}/nothing/", "does not exist"),
        (f"{ceph.url}/x-{{0..1}}.tar", "there is no such shard"),
        (f"{ceph.url}/x-*.tar", "there are no such files"),
        (ceph.url, "holds no images"),
        ("s3://no-such-bucket-here/x", "there is no bucket of this name"),
    ):
        with pytest.raises(SourceError, match=said):
            read_source(make_source(source))


def test_a_right_that_is_missing_is_named(
    ceph: Bucket, images: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "LIMITED")
    ceph.allow("ListBucket")
    catalog, _ = read_source(make_source(f"{ceph.url}/images/"))
    with pytest.raises(SourceError, match="the right s3:GetObject is missing"):
        list(catalog.reader.read(catalog.rows()))
    ceph.allow("GetObject")
    with pytest.raises(SourceError, match="the right s3:ListBucket is missing"):
        read_source(make_source(f"{ceph.url}/images/"))


@pytest.mark.parametrize("kind", ["reset-answer", "truncate", "answer"])
def test_what_fails_is_tried_again(
    ceph: Bucket, images: dict[str, bytes], proxy: Proxy, kind: str
) -> None:
    proxy.add(kind, method="GET", match="/a/", times=4, at=100, status=503, code="SlowDown")
    catalog, _ = read_source(make_source(f"{ceph.url}/images"))
    assert [*catalog.reader.read(catalog.rows())] == [*images.values()]
    assert proxy.counted("GET", "/a/") == 3 + 4


def test_a_run_that_s3_has_stopped_goes_on(
    ceph: Bucket, images: dict[str, bytes], run_cli: RunCli, run_here: RunCli, tmp_path: Path
) -> None:
    how = ("--format", "webdataset", "--no-shuffle", "--samples-per-shard", "3", "-qj1")
    source, out = f"{ceph.url}/images/", tmp_path / "out"
    policy = {
        "Effect": "Allow",
        "Principal": {"AWS": ["arn:aws:iam:::user/limited"]},
        "Action": ["s3:ListBucket", "s3:GetObject"],
        "Resource": [f"arn:aws:s3:::{ceph.name}", f"arn:aws:s3:::{ceph.name}/images/a/*"],
    }
    text = json.dumps({"Version": "2012-10-17", "Statement": [policy]})
    ceph.s3.put_bucket_policy(Bucket=ceph.name, Policy=text)
    stopped = run_cli("pack", source, out, *how, env={"AWS_ACCESS_KEY_ID": "LIMITED"})
    assert stopped.code == 4
    assert "images/b/" in stopped.err
    first = (out / "train-000000.tar").stat()
    assert run_cli("pack", source, out, *how) == (0, "", "")
    assert (out / "train-000000.tar").stat() == first
    assert run_here("pack", tmp_path / "images", tmp_path / "local", *how).code == 0
    assert contents(out) == contents(tmp_path / "local")


def test_a_manifest_of_sagemaker_finds_its_images(
    ceph: Bucket, images: dict[str, bytes], tmp_path: Path
) -> None:
    refs = [f"{ceph.url}/images/{path}" for path in reversed(images)]
    ceph.put("lists/x.manifest", "\n".join(f'{{"source-ref": "{ref}"}}' for ref in refs).encode())
    catalog, _ = read_source(make_source(f"{ceph.url}/lists/x.manifest"))
    assert catalog.table["path"].to_list() == [*reversed(images)]
    assert [*catalog.reader.read(catalog.rows())] == [*reversed(images.values())]


def test_lists_and_splits(
    ceph: Bucket, images: dict[str, bytes], run_here: RunCli, tmp_path: Path
) -> None:
    made, remote = tmp_path / "all.lst", f"{ceph.url}/images/"
    assert run_here("lst", "create", remote, "-o", made, "-qj1").code == 0
    ceph.put("lists/all.lst", made.read_bytes())
    ceph.put("lists/classes.txt", (tmp_path / "classes.txt").read_bytes())
    ceph.put("images/b/copy.jpg", images["a/000.jpg"])
    halves = ("--ratio", "train=0.5,val=0.5", "-qj1")
    for name, args in (
        ("directory", (remote, "--leaks", "together")),
        ("list", (f"{ceph.url}/lists/all.lst",)),
    ):
        assert run_here("split", *args, "-o", tmp_path / name, *halves) == (0, "", "")
        sides = [path.read_text().splitlines() for path in (tmp_path / name).glob("*.lst")]
        assert sum(map(len, sides)) == len(images) + (name == "directory")
        assert (tmp_path / name / "classes.txt").read_text() == "a\nb\n"
    done = run_here("split", remote, "-o", tmp_path / "d", "--materialize", "copy")
    assert (done.code, "dsprep sync" in done.err) == (2, True)
    ceph.s3.delete_object(Bucket=ceph.name, Key="images/a/001.jpg")
    checked = run_here("lst", "check", f"{ceph.url}/lists/all.lst", "--root", remote)
    assert (checked.code, "'a/001.jpg': there is no such object" in checked.out) == (3, True)
    done = run_here("lst", "create", remote, "-o", f"{ceph.url}/new.lst", "-qj1")
    assert (done.code, "dsprep sync" in done.err) == (2, True)


@pytest.fixture
def shards(ceph: Bucket, images: dict[str, bytes], tmp_path: Path) -> Path:
    """The images as three shards with their manifest, on S3 and in a directory."""
    where = tmp_path / "set"
    dsprep.pack(str(tmp_path / "images"), str(where), format="webdataset", shards=3, workers=1)
    for name, data in contents(where).items():
        ceph.put(f"set/{name}", data)
    return where


def test_shards_however_they_are_named(
    ceph: Bucket, shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["", "/", "/manifest.json", "/train-{000000..000002}.tar", "/train-*.tar"]
    for name in (*names, "/train-000001.tar"):
        local, _ = read_source(make_source(f"{shards}{name}"))
        remote, _ = read_source(make_source(f"{ceph.url}/set{name}"))
        assert remote.digest() == local.digest()
        assert remote.classes == local.classes
        samples = [*remote.reader.read(remote.rows())]
        assert samples == [*local.reader.read(local.rows())]


@pytest.mark.parametrize("state", [".dsprep", ".val.dsprep"])
def test_an_unfinished_run_is_not_the_whole(ceph: Bucket, shards: Path, state: str) -> None:
    ceph.put(f"set/{state}/run.json", b"{}")
    assert len(read_source(make_source(f"{ceph.url}/set"))[0]) > 0
    ceph.s3.delete_object(Bucket=ceph.name, Key="set/manifest.json")
    for name in ("set", "set/"):
        with pytest.raises(SourceError, match=rf"has left \{state} there; .* '.*/set/\*\.tar'"):
            read_source(make_source(f"{ceph.url}/{name}"))
    assert len(read_source(make_source(f"{ceph.url}/set/*.tar"))[0]) > 0


def test_shards_are_cut_and_streamed(
    ceph: Bucket, shards: Path, run_here: RunCli, tmp_path: Path
) -> None:
    places = {"local": shards, "remote": f"{ceph.url}/set"}
    with Lasting(1) as pool, patch.object(dsprep.run.write, "open_executor", lambda *_: pool):
        for name, place in places.items():
            dsprep.shard(str(place), str(tmp_path / f"{name}-2"), shards=2)
            dsprep.shard(str(place), str(tmp_path / f"{name}-mixed"), shuffle=True)
        pool.end()
    for kind in ("2", "mixed"):
        assert contents(tmp_path / f"remote-{kind}") == contents(tmp_path / f"local-{kind}")
    made = [
        run_here("convert", f"{place}/train-000000.tar", "-", "--to", "tfrecord")
        for place in places.values()
    ]
    assert made[0] == made[1]
    assert "image/encoded" in made[1].out


def test_shards_take_few_requests(ceph: Bucket, shards: Path, proxy: Proxy, tmp_path: Path) -> None:
    """Each shard is found, indexed and read; one task looks at the samples of all.

    The first one of others is opened once more, to look for annotations beside images.
    """
    for path in shards.glob("*.tar"):
        ceph.put(f"others/{path.name}", path.read_bytes())
    for name, looks in (("set", 0), ("others", 1)):
        proxy.requests.clear()
        dsprep.convert(f"{ceph.url}/{name}", str(tmp_path / f"{name}-rec"), to="recordio")
        for path in shards.glob("*.tar"):
            more = looks + (name == "others" and path.name.endswith("-000000.tar"))
            assert proxy.counted("HEAD", path.name) <= 3 + more
            assert proxy.counted("GET", path.name) <= 2 + more


def test_a_file_is_fetched_ahead(ceph: Bucket, proxy: Proxy) -> None:
    """Few requests from front to back, one for a jump; headers that lie apart are jumped to."""
    size = 40 << 20
    data = random.Random(0).randbytes(size)
    ceph.put("x", data)
    url = f"{ceph.url}/x"
    with open_file(url) as file:
        read = b"".join(iter(lambda: file.read(1 << 18), b""))
        assert read == data
        assert proxy.counted("GET") < 12
        before = proxy.counted("GET")
        for offset in (5 << 20, 30 << 20, 1 << 20):
            assert file.pread(512, offset) == data[offset : offset + 512]
        places = [(7 << 20) * number for number in range(6)]
        for offset in places:
            file.ahead(offset, 1000)
        assert [file.pread(1000, each) for each in places] == [
            data[each : each + 1000] for each in places
        ]
        assert proxy.counted("GET") - before == 3 + len(places)
        before = proxy.counted("GET")
        for offset in range(0, 8 << 20, 1 << 16):
            file.ahead(offset, 60_000)
        read = [file.pread(60_000, offset) for offset in range(0, 8 << 20, 1 << 16)]
        assert b"".join(read)[:60_000] == data[:60_000]
        assert read[-1] == data[(8 << 20) - (1 << 16) :][:60_000]
        assert proxy.counted("GET") - before < 12


def test_local_runs_know_nothing_of_s3(
    images: dict[str, bytes], run_cli: RunCli, tmp_path: Path
) -> None:
    env = {"PYTHONPROFILEIMPORTTIME": "1"}
    how = ("--format", "webdataset", "-qj1")
    done = run_cli("pack", tmp_path / "images", tmp_path / "out", *how, env=env)
    assert "polars" in done.err  # which tells what was imported, here and in workers
    assert "botocore" not in done.err


def test_a_feature_store(ceph: Bucket, tmp_path: Path, run_cli: RunCli) -> None:
    feature_store(tmp_path)
    local = tmp_path / "reviews-1714550400"
    for path, data in contents(local).items():
        ceph.put(f"{local.name}/{path}", data)
    options = ("--to", "tfrecord", "--no-image", "--key", "review_id", "--latest", "EventTime")
    for number, source in enumerate(
        (local, f"{ceph.url}/{local.name}", f"{ceph.url}/{local.name}/data")
    ):
        done = run_cli("pack", source, tmp_path / str(number), *options, "-j1")
        assert done.code == 0, done.err
        assert "keeps 3 records of 8 rows; left out: 4 older versions, 1 deleted" in done.out
    assert contents(tmp_path / "0") == contents(tmp_path / "1") == contents(tmp_path / "2")
