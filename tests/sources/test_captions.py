"""Texts beside images are a field of the samples, as in tars."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import webdataset

import dsprep
from dsprep.errors import SourceError
from dsprep.sample import Sample
from dsprep.sources.pictures.captions import is_caption
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.servers.bucket import Bucket
from tests.sources.boxes import write

Content = dict[str, str | bytes | None]

IMAGES: Content = {f"{at:03d}.{'JPG' if at == 2 else 'jpg'}": None for at in range(6)}
TEXTS: dict[str, str] = {f"{at:03d}.txt": f"bird {at}, größer" for at in range(5)}
SAID = "5 of 6 images have a text beside them: it is the field text"


def packed(source: Path | str, out: Path, **options: Any) -> tuple[Any, dict[str, Any]]:
    report = dsprep.pack(str(source), str(out), workers=1, to="webdataset", **options)
    samples = webdataset.WebDataset(
        [str(out / shard) for shard in sorted(path.name for path in out.glob("*.tar"))],
        shardshuffle=False,
    )
    return report, {sample["__key__"]: sample for sample in samples}


def in_form(tmp_path: Path, form: str, files: Content) -> Path:
    root = write(tmp_path / "set", files)
    return (
        root
        if form == "folder"
        else Path(shutil.make_archive(str(root), "zip", root.parent, "set"))
    )


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("directory", ["", "classes"])
def test_texts_beside_images(tmp_path: Path, form: str, directory: str) -> None:
    files: Content = {**IMAGES, **TEXTS}
    if directory:
        files = {f"{'ab'[int(name[:3]) % 2]}/{name}": data for name, data in files.items()}
    source, out = in_form(tmp_path, form, files), tmp_path / "out"
    report, samples = packed(source, out)
    assert report.samples == 6
    assert not report.rejects
    assert SAID in " ".join(report.notes)
    texts = {Path(key).name: sample.get("txt") for key, sample in samples.items()}
    assert texts == {
        f"{at:03d}": TEXTS.get(f"{at:03d}.txt", "").encode() or None for at in range(6)
    }
    for key, sample in samples.items():
        name = next(name for name in files if name.lower().endswith(f"{Path(key).name}.jpg"))
        assert sample["jpg"] == (tmp_path / "set" / name).read_bytes()
        if directory:
            assert sample["cls"] == str("ab".index(name[0])).encode()
    assert not dsprep.verify(str(out), against=str(source)).problems
    # What takes the images alone, takes them as before.
    alone: list[dict[str, Any]] = [{"kind": "images"}, {"leave_out": ["*.txt"]}]
    for at, options in enumerate(alone):
        report, samples = packed(source, tmp_path / f"alone{at}", **options)
        assert report.samples == 6
        assert not any("txt" in sample for sample in samples.values())


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_names_of_texts(tmp_path: Path, form: str) -> None:
    files: Content = {"a.1.jpg": None, "a.2.jpg": None, "b.png": None, "b.jpg": None}
    files |= {f"{name}.caption": f"a bird, {name}" for name in ("a.1", "a.2", "b")}
    source = in_form(tmp_path, form, files)
    catalog, _ = read_source(make_source(str(source)).replace(takes_texts=True))
    made = [*catalog.reader.read(catalog.rows())]
    texts = {each.path: each.fields["text"] for each in made if isinstance(each, Sample)}
    wanted = {"a.1.jpg": "a.1", "a.2.jpg": "a.2", "b.jpg": "b", "b.png": "b"}
    assert texts == {path: f"a bird, {name}" for path, name in wanted.items()}


def test_on_s3(tmp_path: Path, localstack: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
    root = write(tmp_path / "set", {**IMAGES, **TEXTS})
    for path in root.iterdir():
        localstack.put(f"set/{path.name}", path.read_bytes())
    report, samples = packed(f"{localstack.url}/set", tmp_path / "out")
    assert not report.rejects
    assert sum("txt" in sample for sample in samples.values()) == 5


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_in_parts(tmp_path: Path, form: str) -> None:
    source = in_form(tmp_path, form, {**IMAGES, **TEXTS})
    for part in ("0/2", "1/2"):
        _, samples = packed(source, tmp_path / "out", shards=2, part=part)
    assert len(samples) == 6
    assert sum("txt" in sample for sample in samples.values()) == 5


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_options_of_images_apply(tmp_path: Path, form: str) -> None:
    source = in_form(tmp_path, form, {**IMAGES, **TEXTS})
    options = {"leave_out": ["000.txt"], "label_regex": "^(0)"}
    report, samples = packed(source, tmp_path / "out", **options)
    assert not report.rejects
    assert sorted(key for key in samples if "txt" not in samples[key]) == ["000", "005"]
    assert {sample["cls"] for sample in samples.values()} == {b"0"}


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_where_texts_have_no_place(tmp_path: Path, form: str) -> None:
    source = in_form(tmp_path, form, {**IMAGES, **TEXTS})
    report = dsprep.pack(str(source), str(tmp_path / "x.rec"), workers=1)
    assert report.samples == 6
    assert "5 of 6 images have a text beside them, such as 000.txt, which are not read" in " ".join(
        report.notes
    )
    assert report.skipped_counts["not-read"] == {".txt": 5}
    assert not dsprep.verify(str(tmp_path / "x.rec"), against=str(source)).problems


@pytest.mark.parametrize("text", ["1.5 2.5\n3.5 4\n", "3\n", b"\xff\xfea\0", b"gr\xf6\xdfer"])
def test_what_are_no_captions(tmp_path: Path, text: str | bytes) -> None:
    files: Content = {**IMAGES, **dict.fromkeys(TEXTS, text)}
    root, out = write(tmp_path / "set", files), tmp_path / "out"
    with pytest.raises(SourceError):
        dsprep.pack(str(root), str(out), to="webdataset", workers=1)
    assert not out.exists()


def test_few_texts_are_left_over(tmp_path: Path) -> None:
    root = write(tmp_path / "set", {**IMAGES, **dict(list(TEXTS.items())[:2])})
    report, samples = packed(root, tmp_path / "out")
    assert report.skipped_counts == {"left-over": {".txt": 2}}
    assert not any("txt" in sample for sample in samples.values())


def test_heads() -> None:
    assert is_caption("a.txt", b"1girl, 2 dogs, outdoors")
    assert is_caption("a.txt", b"a" * ((1 << 16) - 1) + "ö".encode()[:1])  # cut
    assert not is_caption("a.txt", b"cat 10 20 30 40\n")
    assert not is_caption("a.txt", b"Car 0.00 0 -1.82 587.01 173.33 614.12 200.12\n")
