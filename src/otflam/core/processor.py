"""How this process uses its processor: threads, memory, and whether bfloat16 works.

Some virtual machines announce matrix units (AMX) and then refuse them: oneDNN fails, or the process dies of an illegal
instruction, and after one failure oneDNN stays broken in that process. So bfloat16 is tried in a process of its own.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import torch
from threadpoolctl import threadpool_limits

from otflam.core.errors import UserError

WITHOUT_AMX = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
"""Keeps oneDNN from the matrix units."""
TIMEOUT_SECONDS = 120
PROGRAM = """
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
parts = [nn.Conv2d(16, 64, 3), nn.ReLU(), nn.ConvTranspose2d(64, 32, 4, 2), nn.Flatten(1, 2), nn.Linear(30, 64)]
model = nn.Sequential(*parts)
images, found = torch.randn(8, 16, 16, 16), []
for half in (False, True):
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        out = model(images)
    out.float().square().mean().backward()
    found.append([out.detach().float(), *(part.grad for part in model.parameters())])
for exact, rounded in zip(*found):
    assert (exact - rounded).norm() < 0.1 * exact.norm(), "bfloat16 gives wrong numbers"
"""


@dataclass(frozen=True)
class Bfloat16:
    """Whether, and how, a processor computes in bfloat16."""

    needs: dict[str, str] | None
    """Variables of the environment with which it works; none at all: not even with them."""
    problem: str = ""
    """What happened without them."""

    @property
    def refusal(self) -> UserError | None:
        """What to tell somebody who asks for it here and now, if it does not work."""
        if self.needs == {}:
            return None
        cure = (
            "use --precision float32"
            if self.needs is None
            else f"set {' '.join(f'{name}={value}' for name, value in self.needs.items())}, or use --precision float32"
        )
        return UserError(f"this processor announces bfloat16 but does not compute in it ({self.problem})", cure)


@functools.cache
def bfloat16(program: str = PROGRAM) -> Bfloat16:
    """Try a convolution, its transpose and a linear layer, forth and back, as they are and without matrix units."""
    problem = _run(program, {})
    if problem is None:
        return Bfloat16({})
    return Bfloat16(dict(WITHOUT_AMX) if _run(program, WITHOUT_AMX) is None else None, problem)


def _run(program: str, variables: dict[str, str]) -> str | None:
    """What goes wrong in a process with these variables, if anything."""
    command = [sys.executable, "-c", program]
    try:
        done = subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {TIMEOUT_SECONDS} seconds"
    if done.returncode < 0:
        return signal.strsignal(-done.returncode) or f"signal {-done.returncode}"
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1] if done.returncode else None


def use_one_thread() -> None:
    """From now on, in this process: torch, and the products of numpy and scipy, whose sums depend on the threads.

    Cells fill the cores as processes, and no bit depends on the number of cores.
    """
    use_threads(1)


def use_threads(count: int) -> None:
    """The same for so many."""
    torch.set_num_threads(count)
    threadpool_limits(count, user_api="blas")


M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
"""glibc's numbers of these settings."""
LARGEST_THRESHOLD = 32 << 20
"""The largest threshold that glibc accepts; larger blocks still come and go."""


def keep_freed_memory() -> bool:
    """Keep freed memory with the process, where the C library is glibc; elsewhere nothing happens.

    glibc gives large blocks back to the system when they are freed, and the next step of a training pays for every
    page again: up to a fifth of a small step on a CPU (docs/log.md).
    """
    setting = getattr(ctypes.CDLL(None), "mallopt", None)
    if setting is None:
        return False
    return all(
        setting(number, value)
        for number, value in ((M_MMAP_THRESHOLD, LARGEST_THRESHOLD), (M_TRIM_THRESHOLD, 1 << 30), (M_TOP_PAD, 64 << 20))
    )
