"""Translation of RLlib experiment files from 2018 to 2023: `run`, `env`, `stop`, `config`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from rlrun.bridges.translation.entry import MISFITS, TranslatedEntry, Untranslatable
from rlrun.bridges.translation.foreign_settings import ForeignSettings, default_table, defaults_of, translate_settings
from rlrun.bridges.translation.meanings import Impact, SettingOrigin, meaning_of
from rlrun.bridges.translation.rllib_env import translate_env
from rlrun.bridges.translation.rllib_run import evaluation, seeds, stop
from rlrun.bridges.translation.rllib_settings.conversions import CONVERSIONS
from rlrun.bridges.translation.rllib_settings.single_algorithms import mixing
from rlrun.bridges.translation.rllib_settings.units import OFFLINE, seconds_of_iteration
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.messages.explain import Location, dotted, shown
from rlrun.engine.settings.registry import algorithm_class, algorithm_names, corresponding_algorithm, known_algorithm

SECTIONS = ("model", "replay_buffer_config", "optimization")
"""Sections of `config` whose settings are translated one by one."""

ELSEWHERE = (
    "env", "env_config", "horizon", "soft_horizon", "no_done_at_end", "seed", "multiagent", "evaluation_interval",
    "evaluation_duration", "evaluation_num_episodes", "evaluation_duration_unit", "evaluation_config",
)  # fmt: skip
"""Settings in RLlib's `config` whose counterparts are outside of `config` in rlrun."""

ENTRY_KEYS = (
    "run", "env", "stop", "config", "num_samples", "checkpoint_freq", "checkpoint_at_end", "keep_checkpoints_num",
    "checkpoint_config", "checkpoint_score_attr", "max_failures", "local_dir", "storage_path", "upload_dir", "restore",
    "trial_resources", "resources_per_trial", "pass_criteria", "repeat", "log_to_file",
)  # fmt: skip
"""All keys of an RLlib experiment; a file with other keys is not an RLlib file."""

MARKS_OF_0_5 = (
    "sample_batch_size", "optimizer_class", "per_worker_exploration", "schedule_max_timesteps", "exploration_fraction",
    "exploration_final_eps", "beta_annealing_fraction", "gpu", "gpu_fraction", "use_pytorch", "eager",
    "grad_norm_clipping", "sgd_batchsize", "timesteps_per_batch", "noise_scale", "exploration_sigma",
)  # fmt: skip
MARKS_OF_2_5 = (
    "min_sample_timesteps_per_iteration", "num_steps_sampled_before_learning_starts", "_enable_learner_api",
    "num_learner_workers", "num_rollout_workers", "_enable_rl_module_api", "enable_connectors",
    "min_time_s_per_iteration", "min_train_timesteps_per_iteration", "sampler_results/", "input_config.paths",
)  # fmt: skip
"""Settings that only files of some versions have."""


def is_rllibs(data: Any) -> bool:
    """Whether the data of a file consists of RLlib experiments."""
    return (
        isinstance(data, Mapping)
        and bool(data)
        and all(
            isinstance(entry, Mapping) and "run" in entry and entry.keys() <= set(ENTRY_KEYS) for entry in data.values()
        )
    )


def version_of(entry: Mapping[str, Any]) -> tuple[int, ...]:
    """Version of RLlib to assume for an experiment, recognized by keys that only some versions have."""
    config = entry.get("config") or {}
    if any(key in config for key in MARKS_OF_0_5):
        return (0, 5)
    names = [*config, *(entry.get("stop") or {}), *(f"input_config.{key}" for key in config.get("input_config") or {})]
    return (2, 5) if any(mark in str(name) for name in names for mark in MARKS_OF_2_5) else (1, 13)


def translate_entry(entry: Mapping[str, Any], version: tuple[int, ...] | None = None) -> TranslatedEntry:
    """Translates one RLlib experiment.

    Args:
        entry: The experiment.
        version: RLlib version; None to infer it from the keys.

    Raises:
        Untranslatable: The algorithm or the env cannot be translated, or a value is invalid.
    """
    run = entry["run"]
    if not isinstance(run, str):
        raise Untranslatable(("run",), f"must be the name of an algorithm, not {shown(run)}")
    written = run.removeprefix("contrib/")
    known = (name for name in default_table()["rllib"]["1.13"] if name.lower() == written.lower())
    name = next(known, written)  # RLlib has used two spellings, Dreamer and DREAMER
    ours = known_algorithm(name) if known_algorithm(name) in algorithm_names() else corresponding_algorithm(name)
    try:
        algorithm_class(ours or name)
    except UsageError as error:
        raise Untranslatable(("run",), str(error)) from None
    if name not in default_table()["rllib"]["1.13"]:
        advice = f"`rlrun init --algorithm {ours} --env ENV` writes a spec for {ours}"
        raise Untranslatable(("run",), f"settings of {run} cannot be translated; {advice}")
    try:
        source = SettingOrigin("rllib", version or version_of(entry), name)
        return with_grids(entry, lambda chosen: _translate(chosen, source, ours))
    except MISFITS as error:
        raise Untranslatable((), f"a value is not valid in RLlib: {error}") from None


