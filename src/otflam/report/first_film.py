"""The film of the first screen: an agent beside the expert, or else a video, under the codes of their motion."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from otflam.core import Progress, UserError
from otflam.envs import Policy, episode_seed, has_expert, make_policy, open_world, play_episode
from otflam.evaluate import EVALUATION, agent_world
from otflam.policy import load_agent
from otflam.report.explorer import Figure
from otflam.report.films import FILM_FRAMES, FILM_PARTS, join_columns, middle_of
from otflam.report.runs import Release, ShownData, find_agents, made_from


def first_film(runs: Path | None, shown: Sequence[ShownData], progress: Progress) -> Figure | None:
    """An agent beside the expert, under the codes of their motion; without an agent, an episode and its codes."""
    for found in shown:
        for name, release in find_agents(runs, found):
            try:
                return film_agent(name, release, found, progress)
            except UserError as error:
                progress.note(f"no film of {release.folder.name}: {error.problem}")
    return film_data(shown[0]) if shown else None


def film_agent(name: str, release: Release, found: ShownData, progress: Progress) -> Figure:
    """The first episode that returns are reported on, played by an agent and, where there is one, by the expert."""
    agent = load_agent(release.folder)
    world, offsets = agent_world(agent), found.tokenizer.config.motion.offsets
    progress.note(f"film of {name} in {world.task}")
    columns, titles = [], []
    with closing(open_world(world)) as env:
        players: dict[str, Policy] = {name: agent}
        if has_expert(world.task):
            players["expert"] = make_policy("expert", env)
        for player, policy in players.items():
            steps = FILM_FRAMES + max(offsets) - min(offsets)
            episode = play_episode(env, policy, episode_seed(EVALUATION, 0), steps=steps)
            columns.append(middle_of(episode.frames, found.tokenizer)[1][1])
            titles.append(f"{player}: earns {episode.rewards.sum():.1f}")
    shortest, labels = min(map(len, columns)), len(made_from(release).get("labelled", ()))
    known = f"{labels} labelled episode{'s'[: labels > 1]}" if labels else "all actions"
    beside = ", beside the expert, from the same start" if len(columns) > 1 else ""
    caption = (
        f"{world.task}: an agent ({name}, {known}) in an episode that nobody has trained on{beside}. The first "
        f"{shortest} steps, under the codes of their motion, the stronger the more it moves."
    )
    return join_columns([column[:shortest] for column in columns]).figure("first-film", caption, *titles)


def film_data(found: ShownData) -> Figure:
    """An episode that no model was trained on, if there is one, and the codes of its motion."""
    index = max(found.held_out or range(len(found.store)), key=lambda each: int(found.store.lengths[each]))
    frames = found.store.episode(index, "frames")
    film = join_columns(middle_of(frames, found.tokenizer)[1])
    held = "an episode that no model was trained on" if found.held_out else "an episode"
    caption = f"{found.store.path.name}: {held}, and the codes of its motion over it, the stronger the more it moves."
    return film.figure("first-film", caption, *FILM_PARTS)
