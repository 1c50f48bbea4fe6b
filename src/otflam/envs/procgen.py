"""What Procgen's games are made of: their things by kind, the actions that differ, and how their states are read.

Coordinates are cells of a level, y upwards. Axes: n things, f FIELDS, g cells across a level.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float32, Int32

KINDS = ("agent", "enemy", "projectile", "shot", "item", "wall", "hazard", "particle")
"""What a thing is to the agent: others that move, what these shoot, what it shoots itself, what it collects or reaches,
what blocks, what kills and stands still, and what is only seen. A fish that can be eaten is an enemy all the same."""
AGENT, ENEMY, PROJECTILE, SHOT, ITEM, WALL, HAZARD, PARTICLE = range(len(KINDS))
FIELDS = ("kind", "x", "y", "vx", "vy", "rx", "ry")
"""What is recorded of a thing: its kind, where its centre is, how far it moves in a step, and its half width and
height."""
VIEW_FIELDS = ("x", "y", "width")
"""What is recorded of the camera: the cell it looks at, and how many cells are seen across."""
NAMES = (
    *("left down", "left", "left up", "down", "rest", "up", "right down", "right", "right up"),
    *("d", "a", "w", "s", "q", "e"),
)
"""What the fifteen actions press."""
REST = 4
MOVES, SIDEWAYS = tuple(range(9)), (1, 2, 4, 5, 7, 8)
"""All directions; and those without down, which only lets CoinRun's agent fall through crates."""
ALWAYS = {51: WALL, 52: ITEM, 54: PARTICLE, 55: PARTICLE, 56: PARTICLE, 57: PARTICLE, 58: PARTICLE, 59: PARTICLE}
"""Kinds of things that many games have, by their numbers there."""


@dataclass(frozen=True)
class GameFacts:
    """What differs between games."""

    kinds: Mapping[int, int]
    """Kinds by the numbers of things and of cells; what is in none is only scenery."""
    distinct: tuple[int, ...]
    """Actions that do something of their own; all others do what one of these does (a test tries them)."""
    scrolls: bool = False
    """Whether the camera follows the agent."""


GAMES: dict[str, GameFacts] = {
    "bigfish": GameFacts({2: ENEMY}, MOVES),
    "chaser": GameFacts({2: ITEM, 3: ENEMY, 4: ENEMY, 5: WALL, 6: ENEMY, 7: ENEMY, 8: ENEMY, 1002: ITEM}, MOVES),
    "coinrun": GameFacts(
        {1: ITEM, 2: HAZARD, 3: HAZARD, 5: ENEMY, 6: ENEMY, 7: ENEMY, 15: WALL, 16: WALL, 17: HAZARD, 18: HAZARD}
        | {20: WALL},
        SIDEWAYS,
        scrolls=True,
    ),
    "dodgeball": GameFacts(
        {1: HAZARD, 3: SHOT, 4: ENEMY, 5: ITEM, 6: PROJECTILE, 7: ITEM, 8: PARTICLE, 10: WALL}, (*MOVES, 9)
    ),
    "jumper": GameFacts({1: ITEM, 2: HAZARD, 6: WALL, 7: WALL}, SIDEWAYS, scrolls=True),
    "ninja": GameFacts({1: ITEM, 6: HAZARD, 7: SHOT, 14: HAZARD, 20: WALL}, (*SIDEWAYS, 9, 10, 11, 12), scrolls=True),
    "starpilot": GameFacts(
        {1: SHOT, 2: PROJECTILE, 3: PROJECTILE, 4: ENEMY, 5: WALL, 6: WALL, 7: ENEMY, 8: ENEMY, 9: ITEM},
        (*MOVES, 9, 10),
    ),
}
"""Games by their names."""
ENTITY = 31
"""Numbers of four bytes for every thing."""
POSITION, TYPE, IN_PICTURE = slice(0, 6), 6, 20
OPTIONS, COUNTERS, LOOK, AFTER = 17, 17, 19, 9
"""How many numbers stand before the first generator, behind the second, and before and behind that of the pictures."""
CENTER, VISIBILITY = 14, 7
LARGEST = 2047
"""The largest number of a thing."""


@dataclass(frozen=True)
class State:
    """What a game knows at one moment."""

    things: Float32[np.ndarray, "n f"]
    """In the order of the game; the first is the agent."""
    view: Float32[np.ndarray, "3"]
    """Where the camera looks, and how many cells it sees across."""
    cells: Int32[np.ndarray, "g g"]
    """What stands in every cell, by its number in the game; rows are y."""


def read_state(data: bytes, kinds: Int32[np.ndarray, " k"]) -> State:
    """The things of a state that have a kind, and the rest that pictures depend on."""
    place = 8 + struct.unpack_from("<i", data, 4)[0] + 4 * OPTIONS
    for _ in range(2):
        place = _behind_generator(data, place)
    place += 4 * COUNTERS
    count = struct.unpack_from("<i", data, place - 4)[0]
    raw = np.frombuffer(data, "<i4", count * ENTITY, place).reshape(count, ENTITY)
    place += 4 * count * ENTITY
    x, y = struct.unpack_from("<2f", data, place + 4 * CENTER)
    place = _behind_generator(data, place + 4 * LOOK)
    (visibility,) = struct.unpack_from("<f", data, place + 4 * VISIBILITY)
    place += 4 * AFTER
    width, height, cells = struct.unpack_from("<3i", data, place)
    grid = np.frombuffer(data, "<i4", cells, place + 12).reshape(height, width)
    known = kinds[raw[:, TYPE]]
    kept = np.flatnonzero((known >= 0) & (raw[:, IN_PICTURE] == 0))  # others are signs and bars
    things = np.empty((len(kept), len(FIELDS)), np.float32)
    things[:, 0], things[:, 1:] = known[kept], raw[kept, POSITION].view("<f4")
    return State(things, np.array([x, y, visibility], np.float32), grid)


@cache
def kinds_of(game: str) -> Int32[np.ndarray, " k"]:
    """Kinds by number; -1 is none, as for the last one, which stands for whatever is not in the level."""
    table = np.full(LARGEST + 1, -1, np.int32)
    for number, kind in {0: AGENT, **ALWAYS, **GAMES[game].kinds}.items():
        table[number] = kind
    return table


def _behind_generator(data: bytes, place: int) -> int:
    """Random generators are written as text of any length."""
    return place + 8 + struct.unpack_from("<i", data, place + 4)[0]
