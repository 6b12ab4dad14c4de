"""What a process may not do: to be called between fork and exec."""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Callable

# linux/prctl.h and linux/capability.h
PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def bind_to_permissions() -> None:
    """Take from root, at the next exec, the right to read and write what nobody may."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl")


def no_file_above(size: int) -> Callable[[], None]:
    """Files cannot become larger than some bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
