"""The old name of a module, until its importers are rewritten."""

from dsprep.storage.pool import *  # noqa: F403
