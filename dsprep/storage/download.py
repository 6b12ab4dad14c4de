"""The old name of a module, until its importers are rewritten."""

from dsprep.storage.s3.download import *  # noqa: F403
