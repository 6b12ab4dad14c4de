"""Augmented manifests of texts, as BlazingText reads them: written, read, verified, served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import webdataset as wds

import dsprep
from tests.conftest import Finished
from tests.here import Here
from tests.images import image_folder

# The examples of BlazingText's documentation: one label, or several.
ONE = [
    {"source": "linux ready for prime time , intel says", "label": 1},
    {"source": "bowled by the slower one again , kolkata", "label": 2},
]
SEVERAL = [
    {"source": "linux ready for prime time", "label": [1, 3]},
    {"source": 'é\n"quoted"\u2028', "label": [2, 4, 5]},
    {"source": "", "label": 3},
]


def write(path: Path, lines: list[dict[str, Any]], start: bytes = b"") -> Path:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_bytes(start + text.encode())
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().decode().split("\n") if line]


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf\n"])
@pytest.mark.parametrize("lines", [ONE, SEVERAL])
def test_texts_become_samples_and_lines_again(
    tmp_path: Path, run_here: Here, lines: list[dict[str, Any]], start: bytes
) -> None:
    manifest = write(tmp_path / "train.manifest", lines, start)
    dsprep.convert(manifest, tmp_path / "table", to="parquet")
    (shard,) = (tmp_path / "table").glob("*.parquet")
    rows = pq.read_table(shard).to_pylist()
    assert [row["text"] for row in rows] == [line["source"] for line in lines]
    labels = [line["label"] for line in lines]
    wanted = [each if isinstance(each, list) else [each] for each in labels]
    assert [row["label"] for row in rows] == (labels if lines is ONE else wanted)
    done = run_here("convert", manifest, tmp_path / "tars", "--to", "webdataset")
    assert done.code == 0, done.err
    samples = wds.WebDataset(str(next((tmp_path / "tars").glob("*.tar"))), shardshuffle=False)
    assert [each["txt"].decode() for each in samples] == [line["source"] for line in lines]
    for source in ("tars", "table"):
        back = tmp_path / f"{source}-again"
        options = ("--to", "augmented-manifest", "--no-image")
        assert run_here("convert", tmp_path / source, back, *options).code == 0
        found = lines_of(tmp_path / f"{source}-again.manifest")
        single = [
            each["label"][0] if isinstance(each["label"], list) and len(each["label"]) == 1
            else each["label"]
            for each in found
        ]  # fmt: skip
        assert [each["source"] for each in found] == [line["source"] for line in lines]
        assert single == labels
    assert run_here("verify", tmp_path / "tars", "--against", manifest).code == 0


def test_a_table_of_texts_becomes_a_manifest(tmp_path: Path, run_here: Here) -> None:
    table = tmp_path / "reviews.csv"
    table.write_text('text,label\ngood one,pos\n"bad, one",neg\n')
    done = run_here("convert", table, tmp_path / "reviews", "--to", "augmented-manifest")
    assert done.code == 0, done.err
    assert "texts are in the manifest beside the folder" in done.out
    assert list((tmp_path / "reviews").iterdir()) == []
    manifest = tmp_path / "reviews.manifest"
    about = {"human-annotated": "yes", "type": "groundtruth/text-classification"}
    assert lines_of(manifest) == [
        {"source": "good one", "label": 1, "label-metadata": about | {"class-name": "pos"}},
        {"source": "bad, one", "label": 0, "label-metadata": about | {"class-name": "neg"}},
    ]
    for again in ("convert", "verify"):
        place = (table, tmp_path / "reviews", "--to", "augmented-manifest")
        done = run_here(again, *(place if again == "convert" else (manifest, "--against", table)))
        assert done.code == 0, done.err
        assert ("already converted" if again == "convert" else "whole") in done.out
    dsprep.convert(manifest, tmp_path / "names", to="parquet", shards=1)
    verified = dsprep.verify(tmp_path / "names")
    assert [(each.name, each.type, each.classes) for each in verified.fields] == [
        ("text", "text", 0),
        ("label", "class", 2),
    ]
    listing = tmp_path / "reviews.files.jsonl"
    listing.write_bytes(listing.read_bytes().replace(b"good", b"gold"))
    assert run_here("verify", manifest).code == 3


def test_what_a_line_of_text_cannot_hold(tmp_path: Path, run_here: Here) -> None:
    table = tmp_path / "t.csv"

    def convert(text: str, *options: object) -> Finished:
        table.write_text(text)
        return run_here("convert", table, tmp_path / "x", "--to", "augmented-manifest", *options)

    assert (
        "leave out what else there is, such as --drop title"
        in convert("text,title,label\na,b,c\n").err
    )
    assert "have neither; fields are label, n" in convert("label,n\na,1\n").err
    assert "--prefix: lines of texts" in convert("text,label\na,b\n", "--prefix", "s3://bucket").err
    partly = convert("text,label\na,b\n,b\n", "--max-errors", 1)
    assert (partly.code, "has no 'text', the text of its line" in partly.out) == (3, True)
    assert "give --label-type class" in convert("text,label\na,b\n", "--label-type", "text").err


def test_sagemaker_names_both_attributes(tmp_path: Path) -> None:
    manifest = write(tmp_path / "train.manifest", ONE)
    lines = tmp_path / "train.jsonl"
    lines.write_bytes(manifest.read_bytes())
    for place, attributes in ((manifest, ()), (lines, ("source", "label"))):
        report = dsprep.sagemaker(
            [f"train={place}"], prefix="s3://amzn-s3-demo-bucket", attributes=attributes
        )
        source = report.job["InputDataConfig"][0]["DataSource"]["S3DataSource"]
        assert source["S3DataType"] == "AugmentedManifestFile"
        assert source["AttributeNames"] == ["source", "label"]


def test_a_manifest_of_others_is_verified(tmp_path: Path, run_here: Here) -> None:
    done = run_here("verify", write(tmp_path / "t.manifest", [*ONE, {**ONE[0], "id": 7}]), "--json")
    report = json.loads(done.out)
    assert (done.code, report["samples"], report["checked"]) == (0, 3, ["lines"])
    assert "1 line with 'id', which is not read" in report["notes"]
    done = run_here("verify", write(tmp_path / "bad.manifest", [*ONE, {"source": "a"}]))
    assert (done.code, "line 3: has no label 'label'" in done.out) == (3, True)
    files = image_folder(tmp_path / "images", ("cat", "dog"), 2)
    images = write(
        tmp_path / "images.manifest", [{"source-ref": path, "label": 1} for path in files]
    )
    assert run_here("verify", images, "--decode").code == 0
    first, second, *_ = sorted(files)
    (tmp_path / "images" / first).unlink()
    (tmp_path / "images" / second).write_bytes(files[second][:300])
    done = run_here("verify", images)
    assert done.code == 3
    assert f"{first}: is not on the disk" in done.out
    assert f"{second}: truncated JPEG" in done.out
