"""Captions: of COCO, alone and beside objects, of Flickr8k and Flickr30k, and in each output."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import dsprep
from dsprep.errors import DsprepError, SourceError
from dsprep.sources.annotated.caption_files_kind import form_of
from tests.missing import framework
from tests.sources.boxes import box, coco, kinds, notes, read, sides, told, write

NAMES = ("a.jpg", "b.jpg", "c.jpg")
CAPTIONS = {"a.jpg": ("A cat .", "Two, cats"), "b.jpg": ("Ein Hund »ü«",)}


def token(captions: Mapping[str, Sequence[str]]) -> str:
    """The captions as Flickr has them."""
    rows = [f"{name}#{at}\t{text}\n" for name in captions for at, text in enumerate(captions[name])]
    return "".join(rows)


def karpathy(captions: Mapping[str, Sequence[str]], side: Mapping[str, str], **more: Any) -> str:
    """The JSON of Karpathy's sides."""
    images = [
        {
            "sentids": [at],
            "imgid": at,
            "sentences": [
                {"tokens": text.split(), "raw": text, "imgid": at, "sentid": 9} for text in own
            ],
            "split": side[name],
            "filename": name,
            **more,
        }
        for at, (name, own) in enumerate(captions.items())
    ]
    return json.dumps({"images": images, "dataset": "flickr30k"})


def caption(id: int, image: int, text: object, **more: Any) -> dict[str, Any]:
    return {"id": id, "image_id": image, "caption": text, **more}


def captions_of(root: Path, **options: Any) -> dict[str, Any]:
    return {path: own.get("caption") for path, own in told(read(root, **options)[0]).items()}


SET: dict[str, Any] = {
    **{f"Images/{name}": None for name in ("10_6.jpg", "11_6.jpg", "12_6.jpg")},
    "text/Flickr8k.token.txt": token({"10_6.jpg": ["A cat .", "Two, cats"], "11_6.jpg": ["ü"]}),
}


