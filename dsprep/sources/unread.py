"""Recognize annotations that nothing reads, by the head of a file beside the images.

To name another kind, add a line to `UNREAD`: such a file then stops a command with exit code 4
(`dsprep.sources.passed_over`). Kinds that dsprep reads know their own files:
`AnnotationKind.is_own`. The table is asked first, so a line goes when a kind reads its files.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence

from dsprep.patterns import pattern
from dsprep.tuples import NamedTuple

_CONVERT = "convert them to COCO, Pascal VOC or YOLO, for example with datumaro"
_ROWS = 5  # lines that have to look alike
_LONGEST = 1000  # characters of a line that are looked at
_NUMBER = r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"


class Unread(NamedTuple):
    """A kind of annotations, and how one knows its files.

    Attributes:
        name: What users call it.
        names: A regular expression that paths end in.
        words: What the head of a file has to hold, each.
        rows: What each of the first lines has to be; of several, the first ones differ.
        advice: What to do.
    """

    name: str
    names: str
    words: Sequence[str] = ()
    rows: Sequence[str] = ()
    advice: str = _CONVERT


_JSON, _XML, _TXT = r"\.json[l]?$", r"(?:\.xml|/[^./]+)$", r"\.txt$"
_TRACKS = rf"\d+ -?\d+ [A-Za-z_]\w*(?: +{_NUMBER}){{14,15}}"
_ICDAR = rf"(?:{_NUMBER} ?, ?){{8}}[^\s,].*|\d+,? +\d+,? +\d+,? +\d+,? +\".*\""
_MOT = rf"\d+ ?, ?-?\d+(?: ?, ?{_NUMBER}){{4,8}}"
_YOLO = rf"\d+(?:\.0*)?(?:[ \t]+{_NUMBER}){{4,}}"
_ADE = r'\d+ # \d+ # [01] # [^#]* # [^#]* # ".*"'
_AVA = rf"[\w-]+,\d+(?:\.\d+)?(?:,{_NUMBER}){{4}},\d+,\d+"
_FIFTYONE = (
    "export it from FiftyOne as COCO, YOLO or Pascal VOC, or as a directory tree for each class"
)
# Labels are by the stem of an image, samples have a path and types (docs.voxel51.com,
# "Exporting FiftyOne datasets").
_FIFTYONE_LABELS = r'"labels"\s*:\s*\{\s*"[^"]*"\s*:\s*(?:\d+|null|"|\[)'
_OCHUMAN = "take those of the same authors in COCO's form, ochuman_coco_format_*.json"
_KEYPOINTS = "write COCO's JSON of their keypoints, with category_id and bbox of each object"
_SBD = "write the field Segmentation of each into a PNG, and give their directory with --masks"

_VERTEX = r"(?:TRAIN(?:ING)?|VALIDAT(?:E|ION)|TEST|UNASSIGNED),gs://.*"
_YOLO_V4 = r"\S+\.\w+(?: \d+,\d+,\d+,\d+,\d+)+"  # a.jpg 1,2,3,4,CLASS 5,6,7,8,CLASS
_PREFIXES = "rename each file to metadata.jsonl beside its images, and its key image to file_name"

_SCALABEL = "write the list of frames alone into a file, as BDD100K has it"

UNREAD = (
    Unread("LabelMe", _XML, ("<annotation>", "<object>", "<polygon>")),
    Unread("HRSC2016", r"\.xml$", ("<HRSC_Image",)),
    Unread("PAGE XML", r"\.xml$", ("<PcGts",)),
    Unread("ALTO", r"\.xml$", ("<alto",)),
    Unread("dlib", r"\.xml$", ("<images>", r"<image\s+file=", "<box ")),
    Unread("KITTI's tracks", _TXT, (), (_TRACKS,)),
    Unread("KITTI's tracks", r"\.xml$", ("<tracklets",)),
    Unread("ADE20K", _TXT, (), (_ADE,)),
    Unread("ADE20K", _JSON, ('"annotation"\\s*:\\s*\\{', '"filename"', '"imsize"|"object"')),
    Unread("AVA", r"(?:^|/)ava_[^/]*\.csv$", (), (_AVA,)),
    Unread("MOT's tracks", r"(?:^|(?<!gt)/)(?:gt|det|labels)[^/]*\.txt$", (), (_MOT,)),
    Unread("ICDAR", r"(?<!gt/gt)\.txt$", (), (_ICDAR,)),
    Unread("300-W", r"\.pts$", (r"^version:", r"n_points:")),
    Unread("VoTT", r"\.(?:vott|json)$",
           ('"assets?"\\s*:\\s*\\{', '"regions"|"videoSettings"|"tags"'),
           (), "export the project from VoTT as Pascal VOC, or as CSV for --annotations FILE"),
    Unread("Datumaro", _JSON, ('"items"\\s*:\\s*\\[', '"annotations"|"dm_format_version"')),
    Unread("Datumaro", r"\.datum(?:aro)?$", (r"datum_dataset|",)),
    Unread("Supervisely", _JSON, ('"classTitle"|"geometryType"',)),
    Unread("Cityscapes", _JSON, ('"imgHeight"', '"objects"', '"polygon"')),
    Unread("Scalabel", _JSON,
           (r"^\s*\{", '"frames"\\s*:\\s*\\[', '"box2d"|"poly2d"'), (), _SCALABEL),
    Unread("Labelbox", r"\.(?:nd)?json$", ('"data_row"|"Labeled Data"', '"projects"|"Label"')),
    Unread("Darwin", _JSON,
           ('"annotations"\\s*:\\s*\\[', '"bounding_box"|"polygon"', '"item"|"image"')),
    Unread("CLEVR", _JSON, ('"image_filename"', '"(?:scenes|questions)"\\s*:\\s*\\[')),
    Unread("MPII", _JSON, ('"img_paths"', '"joint_self"')),
    Unread("MPII as HRNet and MMPose have it", _JSON,
           (r'"joints(?:_vis)?"\s*:', r'"center"\s*:\s*\[', r'"scale"\s*:'), (), _KEYPOINTS),
    Unread("InterHand2.6M", _JSON,
           ('"joint_valid"|"frame_idx"', '"hand_type"|"seq_name"|"world_coord"'), (), _KEYPOINTS),
    Unread("MPII", r"(?:^|/)mpii_human_pose[^/]*\.mat$", (r"^MATLAB",)),
    Unread("SBU", r"(?:^|/)SBU_captioned_photo_dataset_urls\.txt$", (r"^https?://",), (),
           "write each caption into a text of its image's name, such as a.txt for a.jpg"),
    Unread("OCHuman", _JSON, (r'"images"\s*:\s*\[', '"max_iou"|"segms"'), (), _OCHUMAN),
    Unread("FiftyOne", _JSON, ('"labels"\\s*:\\s*\\{', '"bounding_box"'), (), _FIFTYONE),
    Unread("FiftyOne", _JSON, (r'"classes"\s*:\s*(?:\[|null)', _FIFTYONE_LABELS), (), _FIFTYONE),
    Unread("FiftyOne", r"(?:^|/)samples\.json$", (r'"samples"\s*:\s*\[', '"_cls"|"filepath"'),
           (), _FIFTYONE),
    Unread("SBD", r"(?:^|/)(?:cls|inst)/\d{4}_\d{6}\.mat$", (r"^MATLAB",), (), _SBD),
    Unread("Edge Impulse", r"\.(?:json|labels)$", ('"boundingBoxes"',)),
    Unread("OpenPose", _JSON, ('"pose_keypoints_2d"',)),
    Unread("Mapillary Traffic Sign", _JSON, ('"ispano"|"out-of-frame"', '"objects"')),
    Unread("DeepFashion2", _JSON, (r'"item1"\s*:\s*\{', '"bounding_box"|"category_name"')),
    Unread("Hasty", _JSON, ('"export_format_version"', '"label_classes"')),
    Unread("SuperAnnotate", _JSON, (r'"instances"\s*:\s*\[', '"className"|"classId"')),
    Unread("Scale", _JSON, ('"task_id"', '"response"')),
    Unread("Label Studio's JSON-MIN", _JSON, ('"annotation_id"', '"annotator"'), (),
           "export the project as JSON, and give that with --annotations"),
    Unread("YOLOv4's PyTorch", _TXT, (), (_YOLO_V4,), "export them as YOLO, COCO or Pascal VOC"),
    Unread("Vertex AI", r"\.csv$", (), (_VERTEX,)),
    Unread("Vertex AI", r"\.jsonl$", ('"imageGcsUri"',)),
    Unread("Azure ML", r"\.jsonl$", ('"image_url"', '"topX"|"polygon"')),
    Unread("GeoJSON", r"\.geojson$", ('"FeatureCollection"',)),
    Unread("PaliGemma", r"\.jsonl$", ('"image"', '"prefix"', '"suffix"'), (), _PREFIXES),
)  # fmt: skip
"""The kinds that content shows, the more special ones first."""

_AS_FILES = "write its images as files"
ALONE = (
    ("this is LMDB", r"(?:^|/)data\.mdb$", _AS_FILES),
    ("this is smallNORB", r"(?:^|/)smallnorb[^/]*\.mat(?:\.gz)?$", _AS_FILES),
    ("this is USPS", r"(?:^|/)(?:usps|zip)(?:\.\w+)?\.(?:bz2|gz)$", _AS_FILES),
    ("these are volumes of NIfTI", r"\.nii(?:\.gz)?$", "write their slices as images"),
    ("these are videos", r"(?i)\.(?:avi|mp4|m4v|mkv|mov|webm|mpe?g)$",
     "write their frames as images, as ffmpeg -i VIDEO FRAMES/%06d.jpg does"),
)  # fmt: skip
"""Files that hold images in a form that nobody reads: what to say, their names, what to do."""


def unread_alone(paths: Iterable[str]) -> str:
    """Return what files without an image beside them are, if their names tell; else empty."""
    names = list(paths)
    for said, own, advice in ALONE:
        if any(re.search(own, path) for path in names):
            return f"{said}, which dsprep does not read: {advice}"
    return ""


MAY_BE = pattern("|".join(sorted({each.names for each in UNREAD})), re.IGNORECASE)
"""The names of files that are worth a look."""


def unread_kind(path: str, head: bytes) -> Unread | None:
    """Return the kind of the table that a file begins like; None if it is like none."""
    text, rows = text_of(head), first_lines(head)
    for kind in UNREAD:
        if not re.search(kind.names, path, re.IGNORECASE):
            continue
        if not all(re.search(word, text) for word in kind.words):
            continue
        if not kind.rows or (rows and _are_rows(kind.rows, rows)):
            return kind
    return None


def _are_rows(patterns: Sequence[str], rows: Sequence[str]) -> bool:
    """Return whether each line matches its pattern; the last one is that of all further lines."""
    first, last = patterns[:-1], patterns[-1]
    if len(patterns) > len(rows):
        return False
    wanted = [*first, *[last] * (len(rows) - len(first))]
    pairs = zip(wanted, rows, strict=True)
    return all(re.fullmatch(want, row) for want, row in pairs)


def first_lines(head: bytes) -> list[str]:
    """Return the first lines of a text that are not empty; the last one of a head may be cut."""
    lines = [line.strip()[:_LONGEST] for line in text_of(head).split("\n")]
    return [line for line in (lines if len(lines) < 2 else lines[:-1]) if line][:_ROWS]


def text_of(head: bytes) -> str:
    """Return the beginning of a text, whatever its encoding."""
    is_wide = head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return head.decode("utf-16" if is_wide else "utf-8-sig", "replace")
