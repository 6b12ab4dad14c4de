"""Packages that dsprep needs for some tasks only, and how to install them.

A message names the packages themselves: ``pip install 'dsprep[near]'`` fails where dsprep was
installed from a directory.
"""

from __future__ import annotations

from shlex import quote

# What to give to pip for a module, if that is not its name alone.
_REQUIREMENTS = {
    "mxnet": ("mxnet", "numpy<2"),
    "tensorflow": ("tensorflow-cpu",),
    "streaming": ("mosaicml-streaming",),
    "s3fs": ("s3fs", "boto3"),  # s3fs needs an older botocore than the newest boto3 does
}


def pip_install(*modules: str) -> str:
    """Return the command that installs modules."""
    names = (name for module in modules for name in _REQUIREMENTS.get(module, (module,)))
    return " ".join(["pip install", *map(quote, dict.fromkeys(names))])
