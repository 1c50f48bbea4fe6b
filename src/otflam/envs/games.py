"""Procgen's games as worlds: scrolling cameras, enemies and particles, whose true states are recorded.

Importing this module registers `otflam/procgen-GAME-v0` with gymnasium. The same seed gives the same level and the same
pixels, in any process. Axes: h w pixels, n things, f FIELDS, t frames, s state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float32, UInt8

from otflam.core import Column, UserError
from otflam.envs.environment import Actions, Facts
from otflam.envs.libenv import PIXELS, Game
from otflam.envs.procgen import (
    ENEMY,
    FIELDS,
    GAMES,
    HAZARD,
    ITEM,
    KINDS,
    NAMES,
    PARTICLE,
    REST,
    VIEW_FIELDS,
    WALL,
    State,
    kinds_of,
    read_state,
)
from otflam.envs.world import World

PREFIX = "procgen-"
STEPS = 500
"""Of an episode; Procgen's own limits, 1,000 to 6,000, would leave one level in most of a data set."""
THINGS = 32
"""Rows of things in a data set: the nearest to the agent, which comes first."""
NEAREST = 12
"""Things in a state for policies."""
WINDOW = 13
"""Cells across the window of a level in a state for policies: what the picture shows of a game that scrolls."""
IN_WINDOW = (WALL, HAZARD, ITEM, ENEMY)
"""What the window tells apart, whether it is a cell or a thing in one; a last part has how fast enemies move."""
PARTS = len(IN_WINDOW) + 1
FAST = 10.0
"""Speeds are told in tenths of a cell."""
LEVELS = 2**30
"""Of each split; which level an episode has follows from its seed."""
NO_ACTION = 255
MOVED, THINGS_COLUMN, VIEW = "played", "things", "view"
"""Columns of data sets: actions up to each frame, what stands where, where the camera looks."""


