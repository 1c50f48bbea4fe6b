"""What others add: a method from a package of its own, and a frozen model that only joins the evaluation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import otflam
from otflam.commands.lam import training_commands
from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.data.clips import Clips
from otflam.data.store import Store
from otflam.evaluate.extractors import load_extractor
from otflam.experiments import lams
from otflam.lam.method import METHODS, Method, register_method
from otflam.lam.train import train_lam
from otflam.report.style import method_colours
from otflam.report.tables import fill
from otflam.tokenizer.build import train_tokenizer

EXAMPLE = Path(__file__).parents[1] / "examples" / "own-method"
EXTRACTOR = """
import numpy as np
np_like = object
class Change:
    offsets = (0, 2)
    def infer(self, frames):
        change = frames[:, 1].astype(np.float32) - frames[:, 0]
        return change.reshape(len(frames), 4, -1).mean(-1)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process in which the example is installed: on the path, with its entry point."""
    site = tmp_path_factory.mktemp("site")
    about = site / "change_lam-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: change-lam\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[otflam.methods]\nchange-lam = change_lam\n")
    here = os.environ.get("PYTHONPATH")
    path = [str(site), str(EXAMPLE / "src"), *([here] if here else [])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}


def run(environment: dict[str, str], *words: object, code: str | None = None) -> str:
    start = ["-m", "otflam"] if code is None else ["-c", code]
    done = subprocess.run(
        [sys.executable, *start, *map(str, words)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_package_adds_a_method(installed: dict[str, str], square_store: Store, tmp_path: Path) -> None:
    """It is found in the help, trained, used to label, and loaded by name in a new process."""
    assert "lam train change-lam" in run(installed, "--help")
    model = tmp_path / "model"
    trained = run(installed, "lam", "train", "change-lam", square_store.path, "--preset", "tiny", "--out", model)
    assert f"model: {model}" in trained
    assert "latents" in run(installed, "lam", "label", square_store.path, "--lam", model)
    code = f"import otflam; m = otflam.load({str(model)!r}); print(type(m.model).__name__, m.offsets)"
    assert run(installed, code=code) == "ChangeLAM (0, 2)\n"
    plan = "import otflam; print('change-lam' in otflam.get_preset('tiny').lam)"
    assert run(installed, code=plan) == "True\n"


@pytest.mark.parametrize("method", ["lapo-128", "otf-lam-pixel"])
def test_clips_of_a_torch_dataset_train_a_model(method: str, square_store: Store, tmp_path: Path) -> None:
    """To the weights that their store gives, but for rounding; what is frozen looks at them in every step."""
    size, cpu, base = METHODS[method].sizes["tiny"], Hardware(accelerator="cpu"), None
    if METHODS[method].base is not None:
        base, tiny = tmp_path / "base", otflam.get_preset("tiny")
        train_tokenizer(square_store, [0, 1], tiny.tokenizer, tiny.tokenizer_training, cpu, base)
    split = ([0, 1], [2, 3])
    stored = train_lam(method, square_store, split, size.model, size.train, cpu, tmp_path / "store", base)
    clips = [Clips(square_store, stored.training_offsets, (), part) for part in split]
    plain = [[clip["frames"].numpy() for clip in part] for part in clips]
    for name, datasets in {"clips": tuple(clips), "lists": tuple(plain)}.items():
        model = otflam.train_on_dataset(method, datasets, size.model, size.train, tmp_path / name, cpu, base)
        for key, tensor in stored.state_dict().items():
            torch.testing.assert_close(model.state_dict()[key], tensor, rtol=1e-5, atol=1e-6)
    assert otflam.load(tmp_path / "lists").infer(square_store.episode(2, "frames")[:8]).isfinite().all()
    for wrong, problem in ((np.zeros((2, 64, 64, 3), np.float32), "float32"), (np.zeros((64, 64, 3)), "no clip")):
        with pytest.raises(UserError, match=problem):
            otflam.train_on_dataset(method, ([wrong], [wrong]), size.model, size.train, tmp_path / "no", cpu, base)
    with pytest.raises(UserError, match="without clips"):
        otflam.train_on_dataset(method, (plain[0], []), size.model, size.train, tmp_path / "no", cpu, base)
    with pytest.raises(UserError, match="another"):  # a folder belongs to both datasets
        other = (plain[0], plain[0])
        otflam.train_on_dataset(method, other, size.model, size.train, str(tmp_path / "lists"), cpu, base)


def test_a_method_is_registered_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then help, plans, the index of the documents and the report's style have it."""
    known = METHODS["lapo-128"]
    mine = replace(known, name="mine-7", summary="Mine: another LAPO.", paper="–", colour="#123456")
    monkeypatch.setitem(METHODS, mine.name, mine)
    tiny = otflam.get_preset("tiny")
    assert training_commands()["lam train mine-7"].__doc__ == "Train Mine: another LAPO."
    assert mine.name in lams.methods(tiny) and any(job.method == mine.name for job in lams.plan(tiny, "lam"))
    index = fill("<!-- table methods tiny -->\n<!-- end of table -->", Path())
    assert "| [`mine-7`](mine.md) | Mine: another LAPO. | – | – | `lam/lapo/model.py::Lapo` |" in index
    assert method_colours()["mine-7"] == "#123456"


def test_names_are_taken_once() -> None:
    taken = METHODS["lapo-128"]
    assert register_method(taken) is taken
    with pytest.raises(UserError, match="there is a method lapo-128 already"):
        register_method(Method("lapo-128", "another", taken.config, "x:y"))


def test_a_frozen_model_joins_the_evaluation(
    noisy_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from otflam import cli

    (tmp_path / "mine.py").write_text(EXTRACTOR)
    monkeypatch.chdir(tmp_path)
    words = ["evaluate", "alignment", str(noisy_store.path), "--extractor", "mine:Change", "--labels", "1"]
    cli.main([*words, "--preset", "tiny", "--probed", "1", "--out", "found.json"])
    found = json.loads((tmp_path / "found.json").read_text())
    assert {"action_r2", "state_r2", "motion_r2", "mlp_r2", "distractor_r2"} <= found.keys()
    assert np.isfinite(found["action_mse"])
    for name, problem in {"mine": "MODULE:NAME", "mine:No": "no attribute", "nowhere:x": "nowhere"}.items():
        with pytest.raises(UserError, match=problem):
            load_extractor(name)
    with pytest.raises(UserError, match="is no extractor"):
        load_extractor("mine:np_like")


def test_public_names_are_lazy() -> None:
    code = "import sys, otflam; print('torch' in sys.modules, otflam.__version__, sorted(otflam.__all__) != [])"
    out = run(dict(os.environ), code=code).split()
    assert out[0] == "False" and out[2] == "True"
    for name in otflam.__all__:
        assert getattr(otflam, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        otflam.nothing  # noqa: B018
