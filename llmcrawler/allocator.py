"""Has the C library give large blocks back to the system as soon as they are free."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Final

# malloc.h of glibc
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 2**20
_KEPT_FREE_BYTES: Final = 16 * 2**20


def give_large_blocks_back() -> None:
    """Each block of a megabyte or more is the system's again once it is freed. glibc would keep all up to the size of
    the largest one that was ever freed: a single body of 20 MB left 30 MB of holes, and the copies made of it later
    did not fit into them. Smaller blocks are as they were.

    Who has set the environment's MALLOC_* or GLIBC_TUNABLES has decided otherwise. Other C libraries have no such call.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return
    with suppress(OSError, AttributeError, TypeError):  # TypeError: Windows has no library of that name
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_FREE_BYTES)
