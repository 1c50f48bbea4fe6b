"""The command line: instant help, near names for misspelt ones, one line for every problem."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from otflam import cli
from otflam.commands import COMMANDS, CONTINUING
from otflam.commands.data import Collect
from otflam.data.store import Store
from otflam.report.progress import ProgressBar, speaking, tell_rate


def run(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = 0
    try:
        cli.main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_help_lists_every_command_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("--help", capsys=capsys)
    assert code == 0
    column = max(map(len, COMMANDS)) + 4
    for name, kind in COMMANDS.items():
        assert f"\n  {name}".ljust(column + 1) + (kind.__doc__ or "").strip() in out  # all in one column


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(*name.split(), "--help", capsys=capsys)
    assert code == 0
    text = " ".join(out.replace("│", " ").split())
    for field in _fields(COMMANDS[name]):
        words = " ".join(field.split())
        assert words[:40] in text, f"{name}: {words!r} is not in its help"


PATHS = ("source", "data", "out")
"""What the commands of formats read and write, with the words of their declarations."""


def _fields(kind: type) -> list[str]:
    """The help of the fields of a command and its configurations: under them in the source, or in their type."""
    import ast
    import dataclasses
    import inspect
    import typing

    found = [text for base in kind.__bases__ if dataclasses.is_dataclass(base) for text in _fields(base)]
    hints = typing.get_type_hints(kind)  # those that are inherited are of another module
    typed = typing.get_type_hints(kind, include_extras=True)
    helps = {
        name: [note.help for note in getattr(typed[name], "__metadata__", ()) if getattr(note, "help", None)]
        for name in typed
    }
    if kind.__name__ not in vars(sys.modules[kind.__module__]):  # made from a method's declaration
        made = set(kind.__annotations__)
        assert {"model"} <= made <= {"model", "tokenizer", "low"} or {"options"} <= made <= {"options", *PATHS}
        parts = [part for name in made & {"model", "options"} for part in _fields(hints[name])]
        return [*found, *parts, *(text for name in kind.__annotations__ for text in helps[name])]
    tree = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(tree, ast.ClassDef)
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            hint = hints[node.target.id]
            if typing.get_origin(hint) is typing.ClassVar or hint is typing.Any:
                continue  # no option; or one that each subclass describes
            if dataclasses.is_dataclass(hint):
                found += _fields(hint)
            elif helps[node.target.id]:
                found += helps[node.target.id]
            else:
                assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant), node.target.id
                found.append(str(after.value.value))
    return found


def test_help_is_instant() -> None:
    """CPU time, because wall time on a busy machine says nothing about us; the best of three."""
    program = """
