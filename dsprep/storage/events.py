"""The old name of a module, until its importers are rewritten."""

from dsprep.storage.transfer import *  # noqa: F403
