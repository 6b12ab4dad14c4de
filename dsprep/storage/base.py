"""The old name of a module, until its importers are rewritten."""

from dsprep.storage.store import *  # noqa: F403