import atexit, sys, time
from otflam.cli import main
atexit.register(lambda: print(time.process_time(), file=sys.stderr))
main(["collect", "--help"])
"""
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    assert min(float(done.stderr.split()[-1]) for done in runs) < 0.5


def test_help_does_not_load_the_machinery() -> None:
    program = (
        "import sys\nfrom otflam.cli import main\n"
        "try:\n    main(['data', 'import', 'videos', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'mujoco', 'dm_control', 'av', 'gymnasium', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["colect"], "unknown command 'colect': did you mean 'collect'"),
        (["data", "chek", "x"], "unknown command 'data chek': did you mean 'data check'?"),
        (["trian"], "did you mean 'tokenizer train', 'lam train', 'policy train' or 'expert train'?"),
        (["tokenizer", "trian", "x"], "unknown command 'tokenizer trian': did you mean 'tokenizer train'?"),
        (["lam", "train", "lapo", "x"], "'lam train lapo-vq' or 'lam train lapo-vae'?"),
        (["--foo"], "unknown option '--foo'"),
        (["--verison"], "unknown option '--verison': did you mean '--version'?"),
        (["data", "--foo"], "'otflam data' has no option '--foo'"),
        (["collect", "walker-run", "--otu", "x"], "'otflam collect' has no option '--otu': did you mean '--out'?"),
        (["lam", "train", "lapo-128", "d", "--out", "x", "--weights.nxt", "1"], "did you mean '--weights.next'?"),
        (["collect", "walker-run", "--out", "x", "--episodes", "two"], "Error parsing --episodes"),
        (["collect", "walker-run"], "--out"),
        (["lam", "train", "lapo-128", "d", "--out", "x", "--lr", "nan"], "--lr nan: give a number above 0"),
        (["tokenizer", "train", "d", "--out", "x", "--steps", "0"], "--steps 0: give a whole number from 1 on"),
        (["tokenizer", "train", "d", "--out", "x", "--devices", "0"], "--devices 0: give at least 1"),
        (["data", "import", "video", "x"], "did you mean 'data import videos'"),
        (["collect", "walker-rum", "--out", "x"], "unknown task 'walker-rum': did you mean 'walker-run'"),
        (["collect", "walker-run", "--preset", "dmeo", "--out", "x"], "unknown preset 'dmeo': did you mean 'demo'"),
        (["expert", "evaluate", "cheetah-rn"], "did you mean 'cheetah-run'"),
        (["expert", "evaluate", "cheetah-run", "--policy", "randm"], "did you mean 'random'"),
        (["bench", "--only", "store_over_hdf"], "did you mean 'store_over_hdf5'"),
        (["data", "info", "nowhere"], "no data set at nowhere"),
        (["data", "import", "laom", "nowhere.hdf5", "--out", "x"], "nowhere.hdf5 does not exist"),
        (["data", "import", "videos", "nowhere", "--out", "x"], "nowhere does not exist"),
        (["collect", "cheetah-run", "--out", "x", "--backgrounds", "nowhere"], "no folder nowhere"),
        (["collect", "cheetah-run", "--out", "/proc/x", "--episodes", "1", "--steps", "2"], "/proc/x"),
    ],
)
def test_problems_are_one_clear_line(
    words: list[str], answer: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*words, capsys=capsys)
    assert code == 2 and out == ""
    assert err.startswith("otflam: ") and err.count("\n") == 1 and answer in err
    assert list(tmp_path.iterdir()) == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("--version", capsys=capsys)
    assert code == 0 and out == f"otflam {metadata.version('otflam')}\n"


def begin(*words: str) -> subprocess.Popen[str]:
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job's children are born deaf to it
    try:
        return subprocess.Popen([sys.executable, "-m", "otflam", *words], stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, heard)


def wait_for(done: Callable[[], bool]) -> None:
    limit = time.monotonic() + 120
    while not done():
        assert time.monotonic() < limit
        time.sleep(0.01)


def children(process: subprocess.Popen[str]) -> list[int]:
    lists = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(child) for file in lists for child in file.read_text().split()]


def test_sigterm_ends_as_ctrl_c_does(tmp_path: Path) -> None:
    """With workers: they are gone, too, and the command continues where it was."""
    words = ["collect", "walker-run", "--preset", "tiny", "--episodes", "4000", "--workers", "2"]
    process = begin(*words, "--out", str(tmp_path / "data"))
    journal = tmp_path / "data" / "parts.jsonl"
    wait_for(lambda: journal.exists() and journal.stat().st_size > 0)
    workers = children(process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err.splitlines()[-1] == "otflam: terminated; run the same command to continue"
    assert "Traceback" not in err
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def test_nobody_waits_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    """Two seconds of silence, whatever a command does, and slow work is told in pieces a minute."""
    with speaking("lam predict"):
        time.sleep(2)
    assert capsys.readouterr().err == "lam predict: starting\n"
    with ProgressBar("label", "episodes") as bar, speaking("lam label"):
        bar.start(0, 40)
        bar._began -= 120
        bar._done = 3
        time.sleep(2)
    assert capsys.readouterr().err.startswith("label: 3/40 episodes, 1.5/min, 0:2")
    ProgressBar("train", "steps").log({"step": 3, "steps_per_s": 0.05})
    assert "steps_per_min 3" in capsys.readouterr().err
    assert (tell_rate(1234.5), tell_rate(1.0), tell_rate(0.5)) == ("1,234.5/s", "1.0/s", "30.0/min")


def test_ctrl_c_promises_only_what_is_true(tmp_path: Path) -> None:
    """An evaluation starts anew; and somebody who waits is told at once that something happens."""
    process = begin("expert", "evaluate", "cheetah-run", "--episodes", "5000")
    assert process.stderr is not None
    first = process.stderr.readline()
    assert first.startswith("expert evaluate: starting") or "/5,000 episodes" in first
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err.splitlines()[-1] == "otflam: stopped; run again, the command starts anew"
    assert process.returncode in (130, -signal.SIGINT)  # Python's own end after an interrupted import: shells say 130
    assert COMMANDS.keys() >= CONTINUING and "expert evaluate" not in CONTINUING


def test_gl_is_checked_and_its_absence_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = run("gl", capsys=capsys)
    assert code == 0 and "rendering works" in out
    monkeypatch.setenv("MUJOCO_GL", "nonsense")
    code, _, err = run("gl", capsys=capsys)
    assert code == 2 and "apt-get install libegl1 libgl1-mesa-dri" in err and err.count("\n") == 1


@pytest.mark.parametrize("opponents", ["", "folder"])
def test_make_uses_commands_that_exist(opponents: str) -> None:
    """Every line of the Makefile that calls us parses."""
    targets = ["demo", "bench", "race", "campaign"]
    words = ["make", "--always-make", "--dry-run", *targets, f"OPPONENTS={opponents}"]
    told = subprocess.run(words, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True).stdout
    calls = [line.split("/otflam ")[1].split() for line in told.splitlines() if "/otflam " in line]
    assert len(calls) == len(targets) + 1
    for call in calls:
        name, rest = cli.find_command(call)
        assert name is not None
        cli.parse(name, rest)


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("data", "info", "nowhere", "--debug", capsys=capsys)
    assert code == 2 and "Traceback" in err and err.strip().splitlines()[-1].startswith("otflam: ")


def test_preset_gives_defaults_and_options_override_it(tmp_path: Path) -> None:
    parsed = cli.parse("collect", ["walker-run", "--preset", "tiny", "--episodes", "2", "--out", str(tmp_path)])
    assert isinstance(parsed, Collect)
    assert (parsed.plan.world.size, parsed.plan.steps, parsed.plan.episodes) == (32, 24, 2)
    assert parsed.plan.world.task == "walker-run"


def test_a_session_from_collecting_to_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(tmp_path / "data")
    words = ["collect", "walker-run", "--preset", "tiny", "--episodes", "2", "--steps", "6", "--out", data]
    assert run(*words, capsys=capsys)[0] == 0
    code, out, _ = run("data", "info", data, capsys=capsys)
    assert code == 0 and "walker-run, scale_easy_video_hard (dynamic), fast quality" in out and "builtin-v1" in out
    assert (tmp_path / "data" / "sheet.png").stat().st_size > 1000
    assert "all checksums match" in run("data", "check", data, capsys=capsys)[1]
    words = ["data", "render", data, "--difficulty", "vanilla", "--size", "16", "--out", str(tmp_path / "plain")]
    assert run(*words, capsys=capsys)[0] == 0
    assert run("data", "export", "laom", data, "--out", str(tmp_path / "x.hdf5"), capsys=capsys)[0] == 0
    assert run("data", "import", "laom", str(tmp_path / "x.hdf5"), "--out", str(tmp_path / "y"), capsys=capsys)[0] == 0
    assert (Store(tmp_path / "y")["frames"] == Store(data)["frames"]).all()


def test_demo_runs_and_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["demo", "--preset", "tiny", "--out", str(tmp_path / "demo")]
    code, out, err = run(*words, capsys=capsys)
    assert code == 0 and "cheetah-run.png" in out and "walker-run.png" in out, err
    began = time.monotonic()
    again = run(*words, capsys=capsys)
    assert again[:2] == (code, out) and time.monotonic() - began < 30


def test_bench_writes_its_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bench.json"
    file.write_text(json.dumps({"other": {"value": 1}}))
    code, out, _ = run("bench", "--only", "store_over_hdf5", "--out", str(file), capsys=capsys)
    record = json.loads(file.read_text())
    assert code == 0 and record.keys() == {"other", "store_over_hdf5"} and "store_over_hdf5" in out
    assert record["store_over_hdf5"].keys() == {"value", "goal", "unit", "how"}
    assert record["store_over_hdf5"]["value"] > 5
