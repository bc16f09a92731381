"""Checking one entry of a spec file: from data to an Experiment, or to all that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from rlrun.algorithm import Algorithm
from rlrun.algorithm_config import AlgorithmConfig
from rlrun.envs.env_config import EnvConfig
from rlrun.envs.make import check_env
from rlrun.envs.presets import with_preset
from rlrun.errors import EnvironmentUnusable, UsageError, did_you_mean
from rlrun.explain import Location, Mistake, is_model, shown, unknown_name
from rlrun.foreign_settings import ours_for
from rlrun.registry import algorithm_class, algorithm_names, known_algorithm
from rlrun.spec.expansion import count, filled
from rlrun.spec.experiment import MAX_TRIALS, Experiment, RunSettings
from rlrun.spec.metric_checks import check_metrics
from rlrun.spec.mutation_checks import BOUNDS, MUTATIONS, ConfigPart, check_mutations
from rlrun.spec.run_length import with_run_length
from rlrun.spec.search_space import SearchSpace, find_spaces, is_search_space
from rlrun.spec.section import Section, check_section, validate
from rlrun.spec.tuning_checks import check_tuning

ENTRY_KEYS = ("algorithm", "env", "config", *RunSettings.model_fields)
"""The keys of an entry."""

MAX_TOLD = 5
"""After so many mistakes in drawn values the rest is left untold."""

MAX_REFUSED = 100
"""After so many mistakes in what a searcher might suggest nothing is taken to fit."""


class UnusableEnv(Mistake):
    """An env that a spec may name but that cannot be used here, since a package is missing."""


def check_entry(
    name: str, data: Any, origin: str = "", max_trials: int = MAX_TRIALS
) -> tuple[Experiment | None, list[Mistake]]:
    """Checks one entry of a spec file.

    Args:
        name: The experiment's name.
        data: What stands under it.
        origin: Where it came from, for the user.
        max_trials: Most trials that it may have.

    Returns:
        The experiment, None if anything is wrong with it, and all mistakes, with their locations in the entry.

    Raises:
        UserCodeError: If a user's own module raises while it is imported.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", name):
        return None, [
            Mistake((), f"the name '{name}' must be of letters, digits and _.+- (it becomes a directory)", True)
        ]
    if not isinstance(data, Mapping):
        return None, [Mistake((), f"must be a mapping with algorithm, env, config and stop, not {shown(data)}")]
    algorithm, mistakes = _check_algorithm(data)
    mistakes += _unknown_keys(data, algorithm)
    settings, wrong = _check_settings(data)
    mistakes += wrong
    config: Section[AlgorithmConfig] | None = None
    if algorithm is not None:
        written = {} if data.get("config") is None else data["config"]  # all its lines may be commented out
        wrong = _varies_too_much(data.get("env"), written)
        mistakes += wrong
        if not wrong:
            with_env, written = with_preset(data.get("env"), written, algorithm.Config)
            data = {**data, "env": with_env} if "env" in data else data
        written, wrong = with_run_length(written, data.get("stop"), algorithm.clock_unit)
        mistakes += wrong
        data = {**data, "config": written}
        config = check_section(algorithm.Config, written, ("config",))
        mistakes += [_with_place(mistake, data["algorithm"], algorithm) for mistake in config.mistakes]
        mistakes += check_metrics(data, algorithm(config.value or algorithm.Config()))
        if isinstance(written, Mapping):
            part = ConfigPart(data["algorithm"], algorithm.Config, written, config.spaces, not config.mistakes)
            mistakes += check_mutations(data, part)
    elif isinstance(data.get("config"), Mapping):  # what all algorithms have can be checked without one
        shared = {key: value for key, value in data["config"].items() if key in AlgorithmConfig.model_fields}
        mistakes += check_section(AlgorithmConfig, shared, ("config",)).mistakes
    env = _check_env(data)
    mistakes += env.mistakes
    template = {"env": data.get("env"), "config": data.get("config") or {}}
    if settings is not None and config is not None and config.value is not None and not env.mistakes + config.mistakes:
        spaces = {**env.spaces, **config.spaces}
        mistakes += _check_number(settings, spaces, max_trials)
        mistakes += check_tuning(settings, config.value, spaces)
    mistakes = _without_misspelt(mistakes, data)
    if algorithm is None or settings is None or config is None or env.value is None or config.value is None or mistakes:
        return None, mistakes
    experiment = Experiment(
        name=name,
        algorithm=known_algorithm(data["algorithm"]),
        env=env.value,
        config=config.value,
        origin=origin,
        template=template,
        **{field: getattr(settings, field) for field in RunSettings.model_fields},
    )
    mistakes = _check_trials(experiment)
    return (None if mistakes else experiment), mistakes


