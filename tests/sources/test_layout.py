"""Layouts: what ``inspect -o FILE.toml`` writes, and what ``--layout`` takes."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.errors import DestinationError, DsprepError, OptionError, SourceError
from dsprep.sources import understood
from dsprep.sources.layout import read_layout
from dsprep.sources.reading import read_source
from dsprep.sources.source import Source, make_source
from dsprep.storage.stored import crc32c
from tests.here import Here
from tests.images import png

MARK = "dsprep_layout = 1\n"


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """Images in two classes, and a table with other labels."""
    root = tmp_path / "birds"
    for number in range(4):
        path = root / ("tit" if number % 2 else "owl") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(number))
    rows = [f"{number}.png,{'young' if number > 1 else 'old'}" for number in range(4)]
    (root / "ages.csv").write_text("\n".join(["image,age", *rows]))
    return root


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def files_of(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}


def inspected(root: Path, **options: Any) -> str:
    """Return the layout that inspect writes of a data set."""
    path = root.parent / f"{len([*root.parent.iterdir()])}.toml"
    dsprep.inspect(str(root), output=path, decode=False, workers=1, **options)
    return str(path)


class TestWritten:
    def test_a_folder_in_classes(self, birds: Path, tmp_path: Path) -> None:
        path = inspected(birds)
        text = Path(path).read_text(encoding="utf-8")
        assert text.endswith(
            "\n[source]\n# taken for images\n\n[labels]\n"
            "# the directories, in the order of their numbers\n"
            'classes = ["owl", "tit"]\n'
        )
        assert str(tmp_path) not in text
        dsprep.pack(str(birds), str(tmp_path / "a"), to="recordio", workers=1)
        dsprep.pack(str(birds), str(tmp_path / "b"), to="recordio", workers=1, layout=path)
        assert files_of(tmp_path / "a") == files_of(tmp_path / "b")

    def test_a_table_and_what_the_command_line_adds(self, birds: Path, tmp_path: Path) -> None:
        table = str(birds / "ages.csv")
        path = inspected(birds, labels=table)
        assert read_layout(path).values == {
            "labels": "ages.csv",
            "path_column": "image",
            "label_columns": ("age",),
            "classes": ("old", "young"),
        }
        dsprep.pack(str(birds), str(tmp_path / "a"), to="recordio", workers=1, labels=table)
        dsprep.pack(str(birds), str(tmp_path / "b"), to="recordio", workers=1, layout=path)
        assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
        assert not dsprep.verify(
            str(tmp_path / "b"), against=make_source(str(birds), layout=path), workers=1
        ).problems
        names = written(tmp_path / "names.txt", "young\nold\n")
        given = make_source(str(birds), layout=path, classes=names)
        assert given.classes == names  # the command line wins
        again = read_layout(inspected(birds, layout=path)).values
        assert again == read_layout(path).values

    def test_files_outside_have_to_be_given(self, birds: Path, tmp_path: Path) -> None:
        table = tmp_path / "outside.csv"
        (birds / "ages.csv").rename(table)
        text = Path(inspected(birds, labels=str(table))).read_text(encoding="utf-8")
        assert "# --labels lies outside of SOURCE, so give it on the command line\n" in text
        assert str(tmp_path) not in text

    def test_an_edited_layout_is_not_replaced(self, birds: Path) -> None:
        path = Path(inspected(birds))
        before = path.read_text(encoding="utf-8")
        dsprep.inspect(str(birds), output=path, decode=False, workers=1)
        path.write_text(before.replace('"owl", "tit"', '"tit", "owl"'), encoding="utf-8")
        with pytest.raises(DestinationError, match="is there already and differs"):
            dsprep.inspect(str(birds), output=path, decode=False, workers=1)
        with pytest.raises(OptionError, match="a layout is of one data set: name one DATA"):
            dsprep.inspect([str(birds), str(birds / "owl")], output=path, workers=1)


class TestTaken:
    def test_an_archive_and_a_folder_share_it(self, birds: Path, tmp_path: Path) -> None:
        labels = '[labels]\nlabels = "./ages.csv"\nclasses = "names.txt"\n'
        path = written(tmp_path / "birds.toml", MARK + labels)
        (birds / "names.txt").write_text("young\nold\n")
        packed = tmp_path / "birds.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for file in sorted(birds.rglob("*.*")):
                archive.write(file, file.relative_to(birds))
        folder, archived = (make_source(str(each), layout=path) for each in (birds, packed))
        assert folder.labels == str(birds / "ages.csv")
        assert archived.labels == f"{packed}/ages.csv"
        (tmp_path / "ages.csv").write_text("not the one of the data set")
        for source in (folder, archived):
            assert source.class_names() == ("young", "old")
            catalog, _ = read_source(source)
            assert catalog.table["cls"].to_list() == [1, 1, 0, 0]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "is not a layout: its first key has to be dsprep_layout = 1"),
            ("[labels]\n", "is not a layout: its first key has to be dsprep_layout = 1"),
            ("dsprep_layout = 2\n", "dsprep_layout: version 2; this dsprep reads version 1"),
            ("dsprep_layout = true\n", "dsprep_layout: version True; "),
            ("dsprep_layout = \n", "is not TOML: Invalid value (at line 1, column 17)"),
            (MARK + "a = " + "[" * 9000, "is not TOML: its values are nested too deep"),
            (MARK + 'labels = "a.csv"', "labels: has to be in a table, such as [labels]"),
            (MARK + "[labels]\nlabels = 5", "labels.labels=5 is of type int; give a path"),
            (MARK + "[labels]\nclasses = [5]", "labels.classes[0]=5 is of type int; give text"),
            (MARK + "[labels]\nlable-column = 'a'", "did you mean labels.label-column?"),
            (MARK + "[labels]\nzzz = 'a'", "labels.zzz: no such option"),
            (MARK + "[x]\nlabels = 'a'", "x.labels: belongs to the table labels"),
            (MARK + "[source]\nsides-from = 0", "source.sides-from: 0 is less than 1"),
            (MARK + f"[source]\nsides-from = {9**30}", f"sides-from: {9**30} is more than 1000"),
            (MARK + "[fields]\nlook = 'some'", "fields.look some: choose one of all"),
            (MARK + "[fields]\nschema = {a = 1}", "fields.schema={'a': 1} is of type dict; give"),
            (MARK + "[source]\nlayout = 'a'", "source.layout: no such option"),
            (MARK + "[output]\nto = 'recordio'", "output.to: no such option"),
            *(
                (
                    f"{MARK}[labels]\nlabels = {path!r}",
                    f"labels.labels: {path!r} is not a path below",
                )
                for path in ("/etc/passwd", "../a.csv", "a/../../b", "s3://bucket/a.csv", "")
            ),
            (MARK + "[annotations]\nannotations = ['a.json', '..']", "annotations: '..' is not a"),
        ],
    )
    def test_what_it_cannot_have_is_refused(self, tmp_path: Path, text: str, said: str) -> None:
        path = written(tmp_path / "a.toml", text)
        with pytest.raises(OptionError) as caught:
            read_layout(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_options_of_other_packages(self, birds: Path, tmp_path: Path) -> None:
        path = written(tmp_path / "a.toml", MARK + "[kind-options]\nframe-rate = 5\n")
        source = make_source(str(birds), layout=path, kind_options={"depth": 1})
        assert source.kind_options == {"frame_rate": 5, "depth": 1}
        with pytest.raises(OptionError, match=r"--frame-rate 5 .*: no kind of source has this"):
            read_source(make_source(str(birds), layout=path))

    def test_one_data_set(self, birds: Path, tmp_path: Path) -> None:
        path = written(tmp_path / "a.toml", MARK + "[labels]\nlabels = 'ages.csv'")
        with pytest.raises(OptionError, match=r"labels\.labels: a layout is of one data set"):
            make_source(str(birds), others=[str(birds)], layout=path)

    def test_all_functions_that_take_it_read_it(self, birds: Path, tmp_path: Path) -> None:
        one: Sequence[Callable[..., Any]] = (make_source, dsprep.inspect, dsprep.dedup)
        two = (dsprep.pack, dsprep.convert, dsprep.shard, dsprep.augment, dsprep.append)
        calls = [partial(each, str(birds)) for each in one]
        calls += [partial(each, str(birds), str(tmp_path / "o")) for each in (*two, dsprep.split)]
        for call in calls:
            with pytest.raises(SourceError, match=r"^no\.toml: cannot be read"):
                call(layout="no.toml")
        public = filter(isfunction, (getattr(dsprep, name) for name in dsprep.__all__))
        takes = [each for each in public if "layout" in signature(each).parameters]
        assert {*takes} == {call.func for call in calls}

    def test_by_default_nothing_is_read(self) -> None:
        assert make_source("x") == Source("x", choice=make_source("x").choice)

    def test_labels_of_the_command_line_replace_those_of_a_layout(
        self, birds: Path, tmp_path: Path, run_here: Here
    ) -> None:
        """These are checked together, also by the command line."""
        table = "[labels]\nlabels = 'ages.csv'\nlabel-column = 'age'\npath-column = 'image'\n"
        path = written(tmp_path / "a.toml", MARK + table)
        regex = ("--label-regex", r"^(\d)", "--layout", path)
        done = run_here("pack", birds, tmp_path / "a.rec", *regex)
        assert done.code == 0, done.err
        names = (tmp_path / "a.rec.classes.txt").read_text(encoding="utf-8")
        assert names == "0\n1\n2\n3\n"
        done = run_here("pack", birds, tmp_path / "b.rec", "--layout", path, "--list", "x.lst")
        said = "dsprep: x.lst: cannot be read: No such file or directory\n"
        assert (done.code, done.err) == (4, said)
        path = written(tmp_path / "b.toml", MARK + "[labels]\nlabels = 1\n")
        done = run_here("pack", birds, tmp_path / "b.rec", "--layout", path)
        assert (done.code, done.err.count("\n")) == (2, 1)

    def test_names_of_classes_have_to_fit_into_a_file(self, birds: Path, tmp_path: Path) -> None:
        for names, said in (
            ('["a", "a"]', "--classes: names 'a' twice"),
            (r'["a\nb"]', "does not fit on a line"),
        ):
            path = written(tmp_path / "a.toml", f"{MARK}[labels]\nclasses = {names}\n")
            with pytest.raises(DsprepError, match=said):
                read_source(make_source(str(birds), layout=path))

    def test_names_that_are_not_utf8_are_given_again(self, birds: Path, tmp_path: Path) -> None:
        table = birds / "\udce9.csv"
        (birds / "ages.csv").rename(table)
        text = Path(inspected(birds, labels=table)).read_text(encoding="utf-8")
        assert "# --labels is not UTF-8, so give it on the command line\n" in text
        dsprep.pack(str(birds), str(tmp_path / "a"), to="recordio", workers=1, labels=table)
        found = json.loads(Path(tmp_path / "a/manifest.json").read_bytes())["layout"]["labels"]
        assert found["labels"].keys() == {"crc32c"}


class TestRecorded:
    def packed(self, birds: Path, name: str, **options: Any) -> str:
        dest = str(birds.parent / name)
        dsprep.pack(str(birds), dest, to="recordio", workers=1, **options)
        return dest

    def layout(self, dest: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Path(dest, "manifest.json").read_bytes())
        return found.get("layout", {})

    def test_verify_needs_no_option_again(self, birds: Path) -> None:
        dest = self.packed(birds, "a", labels=birds / "ages.csv")
        table = {"labels": "ages.csv", "path-column": "image", "label-column": ["age"]}
        assert self.layout(dest) == {"labels": table}
        assert not dsprep.verify(dest, against=str(birds), workers=1).problems
        moved = birds.rename(birds.parent / "moved")
        assert not dsprep.verify(dest, against=str(moved), workers=1).problems
        (moved / "ages.csv").unlink()
        report = dsprep.verify(dest, against=str(moved), workers=1)
        assert report.problems
        assert "do not fit" in report.notes[-1]

    def test_files_outside_have_to_be_named_again(
        self, birds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(understood, "_BLOCK", 7)  # a file may be larger than a block
        table = tmp_path / "ages.csv"
        (birds / "ages.csv").rename(table)
        dest = self.packed(birds, "a", labels=table)
        digest = f"{crc32c(table.read_bytes()):08x}"
        assert self.layout(dest)["labels"]["labels"] == {"crc32c": digest}
        assert str(tmp_path) not in Path(dest, "manifest.json").read_text(encoding="utf-8")
        report = dsprep.verify(dest, against=str(birds), workers=1)
        assert report.problems
        assert report.notes[-1].endswith("were used: give --labels PATH again")
        source = make_source(str(birds), labels=table)
        assert not dsprep.verify(dest, against=source, workers=1).problems

    def test_what_a_manifest_cannot_have_is_not_used(self, birds: Path) -> None:
        """It may come from anywhere."""
        dest = self.packed(birds, "a")
        path = Path(dest, "manifest.json")
        for layout in ({"labels": {"labels": "/etc/passwd"}}, {"labels": 5}, {"x": {"y": 1}}):
            path.write_text(json.dumps(json.loads(path.read_text()) | {"layout": layout}))
            assert not dsprep.verify(dest, against=str(birds), workers=1).problems

    def test_that_of_one_source_is_not_that_of_another(self, birds: Path, tmp_path: Path) -> None:
        dest = self.packed(birds, "a", label_regex=r"^(\d)")
        assert self.layout(dest) == {"labels": {"label-regex": r"^(\d)"}}
        more = tmp_path / "more"
        more.mkdir()
        (more / "3.b.png").write_bytes(png(9))
        dsprep.append(str(more), dest, label_regex=r"^(\d)", workers=1)
        assert self.layout(dest) == {}
