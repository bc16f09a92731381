"""Notes on an env for a data set's manifest, without paths and secrets, since data sets are shared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z0-9_ +=,.-]{0,40}")
"""Regular expression for texts that are neither paths nor addresses."""

_ENV = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*([:/][A-Za-z0-9_.-]+)?")
"""Regular expression for ids and import paths of envs."""

_SECRET = re.compile(r"key|token|secret|passw|credential|auth|user|host|login|mail", re.IGNORECASE)
"""Regular expression for names of arguments that may be secret."""


def env_note(env: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an env's id and settings for a manifest, without texts that may be paths, addresses or secrets.

    Args:
        env: The env's config as plain data.

    Examples:
        >>> env_note({"id": "ALE/Pong-v5", "kwargs": {"frameskip": 4, "rom": "/home/me/pong.bin", "api_key": "x"}})
        {'id': 'ALE/Pong-v5', 'kwargs': {'frameskip': 4}}
    """
    note = {
        name: value
        for name, value in env.items()
        if name in ("id", "world", "pettingzoo") and isinstance(value, str) and _ENV.fullmatch(value)
    }
    rest = _plain({name: value for name, value in env.items() if name not in note})
    return note | rest


def _plain(data: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        str(name): _plain(value) if isinstance(value, Mapping) else value
        for name, value in data.items()
        if _PLAIN.fullmatch(str(name)) and not _SECRET.search(str(name)) and _is_plain(value)
    }


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a short plain text, a mapping, or a list of numbers and texts."""
    if isinstance(value, list | tuple):
        return all(_is_plain(item) and not isinstance(item, Mapping) for item in value)
    if isinstance(value, str):
        return _PLAIN.fullmatch(value) is not None
    return value is None or isinstance(value, bool | int | float | Mapping)
