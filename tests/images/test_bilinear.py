"""The filters of --resize, and the libraries of dsprep[fast]."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

import dsprep
from dsprep.errors import BadImage, DestinationError, RunStopped
from dsprep.images import bilinear
from dsprep.images.transform import FILTERS, Transform
from tests.conftest import Finished
from tests.images import encode, image_folder, jpeg, png, truncated
from tests.images.test_transform import open_, pixels, psnr, textured
from tests.missing import framework

BILINEAR = Transform(resize=256, encode="jpeg", filter="bilinear")
PHOTO = encode(textured(0, (500, 375)), "JPEG", quality=93)


@pytest.fixture
def fast() -> None:
    """The libraries, which this test needs."""
    framework("simplejpeg")
    assert bilinear.libraries() is not None


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Transform, bytes], bytes | str]:
    """Return a function that transforms an image by Pillow alone, or says why it cannot."""

    def made(transform: Transform, data: bytes) -> bytes | str:
        with monkeypatch.context() as patch:
            patch.setattr(bilinear, "libraries", lambda: None)
            return made_of(transform, data)

    return made


def made_of(transform: Transform, data: bytes) -> bytes | str:
    try:
        return transform.apply(data).data
    except BadImage as error:
        return str(error)


# All filters


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("orientation", [0, 3, 6])
def test_every_kind_of_image(name: str, orientation: int) -> None:
    kinds = [
        *(
            encode(textured(1, (120, 90)), kind, orientation=orientation)
            for kind in ("JPEG", "PNG")
        ),
        *(jpeg(size=(120, 90), mode=mode, orientation=orientation) for mode in ("L", "CMYK")),
        *(
            png(size=(120, 90), mode=mode, orientation=orientation)
            for mode in ("P", "L", "RGBA", "I;16", "1")
        ),
    ]
    for data in kinds:
        for transform in (
            Transform(resize=70, encode="jpeg", filter=name),
            Transform(resize=20, crop=(18, 17), encode="png", color="rgb", filter=name),
            Transform(resize=200, enlarge=True, color="gray", filter=name),
        ):
            made = transform.apply(data)
            best = replace(transform, filter="lanczos").apply(data)
            one, other = (open_(each.data).convert("RGB") for each in (made, best))
            assert one.size == other.size == (made.width, made.height)
            assert psnr(pixels(one), pixels(other)) > 14  # one-bit dithering differs most


def test_sharper_filters_are_closer() -> None:
    sizes = {}
    for name in FILTERS:
        made = Transform(resize=256, encode="jpeg", filter=name).apply(PHOTO)
        best = open_(PHOTO).resize((341, 256), Image.Resampling.LANCZOS)
        sizes[name] = psnr(pixels(made.data), pixels(best))
    assert list(sizes) == sorted(sizes, key=lambda name: -sizes[name])
    default = Transform(resize=256, encode="jpeg")
    assert default.filter == "bicubic"
    assert default.to_json()["filter"] == "bicubic"


def test_wherever_images_are_resized(run_here: Callable[..., Finished], tmp_path: Path) -> None:
    image_folder(tmp_path / "images", ("a",), 1, size=(64, 48))
    (file,) = (tmp_path / "images").rglob("*.jpg")
    options = ("--resize", "40", "--encode", "jpeg", "--filter", "lanczos")
    expected = Transform(resize=40, encode="jpeg", filter="lanczos").apply(file.read_bytes()).data
    assert expected != Transform(resize=40, encode="jpeg").apply(file.read_bytes()).data
    assert run_here("pack", tmp_path / "images", tmp_path / "p.tar", *options, "-qj1").code == 0
    assert run_here("pack", tmp_path / "images", tmp_path / "o.tar", "-qj1").code == 0
    assert run_here("convert", tmp_path / "o.tar", tmp_path / "c.tar", *options, "-qj1").code == 0
    transform = Transform(resize=40, encode="jpeg", filter="lanczos")
    with (tmp_path / "o.tar").open("rb") as shard:
        stream = dsprep.convert_stream(
            shard, source="webdataset", to="webdataset", transform=transform
        )
        outputs = [b"".join(stream)]
    outputs += [(tmp_path / name).read_bytes() for name in ("p.tar", "c.tar")]
    for output in outputs:
        with tarfile.open(fileobj=io.BytesIO(output)) as tar:
            image = tar.extractfile(next(name for name in tar.getnames() if name.endswith("jpg")))
            assert image is not None and image.read() == expected
    manifest = json.loads((tmp_path / "p.tar.manifest.json").read_text())
    assert manifest["options"]["transform"]["filter"] == "lanczos"


# With dsprep[fast]


@pytest.mark.parametrize("seed", range(3))
def test_as_close_as_im2rec(seed: int, fast: None) -> None:
    data = encode(textured(seed, (500, 375)), "JPEG", quality=93)
    best = pixels(open_(data).resize((341, 256), Image.Resampling.LANCZOS))
    small = cv2.resize(cv2.imdecode(np.frombuffer(data, np.uint8), 1), (341, 256))
    theirs = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()
    ours = BILINEAR.apply(data).data
    assert psnr(pixels(ours), best) > psnr(pixels(theirs), best) - 0.1
    with open_(ours) as image, open_(encode(Image.new("RGB", (9, 9)), "JPEG", quality=90)) as same:
        assert image.quantization == same.quantization
        assert [layer[1:3] for layer in image.layer] == [(2, 2), (1, 1), (1, 1)]


def test_it_is_in_use(fast: None, slow: Callable[[Transform, bytes], bytes | str]) -> None:
    small = BILINEAR.apply(PHOTO).data
    other = slow(BILINEAR, PHOTO)
    assert isinstance(other, bytes) and small != other
    assert psnr(pixels(small), pixels(other)) > 30


def test_the_crop_is_the_center(fast: None) -> None:
    whole = pixels(BILINEAR.apply(PHOTO).data)
    crop = Transform(resize=256, crop=(224, 223), encode="jpeg", filter="bilinear")
    made = crop.apply(PHOTO)
    assert (made.width, made.height) == (224, 223) == open_(made.data).size
    assert psnr(pixels(made.data), whole[16:239, 58:282]) > 30


RGB_JPEG = encode(textured(2, (400, 300)), "JPEG", keep_rgb=True)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (PHOTO, {"filter": "bicubic"}),
        (PHOTO, {"encode": "png"}),
        (PHOTO, {"encode": "webp"}),
        (PHOTO, {"color": "gray"}),
        (PHOTO, {"resize": 187}),  # half the size, where four pixels are too few
        (PHOTO, {"resize": (240, 300)}),
        (PHOTO, {"resize": 400, "enlarge": True}),
        (encode(textured(0, (500, 375)), "JPEG", orientation=6), {}),
        (encode(textured(0, (500, 375)), "PNG"), {}),
        (jpeg(size=(400, 300), mode="L"), {}),
        (jpeg(size=(400, 300), mode="CMYK"), {}),
        (RGB_JPEG, {}),
    ],
)
def test_what_pillow_does(
    data: bytes,
    options: dict[str, object],
    fast: None,
    slow: Callable[[Transform, bytes], bytes | str],
) -> None:
    values = {"resize": 256, "encode": "jpeg", "filter": "bilinear", **options}
    transform = Transform(**values)  # type: ignore[arg-type]
    assert made_of(transform, data) == slow(transform, data)


def test_damage_is_judged_by_pillow(
    fast: None, slow: Callable[[Transform, bytes], bytes | str], capfd: pytest.CaptureFixture[str]
) -> None:
    """OpenCV accepts stray markers, which Pillow refuses, and writes to stderr."""
    scan = PHOTO.index(b"\xff\xda") + 14
    verdicts = set()
    for at in range(scan + 500, len(PHOTO) - 600, len(PHOTO) // 12):
        for change in (b"\xff\xd8", b"\xff\xc4", b"\xff" * 512, bytes(512), b"\xff\xd9"):
            damaged = PHOTO[:at] + change + PHOTO[at + len(change) :]
            made, other = made_of(BILINEAR, damaged), slow(BILINEAR, damaged)
            assert made == other or {type(made), type(other)} == {bytes}
            verdicts.add(type(made))
    assert verdicts == {bytes, str}
    assert "truncated" in str(made_of(BILINEAR, truncated(PHOTO)))
    assert capfd.readouterr() == ("", "")


def test_a_run_does_not_go_on_with_other_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = image_folder(tmp_path / "images", ("a",), 8, size=(64, 48))
    last = tmp_path / "images" / max(paths)
    whole = last.read_bytes()
    last.write_bytes(truncated(whole))

    def pack(filter: str) -> None:
        dsprep.pack(
            tmp_path / "images",
            tmp_path / f"out-{filter}",
            to="webdataset",
            transform=Transform(resize=40, filter=filter),
            samples_per_shard=2,
            shuffle=False,
            on_error="fail",
            workers=1,
        )

    for filter in ("bilinear", "bicubic"):
        with pytest.raises(RunStopped):
            pack(filter)
    last.write_bytes(whole)
    monkeypatch.setattr(bilinear, "versions", lambda: {"simplejpeg": "0", "OpenCV": "0"})
    with pytest.raises(DestinationError, match="other .*OpenCV"):
        pack("bilinear")
    with pytest.raises(DestinationError, match="other") as refused:
        pack("bicubic")
    assert "OpenCV" not in str(refused.value)
