"""One thread for all that computes: cells fill the cores as processes, and no bit depends on the number of cores."""

from __future__ import annotations

import torch
from threadpoolctl import threadpool_limits


def use_one_thread() -> None:
    """From now on, in this process: torch, and the products of numpy and scipy, whose sums depend on the threads."""
    torch.set_num_threads(1)
    threadpool_limits(1, user_api="blas")
