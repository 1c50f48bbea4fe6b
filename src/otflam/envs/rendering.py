"""Pictures of a simulation through MuJoCo's own renderer, with a sky box that can show video."""

from __future__ import annotations

import atexit
import importlib
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from types import ModuleType
from typing import Any

import mujoco
import numpy as np
from jaxtyping import Float, UInt8

from otflam.core import UserError
from otflam.envs.environment import AGENT, BACKGROUND, RIVAL
from otflam.envs.world import Quality

REFERENCE_SKY = 800
"""Side of the sky-box texture that the original Distracting Control Suite uploads at every step."""
KEPT_BYTES = 2**26
"""Memory for sky boxes that were shown, of which a video of small frames shows each some ten times an episode: choosing
one again costs nothing, uploading it anew as much as drawing the frame."""

FACES, FEWER_FACES = (14, 8, 2), (12, 6, 2)
"""Slices, stacks and squares of round shapes and floors in small frames, where finer ones cannot be told apart; the
second where two bodies are drawn, which then cost little more than one."""

SEGMENTS = (mujoco.mjtRndFlag.mjRND_SEGMENT, mujoco.mjtRndFlag.mjRND_IDCOLOR)
"""Flags with which a scene shows the number of every geom instead of its colour."""

_open: weakref.WeakSet[Renderer] = weakref.WeakSet()


def gl_backend() -> ModuleType:
    """MuJoCo's module for the backend in MUJOCO_GL, which mujoco itself reads only when it is first imported."""
    return importlib.import_module(f"mujoco.{os.environ.get('MUJOCO_GL', 'cgl')}")  # set but on a Mac


def _opengl() -> ModuleType:
    return importlib.import_module("OpenGL.GL")  # late: it must not load before the backend


