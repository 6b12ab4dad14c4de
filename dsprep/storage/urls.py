"""The old name of a module, until its importers are rewritten."""

from dsprep.storage.location import *  # noqa: F403
