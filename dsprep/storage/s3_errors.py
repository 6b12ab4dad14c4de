"""The old name of a module, until its importers are rewritten."""

from dsprep.storage.s3.errors import *  # noqa: F403
