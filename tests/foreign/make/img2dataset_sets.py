"""Sets by img2dataset 1.47.0, which downloads from a server in this process."""

from __future__ import annotations

import json
import shutil
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from img2dataset import download

from tests.foreign.make.pictures import CAPTIONS, jpeg, place, png, seen, truth

TOOL = "img2dataset 1.47.0"
PORT = 8765
FAILS = 2
"""The download that fails: its row is in the tables, and nowhere else."""


def serve(root: Path) -> ThreadingHTTPServer:
    for seed in range(len(CAPTIONS)):
        if seed == FAILS:
            continue
        if seed % 3:
            (root / f"{seed}.jpg").write_bytes(jpeg(seed))
        else:
            (root / f"{seed}.png").write_bytes(png(seed))
    handler = partial(SimpleHTTPRequestHandler, directory=str(root))
    server = ThreadingHTTPServer(("127.0.0.1", PORT), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def make(name: str, root: Path, output_format: str) -> Path:
    rows = [
        (f"http://127.0.0.1:{PORT}/{seed}.{'jpg' if seed % 3 else 'png'}", caption)
        for seed, caption in enumerate(CAPTIONS)
    ]
    urls = root / "urls.parquet"
    pq.write_table(pa.table({"url": [r[0] for r in rows], "text": [r[1] for r in rows]}), urls)
    dest = place(name)
    download(
        url_list=str(urls),
        input_format="parquet",
        url_col="url",
        caption_col="text",
        output_folder=str(dest),
        output_format=output_format,
        image_size=24,
        resize_mode="keep_ratio",
        number_sample_per_shard=5,
        processes_count=1,
        thread_count=1,
        compute_hash="sha256",
        enable_wandb=False,
    )
    shutil.rmtree(dest / "_tmp", ignore_errors=True)
    for path in dest.rglob("*.crc"):
        path.unlink()
    return dest


def parts(files: dict[str, bytes]) -> list[dict[str, Any]]:
    """Samples of `KEY.jpg`, `KEY.txt` and `KEY.json`, in the order of the images."""
    return [
        {
            "key": name[:-4],
            "image": seen(data),
            "text": files[f"{name[:-4]}.txt"].decode(),
            "json": json.loads(files[f"{name[:-4]}.json"]),
        }
        for name, data in files.items()
        if name.endswith(".jpg")
    ]


def table_rows(dest: Path) -> list[dict[str, Any]]:
    """Rows of the tables beside the shards, those of failed downloads included."""
    paths = sorted(dest.glob("*.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def records(dest: Path) -> list[dict[str, Any]]:
    """Samples of the TFRecords: all facts are features; nothing is an empty text."""
    found = []
    for path in sorted(dest.glob("*.tfrecord")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            values = {
                name: getattr(feature, feature.WhichOneof("kind")).value[0]
                for name, feature in tf.train.Example.FromString(record).features.feature.items()
            }
            image = seen(values.pop("jpg"))
            texts = {
                name: value.decode() if isinstance(value, bytes) else value
                for name, value in values.items()
                if name in FACTS or name == "txt"
            }
            found.append({"key": None, "image": image, **texts})
    return found


FACTS = {
    "caption": "text",
    "url": "text",
    "status": "text",
    "error_message": "text",
    "original_width": "int",
    "original_height": "int",
    "exif": "text",
}
"""Other columns follow from the image, or name the sample."""


def main() -> None:
    with TemporaryDirectory() as scratch:
        root = Path(scratch)
        server = serve(root)
        types = {"image": "image", "text": "text", "json": "json"}

        dest = make("img2dataset-webdataset", root, "webdataset")
        files: dict[str, bytes] = {}
        for path in sorted(dest.glob("*.tar")):
            with tarfile.open(path) as tar:
                files |= {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore
        truth(dest.name, TOOL, parts(files), types)

        dest = make("img2dataset-files", root, "files")
        names = sorted(path for path in dest.glob("*/*"))
        files = {path.relative_to(dest).as_posix(): path.read_bytes() for path in names}
        truth(dest.name, TOOL, parts(files), types)

        dest = make("img2dataset-parquet", root, "parquet")
        rows = [
            {"key": None, "image": seen(row["jpg"]), **{name: row[name] for name in FACTS}}
            for row in table_rows(dest)
            if row["jpg"]
        ]
        truth(dest.name, TOOL, rows, {"image": "image", **FACTS})

        dest = make("img2dataset-tfrecord", root, "tfrecord")
        truth(dest.name, TOOL, records(dest), {"image": "image", "txt": "text", **FACTS})
        server.shutdown()


if __name__ == "__main__":
    main()
