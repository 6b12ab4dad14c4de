"""The old name of a module, until its importers are rewritten."""

from dsprep.storage.checksums import *  # noqa: F403
