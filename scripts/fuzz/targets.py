"""The readers that are fuzzed, by name."""

from __future__ import annotations

from scripts.fuzz.archives import ARCHIVES
from scripts.fuzz.files import FILES
from scripts.fuzz.messages import MESSAGES
from scripts.fuzz.shards import SHARDS
from scripts.fuzz.target import Target

TARGETS: dict[str, Target] = SHARDS | MESSAGES | ARCHIVES | FILES
