"""How files are sent: what all transfers of a run share goes for manifests, too."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dsprep.storage.pool import Pace
from dsprep.storage.stored import Stored, crc32c
from dsprep.storage.transfer import TransferOptions, Transferred
from dsprep.syncing.options import SyncOptions
from dsprep.syncing.plan import Pair
from dsprep.syncing.run import Sync
from dsprep.syncing.sides import Directory, Prefix


def test_a_manifest_comes_down_at_the_pace_of_the_run(tmp_path: Path) -> None:
    called: dict[str, Any] = {}

    def fetch_file(key: str, path: Path, *options: Any) -> Transferred:
        called.update(path=path, options=options)
        return Transferred(stored, 0, 1, 0, 4, "md5")

    store: Any = SimpleNamespace(url=str, fetch_file=fetch_file)
    way = TransferOptions(Pace(1))
    sync = Sync(Prefix(store, "set/"), Directory(tmp_path), way, SyncOptions("", ""))
    stored = Stored("set/manifest.json", 4, 0.0)
    sync._publish_one(Pair("manifest.json", stored, None), b"data", new=False)
    assert called["path"] == tmp_path / "manifest.json"
    assert called["options"] == (way, stored, crc32c(b"data"))