class GameWorld(gymnasium.Env[np.ndarray, np.int64]):
    """One game; every episode is one level of it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 - gymnasium's own convention

    def __init__(self, world: World, *, render_mode: str | None = "rgb_array") -> None:
        if world.size < 1 or PIXELS % world.size:
            raise UserError(f"--size {world.size} in {world.task}", f"games are drawn with {PIXELS}, 32 or 16 pixels")
        self.world, self.render_mode, self.name = world, render_mode, world.task.removeprefix(PREFIX)
        self.kinds = kinds_of(self.name)
        self._running: Game | None = None
        shape = (world.size, world.size, 3)
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(NAMES))
        columns = {
            MOVED: Column("uint8", (STEPS,)),
            THINGS_COLUMN: Column("float32", (THINGS, len(FIELDS))),
            VIEW: Column("float32", (len(VIEW_FIELDS),)),
        }
        self.facts = Facts(
            task=world.task,
            actions=Actions.discrete(len(NAMES), REST, GAMES[self.name].distinct, NAMES),
            steps=STEPS,
            state_size=state_size(self.name),
            frame=shape,
            columns=columns,
            snapshot=MOVED,
            about={"thing_kinds": KINDS, "thing_fields": FIELDS, "view_fields": VIEW_FIELDS},
            fps=self.metadata["render_fps"],
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[UInt8[np.ndarray, "h w 3"], dict[str, Any]]:
        """Start the level of a seed, or of the environment's own sequence."""
        super().reset(seed=seed)
        self._begin(seed if seed is not None else int(self.np_random.integers(2**31)))
        return self._frame(), self._info()

    def step(self, action: Any) -> tuple[UInt8[np.ndarray, "h w 3"], float, bool, bool, dict[str, Any]]:
        """What is seen after a level has ended is the first frame of another."""
        reward, ended = self._act(int(action))
        return self._frame(), reward, ended, self._time == STEPS, self._info()

    def hold(self, action: int, steps: int) -> tuple[float, bool, dict[str, Any]]:
        """Make a choice for so many steps, unless the level ends before; nothing is drawn."""
        total, ended = 0.0, False
        for _ in range(steps):
            reward, ended = self._act(action)
            total += reward
            if ended or self._time == STEPS:
                break
        return total, ended or self._time == STEPS, self._info()

    def render(self) -> UInt8[np.ndarray, "h w 3"] | None:
        return None if self._running is None else self._frame()

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    @property
    def _game(self) -> Game:
        if self._running is None:
            raise UserError(f"{self.world.task} has not begun", "call reset first")
        return self._running

    def redraw(
        self, seed: int, played: UInt8[np.ndarray, "t a"]
    ) -> Iterator[tuple[UInt8[np.ndarray, "h w 3"], dict[str, Any]]]:
        """The frames of a recorded episode: it is played again."""
        self._begin(seed)
        for step in range(len(played)):
            yield self._frame(), {}
            self._act(int(played[-1][step]) if step + 1 < len(played) else REST)

    def resume(self, seed: int, step: int, played: UInt8[np.ndarray, " a"]) -> None:
        """Go on after one of its frames."""
        self._begin(seed)
        for action in played[:step]:
            self._act(int(action))

    def _begin(self, seed: int) -> None:
        self.close()
        level = seed % LEVELS + (LEVELS if self.world.split == "validation" else 0)
        self._running, self._time = Game(level_options(self.name, level, self.world.difficulty != "vanilla")), 0
        self._played = np.full(STEPS, NO_ACTION, np.uint8)

    def _act(self, action: int) -> tuple[float, bool]:
        if self._time < STEPS:
            self._played[self._time] = action
        self._time += 1
        return self._game.act(action)

    def _frame(self) -> UInt8[np.ndarray, "h w 3"]:
        frame, size = self._game.frame(), self.world.size
        if size == PIXELS:
            return frame
        parts = frame.reshape(size, PIXELS // size, size, PIXELS // size, 3)
        return np.rint(parts.mean((1, 3))).astype(np.uint8)

    def _info(self) -> dict[str, Any]:
        state = read_state(self._game.state(), self.kinds)
        order = nearest_first(state)
        things = np.full((THINGS, len(FIELDS)), -1, np.float32)
        things[: len(order)] = state.things[order[:THINGS]]
        seen = policy_state(self.name, state, order, self._time)
        return {"state": seen, MOVED: self._played.copy(), THINGS_COLUMN: things, VIEW: state.view}


def level_options(name: str, level: int, backgrounds: bool) -> dict[str, int | bool | str]:
    """What decides a level and its look."""
    return {
        "env_name": name,
        "num_levels": 1,
        "start_level": level,
        "rand_seed": level,
        "distribution_mode": 0,  # easy
        "use_backgrounds": backgrounds,
        "restrict_themes": not backgrounds,
        "center_agent": True,
        "use_sequential_levels": False,
        "debug_mode": 0,
        "use_generated_assets": False,
        "use_monochrome_assets": False,
        "paint_vel_info": False,
    }


def nearest_first(state: State) -> np.ndarray:
    """Places of the things, those near the agent first; it comes before all, and equally near ones keep their order."""
    places = state.things[:, 1:3]
    away = np.abs(places - places[0]).max(1)
    away[0] = -1.0
    return away.argsort(kind="stable")


def has_cells(name: str) -> bool:
    """Whether things stand in the cells of a game's levels."""
    return name not in ("bigfish", "dodgeball", "starpilot")


OWN = 9
"""Numbers of a policy's state that tell of the agent."""
KNOWN = np.arange(1, PARTICLE, dtype=np.float32)
"""Kinds of things that policies are told of."""
OF_THING = 7 + len(KNOWN)
WINDOWED = np.array(IN_WINDOW)[:, None, None]


def state_size(name: str) -> int:
    """Numbers in a state for policies."""
    return OWN + NEAREST * OF_THING + (PARTS * WINDOW**2 if has_cells(name) else 0)


def policy_state(name: str, state: State, order: np.ndarray, time: int) -> Float32[np.ndarray, " s"]:
    """What policies look at: the agent, the things nearest to it, and the window of cells around it."""
    half, agent = float(state.view[2]) / 2, state.things[0]
    _, x, y, vx, vy, rx, ry = agent.tolist()
    edge = state.cells.shape
    out = np.zeros(state_size(name), np.float32)
    out[:OWN] = vx, vy, rx, ry, x / edge[1], y / edge[0], time / STEPS, x % 1, y % 1
    every = state.things[order[1:]]
    every = every[every[:, 0] < PARTICLE]
    others = every[:NEAREST]
    rows = out[OWN : OWN + NEAREST * OF_THING].reshape(NEAREST, OF_THING)[: len(others)]
    rows[:, 0] = 1
    rows[:, 1:3] = (others[:, 1:3] - agent[1:3]) / half
    rows[:, 3:5] = others[:, 3:5]
    rows[:, 5:7] = others[:, 5:7] - agent[5:7]
    rows[:, 7:] = others[:, :1] == KNOWN
    if has_cells(name):
        window = out[OWN + NEAREST * OF_THING :].reshape(PARTS, WINDOW, WINDOW)
        window[:-1] = kinds_of(name)[cut_window(state.cells, int(x), int(y))] == WINDOWED
        reach = WINDOW // 2
        for kind, column, row, speed in every[:, :4].tolist():
            place = int(row) - int(y) + reach, int(column) - int(x) + reach
            if kind in IN_WINDOW and min(place) >= 0 and max(place) < WINDOW:
                window[IN_WINDOW.index(int(kind)), *place] = 1
                if kind == ENEMY:
                    window[-1, *place] = FAST * speed
    return out


def cut_window(cells: np.ndarray, x: int, y: int) -> np.ndarray:
    """The cells around one; outside of the level there is nothing."""
    reach = WINDOW // 2
    top, left = max(y - reach, 0), max(x - reach, 0)
    found = cells[top : y + reach + 1, left : x + reach + 1]
    window = np.full((WINDOW, WINDOW), -1, cells.dtype)
    window[top - y + reach :, left - x + reach :][: len(found), : found.shape[1]] = found
    return window


def make(task: str, render_mode: str | None = "rgb_array", **world: Any) -> GameWorld:
    """Build a game by name: `make("procgen-coinrun", split="validation")`."""
    return GameWorld(World(task, **world), render_mode=render_mode)


for _name in GAMES:
    gymnasium.register(
        f"otflam/{PREFIX}{_name}-v0",
        entry_point="otflam.envs.games:make",
        kwargs={"task": PREFIX + _name},
        order_enforce=False,
    )
