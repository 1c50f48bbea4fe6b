"""Camera motion, colours and background videos of the Distracting Control Suite (Stone et al. 2021).

Each distractor is an endless iterator over its true state, driven by a generator of its own, so that a seed decides
every pixel and the state can be recorded. None depends on the physics: the camera moves relative to what it looks at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from otflam.envs.world import ALL_VIDEOS, Difficulty, World

FIXED = 0
"""MuJoCo's number for a camera that does not follow a body."""


@dataclass(frozen=True)
class Level:
    """How strong each distractor is."""

    camera: float
    colour: float
    videos: int
    """How many of the first background videos are used; -1: all."""

    @property
    def any(self) -> bool:
        return self != LEVELS["vanilla"]


LEVELS: dict[Difficulty, Level] = {
    "vanilla": Level(0.0, 0.0, 0),
    "easy": Level(0.1, 0.1, 4),
    "medium": Level(0.2, 0.2, 8),
    "hard": Level(0.3, 0.3, ALL_VIDEOS),
    "scale_easy_video_hard": Level(0.1, 0.1, ALL_VIDEOS),
}
"""The published difficulties, which are bundles of distractors."""


def level_of(world: World) -> Level:
    """A world's distractors: those of its difficulty, but for what it sets itself."""
    own = {"camera": world.camera_scale, "colour": world.colour_scale, "videos": world.videos}
    return replace(LEVELS[world.difficulty], **{name: value for name, value in own.items() if value is not None})


GROUND_ALPHA = {"reacher": 0.0, "walker": 1.0, "cheetah": 1.0, "hopper": 1.0}
"""Opacity of the ground in front of the video; 0.3 in all other domains."""


def ground_alpha(domain: str) -> float:
    return GROUND_ALPHA.get(domain, 0.3)


