"""`dsprep cost`: the sums are those made by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.cli.cost import money, sync_lines
from dsprep.errors import OptionError, SourceError
from dsprep.syncing.report import Requests, SyncReport
from dsprep.training.cost import LayoutCost
from tests.conftest import Finished

# Of the built-in table: $0.0004 a thousand reads, $0.005 a thousand writes, $0.005 a GB converted,
# $0.023, $0.022 and $0.021 a GB and month up to 50 TB, 500 TB and above.
SETS = [
    # A GET an image against a GET a shard: 10^9 x $0.0004 / 1000, and 10^6 x $0.0004 / 1000.
    (
        {"samples": 10**9, "size": "100TB", "shard_size": ["100MB"]},
        # 50,000 x 0.023 + 50,000 x 0.022
        ("files", 10**9, 2250.0, 5000.0, 400.0, 400.0, 400.0),
        # 100 MB are 3 parts of 32 MiB, with 3 requests more, and 12 ranges of 8 MiB
        ("shards of 100 MB", 10**6, 2250.0, 30.0, 0.4, 4.8, 400.0),
        500.0,
    ),
    # ImageNet: 1,281,167 images of 140 GB
    (
        {"samples": 1_281_167, "size": "140GB", "shard_size": ["200MB"]},
        ("files", 1_281_167, 3.22, 6.405835, 0.5124668, 0.5124668, 0.5124668),
        # 200 MB are 6 parts, with 3 requests more, and 24 ranges
        ("shards of 200 MB", 700, 3.22, 0.0315, 0.00028, 0.00672, 0.5124668),
        0.7,
    ),
    # A petabyte: 50,000 x 0.023 + 450,000 x 0.022 + 500,000 x 0.021
    (
        {"samples": 10**10, "size": "1000TB", "shard_size": ["1GB"]},
        ("files", 10**10, 21550.0, 50_000.0, 4000.0, 4000.0, 4000.0),
        # 1 GB are 30 parts, with 3 requests more, and 120 ranges
        ("shards of 1 GB", 10**6, 21550.0, 165.0, 0.4, 48.0, 4000.0),
        5000.0,
    ),
]


@pytest.mark.parametrize(("options", "files", "shards", "conversion"), SETS)
def test_sums(
    options: dict[str, Any], files: tuple[Any, ...], shards: tuple[Any, ...], conversion: float
) -> None:
    report = dsprep.cost(**options)
    for found, expected in zip(report.layouts, (files, shards), strict=True):
        assert found[:2] == expected[:2]
        assert found[2:] == pytest.approx(expected[2:])
    assert report.conversion == pytest.approx(conversion)
    assert report.transfer["same-region"] == 0


def test_file_systems() -> None:
    """Of 3 TB, at the prices in the table: $0.30, $0.140, $0.145 and $0.08 a GB and month."""
    found = {each.name: each[1:5] for each in dsprep.cost(samples=9, size="3TB").file_systems}
    assert found == {
        # 3,000 x 0.30; each GB is written for $0.06 and read for $0.03
        "EFS": pytest.approx((3 * 10**12, 900.0, 180.0, 90.0)),
        # 4,800 GB are the smallest size from 3,000 on: 1,200, 2,400, and multiples of 2,400
        "FSx for Lustre, scratch": pytest.approx((4800 * 10**9, 672.0, 0, 0)),
        "FSx for Lustre, persistent": pytest.approx((4800 * 10**9, 696.0, 0, 0)),
        "EBS gp3, a volume": pytest.approx((3 * 10**12, 240.0, 0, 0)),
    }
    counts = {
        size: [each.needed for each in dsprep.cost(samples=9, size=size).file_systems]
        for size in ("70.3TB", "70.4TB", "141TB")
    }
    assert counts == {"70.3TB": [1, 1, 1, 1], "70.4TB": [1, 1, 1, 2], "141TB": [1, 1, 1, 3]}
    for size, sold in (("1GB", 1200), ("1200GB", 1200), ("1201GB", 2400), ("2401GB", 4800)):
        systems = dsprep.cost(samples=1, size=size).file_systems
        assert [each.bytes for each in systems if "FSx" in each.name] == [sold * 10**9] * 2


def test_the_figures_of_practice(run_here: Callable[..., Finished]) -> None:
    done = run_here("cost", "--samples", 10**9, "--size", "100TB", "--shard-size", "100MB")
    assert done.code == 0
    assert "  shards of 100 MB  1,000,000      $2,250.00  $30.00     $0.40 " in done.out
    assert "conversion $500.00 an epoch" in done.out
    lines = [line.split("  ") for line in done.out.splitlines()]
    cells = [[cell.strip() for cell in line if cell] for line in lines]
    assert ["EFS", "100 TB", "$30,000.00", "$6,000.00", "$3,000.00", "2026-06"] in cells
    row = ["EBS gp3, a volume, 2 of them", "100 TB", "$8,000.00", "$0.00", "$0.00", "2026-08"]
    assert row in cells


def test_transfer_to_the_internet() -> None:
    # 10,000 x 0.09 + 40,000 x 0.085 + 50,000 x 0.07
    transfer = dsprep.cost(samples=1, size="100TB").transfer
    assert transfer == pytest.approx({"same-region": 0, "other-region": 2000, "internet": 7800})


def test_a_data_set_is_what_verify_finds(photos: Path, tmp_path: Path) -> None:
    dsprep.pack(photos, tmp_path / "wds", to="webdataset", shards=3, workers=1)
    verified = dsprep.verify(tmp_path / "wds", workers=1)
    report = dsprep.cost(tmp_path / "wds")
    assert (report.samples, report.bytes) == (verified.samples, verified.bytes)
    assert [each.objects for each in report.layouts] == [12, 1, 1, 1, 3]
    images = dsprep.cost(photos)
    assert images.bytes == sum(path.stat().st_size for path in photos.rglob("*.jpg"))
    both = dsprep.cost([tmp_path / "wds", photos])
    assert both.samples == 24


def test_machines() -> None:
    options = {"samples": 1, "size": 1, "gpu_hour": 3.0, "epoch_hours": 2.0}
    assert dsprep.cost(**options, utilization=0.5).epoch == (6.0, 12.0)
    with pytest.raises(OptionError, match="give --utilization"):
        dsprep.cost(**options)
    for wrong in ({"utilization": 60.0}, {"gpu_hour": math.nan}, {"epoch_hours": -2.0}):
        with pytest.raises(OptionError, match="give a number above 0"):
            dsprep.cost(**{**options, "utilization": 0.5, **wrong})


def test_a_table_of_your_own(tmp_path: Path) -> None:
    own = Path(dsprep.__file__).parent / "training/prices.toml"
    text = own.read_text().replace("reads = 0.0004", "reads = 0.4").replace("us-east-1", "mine")
    (tmp_path / "own.toml").write_text(text)
    report = dsprep.cost(samples=1000, size="1GB", prices=tmp_path / "own.toml")
    assert isinstance(report.layouts[0], LayoutCost)
    assert report.layouts[0].whole == pytest.approx(0.4)
    assert report.prices.endswith(", mine")
    without, _, systems = text.partition("[file-systems")
    (tmp_path / "own.toml").write_text(without)
    assert dsprep.cost(samples=1, size="1GB", prices=tmp_path / "own.toml").file_systems == []
    (tmp_path / "own.toml").write_text(f"{text}\n[file-systems.mine]\nstorage = [[0, 2]]\n")
    *_, own_system = dsprep.cost(samples=1, size="1GB", prices=tmp_path / "own.toml").file_systems
    assert own_system == ("mine", 10**9, 2.0, 0, 0, "2026-06", 1)
    (tmp_path / "own.toml").write_text(text.replace("read = 0.03", "read = -1"))
    with pytest.raises(SourceError, match="EFS: prices and sizes are numbers from 0 on"):
        dsprep.cost(samples=1, size=1, prices=tmp_path / "own.toml")
    (tmp_path / "own.toml").write_text(text.replace("[[50_000, 0.023], ", "[[0, 1], "))
    with pytest.raises(SourceError, match=r"own\.toml: is not a table of prices \(limits of tiers"):
        dsprep.cost(samples=1, size=1, prices=tmp_path / "own.toml")
    (tmp_path / "own.toml").write_text("date = 1")
    with pytest.raises(
        SourceError, match=r"own\.toml: is not a table of prices \(no 'region'\): change"
    ):
        dsprep.cost(samples=1, size=1, prices=tmp_path / "own.toml")


def test_refused(photos: Path, tmp_path: Path) -> None:
    for options in ({}, {"samples": 3}, {"size": "3GB"}, {"data": "x", "samples": 3, "size": 5}):
        with pytest.raises((OptionError, SourceError)):
            dsprep.cost(**options)
    (tmp_path / "train.tar").write_bytes(bytes(10240))
    with pytest.raises(SourceError, match="nothing tells its samples"):
        dsprep.cost(tmp_path / "train.tar")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SourceError, match=r"pack it, dsprep pack .*rows.csv OUT --to FORMAT"):
        dsprep.cost(tmp_path / "rows.csv")
    dsprep.pack(photos, tmp_path / "wds", to="webdataset", workers=1)
    path = tmp_path / "wds/manifest.json"
    path.write_text(path.read_text().replace('"format": "webdataset"', '"format": "no such"'))
    with pytest.raises(SourceError, match="is not one that dsprep knows"):
        dsprep.cost(tmp_path / "wds")


def test_a_planned_sync_ends_with_prices() -> None:
    report = SyncReport("shards", "s3://bucket/x", bytes=10**12, requests=Requests(40_000, 5_000))
    assert list(sync_lines(report)) == [
        "  cost             $0.20 in requests",
        "                   $23.00 a month for what is sent",
        "  prices           2026-06, us-east-1",
    ]
    report = SyncReport("s3://bucket/x", "shards", bytes=10**12, requests=Requests(0, 5_000))
    cost, transfer, _ = sync_lines(report)
    assert cost == "  cost             $0.0020 in requests"
    assert "up to $90.00 for transfer" in transfer


def test_json(run_here: Callable[..., Finished]) -> None:
    found = json.loads(run_here("cost", "--samples", 5, "--size", "1GB", "--json").out)
    assert found["layouts"][0]["objects"] == 5
    assert found["epoch"] is None
    assert found["file_systems"][0]["name"] == "EFS"


def test_money() -> None:
    amounts = (0.0, 1e-6, 0.0012, 0.09, 0.4, 1234.5)
    told = ["$0.00", "<$0.0001", "$0.0012", "$0.0900", "$0.40", "$1,234.50"]
    assert [*map(money, amounts)] == told
