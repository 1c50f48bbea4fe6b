"""Frozen configuration objects as JSON: written whole, read back strictly, hashed for reuse."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from typing import Any, TypeVar

from otflam.core.errors import UserError, unknown_name

T = TypeVar("T")


def to_json(config: Any) -> Any:
    """A configuration as plain JSON values, every field written out."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {field.name: to_json(getattr(config, field.name)) for field in dataclasses.fields(config)}
    if isinstance(config, tuple | list):
        return [to_json(item) for item in config]
    if isinstance(config, dict):
        return {str(key): to_json(value) for key, value in config.items()}
    return config


def from_json(cls: type[T], values: Any, where: str = "config") -> T:
    """Rebuild a configuration; an unknown, missing or mistyped field is an error that names it."""
    if not isinstance(values, dict):
        raise UserError(f"{where} is not a JSON object", "was the file edited by hand?")
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]  # ty: ignore[invalid-argument-type]
    for name in values:
        if name not in names:
            raise unknown_name(f"field in {where}", name, names)
    for name in names:
        if name not in values:
            raise UserError(f"{where} has no field {name!r}", "it was written by another version of otflam")
    return cls(**{name: _convert(hints[name], values[name], f"{where}.{name}") for name in names})


def _names(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _convert(arguments[0], value, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, value, where)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        kinds = [argument for argument in arguments if argument is not type(None)]
        if len(kinds) > 1:  # configurations that differ in their fields
            kinds = [kind for kind in kinds if isinstance(value, dict) and value.keys() == _names(kind)]
        if len(kinds) != 1:
            raise UserError(f"{where} fits none of its kinds", "it was written by another version of otflam")
        return _convert(kinds[0], value, where)
    if origin is tuple and isinstance(value, list):
        inner = [arguments[0]] * len(value) if arguments[-1] is ... else arguments
        if len(inner) != len(value):
            raise UserError(f"{where} has {len(value)} values", f"expected {len(inner)}")
        return tuple(_convert(kind, item, where) for kind, item in zip(inner, value, strict=True))
    if origin is dict and isinstance(value, dict):
        number = arguments[0] is int  # JSON's keys are text
        return {int(key) if number else key: _convert(arguments[1], item, where) for key, item in value.items()}
    if origin is typing.Literal:
        if value in arguments:
            return value
        raise unknown_name(f"value of {where}", str(value), map(str, arguments))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise UserError(f"{where} is {value!r}", f"expected {getattr(hint, '__name__', hint)}")


def stable_hash(value: Any) -> str:
    """A short name for a JSON value or configuration, the same in every process and on every machine."""
    text = json.dumps(to_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
