"""WebDataset: read by webdataset, wids, Python and GNU tar; and what others write."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsprep.errors import BadSample, DamagedShard, OptionError
from dsprep.formats import Entry
from dsprep.formats.base import ShardFacts
from dsprep.formats.label_text import label_text, parse_label
from dsprep.formats.webdataset import WebDataset
from dsprep.sample import Sample, Value, image_kind_of, key_of
from tests.contract.layouts import (
    CLASSES,
    JPEG,
    LABELS,
    LAYOUTS,
    PATHS,
    PNG,
    Label,
    Picture,
    encode,
    pictures,
    read,
    shard,
    write,
)
from tests.contract.test_contract import admits, any_path, properties

PLAIN = WebDataset()
METADATA = WebDataset(metadata=True)


def keys_and_fields(entries: Sequence[Entry]) -> list[tuple[str, dict[str, Value]]]:
    return [(entry.sample.key, entry.sample.fields) for entry in entries]


class TestWebdatasetReads:
    """What dsprep writes, with webdataset as the judge."""

    @pytest.mark.parametrize(
        ("layout", "cls", "label"),
        [
            (PLAIN, "cls", "label.json"),
            (METADATA, "cls", "label.json"),
            (LAYOUTS["webdataset-renamed"], "y", "targets.json"),
        ],
        ids=["plain", "metadata", "renamed"],
    )
    @pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
    def test_every_member(
        self,
        layout: WebDataset,
        cls: str,
        label: str,
        labels: Sequence[Label],
        tmp_path: Path,
        webdataset: ModuleType,
    ) -> None:
        samples = pictures(labels)
        path = write(layout, samples, tmp_path / "train-000000.tar")
        found = list(webdataset.WebDataset(str(path), shardshuffle=False))
        assert [each["__key__"] for each in found] == [key_of(each.path) for each in samples]
        for each, picture in zip(found, samples, strict=True):
            kind = layout.renamed.get("image", image_kind_of(picture.path))
            assert each[kind] == picture.data
            assert each.get(cls) == (
                b"%d" % picture.label if isinstance(picture.label, int) else None
            )
            if isinstance(picture.label, tuple):
                assert json.loads(each[label]) == list(picture.label)
            assert ("json" in each) == layout.metadata

    def test_decoded(self, tmp_path: Path, webdataset: ModuleType) -> None:
        samples = pictures((0, 1, 2), [f"{i}.jpg" for i in range(3)])
        path = write(METADATA, samples, tmp_path / "train-000000.tar")
        pipeline = webdataset.WebDataset(str(path), shardshuffle=False).decode("pil")
        for number, (image, cls, more) in enumerate(pipeline.to_tuple("jpg", "cls", "json")):
            assert image.size == (16, 12)
            assert cls == number
            assert more == {
                "class": CLASSES[number],
                "filename": f"{number}.jpg",
                "width": 16,
                "height": 12,
            }

    def test_several_labels_decoded(self, tmp_path: Path, webdataset: ModuleType) -> None:
        samples = pictures(((1.0, 0.5, -3.0), (1e22, 1e-7, 0.1)), ["a.jpg", "b.jpg"])
        path = write(PLAIN, samples, tmp_path / "train-000000.tar")
        pipeline = webdataset.WebDataset(str(path), shardshuffle=False).decode("pil")
        labels = [label for _, label in pipeline.to_tuple("jpg", "label.json")]
        assert labels == [[1, 0.5, -3], [1e22, 1e-7, 0.1]]

    def test_shards_expanded_from_braces(self, tmp_path: Path, webdataset: ModuleType) -> None:
        for number in range(11):
            name = PLAIN.shard_name("train", number, 11)
            write(PLAIN, [Picture(number, f"{number}.jpg", JPEG)], tmp_path / name)
        urls = str(tmp_path / "train-{000000..000010}.tar")
        found = [each["__key__"] for each in webdataset.WebDataset(urls, shardshuffle=False)]
        assert found == [str(number) for number in range(11)]

    @properties
    @given(any_path, st.sampled_from(["jpg", "label.json"]))
    @example("__x__.jpg", "jpg")
    @example("__x__/a.jpg", "jpg")
    @example("____.jpg", "jpg")
    @example("a.b/c\nd/e.jpg", "jpg")
    @example(".jpg", "jpg")
    @example("a/.jpg", "jpg")
    @example("...jpg", "jpg")
    def test_any_name_that_is_not_refused(self, path: str, extension: str) -> None:
        from webdataset.tariterators import group_by_keys, tar_file_expander

        picture = Picture(0, path, JPEG, (0.5, 1.5))
        if not admits(PLAIN, picture):
            return
        (entry,) = read(PLAIN, shard(PLAIN, [picture]))
        stream = io.BytesIO(shard(PLAIN, [picture]))
        (found,) = group_by_keys(tar_file_expander([{"url": "", "stream": stream}]))
        assert found["__key__"] == entry.sample.key
        assert extension in found

    @pytest.mark.parametrize(
        "path", ["__x__.jpg", "____.jpg", "__x/a.jpg", "a/__x__/b.jpg", *PATHS]
    )
    def test_names_that_it_reads_are_not_refused(self, path: str) -> None:
        assert admits(PLAIN, Picture(0, path, JPEG))

    @pytest.mark.parametrize("path", ["__x__/a.jpg", "____/a.jpg", "a.b/c\nd/e.jpg"])
    def test_names_that_it_would_not_read_are_refused(self, path: str) -> None:
        with pytest.raises(BadSample, match="webdataset"):
            encode(PLAIN, Picture(0, path, JPEG))


class TestOtherReaders:
    @pytest.mark.parametrize("layout", [PLAIN, METADATA])
    def test_tarfile(self, layout: WebDataset, tmp_path: Path) -> None:
        samples = pictures(LABELS["class"])
        path = write(layout, samples, tmp_path / "train.tar")
        with tarfile.open(path, "r:") as archive:
            members = archive.getmembers()
            files = [archive.extractfile(each) for each in members]
            contents = [file.read() for file in files if file is not None]
        assert [each.name for each in members] == [
            f"{key_of(each.path)}.{extension}"
            for each in samples
            for extension in (image_kind_of(each.path), "cls", *["json"] * layout.metadata)
        ]
        assert contents[:: 3 if layout.metadata else 2] == [each.data for each in samples]
        for each in members:
            assert (each.mode, each.uid, each.gid, each.mtime) == (0o644, 0, 0, 0)
            assert each.type == tarfile.REGTYPE
            assert each.uname == each.gname == ""

    def test_gnu_tar(self, tmp_path: Path) -> None:
        samples = pictures(LABELS["class"])
        path = write(PLAIN, samples, tmp_path / "train.tar")
        listed = subprocess.run(
            ["tar", "--quoting-style=literal", "-tf", path], capture_output=True, check=True
        )
        assert listed.stderr == b""
        with tarfile.open(path) as archive:
            assert listed.stdout.decode().splitlines() == archive.getnames()
        subprocess.run(["tar", "-xf", path, "-C", tmp_path], check=True, capture_output=True)
        key = read(PLAIN, path.read_bytes())[-1].sample.key
        assert (tmp_path / f"{key}.png").read_bytes() == PNG

    def test_names_of_up_to_100_bytes_need_no_extension_of_ustar(self) -> None:
        for length in range(1, 97):
            (name, *_), data = split_headers(encode(PLAIN, Picture(0, f"{'n' * length}.jpg", JPEG)))
            assert name == f"{'n' * length}.jpg"
            assert data[:1] == b"0"
        _, kinds = split_headers(encode(PLAIN, Picture(0, f"{'n' * 97}.jpg", JPEG)))
        assert kinds == b"x0"

    def test_wids_reads_the_index(self, tmp_path: Path) -> None:
        paths = [path for path in PATHS if len(path.encode()) < 96]
        samples = pictures((0, 1, 2), paths)
        facts = []
        for number, some in enumerate((samples[:2], samples[2:])):
            path = write(PLAIN, some, tmp_path / PLAIN.shard_name("train", number, 2))
            facts.append(ShardFacts(path.name, len(some), path.stat().st_size))
        ((name, index),) = PLAIN.dataset_index("train", facts).items()
        (tmp_path / name).write_bytes(index)
        reader = Path(__file__).with_name("read_with_wids.py")
        done = subprocess.run(
            [sys.executable, reader, tmp_path / name, tmp_path / "cache"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        entries = [
            entry for fact in facts for entry in read(PLAIN, (tmp_path / fact.name).read_bytes())
        ]
        expected = [
            {"key": entry.sample.key, "image": each.data.hex(), "cls": str(each.label)}
            for entry, each in zip(entries, samples, strict=True)
        ]
        assert json.loads(done.stdout) == expected


def split_headers(data: bytes) -> tuple[list[str], bytes]:
    """The names and the types of the headers in a tar whose members each take whole blocks."""
    names, kinds, at = [], b"", 0
    while at < len(data):
        header = data[at : at + 512]
        names.append(header[:100].rstrip(b"\0").decode())
        kinds += header[156:157]
        at += 512 + -(-int(header[124:135], 8) // 512) * 512
    return names, kinds


class TestGoldenBytes:
    def test_a_header_is_portable_ustar(self) -> None:
        header = encode(PLAIN, Picture(0, "cat/a b.jpg", JPEG))[:512]
        with io.BytesIO() as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
                member = tarfile.TarInfo("cat/a b.jpg")
                member.size = len(JPEG)
                archive.addfile(member, io.BytesIO(JPEG))
            assert header == file.getvalue()[:512]

    def test_a_shard_ends_with_two_zero_blocks_and_whole_records(self) -> None:
        for size in range(0, 60_000, 512):
            trailer = PLAIN.trailer(size)
            assert len(trailer) >= 1024
            assert (size + len(trailer)) % 10240 == 0
            assert len(trailer) < 1024 + 10240
            assert not any(trailer)

    def test_class_numbers_and_labels_are_text(self) -> None:
        sample = Sample("k", {"jpg": b"", "cls": -7})
        assert b"".join(PLAIN.encode(sample))[1024:1026] == b"-7"
        sample = Sample("k", {"jpg": b"", "label": (2.0, 0.1, -1e-7, 1e300)})
        assert b"".join(PLAIN.encode(sample))[1024:].rstrip(b"\0") == b"[2,0.1,-1e-07,1e+300]"

    def test_metadata_is_sorted_json(self) -> None:
        fields: dict[str, Value] = {"jpg": b"", "width": 2, "class": 'ä"', "filename": "k.jpg"}
        data = b"".join(METADATA.encode(Sample("k", fields)))
        assert data[1024:].rstrip(b"\0").decode() == (
            '{"class":"ä\\"","filename":"k.jpg","width":2}'
        )

    def test_the_index_is_that_of_wids(self) -> None:
        index = PLAIN.dataset_index("train", [ShardFacts("train-000000.tar", 3, 10240)])
        assert list(index) == ["train.json"]
        assert json.loads(index["train.json"]) == {
            "__kind__": "wids-shard-index-v1",
            "wids_version": 1,
            "name": "train",
            "shardlist": [{"url": "train-000000.tar", "nsamples": 3, "filesize": 10240}],
        }


class TestRenaming:
    @pytest.mark.parametrize(
        "renamed",
        [
            {"image": "cls"},
            {"image": "label.json"},
            {"image": "json"},
            {"cls": "jpg"},
            {"cls": "webp"},
            {"cls": "bin"},
            {"cls": "y", "label": "y"},
            {"label": "json"},
        ],
    )
    def test_two_fields_cannot_share_an_extension(self, renamed: dict[str, str]) -> None:
        with pytest.raises(OptionError, match="two fields would get the same extension"):
            WebDataset(renamed=renamed)

    @pytest.mark.parametrize("extension", ["", ".", "a.", ".a", "a/b", "JPG", "a b", "é", "x__"])
    def test_an_extension_must_be_one(self, extension: str) -> None:
        with pytest.raises(OptionError, match="not an extension"):
            WebDataset(renamed={"image": extension})

    def test_a_field_must_be_one(self) -> None:
        with pytest.raises(OptionError, match="no such field; there are image, cls, label"):
            WebDataset(renamed={"width": "w"})

    @pytest.mark.parametrize(
        "renamed",
        [{"image": "img"}, {"image": "jpg"}, {"cls": "y.txt"}, {"image": "x", "cls": "y"}],
    )
    def test_names_that_work(self, renamed: dict[str, str]) -> None:
        layout = WebDataset(renamed=renamed)
        samples = pictures(LABELS["class"])
        for entry, picture in zip(read(layout, shard(layout, samples)), samples, strict=True):
            assert entry.sample.image() == ("jpg" if picture.data == JPEG else "png", picture.data)
            assert entry.sample.fields["cls"] == picture.label


TarMember = tuple[tarfile.TarInfo, bytes]


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **more: Any) -> TarMember:
    info = tarfile.TarInfo(name)
    info.size, info.type = len(data), kind
    for attribute, value in more.items():
        setattr(info, attribute, value)
    return info, data


def tar_of(*members: TarMember, format: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar that Python's tarfile writes."""
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w", format=format) as archive:
            for info, data in members:
                archive.addfile(info, io.BytesIO(data))
        return file.getvalue()


