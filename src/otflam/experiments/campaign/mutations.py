"""Random damage to one file: bytes, blocks, lines, and values of JSON, as disks, editors and attackers do it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import stable_hash

Rng = np.random.Generator
VALUES: tuple[Any, ...] = (
    *(None, float("nan"), float("inf"), 1e308, 10**30, 2**63, -1, 0, 0.5, True, "", "text", [], {}, [None], {"a": 1}),
    *("../victim/rewards", "/dev/full", "a" * 5000, "\x00", "é\ud800"),
)
"""What a value of JSON is replaced by."""
NESTING_DEPTH = 3000
"""Nested lists: deeper than Python's own stack."""
MAX_TRIES = 50


@dataclass(frozen=True)
class Alteration:
    """What was done to a file."""

    about: str
    resealed: bool = False
    """Whether it carries a right checksum all the same: then nobody can tell that it was altered."""


def alter(file: Path, rng: Rng) -> Alteration:
    """Damage a file in a random way; it is another one afterwards."""
    before = file.read_bytes()
    for _ in range(MAX_TRIES):
        changed, alteration = _draw(file, before, rng)
        if changed is None:
            file.unlink()
            return alteration
        if changed != before:
            file.write_bytes(changed)
            return alteration
    file.write_bytes(b"")
    return Alteration("emptied")


def _draw(file: Path, data: bytes, rng: Rng) -> tuple[bytes | None, Alteration]:
    kind = file.suffix
    if kind in (".json", ".jsonl") and rng.random() < 0.7:
        try:
            return _alter_json(file, data, rng) if kind == ".json" else _alter_journal(data, rng)
        except ValueError:  # a file that is not JSON after all
            pass
    if kind in (".csv", ".jsonl") and rng.random() < 0.5:
        return _alter_lines(data, rng)
    ways = list(BYTES)
    way = ways[int(rng.integers(len(ways)))]
    changed, about = BYTES[way](data, rng)
    return changed, Alteration(f"{way}{about}")


# --- Bytes -----------------------------------------------------------------------------------------------------------


def _place(data: bytes, rng: Rng) -> int:
    """Headers are short and matter most: half of all places lie in the first hundreds of bytes, or the last."""
    size = max(len(data), 1)
    near = min(size, 400)
    return int(
        [rng.integers(size), rng.integers(near), size - 1 - rng.integers(near)][rng.choice(3, p=(0.5, 0.4, 0.1))]
    )


def _patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def _flip(data: bytes, rng: Rng) -> tuple[bytes, str]:
    at, bit = _place(data, rng), int(rng.integers(8))
    return _patched(data, at, bytes([data[at] ^ (1 << bit)])) if data else b"\x00", f" {bit} of byte {at}"


def _overwrite(data: bytes, rng: Rng) -> tuple[bytes, str]:
    at, size = _place(data, rng), int(rng.integers(1, 65))
    return _patched(data, at, rng.bytes(size)), f" {size} bytes from {at}"


def _zero(data: bytes, rng: Rng) -> tuple[bytes, str]:
    at, size = _place(data, rng), int(rng.integers(1, 4097))
    return _patched(data, at, bytes(size))[: len(data)], f" {size} bytes from {at}"


def _truncate(data: bytes, rng: Rng) -> tuple[bytes, str]:
    at = _place(data, rng)
    return data[:at], f" at {at}"


def _extend(data: bytes, rng: Rng) -> tuple[bytes, str]:
    size = int(rng.integers(1, 4097))
    return data + (rng.bytes(size) if rng.random() < 0.5 else bytes(size)), f" by {size} bytes"


