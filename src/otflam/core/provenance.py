"""What made a result: versions of everything that can change its bits."""

from __future__ import annotations

import platform
from importlib import metadata


def versions(*packages: str) -> dict[str, str]:
    """Installed versions of otflam, Python and the named packages."""
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in ("otflam", *packages)}
