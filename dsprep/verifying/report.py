"""What verifying found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsprep.verifying.inspection import Problem


class FieldFound(NamedTuple):
    """A field of the samples."""

    name: str  # its name
    type: str  # one of :data:`dsprep.schema.TYPES`
    classes: int  # how many class names it has
    role: str  # `image`, `label`, or empty
    told: str  # what tells its type
    samples: int  # how many samples have it


@dataclass(frozen=True)
class VerifyReport:
    """What verifying found.

    Attributes:
        destination: As it was given.
        format: The format's name.
        manifest: Whether there was a manifest to compare with.
        shards: How many there are.
        samples: How many they hold.
        bytes: Their size.
        checked: What was checked, in words.
        problems: What is wrong; empty if all is well.
        seconds: How long it took.
        proof: On S3, how many of the files that are as they should be are shown to be so by what:
            the ``checksum`` that S3 keeps, the one that dsprep has noted in the ``metadata``,
            ``download``, which reads all bytes; or by no more than their ``size``, which is no
            proof.
        notes: What else there is to say.
        fields: The fields of the samples; none if nothing tells them.
    """

    destination: str
    format: str
    manifest: bool
    shards: int
    samples: int
    bytes: int
    checked: Sequence[str]
    problems: Sequence[Problem]
    seconds: float
    proof: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    fields: Sequence[FieldFound] = ()
