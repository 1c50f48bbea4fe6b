"""Whether this machine can render off screen, and how to make it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from otflam.core import UserError, require_package

PACKAGES = ("libegl1", "libgl1-mesa-dri")
"""Debian's names of the library that finds a renderer without a display, and of Mesa's software renderer."""
# In a process of its own: a library that was not there at the first try is not looked for again.
PROBE = """
from otflam.envs.rendering import gl_backend
context = gl_backend().GLContext(8, 8)
context.make_current()
context.free()
print("ok")
"""


def renders() -> bool:
    result = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    return result.returncode == 0 and "ok" in result.stdout


def ensure_gl(install: bool) -> str:
    """Say that rendering works, after installing what is missing if asked to and allowed to."""
    require_package("mujoco")
    if not renders() and install and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise UserError(f"'{' '.join(command)}' failed", done.stderr.strip().splitlines()[-1])
    if not renders():
        raise UserError(
            "no OpenGL library for off-screen rendering",
            f"as root: apt-get install {' '.join(PACKAGES)}, or set MUJOCO_GL",
        )
    return f"off-screen rendering works (MUJOCO_GL={os.environ.get('MUJOCO_GL', 'cgl')})"
