"""What lies under a folder of runs, in any layout: data sets, and the models that were trained on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otflam.core import DIGEST, Progress, UserError, check_digest, find_files, read_json, read_release, release_hash
from otflam.data import Store, has_distractors
from otflam.evaluate import OURS
from otflam.lam import LAM, LAM_KIND, METHODS, CodeLAM, load_lam
from otflam.policy import AGENT_KIND
from otflam.tokenizer import OTF, TOKENIZER_KIND, load_tokenizer, motion_clips

DIVIDED = [name for name, method in METHODS.items() if method.shows]
"""Methods with slots or skills."""
DRAWING = [name for name, method in METHODS.items() if method.draws]
"""Methods that predict frames. HiLAM is not among them: its pictures are those of the LAPO under it."""
USUAL_CODES = 64
"""Codes of the vocabulary that is shown if there are several."""


@dataclass(frozen=True)
class Release:
    """A finished training."""

    folder: Path
    config: dict[str, Any]
    """Its configuration."""

    @property
    def order(self) -> tuple[bool, float, str]:
        """Which of several trainings of one method is shown: that of the usual vocabulary with the least error."""
        # FLAM's tokenizer, of frames, has no codebook.
        vocabulary = (self.config["tokenizer"] or {}).get("model", {}).get("codebook", {"codes": USUAL_CODES})
        health, error = self.folder / "health.json", math.inf
        if health.exists():
            content = read_json(health, "delete it")
            error = content.get("error") if isinstance(content, dict) else None
            if not isinstance(error, float):
                raise UserError(f"{health} has no error", "delete it")
        return vocabulary["codes"] != USUAL_CODES, error, str(self.folder)


RIVAL, THINGS = "rival_actions", "things"
"""Columns that only data sets of two bodies have, and only those of games."""


@dataclass(frozen=True)
class ShownData:
    """A data set, and what can be shown of it."""

    store: Store
    tokenizer: OTF
    models: dict[str, LAM]
    """Those that draw frames, by method."""
    held_out: list[int]
    """Episodes that none of them was trained on."""


def find_runs(root: Path, progress: Progress) -> Iterator[ShownData]:
    """Data sets with a motion tokenizer: those with distractors first, then those with most methods."""
    tell_altered(root, progress)
    lams, tokenizers = (find_releases(root, kind) for kind in (LAM_KIND, TOKENIZER_KIND))

    def order(store: Store) -> tuple[bool, int, str]:
        methods = {each.config["method"] for each in lams if each.config["data"] == store.hash}
        return not has_distractors(store), -len(methods.intersection(DRAWING)), store.path.name

    for store in sorted(find_stores(root), key=order):
        if (found := _gather(store, lams, tokenizers, progress)) is not None:
            yield found


def find_films(root: Path, column: str, progress: Progress) -> Iterator[tuple[Store, OTF, int]]:
    """Data sets with a column that a vocabulary was learned on, each with the longest episode that it has not seen."""
    tokenizers = find_releases(root, TOKENIZER_KIND)
    for store in sorted(find_stores(root), key=lambda store: store.path.name):
        if column not in store:
            continue
        tokenizer, episodes = _own_tokenizer(store, tokenizers, progress)
        held = [index for index in range(len(store)) if index not in episodes]
        if tokenizer is not None and held:
            yield store, tokenizer, max(held, key=lambda index: int(store.lengths[index]))


def find_agents(runs: Path | None, found: ShownData) -> Iterator[tuple[str, Release]]:
    """Agents of a data set with their methods' names, those that imitate latents of the paper's methods first."""
    if runs is None or not runs.is_dir() or found.store.config.get("world") is None:
        return
    methods = {release_hash(each.folder): each.config["method"] for each in find_releases(runs, LAM_KIND)}
    mine = [each for each in find_releases(runs, AGENT_KIND) if made_from(each).get("data") == found.store.hash]

    def name(release: Release) -> str:
        made = made_from(release)
        return methods.get(made.get("lam"), made.get("reference", "agent"))

    def order(release: Release) -> tuple[bool, bool, int, str]:
        labels = len(made_from(release).get("labelled", ()))
        return name(release) not in OURS, release.config["decoder"] is None, -labels, str(release.folder)

    for release in sorted(mine, key=order):
        yield name(release), release


def made_from(agent: Release) -> dict[str, Any]:
    """What an agent was trained on and with; empty if somebody else made it."""
    return agent.config.get("made_from") or {}


def find_stores(root: Path) -> list[Store]:
    """Every data set with frames once, wherever copies of it lie, and none that is only a shard of another."""
    stores: dict[str, Store] = {}
    for path in find_files(root, "meta.json"):
        try:
            store = Store(path.parent)
        except UserError:
            continue  # another program's file, or a data set that is still being written
        if "frames" in store:
            stores.setdefault(store.hash, store)
    shards = {shard.folder for store in stores.values() for shard in store.shards if shard.folder != store.path}
    return [store for store in stores.values() if store.path not in shards]


def find_releases(root: Path, kind: str) -> list[Release]:
    """All finished trainings of a kind."""
    releases = []
    for path in find_files(root, "config.json"):
        try:
            releases.append(Release(path.parent, read_release(path.parent, kind)))
        except UserError:
            continue  # of another kind or another program, or still in training
    return releases


def tell_altered(root: Path, progress: Progress) -> None:
    """Say which releases are not what was saved: what cannot be read any more would be left out without a word."""
    for path in find_files(root, DIGEST):
        try:
            check_digest(path.parent)
        except UserError as error:
            progress.note(f"left out {path.parent.name}: {error.problem}")
        except OSError as error:
            progress.note(f"left out {path.parent.name}: {error.filename} cannot be read")


def find_divided(root: Path) -> Iterator[tuple[Store, Release]]:
    """Models with slots or skills and the data sets they were trained on, those with distractors first."""
    lams = find_releases(root, LAM_KIND)
    for store in sorted(find_stores(root), key=lambda store: (not has_distractors(store), store.path.name)):
        for method in DIVIDED:
            of_method = [each for each in lams if (each.config["method"], each.config["data"]) == (method, store.hash)]
            if of_method:
                yield store, min(of_method, key=lambda each: each.order)


def _gather(store: Store, lams: list[Release], tokenizers: list[Release], progress: Progress) -> ShownData | None:
    models: dict[str, LAM] = {}
    trained: set[int] = set()
    for method in DRAWING:
        of_method = [each for each in lams if (each.config["method"], each.config["data"]) == (method, store.hash)]
        for release in sorted(of_method, key=lambda each: each.order):
            try:
                models[method] = load_lam(release.folder)[0]
            except UserError as error:
                progress.note(f"left out {release.folder.name}: {error.problem}")
                continue
            trained |= set(release.config["episodes"][0])
            break
    tokenizer = next((model.tokenizer for model in models.values() if isinstance(model, CodeLAM)), None)
    if tokenizer is None:
        tokenizer, episodes = _own_tokenizer(store, tokenizers, progress)
        trained |= set(episodes)
    if not isinstance(tokenizer, OTF):
        return None
    return ShownData(store, tokenizer, models, [index for index in range(len(store)) if index not in trained])


def _own_tokenizer(store: Store, releases: list[Release], progress: Progress) -> tuple[OTF | None, list[int]]:
    """A factorised tokenizer that was trained on the data set, and the episodes it was trained on."""
    mine = [each for each in releases if each.config["data"] == store.hash and each.config["model"]["method"] == "otf"]
    for release in sorted(mine, key=lambda each: each.config["model"]["codebook"]["codes"] != USUAL_CODES):
        try:
            tokenizer = load_tokenizer(release.folder)
            motion_clips(store, tokenizer.config)  # refuses what it cannot read
        except UserError as error:
            progress.note(f"left out {release.folder.name}: {error.problem}")
            continue
        if isinstance(tokenizer, OTF):
            return tokenizer, release.config["episodes"]
    return None, []
