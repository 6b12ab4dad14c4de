"""Arrays of images with arrays of labels: what belongs together, and the pixels of each image."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from PIL import Image

import dsprep
from dsprep.catalog import Catalog
from dsprep.errors import BadSample, DsprepError, OptionError, SourceError
from dsprep.schema import Choice
from dsprep.sources.reading import claims, read_source
from dsprep.sources.source import make_source
from dsprep.sources.tables.numpy_kind import ArraysKind
from dsprep.sources.tables.stacks_kind import StacksKind
from tests.images import png
from tests.missing import framework
from tests.servers.bucket import Bucket
from tests.sources.contract import SourceTests

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(5)


def images(count: int, *shape: int) -> Array:
    return rng.integers(0, 256, (count, *shape), dtype=np.uint8)


class TestStacks(SourceTests):
    kind = StacksKind
    in_archive = True

    def make(self, root: Path) -> Path:
        path = root / "arrays"
        path.mkdir()
        for side, count in (("train", 5), ("test", 3)):
            np.save(path / f"x_{side}.npy", images(count, 9, 8, 3))
            np.save(path / f"y_{side}.npy", np.arange(count) % 3)
        return path


def catalog_of(path: Path, **options: Any) -> Catalog:
    return read_source(make_source(str(path), **options))[0]


def pixels_of(catalog: Catalog, spools: Path | None = None) -> list[Array]:
    """The pixels of the images; with a directory, from spools and in another order."""
    reader, rows = catalog.reader, catalog
    if spools is not None:
        spools.mkdir()
        for number, size in enumerate(reader.spools()):
            reader.write_spool(number, str(spools / str(number)))
            assert (spools / str(number)).stat().st_size == size
        reader, rows = reader.spooled(str(spools)), catalog.shuffle(3)
    found: dict[int, Array] = {}
    for index, data in zip(rows.table["index"], reader.read(rows.rows()), strict=True):
        assert isinstance(data, bytes)
        with Image.open(io.BytesIO(data)) as image:
            found[index] = np.asarray(image)
    return [found[index] for index in sorted(found)]


def check(catalog: Catalog, tmp_path: Path, expected: Array, labels: list[int] | None) -> None:
    """Compare all images and labels with what NumPy has."""
    for found in (pixels_of(catalog), pixels_of(catalog, tmp_path / "spools")):
        assert len(found) == len(expected)
        assert all(map(np.array_equal, found, expected))
    column = catalog.table["cls"].to_list() if "cls" in catalog.table.columns else None
    assert column == labels


SHAPES = [(8, 9), (9, 8, 1), (9, 8, 3), (9, 8, 4), (1, 9, 8), (3, 9, 8)]


@pytest.mark.parametrize("save", ["npy", "npz", "packed npz", "zip"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_as_numpy_reads_them(tmp_path: Path, save: str, shape: tuple[int, ...]) -> None:
    data, labels = images(40, *shape), rng.integers(0, 9, (40, 1), dtype=np.uint8)
    path = tmp_path / f"set.{save[-3:]}"
    if save.endswith("npz"):
        write: Callable[..., None] = np.savez if save == "npz" else np.savez_compressed
        write(path, images=data, labels=labels)
    else:
        path = tmp_path / "set"
        path.mkdir()
        np.save(path / "the_data.npy", data)
        np.save(path / "the_labels.npy", labels)
    if save == "zip":
        with zipfile.ZipFile(tmp_path / "set.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for file in path.iterdir():
                archive.write(file, f"below/{file.name}")
        path = tmp_path / "set.zip"
    upright = np.moveaxis(data, 1, -1) if shape[0] in (1, 3) else data
    check(catalog_of(path), tmp_path, upright.squeeze(), labels[:, 0].tolist())


SETS: dict[str, tuple[dict[str, dict[str, Any]], tuple[str, ...], list[str]]] = {
    # files, each with its arrays; sides; paths of the first image of each array
    "cifar10.1": (
        {"cifar10.1_v6_data.npy": {"": images(6, 32, 32, 3)},
         "cifar10.1_v6_labels.npy": {"": np.arange(6, dtype="i4")}},
        (), ["00000.png"],
    ),
    "medmnist": (
        {"pathmnist.npz": {
            f"{side}_{what}": images(6, 28, 28) if what == "images" else np.arange(6)[:, None]
            for side in ("train", "val", "test") for what in ("images", "labels")}},
        ("train", "val", "test"), ["train/00000.png", "val/00000.png", "test/00000.png"],
    ),
    "keras": (
        {"mnist.npz": {f"{what}_{side}": images(6, 28, 28) if what == "x" else np.arange(6)
                       for side in ("test", "train") for what in "xy"}},
        ("train", "test"), ["test/00000.png", "train/00000.png"],
    ),
    "kmnist": (
        {f"kmnist-{side}-{what}.npz": {
            "arr_0": images(6, 28, 28) if what == "imgs" else np.arange(6, dtype="u1")}
         for side in ("train", "test") for what in ("imgs", "labels")},
        ("train", "test"), ["test/00000.png", "train/00000.png"],
    ),
    "cifar10-c": (
        {"fog.npy": {"": images(6, 32, 32, 3)}, "snow.npy": {"": images(6, 32, 32, 3)},
         "labels.npy": {"": np.arange(6)}},
        (), ["fog/00000.png", "snow/00000.png"],
    ),
}  # fmt: skip


def write_files(root: Path, files: dict[str, dict[str, Any]]) -> Path:
    root.mkdir()
    for name, arrays in files.items():
        if name.endswith(".npy"):
            np.save(root / name, arrays[""])
        else:
            np.savez(root / name, **arrays)
    return root


@pytest.mark.parametrize("name", SETS)
def test_what_belongs_together(tmp_path: Path, name: str) -> None:
    files, sides, firsts = SETS[name]
    catalog = catalog_of(write_files(tmp_path / name, files))
    assert catalog.sides == sides
    assert catalog.table["path"].to_list()[::6] == firsts
    expected = [array for arrays in files.values() for array in arrays.values() if array.ndim > 2]
    if name in ("keras", "kmnist"):
        assert len(expected) == 2
        order = [0, 1] if name == "keras" else [1, 0]
        expected = [expected[at] for at in order]
    check(catalog, tmp_path, np.concatenate(expected), list(range(6)) * len(firsts))


def test_labels_are_found_beside_one_file(tmp_path: Path) -> None:
    path = write_files(tmp_path / "c", SETS["cifar10.1"][0])
    assert catalog_of(path / "cifar10.1_v6_data.npy").table["cls"].to_list() == list(range(6))
    path = write_files(tmp_path / "k", SETS["kmnist"][0])
    catalog = catalog_of(path / "kmnist-test-imgs.npz")
    assert (catalog.sides, catalog.table["cls"].to_list()) == ((), list(range(6)))
    np.save(tmp_path / "mine.npy", np.array(["no", "yes"] * 3))
    named = catalog_of(path / "kmnist-test-imgs.npz", labels=str(tmp_path / "mine.npy"))
    assert named.classes == ("no", "yes")


def test_quickdraw_has_a_file_for_each_class(tmp_path: Path) -> None:
    data = [images(4, 784), images(4, 784)]
    root = tmp_path / "drawings"
    root.mkdir()
    np.save(root / "full_numpy_bitmap_The Eiffel Tower.npy", data[1])
    np.save(root / "airplane.npy", data[0])
    catalog = catalog_of(root)
    assert catalog.classes == ("The Eiffel Tower", "airplane")
    assert catalog.table["path"].to_list()[::4] == [
        "airplane/00000.png",
        "The Eiffel Tower/00000.png",
    ]
    check(catalog, tmp_path, np.concatenate(data).reshape(-1, 28, 28), [1] * 4 + [0] * 4)


def test_several_labels_of_an_image(tmp_path: Path) -> None:
    tags = rng.integers(0, 2, (6, 14), dtype=np.uint8)
    np.savez(tmp_path / "chestmnist.npz", train_images=images(6, 28, 28), train_labels=tags)
    catalog = catalog_of(tmp_path / "chestmnist.npz")
    assert catalog.table["label"].to_list() == tags.tolist()
    dsprep.pack(tmp_path / "chestmnist.npz", tmp_path / "out", to="tfrecord", workers=1)


def test_class_names_of_an_array(tmp_path: Path) -> None:
    path = tmp_path / "happy.npz"
    names = np.array([b"sad", b"happy"])
    np.savez(path, train_set_x=images(5, 64, 64, 3), train_set_y=np.array([[0, 1, 1, 0, 1]]),
             list_classes=names)  # fmt: skip
    catalog = catalog_of(path)
    assert catalog.classes == ("sad", "happy")
    assert catalog.table["cls"].to_list() == [0, 1, 1, 0, 1]
    np.savez(path, x=images(5, 64, 64, 3), y=np.array([0, 1, 2, 0, 1]), list_classes=names)
    assert catalog_of(path).classes is None


def test_arrays_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, images=images(5, 9, 9), wide=images(5, 9, 18), fine_labels=np.arange(5),
             coarse_labels=np.arange(5) // 2, place=np.ones((5, 2)))  # fmt: skip
    with pytest.raises(SourceError, match="--image-field images"):
        catalog_of(path)
    with pytest.raises(SourceError, match="--label-field fine_labels"):
        catalog_of(path, image_field="wide")
    with pytest.raises(OptionError, match="--label-field lines: the arrays are images, wide"):
        catalog_of(path, image_field="wide", label_field="lines")
    catalog, findings = read_source(
        make_source(str(path), image_field="wide", label_field="coarse_labels")
    )
    assert catalog.table["cls"].to_list() == [0, 0, 1, 1, 2]
    assert "arrays that are not read: images (5 x 9 x 9 bytes), " in " ".join(map(str, findings))


@pytest.mark.parametrize(
    ("array", "options", "kind"),
    [
        (images(5, 9, 9), {}, StacksKind),
        (images(5, 9, 9), {"kind": "numpy"}, ArraysKind),
        (images(5, 9, 9), {"choice": Choice(rename={"a": "pixels"})}, ArraysKind),
        (images(5, 9, 9).astype("f4"), {}, ArraysKind),
        (images(5, 9, 7), {}, ArraysKind),
        (images(5, 9, 9, 2), {}, ArraysKind),
        (images(5, 28, 28, 28), {}, ArraysKind),
        (images(3, 480, 640), {}, ArraysKind),  # one image, channels first
        (images(5, 784), {}, ArraysKind),
        (images(5, 784), {"raw_image": "28x28x1"}, StacksKind),
    ],
)
def test_which_arrays_are_images(
    tmp_path: Path, array: Array, options: dict[str, Any], kind: type
) -> None:
    np.save(tmp_path / "a.npy", array)
    assert type(next(claims(make_source(str(tmp_path / "a.npy"), **options))).kind) is kind


def test_rows_that_look_like_images_are_asked_about(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", features=images(5, 784), labels=np.arange(5))
    with pytest.raises(SourceError, match="give --raw-image 28x28x1, or --no-image"):
        dsprep.pack(tmp_path / "a.npz", tmp_path / "out", to="webdataset", workers=1)
    catalog = catalog_of(tmp_path / "a.npz", raw_image="28x28x1")
    assert catalog.table["cls"].to_list() == list(range(5))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": images(5, 9, 9), "y": np.arange(4)}, "y: has 4 labels, but .*x has 5 images"),
        ({"x": np.asfortranarray(images(5, 9, 9)), "y": np.arange(5)}, "ascontiguousarray"),
        ({"x": images(5, 9, 9), "y": images(5, 9, 9)}, "does not read as labels"),
        ({"x": images(5, 9, 9), "y": np.full(5, 0.5)}, ""),
        ({"x_train": images(5, 9, 9), "y_train": np.arange(5), "x_test": images(5, 9, 9)},
         "x_test: has no labels"),
        ({"x_train": images(5, 9, 9), "data": images(5, 9, 9)}, "its name tells no side"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, arrays: dict[str, Array], said: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    if not said:
        assert catalog_of(tmp_path / "a.npz").table["label"].to_list() == [[0.5]] * 5
        return
    with pytest.raises(SourceError, match=said):
        catalog_of(tmp_path / "a.npz")


def test_damage_is_found(tmp_path: Path) -> None:
    data = images(50, 9, 9)
    np.savez_compressed(tmp_path / "a.npz", x=data, y=np.arange(50))
    whole = (tmp_path / "a.npz").read_bytes()
    for at in range(60, len(whole) - 200, 97):
        (tmp_path / "a.npz").write_bytes(whole[:at] + bytes((whole[at] ^ 0x5A,)) + whole[at + 1 :])
        try:
            found = pixels_of(catalog_of(tmp_path / "a.npz"))
        except DsprepError:
            continue
        assert all(map(np.array_equal, found, data))


def test_same_bytes_with_any_number_of_workers(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=images(60, 16, 16, 3), y=np.arange(60) % 7)
    outs = []
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        dsprep.pack(tmp_path / "a.npz", out, to="recordio", workers=workers, shards=5)
        outs.append([path.read_bytes() for path in sorted(out.glob("*.rec"))])
    assert outs[0] == outs[1]


# HDF5


def write_hdf5(path: Path, arrays: dict[str, Any], **options: Any) -> Path:
    h5py = framework("h5py")
    with h5py.File(path, "w", **options.pop("file", {})) as file:
        for name, each in arrays.items():
            file.create_dataset(name, data=each, **(options if each[0].size > 9 else {}))
    return path


HOW: dict[str, dict[str, Any]] = {
    "plain": {},
    "after a block of the user": {"file": {"userblock_size": 512}},
    "a chunk an image": {"chunks": (1, 9, 8, 3), "compression": "gzip"},
    "many in a chunk": {"chunks": (7, 5, 8, 3), "compression": "lzf", "shuffle": True},
}


@pytest.mark.parametrize("how", HOW)
def test_hdf5_as_h5py_reads_it(tmp_path: Path, how: str) -> None:
    data, labels = images(40, 9, 8, 3), rng.integers(0, 2, (40, 1, 1, 1), dtype=np.uint8)
    path = write_hdf5(tmp_path / "a.h5", {"X": data, "y": labels}, **HOW[how])
    check(catalog_of(path), tmp_path, data, labels.ravel().tolist())


def test_pcam(tmp_path: Path) -> None:
    """A file of images and one of labels for each side: github.com/basveeling/pcam."""
    data = {side: images(4, 96, 96, 3) for side in ("train", "valid", "test")}
    for side, each in data.items():
        name = f"camelyonpatch_level_2_split_{side}"
        write_hdf5(tmp_path / f"{name}_x.h5", {"x": each}, chunks=(1, 96, 96, 3))
        write_hdf5(tmp_path / f"{name}_y.h5", {"y": np.arange(4).reshape(4, 1, 1, 1) % 2})
        (tmp_path / f"{name}_meta.csv").write_text("coord_y\n1\n")
    catalog, findings = read_source(make_source(str(tmp_path)))
    assert catalog.sides == ("train", "val", "test")
    order = [*catalog.table["path"].to_list()[::4]]
    assert order == ["test/00000.png", "train/00000.png", "val/00000.png"]
    whole = np.concatenate([data[side] for side in ("test", "train", "valid")])
    check(catalog, tmp_path, whole, [0, 1] * 6)
    left = [each.path for each in findings if each.kind == "left-over"]
    assert left == [f"camelyonpatch_level_2_split_{side}_meta.csv" for side in sorted(data)]
    one = catalog_of(tmp_path / "camelyonpatch_level_2_split_valid_x.h5")
    assert (len(one), one.table["cls"].to_list()) == (4, [0, 1, 0, 1])


def test_groups_and_texts_of_hdf5(tmp_path: Path) -> None:
    names = np.array(["cat", "dog", "cat"], dtype=object)
    arrays = {f"{side}/{what}": each for side in ("train", "test")
              for what, each in (("images", images(3, 9, 9)), ("labels", names))}  # fmt: skip
    h5py = framework("h5py")
    path = write_hdf5(tmp_path / "a.hdf5", {"list_of_places": np.ones((3, 2))})
    with h5py.File(path, "a") as file:
        for name, each in arrays.items():
            kind = h5py.string_dtype() if each.dtype == object else None
            file.create_dataset(name, data=each, dtype=kind)
    catalog, findings = read_source(make_source(str(path)))
    assert (catalog.sides, catalog.classes) == (("train", "test"), ("cat", "dog"))
    assert catalog.table["cls"].to_list() == [0, 1, 0] * 2
    assert "list_of_places (3 x 2 float64)" in " ".join(map(str, findings))


def test_hdf5_that_names_other_files_is_not_followed(tmp_path: Path) -> None:
    h5py = framework("h5py")
    (tmp_path / "secret").write_bytes(bytes(3 * 81))
    other = write_hdf5(tmp_path / "other.h5", {"x": images(3, 9, 9)})
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (3, 9, 9), "u1", external=[(str(tmp_path / "secret"), 0, 243)])
        file["images"] = h5py.ExternalLink(str(other), "x")
        layout = h5py.VirtualLayout((3, 9, 9), "u1")
        layout[:] = h5py.VirtualSource(str(other), "x", (3, 9, 9))
        file.create_virtual_dataset("pixels", layout)
        file["again"] = file["/"]  # a circle
    with pytest.raises(SourceError, match="no array of images"):
        catalog_of(tmp_path / "a.h5", kind="stacks")


def test_groups_of_hdf5_that_hold_one_another_are_read_once(tmp_path: Path) -> None:
    h5py = framework("h5py")
    path = write_hdf5(tmp_path / "a.h5", {"images": images(20, 9, 9), "labels": np.arange(20)})
    with h5py.File(path, "a") as file:
        inner = file.create_group("inner")
        for at in range(20):
            inner[f"{at}"] = file["/"]
            file[f"{at}"] = inner
    assert len(catalog_of(path, kind="stacks")) == 20


def test_what_hdf5_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = framework("h5py")
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        file.create_dataset("x", (1 << 40, 96, 96, 3), "u1", chunks=(1, 96, 96, 3))
    with pytest.raises(SourceError, match="cannot be so many images"):
        catalog_of(tmp_path / "bomb.h5")
    (tmp_path / "no.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600))
    (tmp_path / "no.h5.gz").write_bytes(b"\x1f\x8b")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "bomb.h5", "below/bomb.h5")
    refused = {"no.h5": "is damaged", "no.h5.gz": "with gunzip", "a.zip": "unpack the zip"}
    for name, said in refused.items():
        with pytest.raises(SourceError, match=said):
            catalog_of(tmp_path / name)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(OptionError, match=r"no.h5: HDF5 is read by h5py .*: pip install h5py"):
        catalog_of(tmp_path / "no.h5")
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "model.h5").write_bytes(b"1")
    (tmp_path / "photos" / "cat" / "a.png").write_bytes(png())
    assert len(catalog_of(tmp_path / "photos")) == 1


def test_damaged_hdf5_is_refused_or_rejected(tmp_path: Path) -> None:
    data = images(20, 9, 9)
    path = write_hdf5(tmp_path / "a.h5", {"x": data, "y": np.arange(20)}, chunks=(3, 9, 9),
                      compression="gzip", fletcher32=True)  # fmt: skip
    whole = path.read_bytes()
    for at in range(0, len(whole), 61):
        path.write_bytes(whole[:at] + bytes((whole[at] ^ 0x5A,)) + whole[at + 1 :])
        try:
            catalog = catalog_of(path)
            found = list(catalog.reader.read(catalog.rows()))
        except DsprepError:
            continue
        assert all(isinstance(each, bytes | BadSample) for each in found)


# MATLAB


@pytest.mark.parametrize("how", ["plain", "compressed", "7.3"])
def test_svhn(tmp_path: Path, how: str) -> None:
    """Digits of SVHN: X is 32 x 32 x 3 x N, and the label 10 stands for 0, as torchvision says."""
    whole, digits = images(30, 32, 32, 3), rng.integers(1, 11, (30, 1), dtype=np.uint8)
    for side, own in (("extra", slice(12, 30)), ("test", slice(5, 12)), ("train", slice(0, 5))):
        data = {"X": np.moveaxis(whole[own], 0, -1), "y": digits[own]}
        path = tmp_path / f"{side}_32x32.mat"
        if how == "7.3":
            turned = {name: np.ascontiguousarray(each.T) for name, each in data.items()}
            write_hdf5(path, turned, file={"userblock_size": 512})
            data_of_file = path.read_bytes()
            path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + data_of_file[512:])
        else:
            scipy.io.savemat(path, data, do_compression=how == "compressed")
    catalog, findings = read_source(make_source(str(tmp_path)))
    assert catalog.sides == ("train", "test", "extra")
    order = [*range(12, 30), *range(5, 12), *range(5)]
    check(catalog, tmp_path, whole[order], (digits[order, 0] % 10).tolist())
    assert "label 10 is the digit 0" in " ".join(map(str, findings))


def test_stl10(tmp_path: Path) -> None:
    """Bare bytes, with the pixels as MATLAB has them, and labels from 1."""
    whole, labels = images(9, 96, 96, 3), np.arange(9, dtype=np.uint8) + 1
    for side, own in (("test", slice(0, 4)), ("train", slice(4, 9)), ("unlabeled", slice(0, 2))):
        whole[own].transpose(0, 3, 2, 1).tofile(tmp_path / f"{side}_X.bin")
        if side != "unlabeled":
            labels[own].tofile(tmp_path / f"{side}_y.bin")
    names = "airplane\nbird\ncar\ncat\ndeer\ndog\nhorse\nmonkey\nship\ntruck\n"
    (tmp_path / "class_names.txt").write_text(names)
    catalog, findings = read_source(make_source(str(tmp_path)))
    assert (catalog.sides, catalog.classes) == (("train", "test"), tuple(names.split()))
    check(catalog, tmp_path, whole, (labels - 1).tolist())
    assert "its 2 images have no labels: pack it by itself" in " ".join(map(str, findings))
    bare = catalog_of(tmp_path / "unlabeled_X.bin")
    assert all(map(np.array_equal, pixels_of(bare), whole[:2]))
    (tmp_path / "test_y.bin").write_bytes(bytes(4))
    with pytest.raises(SourceError, match="a label that is none of 1 to 10"):
        catalog_of(tmp_path)
    (tmp_path / "test_X.bin").write_bytes(bytes(9))
    with pytest.raises(SourceError, match="no multiple of 27,648; download it again"):
        catalog_of(tmp_path)


def test_numbers_of_matlab_are_class_numbers(tmp_path: Path) -> None:
    """MATLAB saves whole numbers as doubles, and texts as objects."""
    data = images(9, 8, 9)
    arrays = {"images": np.moveaxis(data, 0, -1), "labels": np.arange(9.0), "about": "digits"}
    scipy.io.savemat(tmp_path / "a.mat", arrays)
    catalog, findings = read_source(make_source(str(tmp_path / "a.mat")))
    check(catalog, tmp_path, data, list(range(9)))
    assert "about (1 x 6 objects)" in " ".join(map(str, findings))


def test_damage_in_matlab_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    data = {"X": images(9, 9, 3, 20), "y": np.arange(20)}
    for packed in (False, True):
        scipy.io.savemat(path, data, do_compression=packed)
        whole = path.read_bytes()
        for at in [*range(400), *range(400, len(whole), 211)]:
            path.write_bytes(whole[:at] + bytes((whole[at] ^ 0x5A,)) + whole[at + 1 :])
            try:
                catalog = catalog_of(path)
                found = list(catalog.reader.read(catalog.rows()))
            except DsprepError:
                continue
            assert all(isinstance(each, bytes | BadSample) for each in found)


def test_all_of_them_on_s3(
    localstack: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Workers read ranges of arrays, and of chunks of HDF5."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
    data, labels = images(30, 9, 8, 3), np.arange(30)
    arrays = {"x": data, "y": labels}
    write_hdf5(tmp_path / "chunked.h5", arrays, chunks=(7, 9, 8, 3), compression="gzip")
    write_hdf5(tmp_path / "plain.h5", arrays)
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    turned = {"x": np.moveaxis(data, 0, -1), "y": labels}
    scipy.io.savemat(tmp_path / "a.mat", turned, do_compression=True)
    for file in sorted(tmp_path.iterdir()):
        localstack.put(file.name, file.read_bytes())
        spools = tmp_path / f"of {file.name}"
        spools.mkdir()
        catalog = read_source(make_source(f"{localstack.url}/{file.name}"))[0]
        check(catalog, spools, data, labels.tolist())


def test_pickles_beside_images_are_left_over(tmp_path: Path) -> None:
    names = np.array(["a", {}], dtype=object)
    np.savez(tmp_path / "a.npz", x=images(2, 9, 9), y=np.arange(2), names=names)
    catalog, findings = read_source(make_source(str(tmp_path / "a.npz")))
    assert catalog.table["cls"].to_list() == [0, 1]
    assert [each.path for each in findings if each.kind == "left-over"] == ["names.npy"]
    np.savez(tmp_path / "a.npz", x=images(2, 9, 9), y=names)
    for kind in (None, "stacks"):
        with pytest.raises(SourceError, match="y.npy:? has objects, which are pickles"):
            read_source(make_source(str(tmp_path / "a.npz"), kind=kind))
