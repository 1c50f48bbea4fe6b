"""What the processor does is found out in a process of its own, so that nothing breaks where work is going on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.core.machine import launch
from otflam.core.processor import WITHOUT_AMX, bfloat16
from otflam.data.store import Store

DIES = "import os, signal\nos.kill(os.getpid(), signal.SIGILL)"
"""What a plain process does on a machine that announces matrix units and refuses them."""


def test_a_processor_that_works_is_believed() -> None:
    found = bfloat16("pass")
    assert found.needs == {} and found.refusal is None


def test_matrix_units_that_are_refused_are_found_out() -> None:
    found = bfloat16(f"import os\nif 'ONEDNN_MAX_CPU_ISA' not in os.environ:\n  {DIES.replace(chr(10), '; ')}")
    assert found.needs == WITHOUT_AMX
    text = str(found.refusal)
    assert "Illegal instruction" in text and "set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16" in text and "float32" in text


def test_a_processor_that_cannot_is_told_in_one_line() -> None:
    found = bfloat16("raise RuntimeError('could not create a primitive')")
    assert found.needs is None
    text = str(found.refusal)
    assert "could not create a primitive" in text and "--precision float32" in text and "\n" not in text


def test_a_training_starts_only_where_bfloat16_works() -> None:
    hardware = Hardware(accelerator="cpu", precision="bfloat16")
    if (refusal := bfloat16().refusal) is None:
        assert launch(hardware)._precision.precision == "bf16-mixed"
    else:
        with pytest.raises(UserError) as told:
            launch(hardware)
        assert str(told.value) == str(refusal)
    assert launch(Hardware(accelerator="cpu"))._precision.precision == "32-true"


PROGRAM = """
import dataclasses, sys
from pathlib import Path
from otflam.core.run import read_metrics
from otflam.core.config import Hardware
from otflam.data.store import Store
from otflam.presets import get_preset
from otflam.tokenizer.build import train_tokenizer

tiny, store = get_preset("tiny"), Store(sys.argv[1])
book = dataclasses.replace(tiny.tokenizer.codebook, patience=1)
hardware = Hardware(accelerator="cpu", precision="bfloat16")
for method in ("otf", "monolithic"):
    model = dataclasses.replace(tiny.tokenizer, method=method, whole=8, codebook=book)
    out = Path(sys.argv[2]) / method
    trained = train_tokenizer(store, [0, 1], model, tiny.tokenizer_training, hardware, out)
    assert {str(tensor.dtype) for tensor in trained.parameters()} == {"torch.float32"}
    assert str(trained.codebook.vectors.dtype) == "torch.float32" and read_metrics(out)[-1]["active"] > 1
"""


def test_half_precision_trains_past_the_warm_up(square_store: Store, tmp_path: Path) -> None:
    """In a process of its own, with what the processor needs for it."""
    found = bfloat16()
    if found.needs is None:
        pytest.skip(str(found.refusal))
    command = [sys.executable, "-c", PROGRAM, str(square_store.path), str(tmp_path)]
    done = subprocess.run(command, env=os.environ | found.needs, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
