"""What verifying found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dsprep.verifying.inspection import Problem


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