class Renderer:
    """Draws frames of one camera; `quality` decides what software GL spends its time on."""

    def __init__(self, physics, size: int, camera: int, quality: Quality, *, video: bool, rival: bool = False) -> None:
        """`video` turns the sky box into a screen that `show` draws on; `rival` says that another body will join."""
        self.model, self.data = physics.model.ptr, physics.data.ptr
        if not 0 <= camera < self.model.ncam:
            raise UserError(f"no camera {camera}", f"this task has cameras 0 to {self.model.ncam - 1}")
        if not 8 <= size <= 1024:
            raise UserError(f"frame size {size}", "choose between 8 and 1024 pixels")
        self.size = size
        # A frame sees less than half of a sky-box face, so twice its size is already one texel per pixel.
        self.sky = REFERENCE_SKY if quality == "reference" else min(REFERENCE_SKY, 2 * size)
        self._prepare_model(quality, video, FEWER_FACES if rival else FACES)
        self._thread = threading.current_thread()  # OpenGL belongs to one
        try:
            self._gl = self._shared() or gl_backend().GLContext(self.buffer[0], self.buffer[1])
            self._gl.make_current()
        except Exception as error:  # every backend raises its own kind
            raise UserError(
                f"no OpenGL for off-screen rendering ({error})",
                "run 'otflam gl --install' as root",
            ) from None
        if not _open:  # mujoco ends EGL at exit, from its first context on; what is registered later runs before
            atexit.unregister(_close_all)
            atexit.register(_close_all)
        _open.add(self)
        self._context = mujoco.MjrContext(self.model, mujoco.mjtFontScale.mjFONTSCALE_100)
        self._skies: dict[Hashable, int] = {}  # what was uploaded, the longest unseen first, and OpenGL's number for it
        self._surplus = [int(self._context.texture[self._texture])] if video else []  # shown by nobody any more
        self._room = max(KEPT_BYTES // (6 * 4 * self.sky**2 * 4 // 3), 1)  # six faces, with ever smaller copies
        self._scene = mujoco.MjvScene(self.model, maxgeom=2000)
        if quality == "fast":
            self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
            self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._option, self._camera = mujoco.MjvOption(), mujoco.MjvCamera()
        self._camera.type, self._camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, camera
        self._viewport = mujoco.MjrRect(0, 0, size, size)

    def _shared(self) -> Any:
        """The OpenGL of another renderer, if one is open: there a context costs nothing, and shaders are compiled."""
        alike = (each for each in _open if (each._thread, each.buffer) == (self._thread, self.buffer))
        return next((each._gl for each in alike), None)

    def _prepare_model(self, quality: Quality, video: bool, faces: tuple[int, int, int]) -> None:
        visual = self.model.vis
        if quality == "fast":
            visual.global_.offwidth = visual.global_.offheight = self.size
            visual.quality.offsamples = visual.quality.shadowsize = 0
            if self.size <= 128:
                visual.quality.numslices, visual.quality.numstacks, visual.quality.numquads = faces
        else:
            visual.global_.offwidth = max(visual.global_.offwidth, self.size)
            visual.global_.offheight = max(visual.global_.offheight, self.size)
        self.buffer = (visual.global_.offwidth, visual.global_.offheight)
        if video:
            boxes = np.flatnonzero(self.model.tex_type == mujoco.mjtTexture.mjTEXTURE_SKYBOX)
            if not len(boxes):
                raise UserError("this task has no sky box to show videos on", "use --difficulty vanilla")
            self._texture = int(boxes[0])
            # A square texture is repeated on all six faces, as in the original.
            self.model.tex_width[self._texture] = self.model.tex_height[self._texture] = self.sky

    def refresh(self) -> None:
        """Take over what a task changed in the model at the start of an episode: some have new terrain every time."""
        self._gl.make_current()
        for number in range(self.model.nhfield):
            mujoco.mjr_uploadHField(self.model, self._context, number)

    def show(self, image: UInt8[np.ndarray, "sky sky 3"], name: Hashable) -> None:
        """Put an image on the sky box; another image must have another name."""
        self._gl.make_current()
        known = self._skies.pop(name, None)
        full = len(self._skies) >= self._room
        number = known or (self._skies.pop(next(iter(self._skies))) if full else self._new_texture())
        self._skies[name] = self._context.texture[self._texture] = number
        if known is None:
            start = self.model.tex_adr[self._texture]
            self.model.tex_data[start : start + image.size] = image.reshape(-1)
            mujoco.mjr_uploadTexture(self.model, self._context, self._texture)

    def _new_texture(self) -> int:
        return int(_opengl().glGenTextures(1))

    def place_camera(self, position: Float[np.ndarray, "3"], axes: Float[np.ndarray, "3 3"]) -> None:
        """Move the camera for the next picture; the simulator puts it back at every step."""
        self.data.cam_xpos[self._camera.fixedcamid] = position
        self.data.cam_xmat[self._camera.fixedcamid] = axes.reshape(-1)

    def move_camera(self, shift: Float[np.ndarray, "3"]) -> None:
        """Move it from where it is for the next picture."""
        self.data.cam_xpos[self._camera.fixedcamid] += shift

    def draw(self, join: Callable[[mujoco.MjvScene], None] | None = None) -> UInt8[np.ndarray, "size size 3"]:
        """A picture; `join` may add to the scene what the simulation does not know of."""
        mujoco.mjv_updateScene(
            self.model, self.data, self._option, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )
        self._own = self._scene.ngeom
        if join is not None:
            join(self._scene)
        return self._read()

    def mask(self) -> UInt8[np.ndarray, "size size"]:
        """Whose the pixels of the last picture are: RIVAL is what joined the simulation."""
        geoms = self._scene.geoms[: self._scene.ngeom]
        owner = np.full(self._scene.ngeom + 1, BACKGROUND, np.uint8)
        for number, geom in enumerate(geoms):
            if geom.category == mujoco.mjtCatBit.mjCAT_DYNAMIC:
                owner[geom.segid + 1] = AGENT if number < self._own else RIVAL
        for flag in SEGMENTS:
            self._scene.flags[flag] = 1
        red, green, blue = np.moveaxis(self._read().astype(np.int32), -1, 0)
        for flag in SEGMENTS:
            self._scene.flags[flag] = 0
        return owner[red + (green << 8) + (blue << 16)]

    def _read(self) -> UInt8[np.ndarray, "size size 3"]:
        """The pixels of the scene as it is."""
        self._gl.make_current()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)  # others may share the OpenGL
        pixels = np.empty((self.size, self.size, 3), np.uint8)
        mujoco.mjr_render(self._viewport, self._scene, self._context)
        mujoco.mjr_readPixels(pixels, None, self._viewport, self._context)
        return pixels[::-1].copy()  # OpenGL counts rows from below

    def close(self) -> None:
        if self in _open:
            _open.remove(self)
            self._gl.make_current()
            if textures := [*self._surplus, *self._skies.values()]:
                _opengl().glDeleteTextures(textures)
            self._context.free()
            if not any(each._gl is self._gl for each in _open):
                self._gl.free()


def _close_all() -> None:
    for renderer in list(_open):
        renderer.close()