class TestReadsWhatOthersWrite:
    def test_webdataset_shard_writer(self, tmp_path: Path, webdataset: ModuleType) -> None:
        path = tmp_path / "train-000000.tar"
        with webdataset.TarWriter(str(path)) as sink:
            for number, key in enumerate(["a", "dir/" + "b" * 120, "ü/" + "ねこ" * 60]):
                sink.write({"__key__": key, "jpg": JPEG, "cls": number, "json": {"n": number}})
        found = keys_and_fields(read(PLAIN, path.read_bytes()))
        assert [key for key, _ in found] == ["a", "dir/" + "b" * 120, "ü/" + "ねこ" * 60]
        assert [fields["jpg"] for _, fields in found] == [JPEG] * 3
        assert [fields["cls"] for _, fields in found] == [0, 1, 2]
        assert [fields["json"] for _, fields in found] == [b'{"n": %d}' % n for n in range(3)]

    def test_webdataset_shard_writer_compressed(
        self, tmp_path: Path, webdataset: ModuleType
    ) -> None:
        path = tmp_path / "train-000000.tar.gz"
        with webdataset.TarWriter(str(path), compress=True) as sink:
            sink.write({"__key__": "a", "jpg": JPEG})
        assert keys_and_fields(read(PLAIN, path.read_bytes())) == [("a", {"jpg": JPEG})]

    @pytest.mark.parametrize(
        "format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
    )
    @pytest.mark.parametrize(
        "name",
        [
            "a.jpg",
            "n" * 96 + ".jpg",
            "d" * 90 + "/" + "n" * 60 + ".jpg",
            "d" * 154 + "/" + "n" * 90 + ".jpg",
            "ねこ/" + "é" * 40 + ".jpg",
        ],
    )
    def test_tarfile_in_every_format(self, format: int, name: str) -> None:
        data = tar_of(member(name, JPEG), format=format)
        (entry,) = read(PLAIN, data)
        assert entry.sample == Sample(name.removesuffix(".jpg"), {"jpg": JPEG}, 0)
        assert entry.offset == 0

    @pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    def test_names_longer_than_ustar_holds(self, format: int) -> None:
        name = "é" * 400
        data = tar_of(member(f"{name}.jpg", JPEG), member(f"{name}.cls", b"3"), format=format)
        (entry,) = read(PLAIN, data)
        assert entry.sample == Sample(name, {"jpg": JPEG, "cls": 3}, 0)

    def test_gnu_tar_of_a_directory(self, tmp_path: Path) -> None:
        (tmp_path / "cat.1").mkdir()
        for name in ("a.jpg", "b.jpg"):
            (tmp_path / "cat.1" / name).write_bytes(JPEG)
        (tmp_path / "cat.1" / "b.txt").symlink_to("nowhere")
        for option in ("gnu", "pax", "ustar", "v7"):
            command = [
                "tar",
                "-C",
                tmp_path,
                f"--format={option}",
                "--sort=name",
                "-cf",
                "-",
                "./cat.1",
            ]
            data = subprocess.run(command, check=True, capture_output=True).stdout
            assert keys_and_fields(read(PLAIN, data)) == [
                ("./cat.1/a", {"jpg": JPEG}),
                ("./cat.1/b", {"jpg": JPEG}),
            ]

    def test_what_is_no_sample_is_passed_over(self) -> None:
        data = tar_of(
            member("./", kind=tarfile.DIRTYPE),
            member("dir.x", kind=tarfile.DIRTYPE),
            member("a.jpg", JPEG),
            member("README", b"text"),
            member("a.link", kind=tarfile.SYMTYPE, linkname="a.jpg"),
            member("a.hard", kind=tarfile.LNKTYPE, linkname="a.jpg"),
            member("a.dev", kind=tarfile.CHRTYPE, devmajor=1, devminor=3),
            member("a.block", kind=tarfile.BLKTYPE),
            member("a.fifo", kind=tarfile.FIFOTYPE),
            member("__meta__/a.jpg", b"passed over"),
            member("a.cls", b"1"),
        )
        assert keys_and_fields(read(PLAIN, data)) == [("a", {"jpg": JPEG, "cls": 1})]

    def test_the_extension_is_all_after_the_first_dot_in_lower_case(self) -> None:
        data = tar_of(member("d.x/a.Left.JPG", JPEG), member("d.x/a.right.jpg", PNG))
        assert keys_and_fields(read(PLAIN, data)) == [
            ("d.x/a", {"left.jpg": JPEG, "right.jpg": PNG})
        ]

    def test_equal_keys_that_are_apart_are_two_samples(self) -> None:
        data = tar_of(member("a.jpg", JPEG), member("b.jpg", PNG), member("a.cls", b"1"))
        assert [key for key, _ in keys_and_fields(read(PLAIN, data))] == ["a", "b", "a"]

    def test_two_members_of_one_name_are_damage(self) -> None:
        data = tar_of(member("a.jpg", JPEG), member("a.JPG", PNG))
        with pytest.raises(DamagedShard, match=r"'a' has two members \.jpg"):
            read(PLAIN, data)

    @pytest.mark.parametrize(
        "text",
        [b"", b"cat", b"01", b"1\n", b" 1", b"1.0", b"1_0", b"-0", b"[1,2]", b"9" * 5000, b"\xff"],
    )
    def test_a_class_that_would_be_written_otherwise_stays_bytes(self, text: bytes) -> None:
        assert keys_and_fields(read(PLAIN, tar_of(member("a.cls", text)))) == [("a", {"cls": text})]

    @pytest.mark.parametrize(
        "text",
        [b"", b"3", b"[]", b"[1, 2]", b"[1.0]", b"[1,[2]]", b"[" * 9999, b'{"a":1}', b"null"],
    )
    def test_a_label_that_would_be_written_otherwise_stays_bytes(self, text: bytes) -> None:
        found = keys_and_fields(read(PLAIN, tar_of(member("a.label.json", text))))
        assert found == [("a", {"label.json": text})]

    def test_long_labels_are_not_kept_in_memory(self) -> None:
        tracemalloc.start()
        for number in range(100):
            text = f"[{number},{'0.25,' * 2000}0.5]".encode()
            assert label_text(parse_label(text) or 0) == text
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept < 1 << 20

    def test_a_field_does_not_take_the_place_of_another(self) -> None:
        data = tar_of(member("a.label", b"x"), member("a.label.json", b"[1,2]"))
        assert keys_and_fields(read(PLAIN, data)) == [
            ("a", {"label": b"x", "label.json": b"[1,2]"})
        ]

    @properties
    @given(
        st.lists(
            st.tuples(
                st.text(
                    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1
                ),
                st.binary(max_size=9),
            ),
            max_size=5,
        ),
        st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    )
    def test_any_names_as_webdataset_does(
        self, contents: list[tuple[str, bytes]], format: int
    ) -> None:
        from webdataset.tariterators import group_by_keys, tar_file_expander

        data = tar_of(*(member(name, content) for name, content in contents), format=format)
        stream = io.BytesIO(data)
        try:
            theirs = list(group_by_keys(tar_file_expander([{"url": "", "stream": stream}])))
        except ValueError:  # a duplicate
            with pytest.raises(DamagedShard, match="two members"):
                read(PLAIN, data)
            return
        ours = read(PLAIN, data)
        assert [entry.sample.key for entry in ours] == [each["__key__"] for each in theirs]
