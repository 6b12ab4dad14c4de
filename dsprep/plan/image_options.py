"""Options that say what is done to images, and which copies of them are made.

Importing this must stay cheap: ``--help`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath
from dsprep.declared import Options, option
from dsprep.images.augment import FILLS

if TYPE_CHECKING:
    from dsprep.images.transform import Transform

_annotations = partial(option, "Annotations")
_rare_annotations = partial(_annotations, rare=True)
_fields = partial(option, "Fields")
_rare_fields = partial(_fields, rare=True)
_output = partial(option, "Output")
_rare_output = partial(_output, rare=True)
_samples = partial(option, "Samples")
_rare_samples = partial(_samples, rare=True)
_images = partial(option, "Images")
_copies = partial(option, "Augmentation")


class KeepOptions(Options):
    """Which fields a transform may leave as they are."""

    keep_fields: Sequence[str] = _rare_fields(
        "Fields that do not depend on the geometry of the image: a transform leaves them as they "
        "are.",
        default=(),
        metavar="FIELD[,FIELD...]",
    )


class ImageOptions(KeepOptions):
    """How samples are made: what is done to images, and which are refused."""

    transform: Transform | None = None  # the command line makes it of --resize, --crop and others
    check: str | None = _samples(
        "How to check images: decode the pixels; parse the structure (every part of a JPEG or PNG "
        "that can stop a decoder); read the header and the end; or none.  [default: header; for "
        "shards none; for recordio structure, because one bad image ends an epoch of MXNet]",
        choices=("decode", "structure", "header", "none"),
    )
    max_pixels: int | None = _rare_samples(
        "Reject images with more pixels, such as decompression bombs.  [default: 178956970]"
    )
    annotation_size: str | None = _rare_annotations(
        "Size of the images that were annotated, if those of SOURCE are smaller copies; listed "
        "takes the size that the annotations tell for each image.",
        metavar="WxH|listed",
    )
    boxes_frame: str | None = _rare_annotations(
        "Whether annotations are for images as they are displayed, upright, or as they are stored, "
        "before their EXIF orientation turns them.  [default: displayed]",
        choices=("displayed", "stored"),
    )
    metadata: bool = _rare_output(
        "Add a .json with class, filename, width and height to each WebDataset sample.",
        default=False,
    )


class TransformOptions(Options):
    """What is done to images: the command line makes a ``Transform`` of these."""

    resize: int | tuple[int, int] | None = _images(
        "Resize: N for the shorter edge, or WxH. Images are not enlarged, unless --enlarge says "
        "so.",
        metavar="N|WxH",
    )
    crop: int | tuple[int, int] | None = _images(
        "Cut this size out of the center, after --resize.", metavar="N|WxH"
    )
    enlarge: bool = _images("Let --resize enlarge small images.", default=False)
    min_visible: float | None = option(
        "Annotations",
        "Drop an object if --crop, or an augmented copy, leaves less than this share of its area.  "
        "[default: 0.3]",
        rare=True,
    )
    filter: str | None = _images(
        "Resampling filter of --resize, from sharp to fast; simplejpeg and "
        "opencv-python-headless speed bilinear up.  [default: bicubic]",
        choices=("lanczos", "bicubic", "hamming", "bilinear"),
    )
    encode: str = _images(
        "Re-encode images; raw stores bare pixels (height, width, channels), raw-chw planes of "
        "pixels (channels, height, width).",
        default="keep",
        choices=("keep", "jpeg", "png", "webp", "raw", "raw-chw"),
    )
    quality: int | None = _images("JPEG and WebP quality, 1–100.  [default: 90]")
    color: str = _images("Convert colors.", default="keep", choices=("keep", "rgb", "gray"))


class CopyOptions(Options):
    """How many augmented copies of images there are, and what lies beyond their edges."""

    per_image: int | None = _copies("Number of copies of each image.")
    per_class: int | None = _copies(
        "Copy images until each class has this many samples; larger classes stay as they are."
    )
    balance: bool = _copies(
        "Copy images until each class has as many samples as the largest.", default=False
    )
    keep_originals: bool = _copies(
        "Write the originals as well, with their bytes (default), or only copies.", default=True
    )
    fill: str | None = _copies(
        "What fills a copy beyond the edges of its image, as Keras names it.  [default: nearest]",
        choices=FILLS,
    )
    mask_fill: int | None = _copies(
        "Class number of pixels beyond the edges of a mask.  [default: 255]", least=0
    )
    preview: AnyPath | None = _copies(
        "Write a picture of some images and their copies to FILE, a PNG, also with --dry-run.",
        metavar="FILE",
    )
    any_side: bool = _copies(
        "Augment samples for validation and test, too.  [default: only the training side]",
        default=False,
    )
