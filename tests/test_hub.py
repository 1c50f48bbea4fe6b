"""Models and data sets on a hub: real HTTP with a small server on this machine that answers as the hub does."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from otflam.core.card import model_card
from otflam.core.errors import UserError
from otflam.core.hub import FILES, find_folder
from otflam.core.release import DIGEST, DIGESTED, WEIGHTS
from otflam.data.store import Store

ROOT = Path(__file__).parents[1]
RELEASED = ROOT / "tests" / "data" / "released"


Hub: Any = runpy.run_path(str(ROOT / "tests" / "data" / "hub.py"))["Hub"]


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


RUN = """
import contextlib, io, json, otflam, sys
from otflam.cli import main
from otflam.core import UserError

told = []
for words in json.loads(sys.argv[1]):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            otflam.load(words.partition(" ")[2]) if words.startswith("load ") else main(words.split())
        except SystemExit as end:
            code = end.code or 0
        except UserError as error:
            code = 2
            print(f"otflam: {error}", file=err)
    told.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(told))
"""


def run(program: str, address: str, folder: Path, *words: str, **more: str) -> str:
    """Run Python against a hub at an address: the client reads where it is when it is imported."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment |= {"HF_ENDPOINT": address, "HF_HOME": str(folder / "hf"), "HF_TOKEN": "hf_test", "NO_PROXY": "*"}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_TELEMETRY": "1", **more}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def otflam(commands: list[str], address: str, folder: Path) -> list[str]:
    """Run commands, or 'load NAME', in one process: what each said, or the line of its problem."""
    said = []
    for code, out, err in json.loads(run(RUN, address, folder, json.dumps(commands)).splitlines()[-1]):
        problems = [line for line in err.splitlines() if line.startswith("otflam: ")]
        assert (code, len(problems)) in ((0, 0), (2, 1)) and "Traceback" not in err, err
        said.append(problems[0] if problems else out)
    return said