def _swap(data: bytes, rng: Rng) -> tuple[bytes, str]:
    size = int(rng.integers(1, max(2, len(data) // 2)))
    first = int(rng.integers(max(1, len(data) - 2 * size + 1)))
    second = int(rng.integers(first + size, max(first + size + 1, len(data) - size + 1)))
    one, other = data[first : first + size], data[second : second + size]
    return _patched(_patched(data, first, other), second, one)[: len(data)], f" {size} bytes at {first} and {second}"


def _remove(data: bytes, rng: Rng) -> tuple[bytes, str]:
    at, size = _place(data, rng), int(rng.integers(1, 257))
    return data[:at] + data[at + size :], f" {size} bytes from {at}"


BYTES: dict[str, Callable[[bytes, Rng], tuple[bytes | None, str]]] = {
    "flip bit": _flip,
    "overwrite": _overwrite,
    "zero": _zero,
    "truncate": _truncate,
    "extend": _extend,
    "swap": _swap,
    "cut out": _remove,
    "empty": lambda data, rng: (b"", ""),
    "garbage": lambda data, rng: (rng.bytes(max(16, min(len(data), 4096))), ""),
    "delete": lambda data, rng: (None, ""),
}


# --- Lines -----------------------------------------------------------------------------------------------------------


def _alter_lines(data: bytes, rng: Rng) -> tuple[bytes, Alteration]:
    lines = data.splitlines(keepends=True) or [b""]
    at, other = int(rng.integers(len(lines))), int(rng.integers(len(lines)))
    match int(rng.integers(5)):
        case 0:
            return b"".join(lines[:at] + lines[at + 1 :]), Alteration(f"drop line {at}")
        case 1:
            return b"".join([*lines, lines[at]]), Alteration(f"repeat line {at} at the end")
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
            return b"".join(lines), Alteration(f"swap lines {at} and {other}")
        case 3:
            lines[at] = lines[at][: int(rng.integers(len(lines[at]) + 1))]
            return b"".join(lines), Alteration(f"tear line {at}")
        case _:
            fields = lines[at].split(b",")
            field = int(rng.integers(len(fields)))
            fields[field] = [b"nan", b"-1", b"1e400", b"", b"text", b"99999999999999999999", b"../victim"][
                rng.integers(7)
            ]
            lines[at] = b",".join(fields)
            return b"".join(lines), Alteration(f"field {field} of line {at} becomes {fields[field].decode()!r}")


def _alter_journal(data: bytes, rng: Rng) -> tuple[bytes, Alteration]:
    """Change a value inside one line of JSON."""
    lines = data.splitlines()
    filled = [index for index, line in enumerate(lines) if line.strip()]
    if not filled:
        raise ValueError("no lines")
    at = filled[int(rng.integers(len(filled)))]
    text, about = _changed(json.loads(lines[at]), rng, None)
    lines[at] = text.encode("utf-8", "surrogatepass")
    return b"\n".join(lines) + b"\n", Alteration(f"line {at}: {about}")


# --- JSON ------------------------------------------------------------------------------------------------------------


def _alter_json(file: Path, data: bytes, rng: Rng) -> tuple[bytes, Alteration]:
    value = json.loads(data)
    text, about = _changed(value, rng, 1)
    try:
        changed = json.loads(text)
        reseal = isinstance(changed, dict) and "digest" in changed and rng.random() < 0.4
        if reseal:
            changed["digest"] = stable_hash({key: changed[key] for key in changed if key != "digest"})
            text = json.dumps(changed, indent=1, sort_keys=True)
    except (ValueError, RecursionError):  # not finite, or too deep, to have a checksum
        reseal = False
    text = text.encode("utf-8", "surrogatepass")
    return text, Alteration(about + ", with a right checksum" * reseal, reseal)


def _nodes(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(node for key, inner in items for node in _nodes(inner, (*path, key)))]


def _changed(value: Any, rng: Rng, indent: int | None) -> tuple[str, str]:
    """JSON text with one value replaced, key renamed, dropped or given twice, and what was done."""
    nodes = _nodes(value)
    path = nodes[int(rng.integers(len(nodes)))]
    where = ".".join(map(str, path)) or "the whole"
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    way = int(rng.integers(8))
    if way == 0 and path and isinstance(parent, dict):
        parent[f"{path[-1]}x"] = parent.pop(path[-1])
        return json.dumps(value, indent=indent), f"rename {where}"
    if way == 1 and path:
        del parent[path[-1]]
        return json.dumps(value, indent=indent), f"drop {where}"
    if way == 2 and path and isinstance(parent, dict):
        again = f"{json.dumps(path[-1])}: {json.dumps(VALUES[int(rng.integers(len(VALUES)))])}"
        plain = json.dumps(parent)
        double = (
            f"{{{again}, {plain[1:]}" if rng.random() < 0.5 else f"{plain[:-1]}, {again}}}"
        )  # readers take the last
        return json.dumps(value).replace(plain, double, 1), f"give {where} twice"
    if way == 3:
        deep = "[" * NESTING_DEPTH + "]" * NESTING_DEPTH
        if not path:
            return deep, "nest the whole deeply"
        parent[path[-1]] = "@deep@"
        return json.dumps(value, indent=indent).replace('"@deep@"', deep, 1), f"nest {where} deeply"
    new = VALUES[int(rng.integers(len(VALUES)))]
    if not path:
        return json.dumps(new), f"the whole becomes {json.dumps(new)[:40]}"
    parent[path[-1]] = new
    return json.dumps(value, indent=indent), f"{where} becomes {json.dumps(new)[:40]}"
