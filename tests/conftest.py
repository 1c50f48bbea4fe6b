"""Shared set-up: deterministic property tests without deadlines (machines are noisy), and one torch thread."""

from __future__ import annotations

import torch
from hypothesis import settings

import otflam.envs  # noqa: F401 - chooses the GL backend before a test imports MuJoCo

settings.register_profile("otflam", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("otflam")
torch.set_num_threads(1)