def release(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_goes_there_comes_back(hub: Hub, tmp_path: Path) -> None:
    """A model and a data set; of what else lies there nothing comes, and of what was there before nothing stays."""
    model, data = release(RELEASED / "lam"), release(RELEASED / "store")
    own, mine = tmp_path / "own", b"---\nlicense: mit\n---\nMine.\n"
    own.mkdir()
    for name, content in (model | {"README.md": mine, "checkpoint.pt": b"pickled", "metrics.jsonl": b""}).items():
        (own / name).write_bytes(content)
    hub.add("datasets/me/data", {"old.npy": b"old", "notes.txt": b"kept"})
    (tmp_path / ".full.part").mkdir()
    (tmp_path / ".full.part" / "health.json").write_text("{}")  # of an earlier download, of another name
    hub.add("models/me/full", model | {"evil.pkl": b"evil", "train.py": b"import os", "sub/x.npy": b""})
    lam, store = RELEASED / "lam", RELEASED / "store"
    said = otflam(
        [
            *(f"hub push {lam} me/lam --private", f"hub push {own} me/own", f"hub push {store} me/data"),
            *("hub pull me/full --out full", "hub pull me/data --out data", "hub pull me/full --out full"),
        ],
        hub.address,
        tmp_path,
    )
    assert f"{hub.address}/me/lam" in said[0] and f"{hub.address}/datasets/me/data" in said[2]
    assert hub.private["models/me/lam"] and not hub.private["models/me/own"]
    there = hub.repos["models/me/lam"]
    assert there.keys() == {".gitattributes", "README.md", *model} and there.items() > model.items()
    assert hub.repos["models/me/own"] == model | {"README.md": mine, ".gitattributes": b""}
    there = hub.repos["datasets/me/data"]
    assert there.keys() == {"README.md", "notes.txt", *data}
    front = yaml.safe_load(there["README.md"].decode().split("---")[1])
    assert front == {"license": "apache-2.0", "tags": ["otflam", "latent-actions", "cheetah-run"]}
    assert "all checksums match" in said[3] and "all checksums match" in said[4]
    assert release(tmp_path / "full") == model and Store(tmp_path / "data").hash == Store(store).hash
    assert said[5] == "otflam: full is not empty: choose another --out"
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_every_class_goes_there_from_python(hub: Hub, tmp_path: Path) -> None:
    """Each is what it was, by its class and by `otflam.load`; a data set too; then without a network."""
    program = f"""
import huggingface_hub.constants, numpy as np, otflam, torch
from pathlib import Path
here = Path({str(RELEASED)!r})
frames = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), np.uint8)
told = []
for name, kind in (("tokenizer", otflam.Tokenizer), ("lam", otflam.LatentActionModel), ("agent", otflam.Agent)):
    model = kind.from_pretrained(here / name)
    told.append(model.push_to_hub(f"me/{{name}}"))
    again, loaded = kind.from_pretrained(f"me/{{name}}"), otflam.load(f"me/{{name}}")
    assert type(again) is type(loaded) is kind
    pairs = [getattr(each, "model", each).state_dict() for each in (model, again, loaded)]
    for weight in pairs[0]:
        assert torch.equal(pairs[0][weight], pairs[1][weight]) and torch.equal(pairs[0][weight], pairs[2][weight])
    if name == "lam":
        assert torch.equal(model.infer(frames), again.infer(frames))
        with torch.no_grad():
            next(again.model.parameters()).add_(1)
        again.push_to_hub("me/changed")
store = otflam.Store(here / "store")
told.append(store.push_to_hub("me/store"))
again = otflam.Store.from_pretrained("me/store")
again.check()
assert again.hash == store.hash and np.array_equal(again["frames"], store["frames"])
huggingface_hub.constants.HF_HUB_OFFLINE = True  # what was fetched once is still there
assert otflam.load("me/lam").offsets == (0, 2)
print(*told)
"""
    told = run(program, hub.address, tmp_path).split()
    names = ("me/tokenizer", "me/lam", "me/agent", "datasets/me/store")
    assert told == [f"{hub.address}/{name}" for name in names]
    for name in ("tokenizer", "lam", "agent"):  # its training is told although what Python saves does not
        assert hub.repos[f"models/me/{name}"]["config.json"] == (RELEASED / name / "config.json").read_bytes()
    assert "health.json" not in hub.repos["models/me/changed"]


def test_problems_are_one_line_and_leave_nothing(hub: Hub, tmp_path: Path) -> None:
    lam, store = release(RELEASED / "lam"), release(RELEASED / "store")
    frames = store["frames.npy"]
    hub.add("models/me/lam", lam | {"model.safetensors": lam["model.safetensors"][:-1] + b"\x7f"})
    hub.add("models/me/half", {name: lam[name] for name in ("config.json", "digest.json")})
    hub.add("models/me/other", {"config.json": b"{}", "model.safetensors": b""})
    hub.add("datasets/me/store", store | {"frames.npy": frames[:-1] + bytes([frames[-1] ^ 1])})
    hub.add("datasets/me/out", store | {"../../outside.npy": b""})
    hub.refused = "models/you/lam"
    answers = {
        "hub pull me/lam --out x": "is not what was saved",
        "load me/lam": "is not what was saved",
        "hub pull me/half --out x1": "has no model.safetensors",
        "hub pull me/other --out x2": "holds nothing that otflam has made",
        "hub pull me/store --out x3": "was altered in episode",
        "hub pull me/out --out x4": "leads out of its folder",
        "hub pull me/nothing --out x5": "the hub shows no me/nothing",
        f"hub push {RELEASED / 'lam'} you/lam": "the hub refuses you/lam (403)",
        f"hub push {RELEASED / 'lam'} lam": "no name on the hub",
        f"hub push {tmp_path} me/new": "give the folder of a trained",
    }
    for said, answer in zip(otflam(list(answers), hub.address, tmp_path), answers.values(), strict=True):
        assert answer in said
    assert not list(tmp_path.glob("x*")) and "models/me/new" not in hub.repos
    program = "import otflam\ntry:\n    otflam.load('me/lam')\nexcept Exception as error:\n    print(error)"
    assert "is not what was saved" in run(program, hub.address, tmp_path)


def test_without_a_network(tmp_path: Path) -> None:
    """One line with what to do, from Python too; test_install.py takes the client away."""
    commands = [f"hub push {RELEASED / 'lam'} me/lam", "hub pull me/lam --out x", "load me/lam"]
    nowhere = "http://127.0.0.1:9"
    said = otflam(commands, nowhere, tmp_path)
    assert all("the hub cannot be reached" in each for each in said)
    assert said[2].startswith("otflam: there is no folder me/lam here, and the hub")


def test_paths_are_not_looked_for_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt folder asks nobody; `find_folder` would need a network for a name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("runs/lam", "nowhere", "a/b/c", "/tmp/x", "../x", tmp_path / "me" / "lam", Path("me/lam")):
        assert find_folder(name) == Path(name)


@pytest.mark.parametrize("name", ["tokenizer", "frame-tokenizer", "lam", "agent", "clone"])
def test_cards_say_what_it_is(name: str) -> None:
    about = json.loads((RELEASED / name / "config.json").read_text())
    health = {"gain_over_shuffled": 0.81234, "latent_rank": 7.0, "verdict": "healthy (81 % below)"}
    card = model_card("me/it", about, health, "mit")
    front = yaml.safe_load(card.split("---")[1])
    assert front["license"] == "mit" and front["library_name"] == "otflam" and "otflam" in front["tags"]
    assert about.get("method", "otflam") in front["tags"]
    for text in (
        "# me/it",
        "## How it was trained",
        "0.8123",
        "healthy (81 % below)",
        "otflam hub pull me/it --out it",
    ):
        assert text in card
    steps = about.get("train", about.get("made_from", {}).get("config", {}).get("clone", {})).get("steps")
    assert f"| steps | {steps} |" in card
    assert "None lie beside the weights" in model_card("me/it", about, {}, "mit")
    assert max(map(len, card.splitlines())) < 400


def test_names() -> None:
    for name in ("lam", "a/b/c", "/lam", "me/", "../lam", "me/../lam"):
        with pytest.raises(UserError, match="no name on the hub"):
            Store(RELEASED / "store").push_to_hub(name)
    assert set(FILES["model"]) == {WEIGHTS, DIGEST, *DIGESTED}