def _translate(entry: Mapping[str, Any], source: SettingOrigin, ours: str) -> TranslatedEntry:
    config = entry.get("config") or {}
    if not isinstance(config, Mapping):
        raise Untranslatable(("config",), f"must be a mapping, not {shown(config)}")
    result = TranslatedEntry(source)
    ours = mixing(ours, config.get("mixer"))
    result.put("algorithm", ours, ("run",))
    flat = dict(_flat(config))
    model = algorithm_class(ours).Config
    settings = {key: value for key, (_, value) in flat.items() if key not in ELSEWHERE}
    foreign = ForeignSettings(source, model.has_setting, settings, defaults_of(source))
    translate_env(result, entry, foreign)
    translate_settings(foreign, CONVERSIONS)
    places = {key: ("config", *location) for key, (location, _) in flat.items()}
    for path, found in foreign.ours.items():
        result.put(path, found.value, places.get(found.key, ("run",)), found.key)
    for key, text, impact in foreign.remarks:
        result.tell(places.get(key, ("run",)), key if key in places else f"{key} (RLlib's default)", text, impact)
    _translate_iterations(result, foreign)
    for part in (stop, seeds, evaluation):
        part(result, entry, foreign)
    _translate_checkpoints(result, entry)
    result.leave_out_defaults(model)
    return result


def _flat(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Location, Any]]]:
    """Yields the settings by dotted name, with their locations in `config`."""
    for key, value in config.items():
        if key in SECTIONS and isinstance(value, Mapping):
            yield from ((f"{key}.{name}", ((key, name), below)) for name, below in value.items())
        else:
            yield key, ((key,), value)


def _translate_iterations(result: TranslatedEntry, foreign: ForeignSettings) -> None:
    """Translates the length of an iteration: one update if RLlib counts neither env steps nor seconds."""
    key = "config.min_env_steps_per_iteration"
    if foreign.algorithm in OFFLINE:
        return
    if key not in result.values and not seconds_of_iteration(foreign) and foreign.has("min_env_steps_per_iteration"):
        result.put(key, 0, ("run",), "min_sample_timesteps_per_reporting")


def _translate_checkpoints(result: TranslatedEntry, entry: Mapping[str, Any]) -> None:
    """Translates checkpoints, restarts and the keys about files and machines."""
    settings = {
        **(entry.get("checkpoint_config") or {}),
        **{key: value for key, value in entry.items() if key != "config"},
    }
    names = {
        "checkpoint_freq": "every", "checkpoint_frequency": "every", "checkpoint_at_end": "at_end",
        "keep_checkpoints_num": "keep", "num_to_keep": "keep",
    }  # fmt: skip
    for key, name in names.items():
        if settings.get(key) is not None:
            place: Location = (key,) if key in entry else ("checkpoint_config", key)
            result.put(f"checkpoint.{name}", settings[key] or None, place)
    if entry.get("max_failures"):
        result.put("failure.max_restarts", max(int(entry["max_failures"]), 0), ("max_failures",))
    if criteria := entry.get("pass_criteria"):
        result.tell(
            ("pass_criteria",),
            "pass_criteria",
            f"in rlrun, such targets belong under `expect`: {criteria}",
            Impact.NONE,
        )
    for key in (
        "local_dir",
        "storage_path",
        "upload_dir",
        "trial_resources",
        "resources_per_trial",
        "checkpoint_score_attr",
        "log_to_file",
    ):
        if key in entry:
            meaning = meaning_of(key, result.source, lambda _: False)
            text = meaning.text if meaning and not meaning.path else "see docs/spec_reference.md"
            result.tell((key,), key, text, Impact.NONE)
    if entry.get("restore"):
        result.tell(("restore",), "restore", "rlrun cannot read RLlib checkpoints", Impact.LEARNING)


GRID = "grid_search"
SETTINGS_OF_POLICIES = ("config", "multiagent", "policies")
"""Location of settings that the experiment of one policy contains, and grids in them."""


def with_grids(entry: Mapping[str, Any], translate: Callable[[Mapping[str, Any]], TranslatedEntry]) -> TranslatedEntry:
    """Translates an RLlib experiment with grid searches; each becomes a grid search over a setting of rlrun.

    Args:
        entry: The experiment, in which some values are `{grid_search: [...]}`.
        translate: Function that translates an experiment without grids.

    Raises:
        Untranslatable: One grid affects several settings of rlrun, or a grid is empty.
    """
    grids = dict(_grids(entry, ()))
    first = {location: values[0] for location, values in grids.items()}
    result = translate(_chosen(entry, first))
    base = dict(result.values)
    for location, values in grids.items():
        others = [translate(_chosen(entry, {**first, location: value})) for value in values[1:]]
        varying = [path for path in base if any(other.values.get(path) != base[path] for other in others)]
        if len(varying) > 1:
            names = " and ".join(varying)
            raise Untranslatable(location, f"{names} depend on the value in this grid; write one file per value")
        for path in varying:
            listed = [base[path], *(other.values.get(path) for other in others)]
            if path == "seeds":
                result.values[path] = [seed for each in listed for seed in each]
                continue
            result.values[path] = {GRID: list(dict.fromkeys(listed)) if _are_plain(listed) else listed}
        if not varying and len(values) > 1:
            result.tell(location, dotted(location), "this grid has no effect in rlrun", Impact.NONE)
        result.remarks += [remark for other in others for remark in other.remarks]
    return result


def _grids(data: Any, location: Location) -> Iterator[tuple[Location, list[Any]]]:
    if not isinstance(data, Mapping) or location == SETTINGS_OF_POLICIES:
        return
    if data.keys() == {GRID}:
        values = data[GRID]
        if not isinstance(values, list) or not values:
            raise Untranslatable(location, "grid_search needs a list of values")
        yield location, values
        return
    for key, value in data.items():
        yield from _grids(value, (*location, key))


def _chosen(entry: Mapping[str, Any], choices: Mapping[Location, Any]) -> Mapping[str, Any]:
    result: Any = deepcopy(dict(entry))
    for location, value in choices.items():
        section = result
        for step in location[:-1]:
            section = section[step]
        section[location[-1]] = value
    return dict(result)


def _are_plain(values: list[Any]) -> bool:
    return not any(isinstance(value, list | dict) for value in values)
