"""Resolved specs as YAML that reads as if a person had written it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlrun.engine.settings.commented_yaml import flow_yaml

LONGEST_LINE = 90
UNDERSCORES_FROM = 10_000


def readable_spec(name: str, spec: Mapping[str, Any]) -> str:
    """Formats the spec of an experiment as YAML: lists and short mappings in one line, no settings that are null.

    Examples:
        >>> print(readable_spec("pole", {"lr": [[0, 1e-05], [4000, 0.0]], "stop": {"env_steps": 40000.0}, "env": None}))
        pole:
          lr: [[0, 1.0e-5], [4000, 0.0]]
          stop: {env_steps: 40_000}
    """
    return "\n".join([f"{flow_yaml(name)}:", *_lines(spec, "  ")])


def _lines(settings: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in settings.items():
        if value is None:
            continue
        line = f"{indent}{flow_yaml(key)}: {_flow(value)}"
        if isinstance(value, Mapping) and value and (len(line) > LONGEST_LINE or key == "config"):
            yield f"{indent}{flow_yaml(key)}:"
            yield from _lines(value, indent + "  ")
        else:
            yield line


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow_yaml(k)}: {_flow(item)}" for k, item in value.items() if item is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) >= UNDERSCORES_FROM:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}" if abs(value) >= UNDERSCORES_FROM else str(value)
    if isinstance(value, float):  # YAML 1.1 takes 1e-05 for a text
        return re.sub(r"^(-?\d+)(\.\d+)?e([-+])0?", lambda m: f"{m[1]}{m[2] or '.0'}e{m[3]}", repr(value))
    return flow_yaml(value)
