"""The old name of a module, until its importers are rewritten."""

from dsprep.storage.s3.read import *  # noqa: F403
