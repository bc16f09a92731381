"""Settings of an algorithm in a zip file of Stable-Baselines3, by the names in rl-zoo3's files."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.meanings import Source
from rlrun.bridges.translation.sb3_zip import Sb3Zip
from rlrun.bridges.translation.theirs import defaults_of
from rlrun.bridges.translation.zoo import VERSION

STEPS = 1_000_000
"""Env steps of a resumed run where the file does not say how long it was to train."""

MOST = {"n_envs": 1_024, "n_steps": 100_000, "n_timesteps": 10**12}
"""Upper bounds of numbers that a file may ask for, since they take memory."""

MOST_OF_OTHERS = 10**7
"""Upper bound of other numbers."""


def written_settings(file: Sb3Zip, algorithm: str) -> dict[str, Any]:
    """Plain numbers and words among the attributes in a zip file that are settings of its algorithm.

    Args:
        file: The file.
        algorithm: Name of the algorithm.
    """
    known = set(defaults_of(Source("sb3", VERSION, algorithm))) - {"policy_kwargs", "use_rms_prop"}
    settings = {name: value for name, value in file.settings.items() if name in known and _is_plain(name, value)}
    if _is_plain("rate", file.settings.get("exploration_rate")):
        settings["exploration_initial_eps"] = file.settings["exploration_rate"]  # at its end, epsilon stays there
    steps = file.settings.get("_total_timesteps")
    return {**settings, "n_timesteps": steps if steps and _is_plain("n_timesteps", steps) else STEPS}


def _is_plain(name: str, value: Any) -> bool:
    if name == "ent_coef" and isinstance(value, str):
        return value == "auto"
    if type(value) is bool:
        return True
    return type(value) in (int, float) and -1 <= value <= MOST.get(name, MOST_OF_OTHERS)
