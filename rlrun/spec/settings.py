"""Reading and changing single settings of a trial by their paths below `config`, such as ``model.activation``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.spec.experiment import TrialSpec


def settings_of(trial: TrialSpec, paths: tuple[str, ...]) -> dict[str, Any]:
    """Returns some settings of a trial, as plain data by path."""
    found = {}
    for path in paths:
        value: Any = trial.config.to_data()
        for key in path.split("."):
            value = value[key]
        found[path] = value
    return found


def with_settings(trial: TrialSpec, values: Mapping[str, Any]) -> TrialSpec:
    """Returns a trial with other values for some settings, in its config and among its params.

    Args:
        trial: The trial.
        values: New values by path below `config`.

    Raises:
        SpecError: If the config does not take them.
    """
    data = trial.config.to_data()
    params = dict(trial.params)
    for path, value in values.items():
        *above, key = path.split(".")
        place = data
        for step in above:
            place = place[step]
        place[key] = value
        full = f"config.{path}"
        params[next((name for name in params if f".{full}".endswith(f".{name}")), path)] = value
    return trial.replace(config=type(trial.config).parse(data, path="config"), params=params)
