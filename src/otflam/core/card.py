"""Cards of what is put on a hub: a README.md that says what it is, how it was made, what it scores, how to use it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

ABOUT = {
    "tokenizer": "A motion tokenizer: what changes between frames of a video becomes codes, one for each patch.",
    "frame tokenizer": "A tokenizer of frames, on which latent action models of FLAM's kind work.",
    "lam": "A latent action model: from frames of a video it reads a vector that names what happened between them.",
    "agent": "An agent: it chooses actions from the latest frames.",
    "clone": "A network that imitates latent actions or actions from frames.",
}
"""What a folder is, by the kind that its config.json names."""
TRAINING = ("method", "data", "frames", "views", "online")
"""What else a configuration may say of a training."""
NOT_SCORES = ("verdict",)


def model_card(name: str, about: Mapping[str, Any], health: Mapping[str, Any], licence: str) -> str:
    """The card of a trained tokenizer, model or agent, from its config.json and health.json."""
    kind, method = str(about.get("kind")), about.get("method")
    task = (about.get("world") or {}).get("task")
    tags = ["otflam", "latent-actions", *(str(tag) for tag in (method, task) if tag)]
    head = {"license": licence, "library_name": "otflam", "tags": tags}
    if kind == "agent":
        head["pipeline_tag"] = "reinforcement-learning"
    parts = [front_matter(head), f"# {name}", ABOUT.get(kind, "Weights of otflam."), "## How it was trained"]
    parts.append(card_table(("setting", "value"), training_facts(about)))
    parts += ["## Scores", scores_of(health), "## How to use it", use_model(name, kind, about), FILES_SAFE]
    return "\n\n".join(parts) + "\n"


FILES_SAFE = (
    "The files are weights (safetensors) and JSON: none is code. `digest.json` has their checksums, which are compared "
    "whenever the folder is loaded."
)


def training_facts(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is known of a training, most telling first."""
    facts = [(field, plain(about[field])) for field in TRAINING if about.get(field) not in (None, "", False)]
    if isinstance(about.get("world"), dict):
        facts += [(f"world: {field}", plain(value)) for field, value in about["world"].items() if value is not None]
    for field in ("backbone", "tokenizer", "low"):
        part = about.get(field)
        if isinstance(part, dict):
            facts.append((f"stands on: {field}", plain(part.get("name") or part.get("method") or part.get("hash"))))
    made = about.get("made_from")
    train = about.get("train") or (made.get("config", {}).get("clone") if isinstance(made, dict) else None)
    facts += [
        (field, plain(value)) for field, value in (train or {}).items() if field not in ("log_every", "save_every")
    ]
    facts += [(f"version of {name}", plain(value)) for name, value in (about.get("versions") or {}).items()]
    return facts or [("unknown", "it was saved from Python")]


def scores_of(health: Mapping[str, Any]) -> str:
    """The verdict and the numbers of a health.json."""
    numbers = [(field, plain(value)) for field, value in health.items() if field not in NOT_SCORES]
    if not numbers:
        return "None lie beside the weights."
    verdict = f"On held-out transitions: {health['verdict']}.\n\n" if health.get("verdict") else ""
    return f"{verdict}{card_table(('measure', 'value'), numbers)}\n\n`docs/metrics.md` of otflam says what each means."


def use_model(name: str, kind: str, about: Mapping[str, Any]) -> str:
    backbone = about.get("backbone")
    needed = f" It needs DINOv2's weights, too: `{plain(backbone['name'])}`." if isinstance(backbone, dict) else ""
    calls = {
        "tokenizer": "codes = model.encode(frames)  # bytes, time × height × width × colours, or a video file",
        "lam": "latents = model.infer(frames)  # bytes, time × height × width × colours, or a video file",
        "agent": "# it plays: otflam policy run FOLDER, otflam evaluate return FOLDER",
    }
    program = f'import otflam\n\nmodel = otflam.load("{name}")\n{calls[kind]}' if kind in calls else ""
    python = f"\n\n```python\n{program}\n```" if program else ""
    return f"With `otflam[hub]` installed:{needed}{python}\n\n{use_command(name)}"


def use_command(name: str) -> str:
    return f"```bash\notflam hub pull {name} --out {name.partition('/')[2]}\n```"


def front_matter(values: Mapping[str, Any]) -> str:
    """The metadata of a card: JSON's values are YAML's."""
    return "\n".join(["---", *(f"{key}: {json.dumps(value)}" for key, value in values.items()), "---"])


def card_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain(value: Any) -> str:
    """A value in a cell of a table."""
    text = f"{value:.4g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
