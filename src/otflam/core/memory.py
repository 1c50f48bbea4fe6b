"""Freed memory stays with the process: training asks for the same large blocks in every step.

glibc gives large blocks back to the system when they are freed, and the next step pays for every page again: up to a
fifth of a small training step on a CPU (docs/log.md).
"""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
"""glibc's numbers of these settings."""
LARGEST = 32 << 20
"""The largest threshold that glibc accepts; larger blocks still come and go."""


def keep_freed_memory() -> bool:
    """Set the limits where the C library is glibc; elsewhere nothing happens."""
    setting = getattr(ctypes.CDLL(None), "mallopt", None)
    if setting is None:
        return False
    return all(
        setting(number, value)
        for number, value in ((M_MMAP_THRESHOLD, LARGEST), (M_TRIM_THRESHOLD, 1 << 30), (M_TOP_PAD, 64 << 20))
    )
