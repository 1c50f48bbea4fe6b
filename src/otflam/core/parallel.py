"""Sums and copies across the processes of one training; in a single process they do nothing."""

from __future__ import annotations

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor


def together() -> bool:
    return dist.is_available() and dist.is_initialized()


def leave() -> None:
    """Go on alone: what one process looks at after a training must not wait for the others, which have ended."""
    if together():
        dist.destroy_process_group()


def sum_over_processes(total: Tensor) -> Tensor:
    """Add up a tensor over all processes, in place."""
    if together():
        dist.all_reduce(total)
    return total


def gather_rows(rows: Shaped[Tensor, "n ..."]) -> Shaped[Tensor, "m ..."]:
    """The rows of all processes in their order: what one process with the whole batch would have."""
    if not together():
        return rows
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows.contiguous())
    return torch.cat(parts)