FORMS = {
    "results_20130124.token": token(CAPTIONS).replace("\n", "\r\n"),
    "captions.txt": 'image,caption\na.jpg,A cat .\na.jpg,"Two, cats"\nb.jpg,Ein Hund »ü«\n',
    "results.csv": "image_name| comment_number| comment\na.jpg| 0| A cat .\na.jpg| 1| Two, cats\n"
    "b.jpg| 4   Ein Hund »ü«\n",
    "my_captions.tsv": "filename\tcaption\na.jpg\tA cat .\na.jpg\tTwo, cats\nb.jpg\tEin Hund »ü«\n",
    "dataset.json": karpathy(CAPTIONS, dict.fromkeys(NAMES, "")),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_tells_the_same(tmp_path: Path, name: str) -> None:
    root = write(tmp_path, {**dict.fromkeys(NAMES), name: FORMS[name]})
    catalog, findings = read(root)
    assert captions_of(root) == CAPTIONS
    assert kinds(findings) == {"c.jpg": "unlisted"}
    assert catalog.settled.schema.by_name["caption"].type == "list<text>"
    if name != "my_captions.tsv":  # whose extension is that of tables of boxes: content decides
        assert form_of(name, FORMS[name].encode())
    assert captions_of(root, annotations=[str(root / name)]) == CAPTIONS


class TestSides:
    def test_flickr8k(self, tmp_path: Path) -> None:
        lists = {"train": "a.jpg\n", "dev": "b.jpg\n", "test": "c.jpg\n"}
        files = {f"text/Flickr_8k.{side}Images.txt": names for side, names in lists.items()}
        beside = ("Flickr8k.lemma.token.txt", "ExpertAnnotations.txt", "CrowdFlowerAnnotations.txt")
        every = CAPTIONS | {"c.jpg": ("c",), "gone.jpg.1": ("x",)}
        root = write(
            tmp_path,
            {f"images/{name}": None for name in NAMES}
            | {"text/Flickr8k.token.txt": token(every), "text/readme.txt": "read me"}
            | {f"text/{beside[0]}": token(every)}
            | {f"text/{name}": "a.jpg\tb.jpg#2\t1\t1\t2\n" * 3 for name in beside[1:]}
            | files,
        )
        catalog, findings = read(root)
        names = {path.removeprefix("images/"): side for path, side in sides(catalog).items()}
        assert names == {"a.jpg": "train", "b.jpg": "val", "c.jpg": "test"}
        assert kinds(findings) == {
            **{f"text/{name}": "not-read" for name in beside},
            "gone.jpg.1": "missing",
            "text/readme.txt": "harmless",
        }
        (root / "text/Flickr_8k.devImages.txt").write_text("a.jpg\n")
        with pytest.raises(SourceError, match="'a.jpg' is in two lists"):
            read(root)

    def test_karpathy_tells_them_and_is_taken_before_others(self, tmp_path: Path) -> None:
        split = {"a.jpg": "restval", "b.jpg": "test"}
        files = {f"val2014/{name}": None for name in NAMES}
        files["dataset_coco.json"] = karpathy(CAPTIONS, split, filepath="val2014", cocoid=1)
        files["results.token"] = token({"c.jpg": ["other"]})
        root = write(tmp_path, files)
        catalog, findings = read(root)
        assert sides(catalog) == {"val2014/a.jpg": "restval", "val2014/b.jpg": "test"}
        assert kinds(findings) == {"val2014/c.jpg": "unlisted", "results.token": "not-read"}

    def test_files_by_their_names(self, tmp_path: Path) -> None:
        files = {
            "train_captions.txt": token({"a.jpg": ["x"]}),
            "val_captions.txt": token({"b.jpg": ["y"]}),
        }
        root = write(tmp_path / "set", {**dict.fromkeys(NAMES), **files})
        assert sides(read(root)[0]) == {"a.jpg": "train", "b.jpg": "val"}
        (root / "val_captions.txt").rename(root / "others.txt")
        with pytest.raises(SourceError, match="names tell no sides: give --annotations"):
            read(root)


class TestCoco:
    SET = {
        **{f"{side}2017/{name}": None for side in ("train", "val") for name in NAMES},
        **{
            f"annotations/instances_{side}2017.json": coco(NAMES, [box(1, 1), box(2, 2)])
            for side in ("train", "val")
        },
        **{
            f"annotations/captions_{side}2017.json": coco(
                NAMES[::-1],
                [caption(7, 3, f"{side} a"), caption(5, 1, "ü"), caption(6, 3, "again ")],
                categories=[],
            )
            for side in ("train", "val")
        },
    }

    def test_beside_objects(self, tmp_path: Path) -> None:
        root = write(tmp_path, self.SET)
        catalog, findings = _read(root)
        found = told(catalog)
        for side in ("train", "val"):
            assert found[f"{side}2017/a.jpg"]["caption"] == (f"{side} a", "again ")
            assert found[f"{side}2017/c.jpg"]["caption"] == ("ü",)
            assert "caption" not in found[f"{side}2017/b.jpg"]
            assert len(found[f"{side}2017/b.jpg"]["objects"]) == 1
            assert found[f"{side}2017/a.jpg"]["image_id"] == 1
        assert catalog.sides == ("train2017", "val2017") and len(catalog) == 6
        assert not kinds(findings)

    def test_alone(self, tmp_path: Path) -> None:
        root = write(tmp_path, {n: c for n, c in self.SET.items() if "instances" not in n})
        catalog, findings = read(root)
        assert told(catalog)["val2017/a.jpg"] == {"caption": ("val a", "again ")}
        assert told(catalog)["val2017/b.jpg"] == {}
        assert catalog.sides == ("train2017", "val2017")
        assert "ids of images not kept" in notes(findings)

    def test_as_datumaro_writes_them(self, tmp_path: Path) -> None:
        more = {"category_id": 0, "attributes": {}}
        texts = [caption(at, at % 2 + 1, f"{at}", **more) for at in range(40)]
        files = {"annotations/captions_val.json": coco(NAMES[:2], texts, categories=[])}
        root = write(tmp_path, {**{f"images/{name}": None for name in NAMES}, **files})
        catalog, findings = read(root)
        assert told(catalog) == {
            "images/a.jpg": {"caption": tuple(map(str, range(0, 40, 2)))},
            "images/b.jpg": {"caption": tuple(map(str, range(1, 40, 2)))},
        }
        assert catalog.sides == ("val",) and "attributes" not in notes(findings)

    def test_of_any_name_and_in_one_file_with_boxes(self, tmp_path: Path) -> None:
        both = coco(NAMES, [box(1, 1), caption(1, 1, "x", lang="en"), caption(2, 2, "y")])
        root = write(tmp_path / "both", {**dict.fromkeys(NAMES), "all.json": both})
        catalog, findings = read(root)
        assert captions_of(root) == {"a.jpg": ("x",), "b.jpg": ("y",), "c.jpg": None}
        assert "not kept: 'lang' of captions" in notes(findings)
        texts = coco(NAMES, [caption(1, 1, "x")])
        files = {"boxes.json": coco(NAMES[:2], [box(1, 1)]), "texts.json": texts}
        root = write(tmp_path / "apart", {**dict.fromkeys(NAMES), **files})
        catalog, findings = _read(root)
        assert told(catalog)["a.jpg"]["caption"] == ("x",) and len(catalog) == 2
        assert "1 image that no file of boxes lists, left out: c.jpg" in notes(findings)

    def test_where_the_output_has_no_place_for_texts(self, tmp_path: Path) -> None:
        root = write(tmp_path / "set", self.SET)
        catalog, findings = read(root)
        assert kinds(findings) == {
            f"annotations/captions_{side}2017.json": "not-read" for side in ("train", "val")
        }
        out = tmp_path / "rec"
        report = dsprep.pack(root, out, to="recordio", workers=1, empty="drop")
        assert "no place for texts" in str(report.to_json()) and report.samples == 4
        assert not dsprep.verify(out, against=root, workers=1).problems

    @pytest.mark.parametrize(
        ("annotations", "said"),
        [
            ([caption(1, 9, "x"), caption(2, 8, "y")], "2 captions with image_id .* lacks: 8, 9"),
            ([caption(1, 1, None)], "its caption None is no text: correct it"),
            ([caption(1, 1, "x"), {"id": 2, "caption": "x"}], "lacks 'image_id'"),
            ([caption(1, 1, "x"), {"id": 2, "image_id": 1}], "lacks 'category_id'"),
        ],
    )
    def test_refused(self, tmp_path: Path, annotations: Any, said: str) -> None:
        files = {"a.jpg": None, "captions_x.json": coco(["a.jpg"], annotations)}
        with pytest.raises(SourceError, match=said):
            read(write(tmp_path, files))


def _read(root: Path, **options: Any) -> Any:
    """Read a source for an output that has a place for texts."""
    from dsprep.sources.reading import read_source
    from dsprep.sources.source import make_source

    return read_source(make_source(str(root), **options).replace(takes_texts=True))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.token", "a.jpg#0\tx\n" * 6 + "b.jpg y\n", r"t.token:7: 'b.jpg y' is not NAME.jpg#0"),
        ("captions.txt", "image,caption\na.jpg,x, y\n", r"captions.txt:2: has 3 cells"),
        ("captions.txt", 'image,caption\na.jpg,"x\n', r"captions.txt:2: cannot be read"),
        ("results.csv", "image_name|comment\na.jpg|0|x\nb\n", r"results.csv:3: 'b' is not NAME"),
        ("d.json", '{"images": [{"sentences": [{"raw": 3}], "filename": "a"}]}', "is no text"),
        ("d.json", '{"images": [{"sentences": [{"x": 3}], "filename": "a"}]}', "lacks 'raw'"),
        ("d.json", '{"images": [{"sentences": [{"raw": "', "d.json: is no JSON of captions"),
        ("d.json", '{"images": [{"sentences": []}]}', "lacks 'filename'"),
    ],
)
def test_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        read(write(tmp_path, {"a.jpg": None, name: text}))


