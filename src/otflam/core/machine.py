"""What a training runs on: processes and devices through Fabric, and nothing around a single process on a CPU."""

from __future__ import annotations

import shutil
from typing import Any

import torch
from torch import Tensor, nn

from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.core.processor import bfloat16, keep_freed_memory

COMPILERS = ("c++", "g++", "clang++")


class Machine:
    """A launched Fabric, with all that it has, and what it was asked for."""

    def __init__(self, fabric: Any, hardware: Hardware) -> None:
        self.fabric, self.hardware = fabric, hardware

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fabric, name)

    @property
    def alone(self) -> bool:
        """Whether one process trains on a CPU in full precision: there Fabric's wrappers would only take time."""
        return self.world_size == 1 and self.device.type == "cpu" and self.hardware.precision != "bfloat16"

    def prepare(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> tuple[Any, Any]:
        """The model and its optimiser as the loop calls them."""
        return (model, optimiser) if self.alone else self.fabric.setup(model, optimiser)

    def go_back(self, module: Any, loss: Tensor, more: bool) -> None:
        """Add a loss's gradients; processes wait for each other unless there is more to come."""
        if self.alone:
            loss.backward()
            return
        with self.fabric.no_backward_sync(module, enabled=more):
            self.fabric.backward(loss)


def launch(hardware: Hardware) -> Machine:
    """A launched Fabric: unless told otherwise, bfloat16 on a GPU and full precision on a CPU, where that is faster."""
    from lightning_fabric import Fabric  # late: it takes longer than torch itself, and who only plays never trains

    keep_freed_memory()
    on_gpu = device_of(hardware).type == "cuda"
    if on_gpu and not torch.cuda.is_available():
        raise UserError("--accelerator gpu: torch finds no GPU here", "use --accelerator cpu, or install CUDA's torch")
    half = hardware.precision == "bfloat16" or (hardware.precision == "auto" and on_gpu)
    if half and not on_gpu and (refusal := bfloat16().refusal) is not None:
        raise refusal
    if hardware.compile and not on_gpu and not any(map(shutil.which, COMPILERS)):
        raise UserError("--compile on a CPU needs a C++ compiler", "install one, or leave the option out")
    fabric = Fabric(
        accelerator="gpu" if on_gpu else "cpu",
        devices=hardware.devices,
        num_nodes=hardware.nodes,
        strategy="ddp" if hardware.devices * hardware.nodes > 1 else "auto",
        precision="bf16-mixed" if half else "32-true",
    )
    fabric.launch()
    return Machine(fabric, hardware)


def device_of(hardware: Hardware) -> torch.device:
    """Where the work of one process is done."""
    on_gpu = hardware.accelerator == "gpu" or (hardware.accelerator == "auto" and torch.cuda.is_available())
    return torch.device("cuda" if on_gpu else "cpu")


def place_of(module: nn.Module) -> torch.device:
    """Where a network is: what it is given must be there too."""
    return next(module.parameters()).device


def seed_all(seed: int, device: torch.device) -> None:
    """Seed what is drawn on a device; on a CPU without asking for other devices, which takes longer than seeding."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
