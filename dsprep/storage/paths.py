"""The old name of a module, until its importers are rewritten."""

from dsprep.storage.files import *  # noqa: F403
