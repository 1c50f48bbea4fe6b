"""A second body in the picture, with physics, a policy, noise and random numbers of its own.

It never touches the agent, whose trajectory is the same with and without it. Wherever its own world takes it, it is
drawn beside the agent, on its own stretch of floor, which moves at its own speed: nothing but the labels tells whose
actions are meant.

Axes: p physics, s state, a actions.
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np
from jaxtyping import Float, Float32, Float64

from otflam.core import Column, UserError
from otflam.envs.distractors import View, tracks
from otflam.envs.environment import Simulated
from otflam.envs.rollout import Observation, Policy, make_policy
from otflam.envs.simulation import Simulation, episode_streams
from otflam.envs.world import EXPERT, World, has_expert

RIVAL_ACTIONS, RIVAL_STATES, RIVAL_PHYSICS = "rival_actions", "rival_states", "rival_physics"
PLACEMENT = "rival_placement"
"""Its columns; the first is the action that it executes after the frame, as with the agent's."""
LEAD = (0.12, 0.22)
"""How far ahead of the agent, or behind it in the direction of its run: nearest and farthest."""
BEFORE, BEHIND = (-0.15, -0.05), (0.15, 0.4)
"""How much farther from the camera; all in shares of the camera's distance, so that both bodies are in the picture."""
FLOOR_GAP = 0.002
"""How much lower its floor is drawn: where both overlap, the agent's is seen, without flicker."""
FOLLOWED = {"agent": 0.0, "midpoint": 0.5, "rival": 1.0}


@dataclass(frozen=True)
class Placement:
    """Where a rival is drawn in an episode, and its colour."""

    offset: Float64[np.ndarray, "3"]
    """From where the agent is to where the rival is, both on the ground."""
    colour: Float64[np.ndarray, "3"]

    def vector(self) -> Float32[np.ndarray, "6"]:
        return np.concatenate([self.offset, self.colour]).astype(np.float32)


def draw_placement(view: View, rng: np.random.Generator) -> Placement:
    """Beside the agent to the left or right, and before or behind it, as the camera sees them."""
    distance = float(np.linalg.norm(view.start - view.target))
    lead, depth = rng.uniform(*LEAD) * rng.choice([-1, 1]), rng.uniform(*(BEFORE if rng.random() < 0.5 else BEHIND))
    colour = colorsys.hsv_to_rgb(rng.random(), rng.uniform(0.5, 0.9), rng.uniform(0.6, 0.95))
    return Placement(distance * (lead * view.right + depth * view.ahead), np.array(colour))


def rival_policy(rival: str, simulation: Simulated) -> Policy:
    """Who plays a rival that is named as TASK or TASK:POLICY."""
    task, _, name = rival.partition(":")
    if (name or EXPERT) == EXPERT and not has_expert(task):
        raise UserError(
            f"--rival {rival}: no expert of {task} comes with the package",
            f"name another policy, such as --rival {task}:random",
        )
    return make_policy(name or EXPERT, simulation)


def rival_streams(stream: np.random.SeedSequence) -> tuple[np.random.SeedSequence, ...]:
    """Independent sources of a rival's randomness: its start, its play, its place."""
    return tuple(stream.spawn(3))


def rival_rng(seed: int) -> np.random.Generator:
    """What the rival's policy and noise are random with in the episode of a seed."""
    return np.random.default_rng(rival_streams(episode_streams(seed)[-1])[1])