def test_what_is_none(tmp_path: Path) -> None:
    for name, text in (
        ("notes.txt", "a.jpg#0 no tab\n"),
        ("t.csv", "image,caption\na.jpg,x\n"),
        ("captions.txt", "image,caption,score\na.jpg,x,1\n"),
        ("x.json", '{"images": [{"file_name": "a"}]}'),
    ):
        assert not form_of(name, text.encode())
    root = write(tmp_path, {"a.jpg": None, "t.txt": "x\n"})
    with pytest.raises(SourceError, match="t.txt: has no captions that dsprep knows"):
        read(root, annotations=[str(root / "t.txt")], annotation_format="captions")


def test_each_output_has_them(tmp_path: Path) -> None:
    root = write(tmp_path / "set", {**dict.fromkeys(NAMES[:2]), "captions.token": token(CAPTIONS)})
    for to in ("webdataset", "tfrecord", "parquet", "folder"):
        report = dsprep.pack(root, tmp_path / to, to=to, workers=1, shuffle=False)
        assert report.samples == 2 and not report.rejects
        assert not dsprep.verify(tmp_path / to, against=root, workers=1).problems
    with tarfile.open(tmp_path / "webdataset/train-000000.tar") as tar:
        own = json.loads(tar.extractfile("a.json").read())  # type: ignore[union-attr]
    assert own == {"caption": list(CAPTIONS["a.jpg"])}
    table = pyarrow.parquet.read_table(tmp_path / "parquet/train-00000-of-00001.parquet")
    assert table["caption"].to_pylist() == [list(each) for each in CAPTIONS.values()]
    assert (
        json.loads((tmp_path / "folder/metadata.jsonl").read_text().splitlines()[0])["caption"]
        == own["caption"]
    )
    with pytest.raises(DsprepError, match="caption"):
        dsprep.pack(root, tmp_path / "rec", to="recordio", workers=1)


def test_tfrecord_has_a_list_of_bytes(tmp_path: Path) -> None:
    tensorflow = framework("tensorflow")
    root = write(tmp_path / "set", {**dict.fromkeys(NAMES[:2]), "captions.token": token(CAPTIONS)})
    dsprep.pack(root, tmp_path / "out", to="tfrecord", workers=1, shuffle=False)
    (path,) = (tmp_path / "out").glob("*.tfrecord")
    found = [
        tensorflow.train.Example.FromString(record.numpy()).features.feature["caption"]
        for record in tensorflow.data.TFRecordDataset(str(path))
    ]
    assert [tuple(each.decode() for each in own.bytes_list.value) for own in found] == [
        *CAPTIONS.values()
    ]
