"""Procgen's compiled games, driven through their C interface.

The wheel `procgen-mirror` holds a shared library and pictures; its Python half asks for numpy 1 and old gym, so it is
never imported: the library has a small interface of its own (libenv 1), which is called here.

Axes: h w pixels.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from otflam.core import UserError

PACKAGE = "procgen-mirror==0.10.7"
INSTALL_GAMES = f"pip install --no-deps {PACKAGE}"
"""Without its dependencies: they would put numpy 1 in place of ours."""
PIXELS = 64
"""Height and width of the only frames that the library draws."""
LARGEST_STATE = 2**20
"""Bytes, as the library's own code assumes."""
NAME_LENGTH, AXES = 128, 16
UINT8, INT32 = 1, 2
OBSERVATION, ACTION, INFO = 1, 2, 3
SUFFIX = {"darwin": "libenv.dylib", "win32": "env.dll"}


class _Value(ctypes.Union):
    _fields_ = (("uint8", ctypes.c_uint8), ("int32", ctypes.c_int32), ("float32", ctypes.c_float))


class _TensorType(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * NAME_LENGTH),
        ("scalar", ctypes.c_int),
        ("dtype", ctypes.c_int),
        ("shape", ctypes.c_int * AXES),
        ("ndim", ctypes.c_int),
        ("low", _Value),
        ("high", _Value),
    )


class _Option(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * NAME_LENGTH),
        ("dtype", ctypes.c_int),
        ("count", ctypes.c_int),
        ("data", ctypes.c_void_p),
    )


class _Options(ctypes.Structure):
    _fields_ = (("items", ctypes.POINTER(_Option)), ("count", ctypes.c_int))


class _Buffers(ctypes.Structure):
    _fields_ = (
        ("observations", ctypes.POINTER(ctypes.c_void_p)),
        ("rewards", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("infos", ctypes.POINTER(ctypes.c_void_p)),
        ("actions", ctypes.POINTER(ctypes.c_void_p)),
    )


def games_installed() -> bool:
    """Whether the games are there."""
    return _folder() is not None


class Game:
    """One running game. It goes on with a new level by itself when one has ended."""

    def __init__(self, options: Mapping[str, int | bool | str]) -> None:
        self._library = _library()
        pictures = f"{required_folder() / 'assets'}/"
        every = {"num_actions": 15, "num_threads": 0, "render_human": False, "resource_root": pictures}
        array, self._kept = _packed({**every, **options})
        self._handle = self._library.libenv_make(1, _Options(array, len(array)))
        self._pointers, arrays = {}, {}
        for space in (OBSERVATION, ACTION, INFO):
            found = self._spaces(space)
            arrays |= found
            self._pointers[space] = (ctypes.c_void_p * len(found))(*(array.ctypes.data for array in found.values()))
        self._frame, self._action, self._arrays = arrays["rgb"], arrays["action"], arrays
        self._reward, self._first = np.zeros(1, np.float32), np.zeros(1, np.uint8)
        where = self._reward.ctypes.data, self._first.ctypes.data
        self._buffers = _Buffers(self._pointers[OBSERVATION], *where, self._pointers[INFO], self._pointers[ACTION])
        self._library.libenv_set_buffers(self._handle, ctypes.byref(self._buffers))
        self._library.libenv_observe(self._handle)

    def act(self, action: int) -> tuple[float, bool]:
        """The reward, and whether the level has ended: then the frame is the first of the next one."""
        self._action[...] = action
        self._library.libenv_act(self._handle)
        self._library.libenv_observe(self._handle)
        return float(self._reward[0]), bool(self._first[0])

    def frame(self) -> UInt8[np.ndarray, "h w 3"]:
        """A copy of what is seen."""
        return self._frame.copy()

    def state(self) -> bytes:
        """Everything that the game knows, in its own format (games.py reads it)."""
        length = self._library.get_state(self._handle, 0, _buffer(), LARGEST_STATE)
        return ctypes.string_at(_buffer(), length)

    def restore(self, state: bytes) -> None:
        """Be where a game with the same options was; what is seen is drawn with the next action."""
        self._library.set_state(self._handle, 0, state, len(state))

    def close(self) -> None:
        if self._handle is not None:
            self._library.libenv_close(self._handle)
            self._handle = None

    def _spaces(self, space: int) -> dict[str, np.ndarray]:
        """An array for everything that is exchanged."""
        count = self._library.libenv_get_tensortypes(self._handle, space, None)
        types = (_TensorType * count)()
        self._library.libenv_get_tensortypes(self._handle, space, types)
        dtypes = {UINT8: np.uint8, INT32: np.int32}
        return {each.name.decode(): np.zeros(each.shape[: each.ndim], dtypes[each.dtype]) for each in types}


def _folder() -> Path | None:
    """Where the wheel's library and pictures are."""
    spec = importlib.util.find_spec("procgen")
    if spec is None or spec.origin is None or not (folder := Path(spec.origin).parent / "data").is_dir():
        return None
    return folder


def required_folder() -> Path:
    """The same, or a line that says how to get it."""
    if (folder := _folder()) is None:
        raise UserError("the games are not installed", INSTALL_GAMES)
    return folder


@cache
def _library() -> ctypes.CDLL:
    file = required_folder() / "prebuilt" / SUFFIX.get(sys.platform, "libenv.so")
    try:
        # Its own Qt must not meet another one.
        library = ctypes.CDLL(str(file), mode=os.RTLD_NOW | os.RTLD_LOCAL | getattr(os, "RTLD_DEEPBIND", 0))
    except OSError as error:
        raise UserError(f"{file} cannot be loaded ({error})", f"install the games again: {INSTALL_GAMES}") from None
    library.libenv_make.restype, library.libenv_make.argtypes = ctypes.c_void_p, [ctypes.c_int, _Options]
    library.libenv_get_tensortypes.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    library.libenv_set_buffers.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    for name in ("libenv_observe", "libenv_act", "libenv_close"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    for name in ("get_state", "set_state"):
        getattr(library, name).argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
    return library


@cache
def _buffer() -> ctypes.Array[ctypes.c_char]:
    """Where states are written before they are copied; one for each process."""
    return ctypes.create_string_buffer(LARGEST_STATE)


def _packed(options: Mapping[str, int | bool | str]) -> tuple[ctypes.Array[_Option], list]:
    """Options as the library takes them, and what must live as long as they do."""
    items, kept = (_Option * len(options))(), []
    for item, (name, value) in zip(items, options.items(), strict=True):
        if isinstance(value, str):
            data, dtype, count = ctypes.create_string_buffer(value.encode()), UINT8, len(value.encode())
        else:
            data, dtype, count = (ctypes.c_uint8, UINT8, 1) if isinstance(value, bool) else (ctypes.c_int32, INT32, 1)
            data = data(value)
        kept.append(data)
        item.name, item.dtype, item.count, item.data = name.encode(), dtype, count, ctypes.addressof(data)
    return items, kept