class Rival:
    """Plays its own episode beside the agent's."""

    def __init__(self, world: World) -> None:
        task = world.rival.partition(":")[0]
        self.simulation, self.world = Simulation(task), world
        self.policy = rival_policy(world.rival, self.simulation)
        self.tracked = tracks(self.simulation.physics, 0)
        self.centre: Float64[np.ndarray, "3"] = self.simulation.physics.data.ptr.subtree_com[1]
        """Its centre of mass: the simulator's own memory, which every step changes."""

    @property
    def digest(self) -> str:
        """Names who it is beside the world's settings: another expert under the same name is another rival."""
        return getattr(self.policy, "digest", None) or self.world.rival

    def columns(self) -> dict[str, Column]:
        simulation = self.simulation
        return {
            RIVAL_ACTIONS: Column("float32", (simulation.action_size,)),
            RIVAL_STATES: Column("float32", (simulation.state_size,)),
            RIVAL_PHYSICS: Column("float64", simulation.physics.get_state().shape),
            PLACEMENT: Column("float32", (6,)),
        }

    def begin(self, stream: np.random.SeedSequence, view: View) -> None:
        """Start the episode that belongs to a stream of random numbers."""
        self._start, play, place = rival_streams(stream)
        self._rng = np.random.default_rng(play)
        self.placement = draw_placement(view, np.random.default_rng(place))
        self._enter()

    def _enter(self) -> None:
        self.state = self.simulation.reset(self._start.generate_state(4).tolist())
        self.began, self._steps = self.centre.copy(), 0
        self._decide()

    def _decide(self) -> None:
        choice = np.asarray(self.policy.act(Observation(None, self.state, self._steps), self._rng), np.float32)
        actions = self.simulation.facts.actions
        if self.world.rival_noise:
            choice = actions.disturb(choice, self.world.rival_noise, self._rng)
        self.action: Float32[np.ndarray, " a"] = actions.bound(choice)

    def step(self) -> None:
        """Do what it decided, and decide what to do next; one whose time is over starts again."""
        self.state, _, last = self.simulation.step(self.action)
        self._steps += 1
        if last:
            self._start = self._start.spawn(1)[0]
            self._enter()
        else:
            self._decide()

    def info(self) -> Mapping[str, np.ndarray]:
        """One row of its columns."""
        physics = self.simulation.physics.get_state()
        known = {RIVAL_ACTIONS: self.action, RIVAL_STATES: self.state, RIVAL_PHYSICS: physics}
        return known | {PLACEMENT: self.placement.vector()}

    def shift(self, agent: Float[np.ndarray, "3"], tracked: bool) -> Float64[np.ndarray, "3"]:
        """From its place in its own world to where it is drawn; `tracked` says whether the agent leaves its place."""
        moved = agent.copy() if tracked else np.zeros(3)
        if self.tracked or tracked:  # who stays where it is keeps its place in the picture, too
            moved -= self.centre if self.tracked else self.began
        moved[2] = 0
        moved += self.placement.offset
        return moved

    def looked_at(
        self, agent: Float[np.ndarray, "3"], tracked: bool, shift: Float64[np.ndarray, "3"]
    ) -> Float64[np.ndarray, "3"] | None:
        """How far the camera moves to look at whom it follows; None: not at all."""
        share = FOLLOWED[self.world.follow]
        if not share:
            return None
        return share * (self.centre + shift - agent if tracked else self.placement.offset)


class Guest:
    """Draws a rival's geoms into the scene of the agent's renderer."""

    def __init__(self, rival: Rival, model: mujoco.MjModel, *, floor: bool) -> None:
        """`floor` draws its floor, too, where bodies run."""
        self.rival, self._agent = rival, model
        self._model, self._data = rival.simulation.physics.model.ptr, rival.simulation.physics.data.ptr
        self._option, self._untouched = mujoco.MjvOption(), mujoco.MjvPerturb()
        self._option.sitegroup[:] = 0  # what has no geoms would stay where it is in the rival's own world
        self._option.flags[mujoco.mjtVisFlag.mjVIS_TENDON] = 0
        self._kinds = mujoco.mjtCatBit.mjCAT_ALL if floor else mujoco.mjtCatBit.mjCAT_DYNAMIC
        self._body = self._model.body_weldid[self._model.geom_bodyid] > 0
        self._lower = np.zeros((self._model.ngeom, 3), np.float32)
        self._lower[~self._body, 2] = FLOOR_GAP
        # Textures belong to the agent's model. The suite's tasks share their materials; others are plain colours.
        self._shared = _materials(self._model) == _materials(model)
        if not self._shared:
            has = self._model.geom_matid >= 0
            self._model.geom_rgba[has] = self._model.mat_rgba[self._model.geom_matid[has]]
            self._model.geom_matid[:] = -1

    def dress(self) -> None:
        """Put on the colours of the episode."""
        if self.rival.world.rival_colour == "own":
            self._model.geom_matid[self._body] = -1
            self._model.geom_rgba[self._body, :3] = self.rival.placement.colour

    def join(self, scene: mujoco.MjvScene, shift: Float64[np.ndarray, "3"]) -> None:
        """Add the rival to the geoms that are there."""
        if self._shared:  # what changes colours changes the agent's
            self._model.mat_rgba[:] = self._agent.mat_rgba
        places = self._data.geom_xpos
        kept = places.copy()
        # In the single precision of scenes, where recorded pictures were moved.
        places[:] = (places.astype(np.float32) + shift).astype(np.float32) - self._lower
        mujoco.mjv_addGeoms(self._model, self._data, self._option, self._untouched, self._kinds, scene)
        places[:] = kept


def _materials(model: mujoco.MjModel) -> list[str]:
    return [model.mat(number).name for number in range(model.nmat)]
