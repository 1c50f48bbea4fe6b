"""Stage 1: worlds, and the policies that make data in them."""

import os
import sys

# Both must be set before MuJoCo first opens a GL context: off-screen rendering without a display, and no threads inside
# Mesa's software renderer, which at these frame sizes more than double its CPU time (we run one process per core).
# A Mac has no EGL; there MuJoCo finds a backend itself, of which dm_control does not know the name.
if sys.platform != "darwin":
    os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("LP_NUM_THREADS", "0")

from otflam.core.surface import surface
from otflam.envs.world import load_worlds

__getattr__, __dir__, __all__ = surface(__name__, __file__)

load_worlds()
