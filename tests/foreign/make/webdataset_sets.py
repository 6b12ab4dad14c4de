"""Sets by webdataset 1.0.2's writers, with the spellings of fields that are in use."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import webdataset as wds

from tests.foreign.make.pictures import (
    CAPTIONS,
    CLASSES,
    jpeg,
    mask,
    picture,
    place,
    png,
    seen,
    truth,
)

TOOL = f"webdataset {wds.__version__}"
COUNT = 8
CLASS = {"image": "image", "label": "class"}

Members = Callable[[int], dict[str, Any]]
Fields = Callable[[int], dict[str, Any]]


def write(
    name: str,
    members: Members,
    fields: Fields,
    types: dict[str, str],
    classes: dict[str, list[str]] | None = None,
    **options: Any,
) -> None:
    """Write a set in two shards; `fields` are the values that a reader has to find."""
    dest = place(name)
    keys = [f"{seed:06d}" for seed in range(COUNT)]
    pattern = str(dest / "shard-%06d.tar")
    with wds.ShardWriter(pattern, maxcount=COUNT // 2, verbose=0, mtime=0, **options) as writer:
        for seed, key in enumerate(keys):
            writer.write({"__key__": key, **members(seed)})
    samples = [{"key": key, **fields(seed)} for seed, key in enumerate(keys)]
    truth(name, TOOL, samples, types, classes)


def labeled(data: Callable[[int], bytes] = jpeg) -> Fields:
    return lambda seed: {"image": seen(data(seed)), "label": seed % 3}


def with_image(**fields: Callable[[int], Any]) -> Fields:
    return lambda seed: {
        "image": seen(jpeg(seed)),
        **{name: value(seed) for name, value in fields.items()},
    }


def cls_text(
    name: str, text: Callable[[int], str], label: Callable[[int], Any], **told: Any
) -> None:
    """`.cls` members as other programs write them."""
    types = {"image": "image", "label": told.pop("kind", "class")}
    write(
        name,
        lambda seed: {"jpg": jpeg(seed), "cls": text(seed).encode()},
        with_image(label=label),
        types,
        **told,
        encoder=False,
    )


def meta(seed: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "label": seed % 3,
        "source": {"page": seed},
        "tags": ["x"] * (seed % 2),
    }
    return found if seed % 2 else {**found, "note": CAPTIONS[seed]}


def main() -> None:
    write("wds-cls", lambda s: {"jpg": picture(s), "cls": s % 3}, lambda s: {}, CLASS)
    reread_pictures()
    write("wds-jpeg", lambda s: {"jpeg": jpeg(s), "cls": s % 3}, labeled(), CLASS)
    write(
        "wds-upper",
        lambda s: {("JPEG", "jpeg", "jpg", "JPG")[s % 4]: jpeg(s), "cls": s % 3},
        labeled(),
        CLASS,
        encoder=only_cls,
    )
    write("wds-image-jpg", lambda s: {"image.jpg": jpeg(s), "label.cls": s % 3}, labeled(), CLASS)
    write("wds-rgb-png", lambda s: {"rgb.png": png(s), "cls": s % 3}, labeled(png), CLASS)
    write("wds-0-jpg", lambda s: {"0.jpg": jpeg(s), "1.cls": s % 3}, labeled(), CLASS)

    cls_text("wds-cls-newline", lambda s: f"{s % 3}\n", lambda s: s % 3)
    cls_text("wds-cls-blanks", lambda s: f" {s % 3} ", lambda s: s % 3)
    cls_text("wds-cls-list", lambda s: f"[{s % 3}]", lambda s: s % 3)
    cls_text("wds-cls-float", lambda s: f"{s / 2:g}", lambda s: s / 2, kind="float64")
    cls_text(
        "wds-cls-name", lambda s: CLASSES[s % 3], lambda s: s % 3, classes={"label": list(CLASSES)}
    )

    write(
        "wds-json-label",
        lambda s: {"jpg": jpeg(s), "json": meta(s)},
        with_image(label=lambda s: s % 3, json=meta),
        {**CLASS, "json": "json"},
    )
    for name in ("target", "index"):
        write(
            f"wds-{name}",
            lambda s, name=name: {"jpg": jpeg(s), name: b"%d" % (s % 3)},
            labeled(),
            CLASS,
            encoder=False,
        )
    write(
        "wds-masks",
        lambda s: {"image": png(s), "label": mask(s)},
        lambda s: {"image": seen(png(s)), "label": seen(mask(s))},
        {"image": "image", "label": "image"},
        encoder=False,
    )
    write(
        "wds-seg-png",
        lambda s: {"jpg": jpeg(s), "seg.png": mask(s)},
        with_image(seg=lambda s: seen(mask(s))),
        {"image": "image", "seg": "image"},
    )
    write(
        "wds-captions",
        lambda s: {"jpg": jpeg(s), "txt": CAPTIONS[s]},
        with_image(text=lambda s: CAPTIONS[s]),
        {"image": "image", "text": "text"},
    )
    write(
        "wds-some",
        lambda s: {"jpg": jpeg(s), "cls": s % 3} | ({"txt": CAPTIONS[s]} if s % 3 else {}),
        lambda s: {**labeled()(s), "text": CAPTIONS[s] if s % 3 else None},
        {**CLASS, "text": "text"},
    )
    write(
        "wds-json-numbers",
        lambda s: {"jpg": jpeg(s), "json": {"width": picture(s).width, "score": s / 4}},
        with_image(json=lambda s: {"width": picture(s).width, "score": s / 4}),
        {"image": "image", "json": "json"},
    )
    directories()
    write(
        "wds-mixed",
        lambda s: {**({"jpg": jpeg(s)} if s % 2 else {"png": png(s)}), "cls": s % 3},
        lambda s: labeled(jpeg if s % 2 else png)(s),
        CLASS,
    )
    write(
        "wds-arrays",
        lambda s: {
            "jpg": jpeg(s),
            "cls": s % 3,
            "npy": np.arange(s + 2, dtype=np.float32),
            "pth": pickle.dumps({"seed": s}),
        },
        lambda s: {**labeled()(s), "npy": npy(s), "pth": pickle.dumps({"seed": s}).hex()},
        {**CLASS, "npy": "bytes", "pth": "bytes"},
    )


def directories() -> None:
    """Keys with directories, one of them with a dot, as ImageNet's writers have them."""
    dest = place("wds-directories")
    samples = []
    with wds.TarWriter(str(dest / "imagenet.tar"), encoder=only_cls, mtime=0) as writer:
        for seed in range(COUNT):
            key = f"v1.0/{CLASSES[seed % 3]}/n{seed:04d}"
            writer.write({"__key__": key, "jpg": jpeg(seed), "cls": seed % 3})
            samples.append({"key": key, **labeled()(seed)})
    truth(dest.name, TOOL, samples, CLASS)


def npy(seed: int) -> str:
    import io

    file = io.BytesIO()
    np.lib.format.write_array(file, np.arange(seed + 2, dtype=np.float32))
    return file.getvalue().hex()


def only_cls(sample: dict[str, Any]) -> dict[str, Any]:
    """Encode the class only: webdataset's own encoders do not know `.JPEG`."""
    return {k: str(v).encode() if k == "cls" else v for k, v in sample.items()}


def reread_pictures() -> None:
    """webdataset's own encoder wrote the images: their bytes are in the shards."""
    import tarfile

    from tests.foreign.make.pictures import DATA

    samples: dict[str, dict[str, Any]] = {}
    for path in sorted((DATA / "wds-cls").glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, kind = member.name.partition(".")
                data = tar.extractfile(member).read()  # type: ignore[union-attr]
                own = samples.setdefault(key, {"key": key})
                own["image" if kind == "jpg" else "label"] = (
                    seen(data) if kind == "jpg" else int(data)
                )
    truth("wds-cls", TOOL, samples.values(), CLASS)


if __name__ == "__main__":
    main()