def env_mistakes(config: EnvConfig) -> list[Mistake]:
    """Checks that an env, its arguments and its wrappers exist and can be used here, without building the env."""
    bare = config.replace(wrappers=(), preset=None)
    mistakes = _mistakes_at(("id",), bare)
    if mistakes and config.kwargs and not _mistakes_at(("id",), bare.replace(kwargs={})):
        return _mistakes_at(("kwargs",), bare)
    if not mistakes and config.preset is not None:
        mistakes = _mistakes_at(("preset",), config)
    if not mistakes and config.evaluation_kwargs:
        mistakes = _mistakes_at(("evaluation_kwargs",), bare.in_evaluation())
    for index, wrapper in enumerate([] if mistakes else config.wrappers):
        mistakes += _mistakes_at(("wrappers", index), config.replace(wrappers=(wrapper,), preset=None))
    return mistakes


def _mistakes_at(location: Location, config: EnvConfig) -> list[Mistake]:
    try:
        check_env(config)
    except UsageError as error:
        return [Mistake(location, str(error))]
    except EnvironmentUnusable as error:
        return [UnusableEnv(location, str(error))]
    return []


def _check_env(data: Mapping[str, Any]) -> Section[EnvConfig]:
    if "env" not in data:
        missing = Mistake(("env",), "is missing: add for instance env: CartPole-v1")
        return Section(None, {}, [missing])
    env = data["env"]
    if env is None or (isinstance(env, list | int | float) and not is_search_space(env)):
        wrong = f"must be a Gymnasium id, package.module:factory or a mapping with an id, not {shown(env)}"
        return Section(None, {}, [Mistake(("env",), wrong)])
    return check_section(EnvConfig, env, ("env",), env_mistakes)


def _varies_too_much(env: Any, config: Any) -> list[Mistake]:
    """Names search spaces that a preset cannot work with: over itself, or over whole sections that it has keys in."""
    spaces = find_spaces({"env": env, "config": config})[0]
    mistakes = []
    for where, space in spaces.items():
        envs = [value for _, value in space.probes()] if where == ("env",) else []
        if where == ("env", "preset") or any(isinstance(value, Mapping) and "preset" in value for value in envs):
            message = "a preset sets config too, so it cannot vary: write an experiment for each"
            mistakes.append(Mistake(where, message))
    if isinstance(env, Mapping) and env.get("preset") is not None:
        sections = [where for where in spaces if where in {("config",), ("config", "model"), ("config", "replay")}]
        message = f"preset {env['preset']} sets keys of {{}}: vary these one by one"
        mistakes += [Mistake(where, message.format(where[-1])) for where in sections if not mistakes]
    return mistakes


def _check_algorithm(data: Mapping[str, Any]) -> tuple[type[Algorithm[Any]] | None, list[Mistake]]:
    name = data.get("algorithm")
    if "algorithm" not in data:
        return None, [Mistake(("algorithm",), f"is missing: add one of {', '.join(algorithm_names())}")]
    if is_search_space(name):
        return None, [Mistake(("algorithm",), "an experiment has one algorithm: write an experiment for each")]
    if not isinstance(name, str):
        return None, [Mistake(("algorithm",), f"must be the name of an algorithm, not {shown(name)}")]
    try:
        found = algorithm_class(name)
    except UsageError as error:
        return None, [Mistake(("algorithm",), str(error))]
    if not issubclass(found, Algorithm):
        return None, [Mistake(("algorithm",), f"'{name}' is no Algorithm: derive it from rlrun.algorithm.Algorithm")]
    settings = next((vars(base)["Config"] for base in found.__mro__ if "Config" in vars(base)), None)
    if not (isinstance(settings, type) and issubclass(settings, AlgorithmConfig)):
        what = "there is none" if settings is None else f"it is {shown(settings)}"
        told = f"'{name}' needs a class attribute Config, a class derived from AlgorithmConfig: {what}"
        return None, [Mistake(("algorithm",), told)]
    return found, []


def _unknown_keys(data: Mapping[str, Any], algorithm: type[Algorithm[Any]] | None) -> list[Mistake]:
    """Names the keys that an entry does not have, and where they belong if that is known."""
    mistakes = []
    for key in data:
        if key in ENTRY_KEYS:
            continue
        config_class = algorithm.Config if algorithm else AlgorithmConfig
        place = _holder_of(key, config_class, "config") or _holder_of(key, EnvConfig, "env")
        foreign = ours_for(key, lambda name: name == "gamma") if isinstance(key, str) else ""
        if place:
            message = f"'{key}' belongs under {place}"
        else:
            message = f"'{key}' {foreign}" if foreign else unknown_name(key, ENTRY_KEYS)
        mistakes.append(Mistake((key,), message, at_key=True))
    return mistakes


def _without_misspelt(mistakes: Sequence[Mistake], data: Mapping[str, Any]) -> list[Mistake]:
    """Leaves out that a key is missing where it is there, but misspelt."""
    hints = "".join(did_you_mean(key, ENTRY_KEYS) for key in data if key not in ENTRY_KEYS)
    misspelt = [(key,) for key in ("algorithm", "env", "stop") if key not in data and f"'{key}'" in hints]
    return [mistake for mistake in mistakes if mistake.location not in misspelt]


