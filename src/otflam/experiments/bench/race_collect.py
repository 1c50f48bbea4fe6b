"""A race of collectors: frames of walker-run with distractors and its expert, in a CPU second of one process."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from PIL import Image

from otflam.data import Collection, collect_episodes
from otflam.envs import Quality, World, open_backgrounds
from otflam.experiments.bench import benchmark
from otflam.experiments.bench.opponents import find_clone, folder, load_modules

DOMAIN, TASK, DIFFICULTY, SIZE = "walker", "run", "scale_easy_video_hard", 64
STEPS, EPISODES = 1000, 4
"""Of an episode, and how many of them we collect; the opponent collects one."""
DAVIS, DAVIS_SIZE = Path("DAVIS") / "JPEGImages" / "480p", (854, 480)
CLIPS = 6
"""Different clips in the place of DAVIS, where it is not there; all its names lead to one of them."""


@benchmark(">= 20", "x", opponent="laom")
def race_collect() -> tuple[float, dict[str, float]]:
    """frames in a CPU second of one process, ours over theirs: walker-run, expert, 64 px, dynamic distractors"""
    laom = find_clone("laom")
    rates = {
        "opponent, frames/s": our_rate("reference", 1) if laom is None else laom_rate(laom),
        "ours, frames/s": our_rate("fast", EPISODES),
    }
    return rates["ours, frames/s"] / rates["opponent, frames/s"], rates


def frames_per_cpu_second(collect: Callable[[], object], frames: int) -> float:
    began = time.process_time()
    collect()
    return frames / (time.process_time() - began)


def our_rate(quality: Quality, episodes: int) -> float:
    """Frames a second of 'otflam collect', from opening the world to the finished store."""
    world = World(f"{DOMAIN}-{TASK}", difficulty=DIFFICULTY, size=SIZE, quality=quality)
    plan = Collection(world, episodes, STEPS)
    with tempfile.TemporaryDirectory() as out:
        return frames_per_cpu_second(lambda: collect_episodes(plan, Path(out) / "data", 1), episodes * STEPS)


def laom_rate(laom: Path) -> float:
    """Frames a second of LAOM's own script, which writes one trajectory of its own expert."""
    script, scenery = load_modules(laom, "scripts.data_collection.collect_data", "src.dcs.background")
    know_old_texture_name()
    with tempfile.TemporaryDirectory() as temporary:
        videos = folder[0] / DAVIS
        if not videos.is_dir():
            videos = draw_videos(Path(temporary) / "videos", scenery.DAVIS17_TRAINING_VIDEOS)
        options = script.Args(
            checkpoint_path=str(laom / "scripts" / "data_collection" / "checkpoints" / f"{DOMAIN}-{TASK}-expert"),
            checkpoint_name="checkpoint.pt",
            dcs_backgrounds_path=str(videos),
            dcs_difficulty=DIFFICULTY,
            dcs_img_hw=SIZE,
            num_trajectories=1,
            save_path=str(Path(temporary) / "data.hdf5"),
            cuda=False,
        )
        with redirect_stdout(io.StringIO()):
            return frames_per_cpu_second(lambda: script.main.__wrapped__(options), STEPS)


def draw_videos(out: Path, names: list[str]) -> Path:
    """A few of our background clips in the layout and at the size of DAVIS."""
    backgrounds = open_backgrounds("builtin", "train")
    for number, name in enumerate(names):
        if number >= CLIPS:
            (out / name).symlink_to(out / names[number % CLIPS])
            continue
        (out / name).mkdir(parents=True)
        for time_step, frame in enumerate(backgrounds.draw(number, DAVIS_SIZE[1])):
            frame.resize(DAVIS_SIZE, Image.Resampling.BICUBIC).save(out / name / f"{time_step:05}.jpg")
    return out


def know_old_texture_name() -> None:
    """Give a model's textures the name that they had before MuJoCo 3.2.1, by which LAOM knows them."""
    from dm_control.mujoco.wrapper.core import MjModel  # late: only this race needs it

    model: Any = MjModel
    if not hasattr(model, "tex_rgb"):
        model.tex_rgb = property(lambda self: self.tex_data)
