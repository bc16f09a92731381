"""Translation of an RLlib experiment's run settings: stop criteria, seeds and evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.bridges.translation.entry import RUN, TranslatedEntry, Untranslatable
from rlrun.bridges.translation.foreign_settings import ForeignSettings
from rlrun.bridges.translation.meanings import Impact
from rlrun.bridges.translation.rllib_settings.units import (
    OFFLINE,
    rows_per_sgd_step,
    seconds_of_iteration,
    steps_of_update,
)
from rlrun.engine.messages.explain import Location, shown
from rlrun.engine.messages.foreign_names import other_metric

METRICS = {
    "time_total_s": "time_total_s",
    "num_env_steps_sampled": "env_steps",
    "num_steps_sampled": "env_steps",
    "num_agent_steps_sampled": "env_steps",
    "episodes_total": "episodes",
    "episode_return_mean": "episode_return_mean",
    "episode_len_mean": "episode_len_mean",
}
"""Metric names of RLlib -> rlrun's, for metrics that are not in the table of foreign names."""


def stop(result: TranslatedEntry, entry: Mapping[str, Any], foreign: ForeignSettings) -> None:
    """Translates stop criteria; iterations become env steps or seconds, whichever defines an iteration in RLlib."""
    for key, value in (entry.get("stop") or {}).items():
        place: Location = ("stop", key)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise Untranslatable(place, f"must be a number, not {shown(value)}")
        if key == "training_iteration":
            _stop_after_iterations(result, foreign, value)
        elif foreign.algorithm in OFFLINE and _metric(key) in ("env_steps", "episode_return_mean"):
            _stop_without_env(result, foreign, key, value)
        elif metric := _metric(key):
            result.put(f"stop.{metric}", value, place)
        else:
            result.tell(place, f"stop.{key}", "rlrun reports no such metric", Impact.LEARNING)


def _metric(key: str) -> str:
    group, _, name = key.rpartition("/")
    policy, is_of_policy = name, group.endswith("policy_reward_mean")
    name = "episode_return_mean" if is_of_policy else METRICS.get(name, other_metric(name))
    if not name:
        return ""
    prefix = "evaluation/" if group.startswith("evaluation") else ""
    return f"{prefix}policies/{policy}/{name}" if is_of_policy else prefix + name


def _stop_after_iterations(result: TranslatedEntry, foreign: ForeignSettings, count: float) -> None:
    """Converts a number of iterations to env steps (of updates, or a minimum per iteration) or to seconds."""
    place: Location = ("stop", "training_iteration")
    keys = ("min_sample_timesteps_per_reporting", "min_sample_timesteps_per_iteration", "timesteps_per_iteration")
    steps = foreign.first(*keys) or 0
    seconds = seconds_of_iteration(foreign)
    if foreign.algorithm in OFFLINE and not seconds:
        each = foreign.ours["config.sgd_steps_per_iteration"].value
        path, limit, text = "stop.sgd_steps", count * each, f"{count:g} iterations of {each:,} SGD steps"
    elif steps:
        path, limit, text = "stop.env_steps", count * steps, f"{count:g} iterations of at least {steps:,} env steps"
    elif seconds:
        path, limit, text = "stop.time_total_s", count * seconds, f"{count:g} iterations of at least {seconds:g} s"
    else:
        each = steps_of_update(foreign)
        path, limit, text = "stop.env_steps", count * each, f"{count:g} iterations of one batch, {each:,} env steps"
    is_lower = path not in result.values or limit < result.values[path]
    if is_lower:
        result.put(path, limit, place)
    result.tell(place, "stop.training_iteration", text)


