"""Commands that train agents and let them play."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from otflam.commands.base import NO_PREFIX, DataSet, Sizes, altered, backbone_of, required
from otflam.commands.settings import Settings, agent_run
from otflam.core import Hardware, Launcher, UserError
from otflam.envs import Split
from otflam.policy import PARTS, PolicyConfig, way_of
from otflam.presets import get_preset, steps_on_labels
from otflam.report import ProgressBar, say

if TYPE_CHECKING:
    from otflam.data import Store


@dataclass(frozen=True)
class AgentTraining:
    """What the trainings of agents share."""

    prefixes: ClassVar[bool] = True
    reference: ClassVar[bool] = False
    """Whether the agent has no latent actions."""

    config: Annotated[PolicyConfig, NO_PREFIX]
    out: Path
    """Folder for the agent; an interrupted training continues there."""
    labels: int = 8
    """Labelled episodes."""
    seed: int = 0
    """Decides which episodes are labelled, the weights and the batches."""
    hardware: Annotated[Hardware, NO_PREFIX] = field(default_factory=Hardware)
    preset: Sizes = "laptop"
    settings: Settings = None

    @classmethod
    def defaults(cls, name: str) -> Any:
        command = cls(get_preset(name).policy, Path(), preset=name)
        return required(command, *(each for each in ("lam", "kind", "data", "out") if hasattr(command, each)))

    def configured(self, file: Path) -> Any:
        """The same with the settings of an agent."""
        run = agent_run(file, get_preset(self.preset).policy, self.reference)
        more = {"grounding": run.grounding} if not self.reference else {}
        config, labels = run.config, len(run.labelled)
        return altered(self, config=config, labels=labels, seed=config.clone.seed, **more)

    def task(self, row: str, data: Path, bar: ProgressBar) -> Any:
        """What to train, as the row of that name in our tables was."""
        from otflam.data import Store
        from otflam.policy import AgentPlan

        preset, way, config = get_preset(self.preset), way_of(row), self.config.seeded(self.seed)
        part = PARTS.get(way, "clone")
        usual = self.settings is None and getattr(self.config, part) == getattr(preset.policy, part)
        if usual:  # what the user says counts
            config = config.with_steps(way, steps_on_labels(preset, row, self.labels))
        store = Store(data)
        return AgentPlan(store, self.labels, config, self.hardware, self.out, self.most(store), bar)

    def most(self, store: Store) -> int:
        """Episodes to imitate; 0: all of the first half."""
        return 0

    def say_quality(self, task: Any) -> None:
        """The last lines: how good the decoder, if there is one, is on episodes without labels; where the agent is."""
        import numpy as np

        from otflam.core import METRICS, read_metrics

        folder = self.out / "decoder"
        rows = read_metrics(folder) if (folder / METRICS).exists() else []
        found = [row["check/held_out"] for row in rows if "check/held_out" in row]
        if found and not task.decoder.discrete:
            actions = np.concatenate([task.store.episode(int(index), "actions") for index in task.watched])
            gain = 1 - found[-1] / max(float(actions.var(0).mean()), 1e-12)
            advice = "" if gain > 0 else ": more labels, or other steps (--decode.steps)"
            comparison = f"{abs(100 * gain):.0f} % {'below' if gain >= 0 else 'above'} always taking their mean action"
            say(f"decoder: error {found[-1]:.4g} on episodes without labels, {comparison}{advice}")
        elif found:
            say(f"decoder: cross entropy {found[-1]:.4g} on episodes without labels")
        say(f"agent: {self.out}")


@dataclass(frozen=True)
class PolicyTrain(AgentTraining):
    """Train an agent: a policy that imitates latent actions, and a decoder from a few labelled episodes."""

    lam: tyro.conf.Positional[Path] = Path()
    """Folder of a trained latent action model."""
    data: tyro.conf.Positional[Path] = Path()
    """The data set: its first half is imitated, labelled episodes come from its third quarter."""
    grounding: Literal["decode", "finetune", "relabel"] = "decode"
    """decode: imitate latents, then decode them (the paper); finetune: imitate latents, then the labelled actions;
    relabel: decode latents, then imitate actions. The last two are ours."""
    dino: str | None = None
    """Folder or hub name of the DINOv2 backbone, for a model that predicts its features."""

    episodes: int = 0
    """Imitate at most this many episodes, where features of DINOv2 are costly; 0: all of the first half."""

    def most(self, store: Store) -> int:
        if self.episodes < 0:
            raise UserError(f"--episodes {self.episodes}", "give 0 for all, or how many")
        if self.settings is not None and not self.episodes:
            run = agent_run(self.settings, self.config)
            return len(run.unlabelled) if run.data == store.hash else 0
        return self.episodes

    def run(self) -> None:
        from otflam.core import read_release
        from otflam.lam import LAM_KIND
        from otflam.policy import train_agent

        method = read_release(self.lam, LAM_KIND)["method"]
        row = method if self.grounding == "decode" else f"{method}+{self.grounding}"
        with ProgressBar("policy", "steps", logs=False) as bar:
            task = self.task(row, self.data, bar)
            train_agent(task, self.lam, backbone_of(self.lam, self.dino), self.grounding)
        self.say_quality(task)


@dataclass(frozen=True)
class PolicyReference(AgentTraining):
    """Train an agent without latent actions, to compare with."""

    reference: ClassVar[bool] = True
    kind: tyro.conf.Positional[Literal["labels-only", "idm", "all-actions"]] = "labels-only"
    """Imitate the labels alone, what an inverse dynamics model guesses from them, or all true actions (the ceiling)."""
    data: DataSet = Path()

    def run(self) -> None:
        from otflam.policy import train_reference

        if self.settings is not None:
            found = agent_run(self.settings, self.config, self.reference).reference
            if found != self.kind:
                raise UserError(f"{self.settings} is of {found}, not of {self.kind}", f"name {found}, or leave it out")
        with ProgressBar("policy", "steps", logs=False) as bar:
            task = self.task(self.kind, self.data, bar)
            train_reference(task, self.kind)
        self.say_quality(task)


@dataclass(frozen=True)
class Playing:
    """What commands that let an agent play share."""

    agent: tyro.conf.Positional[Path]
    """Folder of an agent."""
    task: str | None = None
    """The task to play; by default the one it was trained for."""
    difficulty: str | None = None
    """Distractors of the world; by default those it was trained with."""
    split: Split = "train"
    """Background videos: those of training, or the held-out ones."""
    steps: int | None = None
    """Steps of an episode; by default to its time limit."""
    seed: int = 0
    """Which episodes: the same seed gives every agent the same ones."""
    choosing: bool = False
    """Play other episodes than those that results are reported on, to choose something by them."""

    def first_seed(self) -> int:
        from otflam.evaluate import EVALUATION, VALIDATION

        return (VALIDATION if self.choosing else EVALUATION) + self.seed

    def world(self) -> Any:
        from otflam.envs import World
        from otflam.evaluate import agent_world, check_agent
        from otflam.policy import load_agent

        agent = load_agent(self.agent)
        made_for = agent.about["world"] is not None or self.task is None
        world = agent_world(agent) if made_for else World(str(self.task), size=agent.clone.frames[0])
        wanted = {"task": self.task or world.task, "difficulty": self.difficulty or world.difficulty}
        world = dataclasses.replace(world, **wanted, split=self.split)
        check_agent(agent, world)
        return world


@dataclass(frozen=True)
class EvaluateReturn(Playing):
    """Let an agent play in the simulator and tell its return, beside random play, doing nothing and the expert."""

    episodes: int = 10
    """Episodes to play."""
    jobs: Launcher = field(default_factory=Launcher)

    def run(self) -> None:
        from otflam.envs import has_expert
        from otflam.evaluate import bootstrap_interval, interquartile_mean, play

        world = self.world()
        players: list[Any] = [self.agent, "random", "zero", *(["expert"] if has_expert(world.task) else [])]
        with ProgressBar(f"play {world.task}", "steps") as bar:
            for player in players:
                bar.part(f"play {player}", "steps").start(0, self.episodes * (self.steps or 1000))
                found = play(player, world, self.first_seed(), self.episodes, self.jobs, self.steps, bar)
                low, high = bootstrap_interval([found.tolist()])
                spread = f"interval {low:.1f} to {high:.1f}, middle half {interquartile_mean(found):.1f}"
                say(f"{player}: return {found.mean():.1f} ± {found.std(ddof=min(1, len(found) - 1)):.1f} ({spread})")


@dataclass(frozen=True)
class PolicyRun(Playing):
    """Let an agent play one episode and film it."""

    video: Path = Path("agent.mp4")
    """The video."""

    def run(self) -> None:
        from otflam.envs import episode_seed, open_world, play_episode
        from otflam.evaluate import load_agent_for
        from otflam.report import write_video

        if self.video.suffix != ".mp4":
            raise UserError(f"{self.video} is no .mp4 file", "give a name that ends in .mp4")
        env = open_world(self.world())
        with ProgressBar(f"play {env.facts.task}", "steps") as bar:
            bar.start(0, self.steps or env.facts.steps)
            seed = episode_seed(self.first_seed(), 0)
            episode = play_episode(env, load_agent_for(self.agent, env), seed, steps=self.steps, progress=bar)
        env.close()
        write_video(episode.frames, Fraction(env.facts.fps), self.video)
        say(f"return {episode.rewards.sum():.1f} in {len(episode.rewards)} steps: {self.video}")
