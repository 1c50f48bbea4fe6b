"""The worlds as gymnasium environments: dm_control tasks whose frames carry seeded, recorded distractors.

Importing this module registers `otflam/DOMAIN-TASK-v0` for every dm_control suite task.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float32, Float64, UInt8

from otflam.core import Column, versions
from otflam.envs.backgrounds import Backgrounds, open_backgrounds, ping_pong
from otflam.envs.distractors import camera_pose, camera_walk, colour_walk, ground_alpha, level_of, view_of
from otflam.envs.rendering import Renderer
from otflam.envs.rival import Guest, Rival
from otflam.envs.simulation import PHYSICS, TASKS, Simulation, episode_streams
from otflam.envs.world import ALL_VIDEOS, World

DISTRACTORS = "distractors"
"""The column that holds the true state of camera, colours and background."""
NO_VIDEO = -1.0


@dataclass(frozen=True)
class Distraction:
    """The true state of all distractors in one frame."""

    camera: Float64[np.ndarray, "4"]
    """Radius, horizontal angle, vertical angle and roll of the camera around what it looks at."""
    colour: Float64[np.ndarray, "m 3"]
    """Offset of every material's colour from the original."""
    background: Float64[np.ndarray, "2"]
    """Number of the video and of its frame; -1 without video."""

    def vector(self) -> Float32[np.ndarray, " d"]:
        return np.concatenate([self.camera, self.colour.ravel(), self.background]).astype(np.float32)


class ControlEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A dm_control task seen through distractors. The same seed gives the same pixels, in any process."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012 - gymnasium's own convention

    def __init__(self, world: World, *, render_mode: str | None = "rgb_array") -> None:
        self.world, self.render_mode, self.level = world, render_mode, level_of(world)
        self.simulation = Simulation(world.task)
        self.backgrounds: Backgrounds | None = None
        if self.level.videos != 0:
            self.backgrounds = open_backgrounds(world.backgrounds, world.split)
        physics = self.simulation.physics
        look = {"video": self.backgrounds is not None, "rival": world.has_rival}
        self.renderer = Renderer(physics, world.size, world.camera, world.quality, **look)
        self._finalizer = weakref.finalize(self, self.renderer.close)
        self._colours = physics.model.mat_rgba[:, :3].copy()
        if self.backgrounds is not None and "grid" in physics.named.model.mat_rgba.axes.row.names:
            physics.named.model.mat_rgba["grid", "a"] = ground_alpha(self.simulation.domain)
        self.observation_space = gymnasium.spaces.Box(0, 255, (world.size, world.size, 3), np.uint8)
        self.action_space = gymnasium.spaces.Box(self.simulation.low, self.simulation.high, dtype=np.float32)
        self._frame: np.ndarray | None = None
        self.rival = Rival(world) if world.has_rival else None
        if self.rival is not None:
            tracked = view_of(physics, world.camera, self.simulation.domain).tracking
            self._guest = Guest(self.rival, self.renderer.model, floor=tracked)
        fields, sizes = self.distraction_fields(), physics.get_state().shape
        columns = {PHYSICS: Column("float64", sizes), DISTRACTORS: Column("float32", (fields["background"][1],))}
        beside = {} if self.rival is None else self.rival.columns()
        self.facts = replace(
            self.simulation.facts,
            frame=self.observation_space.shape,
            columns=columns | beside,
            drawn=(DISTRACTORS, *beside),
            scenery=self._scenery(),
            about={"distractor_fields": fields, "versions": versions("numpy", "mujoco", "dm_control")},
            fps=self.metadata["render_fps"],
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[UInt8[np.ndarray, "h w 3"], dict[str, Any]]:
        """Start an episode: the one that belongs to `seed`, or the next of the environment's own sequence."""
        super().reset(seed=seed)
        state = self.begin(seed if seed is not None else int(self.np_random.integers(2**31)))
        return self._observe(state)

    def step(self, action: np.ndarray) -> tuple[UInt8[np.ndarray, "h w 3"], float, bool, bool, dict[str, Any]]:
        state, reward, last = self.simulation.step(np.asarray(action))
        if self.rival is not None:
            self.rival.step()
        frame, info = self._observe(state)
        return frame, reward, False, last, info  # suite tasks only ever end by their time limit

    def render(self) -> UInt8[np.ndarray, "h w 3"] | None:
        return self._frame

    def close(self) -> None:
        self._finalizer()

    def begin(self, seed: int) -> Float32[np.ndarray, " s"]:
        """Reset physics and distractors, each from its own stream of random numbers."""
        _, camera, colour, background, rival = episode_streams(seed)
        state = self.simulation.begin(seed)
        self.renderer.refresh()
        level, dynamic = self.level, self.world.dynamic
        self._view = view_of(self.simulation.physics, self.world.camera, self.simulation.domain)
        self._camera_walk = camera_walk(self._view, level.camera, dynamic, np.random.default_rng(camera))
        self._colour_walk = colour_walk(self._colours, level.colour, dynamic, np.random.default_rng(colour))
        if self.backgrounds is not None:
            rng = np.random.default_rng(background)
            count = len(self.backgrounds)
            self._video = int(rng.integers(count if level.videos == ALL_VIDEOS else min(count, level.videos)))
            self._clip = self.backgrounds.clip(self._video, self.renderer.sky)
            self._frames, self._shown = ping_pong(len(self._clip), rng, dynamic), NO_VIDEO
        if self.rival is not None:
            self.rival.begin(rival, self._view)
            self._guest.dress()
        return state

    def resume(self, seed: int, step: int, physics: Float64[np.ndarray, " p"]) -> None:
        """Go on with a recorded episode after one of its frames: bodies and distractors are where they were then."""
        self.begin(seed)
        for _ in range(step + 1):
            self._move_distractors()
        if self.rival is not None:
            for _ in range(step):
                self.rival.step()
        self.simulation.resume(physics)

    def picture(self) -> tuple[UInt8[np.ndarray, "h w 3"], Distraction]:
        """Let the distractors move on by one frame, and draw."""
        physics, (camera, colour, number) = self.simulation.physics, self._move_distractors()
        background, join = np.array([NO_VIDEO, NO_VIDEO]), None
        if self.level.camera > 0:  # without distractors the picture is exactly dm_control's
            self.renderer.place_camera(*camera_pose(self._view, camera, physics.data.subtree_com[1]))
        if self.level.colour > 0:
            physics.model.mat_rgba[:, :3] = colour
        if self.rival is not None:
            agent, tracked = physics.data.ptr.subtree_com[1], self._view.tracking
            shift = self.rival.shift(agent, tracked)
            if (towards := self.rival.looked_at(agent, tracked, shift)) is not None:
                self.renderer.move_camera(towards)
            join = partial(self._guest.join, shift=shift)
        if self.backgrounds is not None:
            if number != self._shown:
                self.renderer.show(self._clip[number], (self._video, number))
                self._shown = number
            background = np.array([self._video, number], np.float64)
        return self.renderer.draw(join), Distraction(camera, colour - self._colours, background)

    def _move_distractors(self) -> tuple[Float64[np.ndarray, "4"], Float64[np.ndarray, "m 3"], int]:
        """The next state of the camera and of the colours, and the number of the next frame of the video."""
        number = next(self._frames) if self.backgrounds is not None else int(NO_VIDEO)
        return next(self._camera_walk), next(self._colour_walk), number

    def redraw(
        self, seed: int, physics: Float64[np.ndarray, "t p"]
    ) -> Iterator[tuple[UInt8[np.ndarray, "h w 3"], dict[str, Any]]]:
        """Draw a recorded episode again, as this world shows it; a rival plays it again."""
        self.begin(seed)
        for step, state in enumerate(physics):
            self.simulation.restore(state)
            if self.rival is not None and step:
                self.rival.step()
            frame, distraction = self.picture()
            yield frame, {DISTRACTORS: distraction.vector(), **self._beside()}

    def mask(self) -> UInt8[np.ndarray, "h w"]:
        return self.renderer.mask()

    def _beside(self) -> Mapping[str, np.ndarray]:
        return {} if self.rival is None else self.rival.info()

    def _scenery(self) -> str | None:
        videos = [] if self.backgrounds is None else [self.backgrounds.name]
        return ", ".join(videos + ([] if self.rival is None else [f"rival {self.rival.digest}"])) or None

    def distraction_fields(self) -> dict[str, list[int]]:
        """Where each group lies in the recorded distractor vector: [first, behind the last]."""
        colours = 3 * len(self._colours)
        return {"camera": [0, 4], "colour": [4, 4 + colours], "background": [4 + colours, 6 + colours]}

    def _observe(self, state: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        physics = self.simulation.physics.get_state()
        self._frame, distraction = self.picture()
        return self._frame, {
            "state": state,
            PHYSICS: physics,
            DISTRACTORS: distraction.vector(),
            **self._beside(),
            "camera": distraction.camera,
            "colour": distraction.colour,
            "video": int(distraction.background[0]),
            "video_frame": int(distraction.background[1]),
        }


def make(task: str, render_mode: str | None = "rgb_array", **world: Any) -> ControlEnv:
    """Build a world by name: `make("walker-run", difficulty="hard", size=96)`."""
    return ControlEnv(World(task, **world), render_mode=render_mode)


for _task in TASKS:
    gymnasium.register(
        f"otflam/{_task}-v0", entry_point="otflam.envs.suite:make", kwargs={"task": _task}, order_enforce=False
    )
