"""Shared set-up: deterministic property tests without deadlines (machines are noisy), and one torch thread."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from selenium import webdriver

import otflam.envs  # noqa: F401 - chooses the GL backend before a test imports MuJoCo
from otflam.core.config import Hardware
from otflam.data.collect import collect_episodes
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter
from otflam.lam.train import train_lam
from otflam.presets import get_preset
from otflam.report.page import make_page
from otflam.tokenizer.build import train_frame_tokenizer, train_tokenizer

settings.register_profile("otflam", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("otflam")
torch.set_num_threads(1)
RECORDS = Path(__file__).parents[1] / "results" / "records"
DATA_NAME = "squares & <b>"
"""A data set whose name must be escaped."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first: with two workers neither waits alone for the other's last one."""
    items.sort(key=lambda item: item.path.name != "test_readme.py")


@pytest.fixture(scope="session")
def save_dino() -> Callable[..., Path]:
    """Writes a DINOv2 of any size with random weights, as transformers saves it."""
    transformers = pytest.importorskip("transformers", reason="needs otflam[dino]")

    def save(folder: Path, seed: int = 0, hidden: int = 24, layers: int = 2, heads: int = 2) -> Path:
        torch.manual_seed(seed)
        config = transformers.Dinov2Config(
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            image_size=28,
            patch_size=14,
            initializer_range=0.2,
        )
        transformers.utils.logging.disable_progress_bar()
        transformers.Dinov2Model(config).save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def square_frames() -> Callable[[Path], Store]:
    """Writes a bright square that runs over noise at a speed of its own in every episode."""

    def write(folder: Path) -> Store:
        writer = StoreWriter(folder, {"frames": Column("uint8", (32, 32, 3))}, {})
        for index in range(4):
            frames = np.random.default_rng(index).integers(0, 60, (1, 32, 32, 3), np.uint8).repeat(18 + index, 0)
            for t in range(len(frames)):
                left = (t * (1 + index)) % 24
                frames[t, 8 + index : 16 + index, left : left + 8] = 255
            writer.append(index, {"frames": frames}, {})
        return writer.finish({}, 4)

    return write


@pytest.fixture(scope="session")
def square_store(square_frames: Callable[[Path], Store], tmp_path_factory: pytest.TempPathFactory) -> Store:
    return square_frames(tmp_path_factory.mktemp("lam") / "data")


@pytest.fixture(scope="session")
def noisy_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Eight short episodes of a noisy expert with distractors: enough for all splits."""
    plan = dataclasses.replace(get_preset("tiny").collection, episodes=8, noise=0.5)
    return collect_episodes(plan, tmp_path_factory.mktemp("noisy") / "data", 1)


@pytest.fixture
def killed_and_resumed(tmp_path: Path) -> Callable[[Callable[[Path], list[str]]], None]:
    """Checks that a training killed with -9 after its first checkpoint ends in the bits of one that was not."""

    def check(command: Callable[[Path], list[str]]) -> None:
        environment, parts = os.environ | {"OMP_NUM_THREADS": "1"}, tmp_path / "parts"
        subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True, env=environment)
        process = subprocess.Popen(
            command(parts), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        limit = time.monotonic() + 60
        while not (parts / "checkpoint.pt").exists():
            assert process.poll() is None and time.monotonic() < limit
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (parts / "model.safetensors").exists()
        subprocess.run(command(parts), check=True, capture_output=True, env=environment)
        weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
        assert weights[0] == weights[1]

    return check


@pytest.fixture(scope="session")
def chromium() -> Iterator[webdriver.Chrome]:
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs Chromium and its driver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()


@pytest.fixture(scope="session")
def runs(square_frames: Callable[[Path], Store], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set, four latent action models on it, and some records."""
    tiny = get_preset("tiny")
    root, beside, cpu = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("beside"), Hardware(accelerator="cpu")
    store = square_frames(root / "data" / DATA_NAME)
    train_tokenizer(store, [0, 1], tiny.tokenizer, tiny.tokenizer_training, cpu, root / "otf")
    train_frame_tokenizer(store, [0, 1], tiny.frame_tokenizer, tiny.frame_training, cpu, beside / "frames")
    folders = {"lapo-64": beside} | dict.fromkeys(("otf-lam-pixel", "lapo-256", "flam-4", "hilam"), root / "lams")
    bases = {"otf-lam-pixel": root / "otf", "flam-4": beside / "frames", "hilam": beside / "lapo-64"}
    for method, folder in folders.items():
        settings = tiny.lam[method], tiny.lam_training[method]
        train_lam(method, store, ([0, 1], [2, 3]), *settings, cpu, folder / method, bases.get(method))
    (root / "records").mkdir()
    for path in [*RECORDS.glob("lam-*-cheetah-run-noisy-laptop-seed0.json"), *RECORDS.glob("transfer-*-seed0.json")]:
        shutil.copy(path, root / "records")
    return root


@pytest.fixture(scope="session")
def page(runs: Path) -> Path:
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    made = make_page(runs, runs / "records", "laptop", runs.with_name("page"))
    assert before == {path: path.stat().st_mtime_ns for path in runs.rglob("*")}  # nothing is written into the runs
    return made