def _holder_of(key: str, model: type[BaseModel], path: str) -> str:
    """Returns the path of the config that has a field of this name, "" if there is none below the model."""
    if key in model.model_fields:
        return path
    for name, field in model.model_fields.items():
        holder = _holder_of(key, field.annotation, f"{path}.{name}") if is_model(field.annotation) else ""
        if holder:
            return holder
    return ""


def _with_place(mistake: Mistake, name: str, algorithm: type[Algorithm[Any]]) -> Mistake:
    """Adds to a key that a config does not have the algorithm, or where it belongs if it is known elsewhere."""
    key = mistake.location[-1]
    if not mistake.at_key or not isinstance(key, str):
        return mistake
    if not mistake.message.startswith("unknown key"):
        return replace(mistake, message=mistake.message.replace(" here", f" in {name}", 1))
    if key in ENTRY_KEYS:
        return replace(mistake, message=f"'{key}' belongs beside config, not in it")
    if holder := _holder_of(key, algorithm.Config, "config"):
        return replace(mistake, message=f"'{key}' belongs under {holder}")
    if ";" not in mistake.message:
        return replace(mistake, message=f"{mistake.message}; see `rlrun config {name}`")
    return mistake


def _check_settings(data: Mapping[str, Any]) -> tuple[RunSettings | None, list[Mistake]]:
    """Checks what an entry says besides algorithm, env and config."""
    written = {key: value for key, value in data.items() if key in RunSettings.model_fields}
    spaces, wrong_spaces = find_spaces(written)
    mutations = [mistake for mistake in wrong_spaces if _is_mutation(mistake.location)]
    misplaced = [*spaces, *(mistake.location for mistake in wrong_spaces)]
    misplaced = [location for location in misplaced if not _is_mutation(location)]
    if misplaced:
        message = "a search space cannot stand here, only below config and env"
        return None, [
            Mistake(location, "write [low, high]" if location[: len(BOUNDS)] == BOUNDS else message)
            for location in misplaced
        ] + mutations
    settings, mistakes = validate(RunSettings, written)
    worded = {mistake.location[: len(MUTATIONS) + 1] for mistake in mutations}  # told at their very number
    mistakes = [mistake for mistake in mistakes if mistake.location not in worded] + mutations
    if "stop" not in written:
        mistakes = [mistake for mistake in mistakes if mistake.location != ("stop",)]
        mistakes.append(
            Mistake(("stop",), "is missing: say when a trial ends, for instance stop: {env_steps: 100_000}")
        )
    if settings is None:
        return None, mistakes
    if settings.evaluation is not None and settings.evaluation.env is not None:
        found = env_mistakes(settings.evaluation.env)
        mistakes += [replace(mistake, location=("evaluation", "env", *mistake.location)) for mistake in found]
    return settings, mistakes


def _is_mutation(location: Location) -> bool:
    return location[: len(MUTATIONS)] == MUTATIONS and len(location) > len(MUTATIONS)


def _check_number(settings: RunSettings, spaces: Mapping[Location, SearchSpace], max_trials: int) -> list[Mistake]:
    """Checks that the trials are neither too many nor the same ones again."""
    searches = settings.searcher is not None and settings.searcher.settings is not None
    mutates = settings.scheduler is not None and settings.scheduler.population is not None
    trials = (settings.num_samples if searches else count(spaces, settings.num_samples)) * len(settings.seeds)
    if trials > max_trials:
        message = f"has {trials:,} trials, more than {max_trials:,}; --max-trials {trials} allows them"
        return [Mistake((), message, at_key=True)]
    if settings.num_samples > 1 and not searches and not mutates and all(space.is_grid for space in spaces.values()):
        message = (
            f"{settings.num_samples} samples would be equal: nothing is drawn at random; for repetitions write seeds"
        )
        return [Mistake(("num_samples",), message)]
    return []


def _check_trials(experiment: Experiment) -> list[Mistake]:
    """Checks what is drawn for each trial; rules across fields see the combinations here."""
    mistakes: list[Mistake] = []
    config_class = type(experiment.config)
    # A searcher will suggest what nobody knows yet, but it draws from the same spaces. What the config refuses it draws
    # anew, so it is enough that some fit.
    drawn = experiment.replace(searcher=None) if experiment.searches else experiment
    seen: set[int] = set()
    for planned in drawn.plan():
        if planned.configuration in seen and not experiment.mutated():
            continue
        seen.add(planned.configuration)
        data = filled(experiment.template, planned.values)
        _, in_config = validate(config_class, data["config"])
        _, in_env = validate(EnvConfig, data["env"])
        found = [replace(mistake, location=("config", *mistake.location)) for mistake in in_config]
        found += [replace(mistake, location=("env", *mistake.location)) for mistake in in_env]
        if experiment.searches and not found:
            return []
        which = "in a suggestion such as" if experiment.searches else f"in trial {planned.index:03}"
        mistakes += [replace(mistake, message=f"{which}: {mistake.message}") for mistake in found]
        if len(mistakes) >= (MAX_REFUSED if experiment.searches else MAX_TOLD):
            break
    return mistakes[:MAX_TOLD]