def to_sphere(point: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3"]:
    """Radius, horizontal angle and angle from the vertical."""
    flat = math.hypot(point[0], point[1])
    return np.array([math.hypot(flat, point[2]), math.atan2(point[1], point[0]), math.atan2(flat, point[2])])


def from_sphere(sphere: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3"]:
    radius, horizontal, vertical = sphere
    flat = radius * math.sin(vertical)
    return np.array([flat * math.cos(horizontal), flat * math.sin(horizontal), radius * math.cos(vertical)])


@dataclass(frozen=True)
class View:
    """Where a camera stands at the start of an episode, relative to its origin."""

    start: Float[np.ndarray, "3"]
    """Position relative to the agent's centre of mass for a tracking camera, else in the world."""
    target: Float[np.ndarray, "3"]
    """The point it looks at, in the same coordinates."""
    tracking: bool
    """Whether the coordinates move with the agent."""
    upper: bool
    """Whether the camera stays above ground and in front, and never rolls by itself (all domains but reacher)."""

    @property
    def ahead(self) -> Float[np.ndarray, "3"]:
        """Away from the camera on the ground; nothing for a camera that looks down."""
        away = (self.target - self.start) * [1, 1, 0]
        length = _length(away)
        return away / length if length > 1e-3 else np.zeros(3)

    @property
    def right(self) -> Float[np.ndarray, "3"]:
        """To the right in the picture."""
        x, y, _ = self.ahead
        return np.array([y, -x, 0.0]) if x or y else np.array([1.0, 0.0, 0.0])


def tracks(physics, camera: int) -> bool:
    """Whether a camera moves with the body."""
    return bool(physics.model.cam_mode[camera] != FIXED)


def view_of(physics, camera: int, domain: str) -> View:
    """Read a camera's start pose from a simulation that was just reset."""
    position, axes = physics.data.cam_xpos[camera].copy(), physics.data.cam_xmat[camera].reshape(3, 3)
    agent = physics.data.subtree_com[1].copy()
    tracking = tracks(physics, camera)
    target = position - np.linalg.norm(position - agent) * axes[:, 2]  # a camera looks along its negative z axis
    origin = agent if tracking else np.zeros(3)
    return View(position - origin, target - origin, tracking, domain != "reacher")


def camera_walk(view: View, scale: float, dynamic: bool, rng: np.random.Generator) -> Iterator[Float[np.ndarray, "4"]]:
    """Yield (radius, horizontal, vertical, roll): a bounded random walk of velocity on a shell around the target."""
    start = to_sphere(view.start)
    reach = np.array([0.0, math.pi / 2 * scale, math.pi / 2 * scale])
    low, high = start - reach, start + reach
    low[0], high[0] = start[0] * (1 - 0.5 * scale), start[0] * (1 + 1.5 * scale)
    if view.upper:  # a few cameras, e.g. quadruped's, start beyond a limit, which then cannot be meant for them
        floor, ceiling = np.array([0, -math.pi, 0]), np.array([math.inf, 0, math.pi / 2])
        low = np.where(start >= floor, np.maximum(low, floor), low)
        high = np.where(start <= ceiling, np.minimum(high, ceiling), high)
    max_roll = math.pi / 2 * scale
    moving, nearness = float(dynamic), start[0] / 4  # speeds are meant for a camera at distance 4
    deviation, top = 0.1 * scale * nearness * moving, 0.4 * scale * nearness * moving
    roll_deviation, top_roll = math.pi / 300 * scale * moving, math.pi / 50 * scale * moving

    sphere, roll = rng.uniform(low, high), rng.uniform(-max_roll, max_roll)
    direction = rng.standard_normal(3)
    # The published code does not scale the first velocity by distance; the limit below does.
    velocity = direction / np.linalg.norm(direction) * rng.uniform(0, 0.4 * scale * moving)
    roll_velocity = rng.uniform(-top_roll, top_roll)
    while True:
        velocity = velocity + rng.standard_normal(3) * deviation
        speed = _length(velocity)
        velocity = velocity * min(1.0, top / speed) if speed > 0 else velocity
        roll_velocity = min(max(roll_velocity + rng.standard_normal() * roll_deviation, -top_roll), top_roll)
        before, roll_before = from_sphere(sphere), roll
        sphere = to_sphere(before + velocity).clip(low, high)
        roll = min(max(roll + roll_velocity, -max_roll), max_roll)
        # A camera that hits a limit keeps the velocity it really had, so it slides along the limit and leaves it.
        velocity, roll_velocity = from_sphere(sphere) - before, roll - roll_before
        yield np.array([*sphere, roll])


def camera_pose(
    view: View, state: Float[np.ndarray, "4"], agent: Float[np.ndarray, "3"]
) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3 3"]]:
    """World position and axes (columns) of a camera state."""
    origin = agent if view.tracking else np.zeros(3)
    position, target = from_sphere(state[:3]) + origin, view.target + origin
    backward = position - target
    backward /= _length(backward)
    axes = _upright(backward) if view.upper else _shortest_turn(backward)
    sin, cos = math.sin(state[3]), math.cos(state[3])
    return position, axes @ np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])


def _upright(backward: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3 3"]:
    """Axes of a camera without roll: its right side is level."""
    x, y, z = backward.tolist()
    length = _length(np.array([-y, x, 0.0]))
    u, v = -y / length, x / length
    # The third column looks back, the second is its cross product with the first, which is (u, v, 0).
    return np.array([[u, -z * v, x], [v, z * u, y], [0.0, x * v - y * u, z]])


def _length(vector: Float[np.ndarray, "3"]) -> float:
    """What np.linalg.norm gives, to the bit, in a fifth of its time."""
    return math.sqrt(vector.dot(vector))


def _shortest_turn(backward: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3 3"]:
    """Axes reached from looking down by the shortest turn: no jumps near the pole, where reacher's camera is."""
    x, y, z = backward
    k = 1 / (1 + z)
    return np.array([[1 - k * x * x, -k * x * y, x], [-k * x * y, 1 - k * y * y, y], [-x, -y, z]])


def colour_walk(
    base: Float[np.ndarray, "m 3"], scale: float, dynamic: bool, rng: np.random.Generator
) -> Iterator[Float[np.ndarray, "m 3"]]:
    """Yield every material's colour: uniform around the original at first, then a Gaussian walk in that range."""
    low, high = np.clip(base - scale, 0, 1), np.clip(base + scale, 0, 1)
    colour = rng.uniform(low, high)
    while True:
        yield colour
        if dynamic:
            colour = (colour + rng.standard_normal(base.shape) * 0.03 * scale).clip(low, high)
