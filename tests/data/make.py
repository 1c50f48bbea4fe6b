"""Makes `released`: one small folder of each kind that this version writes. Later versions must still read them.

Run it in an empty folder only when a kind of folder is added: what is there already stays as an older version wrote it.
"""

import dataclasses
from pathlib import Path

from otflam.core.config import Hardware, TrainConfig
from otflam.core.processor import use_one_thread
from otflam.data.collect import collect_episodes
from otflam.lam.train import train_lam
from otflam.policy.train import AgentPlan, train_agent
from otflam.presets import get_preset
from otflam.tokenizer.build import train_frame_tokenizer, train_tokenizer

TINY, CPU = get_preset("tiny"), Hardware(accelerator="cpu")


def short(training: TrainConfig) -> TrainConfig:
    return dataclasses.replace(training, steps=2, log_every=1, save_every=2)


def main() -> None:
    use_one_thread()
    world = dataclasses.replace(TINY.collection.world, size=16)
    plan = dataclasses.replace(TINY.collection, episodes=4, steps=16, noise=0.5, world=world)
    store, tokenizer = collect_episodes(plan, Path("store"), 1), dataclasses.replace(TINY.tokenizer, warmup=1)
    train_tokenizer(store, [0, 1], tokenizer, short(TINY.tokenizer_training), CPU, Path("tokenizer"))
    train_frame_tokenizer(store, [0, 1], TINY.frame_tokenizer, short(TINY.frame_training), CPU, Path("frame-tokenizer"))
    method = "otf-lam-pixel"
    training, base = short(TINY.lam_training[method]), Path("tokenizer")
    train_lam(method, store, ([0, 1], [2]), TINY.lam[method], training, CPU, Path("lam"), base)
    policy, decoder = TINY.policy, dataclasses.replace(TINY.policy.decoder, hidden=16)
    policy = dataclasses.replace(policy, clone=short(policy.clone), decode=short(policy.decode), decoder=decoder)
    train_agent(AgentPlan(store, 1, policy, CPU, Path("agent")), Path("lam"), None, "decode")


if __name__ == "__main__":
    main()
