"""Names of trials and of their directories: ``000-lr=0.001-seed=0``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rlrun.engine.messages.explain import Location, dotted

MAX_PARAMS_LENGTH = 80
"""Maximum length of the settings in a trial's name; file systems allow 255 bytes in all."""


def short_names(locations: Iterable[Location]) -> dict[Location, str]:
    """Shortest unique suffix of each setting's location, as a dotted name.

    Examples:
        >>> short_names([("config", "lr"), ("config", "model", "hiddens", 0)])
        {('config', 'lr'): 'lr', ('config', 'model', 'hiddens', 0): 'hiddens.0'}
        >>> short_names([("config", "x"), ("env", "kwargs", "x")])
        {('config', 'x'): 'config.x', ('env', 'kwargs', 'x'): 'kwargs.x'}
    """
    known = list(locations)
    names = {}
    for location in known:
        length = next(n for n in range(1, len(location) + 1) if isinstance(location[-n], str))
        while length < len(location) and any(
            other != location and other[-length:] == location[-length:] for other in known
        ):
            length += 1
        names[location] = dotted(location[-length:])
    return names


def trial_name(index: int, trials: int, params: Mapping[str, Any], seed: int) -> str:
    """Name of a trial, composed of a unique number, the varying settings and the seed.

    Args:
        index: The trial's number, from 0.
        trials: Number of trials.
        params: Values of the varying settings, by short name.
        seed: The trial's seed.

    Examples:
        >>> trial_name(7, 12, {"lr": 0.00031415926, "hiddens": [64, 64]}, 1)
        '007-lr=0.0003142-hiddens=64x64-seed=1'
    """
    varied = "-".join(f"{_plain(name)}={_plain(_text(value))}" for name, value in params.items())
    parts = (_number(index, trials), varied[:MAX_PARAMS_LENGTH].rstrip("-."), f"seed={seed}")
    return "-".join(part for part in parts if part)


def member_name(index: int, trials: int, population: int, member: int) -> str:
    """Name of a population member's trial; omits the settings, since they change during the run.

    Args:
        index: The trial's number, from 0.
        trials: Number of trials.
        population: The population's seed.
        member: Number of the member in the population, from 0.

    Examples:
        >>> member_name(11, 16, 1, 3)
        '011-population=1-member=3'
    """
    return f"{_number(index, trials)}-population={population}-member={member}"


def _number(index: int, trials: int) -> str:
    return f"{index:0{max(3, len(str(trials - 1)))}}"


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return "x".join(_text(item) for item in value)
    if isinstance(value, Mapping):
        return _text(value["id"]) if "id" in value else "-".join(f"{key}-{_text(item)}" for key, item in value.items())
    return str(value)


def _plain(text: str) -> str:
    """Escapes a text for file names: replaces characters that are special in file systems or shells."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", text).strip("-") or "empty"