def _stop_without_env(result: TranslatedEntry, foreign: ForeignSettings, key: str, value: float) -> None:
    """Converts a stop criterion of training from data alone to SGD steps or to the return of evaluations."""
    place: Location = ("stop", key)
    if _metric(key) == "env_steps":
        each = rows_per_sgd_step(foreign)
        result.put("stop.sgd_steps", max(-(-int(value) // each), 1), place)
        result.tell(place, f"stop.{key}", f"rlrun counts SGD steps; RLlib counted rows, {each:,} per step")
    else:
        result.put("stop.evaluation/episode_return_mean", value, place)
        result.tell(place, f"stop.{key}", "the evaluation's metric, because training does not step an env")


def seeds(result: TranslatedEntry, entry: Mapping[str, Any], foreign: ForeignSettings) -> None:
    """Translates `seed` and `num_samples` (the number of repetitions if no setting is sampled at random) to seeds."""
    seed, place = (entry.get("config") or {}).get("seed"), ("config", "seed")
    count = entry.get("num_samples", entry.get("repeat", 1))
    if not isinstance(count, int) or count < 1:
        raise Untranslatable(("num_samples",), f"must be a whole number > 0, not {shown(count)}")
    if seed is None:
        if count > 1:
            result.put("seeds", count, ("num_samples",))
            result.tell(("num_samples",), "num_samples", f"{count} seeds, because nothing else is random")
        result.tell(
            ("run",), "seed (RLlib's default)", "RLlib had none, so that each run differed; rlrun uses 0", Impact.NONE
        )
        return
    if not isinstance(seed, int) or seed < 0:
        raise Untranslatable(place, f"must be a whole number >= 0, not {shown(seed)}")
    result.put("seeds", [seed + number for number in range(count)], place)
    if count > 1:
        result.tell(("num_samples",), "num_samples", "rlrun uses consecutive seeds; RLlib used the same seed for all")


def evaluation(result: TranslatedEntry, entry: Mapping[str, Any], foreign: ForeignSettings) -> None:
    """Translates evaluation settings; evaluations explore in the same way as training unless `explore` is false."""
    config = entry.get("config") or {}
    every = config.get("evaluation_interval")
    own = {**(foreign.defaults.get("evaluation_config") or {}), **(config.get("evaluation_config") or {})}
    if not every:
        _no_evaluations(result, config)
        return
    result.put("evaluation.every", every, ("config", "evaluation_interval"))
    _episodes(result, config)
    place = ("config", "evaluation_config") if config.get("evaluation_config") else RUN
    if own.pop("explore", True):
        result.put("evaluation.actions", "sampled", place, "evaluation_config.explore")
    for key, value in (own.pop("env_config", None) or {}).items():
        result.put(f"env.evaluation_kwargs.{key}", value, place)
    for key in own.keys() - {"num_envs_per_worker", "observation_filter"}:
        impact = Impact.NONE if key == "input" and own[key] == "sampler" else Impact.SLIGHT
        result.tell(place, f"evaluation_config.{key}", "rlrun evaluates with the settings of training", impact)


def _no_evaluations(result: TranslatedEntry, config: Mapping[str, Any]) -> None:
    """Remarks that settings of evaluations have no effect."""
    for key in [key for key in config if key.startswith("evaluation_")]:
        result.remarks = [remark for remark in result.remarks if remark.key != key]
        result.tell(("config", key), key, "without evaluation_interval there are no evaluations", Impact.NONE)


def _episodes(result: TranslatedEntry, config: Mapping[str, Any]) -> None:
    """Translates the number of episodes of an evaluation; a number of steps is not translated."""
    key = "evaluation_duration" if "evaluation_duration" in config else "evaluation_num_episodes"
    episodes, unit = config.get(key, 10), config.get("evaluation_duration_unit", "episodes")
    place: Location = ("config", key) if key in config else RUN
    if unit != "episodes" or episodes == "auto":
        result.tell(place, key, "rlrun evaluates for a number of episodes: 10", Impact.SLIGHT)
        episodes = 10
    elif "evaluation_duration_unit" in config:
        result.tell(("config", "evaluation_duration_unit"), "evaluation_duration_unit", "", Impact.NONE)
    result.put("evaluation.episodes", episodes, place, key)
