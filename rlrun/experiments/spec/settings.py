"""Access to individual settings of a trial by their path below `config`, such as ``model.activation``.

Settings of a world's policies have full paths, such as ``policies.prey.config.lr``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.engine.messages.explain import dotted
from rlrun.experiments.spec.expansion import value_at
from rlrun.experiments.spec.experiment import TrialSpec, setting_location


def settings_of(trial: TrialSpec, paths: tuple[str, ...]) -> dict[str, Any]:
    """Values of a trial's settings at given paths, as plain data."""
    data = trial.to_data()
    return {path: value_at(data, setting_location(path)) for path in paths}


def with_settings(trial: TrialSpec, values: Mapping[str, Any]) -> TrialSpec:
    """Copies a trial with new values for some settings, in both `config` and `params`.

    Args:
        trial: The trial.
        values: New values, by path.

    Raises:
        SpecError: The values are not valid.
    """
    data = trial.to_data()
    params = dict(trial.params)
    for path, value in values.items():
        *above, key = location = setting_location(path)
        value_at(data, tuple(above))[key] = value
        full = dotted(location)
        params[next((name for name in params if f".{full}".endswith(f".{name}")), path)] = value
    return TrialSpec.from_data({**data, "params": params})
