"""Validation of one entry of a spec file: the result is an Experiment, or all mistakes in the entry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.envs.env_config import WITHOUT_ENV, EnvConfig, lacking_column, names_world
from rlrun.engine.envs.env_model import finite_mdp
from rlrun.engine.hook import HOOKS, TRIAL_EVENTS, declared_by, make_hook, worker_hooks
from rlrun.engine.league.scripted_opponent import ScriptedOpponent
from rlrun.engine.messages.explain import Location, Mistake, dotted, shown
from rlrun.engine.messages.foreign_names import unknown_key
from rlrun.engine.rollout.worker import ROLLOUT_WORKER
from rlrun.engine.settings.config import ConfigModel, Plugin
from rlrun.engine.training.assemble.policies import Policies, from_data_alone
from rlrun.engine.worlds.make import check_world, make_game_tree
from rlrun.experiments.spec.action_checks import action_mistakes
from rlrun.experiments.spec.auto_settings import auto_mistakes, without_auto
from rlrun.experiments.spec.expansion import filled, value_at
from rlrun.experiments.spec.experiment import MAX_TRIALS, Experiment, RunSettings, judged_by
from rlrun.experiments.spec.foreign_keys import as_written, foreign_entry_keys, foreign_keys, in_one_round, in_our_keys
from rlrun.experiments.spec.learning import (
    ENTRY_KEYS,
    LEARNING_KEYS,
    CheckedLearning,
    check_learning,
    holder_of,
    place_of,
)
from rlrun.experiments.spec.machines import on_machine
from rlrun.experiments.spec.metric_checks import check_metrics, check_metrics_of_any
from rlrun.experiments.spec.mutation_checks import BOUNDS, MUTATIONS, check_mutations
from rlrun.experiments.spec.search_space import SearchSpace, find_spaces, is_search_space
from rlrun.experiments.spec.seats import SEAT_KEYS, opponent_mistakes
from rlrun.experiments.spec.section import Section, check_section, concerns, refusals, validate
from rlrun.experiments.spec.stages import STAGES
from rlrun.experiments.spec.tuning import kind_of, kind_settings
from rlrun.experiments.spec.tuning_checks import check_tuning

NEEDED_KEYS = ("algorithm", "env", "stop")
"""Required keys of an entry in a spec file. A misspelt key is reported, and its value is validated under the correct
name."""

MAX_TOLD = 5
"""Maximum number of reported mistakes in sampled values of search spaces."""

MAX_REFUSED = 100
"""Number of rejected samples after which the search spaces of a searcher count as having no valid value."""


def check_entry(
    name: str, data: Any, origin: str = "", max_trials: int = MAX_TRIALS, *, makes_envs: bool = False
) -> tuple[Experiment | None, list[Mistake]]:
    """Validates one entry of a spec file.

    Args:
        name: The experiment's name.
        data: The value of the entry.
        origin: Source of the entry (a file, or defaults), for messages.
        max_trials: Maximum number of trials of the experiment.
        makes_envs: Whether to create each env once, to check that the algorithms support its actions.

    Returns:
        The experiment, None if it is not valid, and all mistakes, with their locations in the entry.

    Raises:
        UserCodeError: A user's module raises while it is imported.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", name):
        return None, [
            Mistake((), f"the name '{name}' must be of letters, digits and _.+- (it becomes a directory)", True)
        ]
    if not isinstance(data, Mapping):
        return None, [Mistake((), f"must be a mapping with algorithm, env, config and stop, not {shown(data)}")]
    keys = foreign_entry_keys(data, ENTRY_KEYS, NEEDED_KEYS)
    on = on_machine(in_our_keys(data, keys))
    found = without_auto(on.entry)
    entry = found.entry
    experiment, mistakes, learning = _check(name, entry, origin, max_trials, makes_envs=makes_envs)
    mistakes = [*mistakes, *found.mistakes]
    if found.auto and learning.learns is not None:
        mistakes += auto_mistakes(found.auto, entry, learning.learns.first, experiment)
        experiment = experiment and experiment.replace(auto=found.auto)
    inside = foreign_keys(entry, {**learning.models, (): RunSettings, ("env",): EnvConfig})
    if inside:
        ours = in_our_keys(entry, inside)
        further = _check(name, ours, origin, max_trials, makes_envs=makes_envs)[1]
        mistakes = in_one_round(mistakes, further, inside)
    mistakes = _unknown_keys(data, learning) + on.mistakes + as_written(on.as_written(mistakes), keys)
    return (None if mistakes else experiment), mistakes


def _check(
    name: str, data: Mapping[str, Any], origin: str, max_trials: int, *, makes_envs: bool
) -> tuple[Experiment | None, list[Mistake], CheckedLearning]:
    """Validates all known keys of a spec entry."""
    settings, wrong = _check_settings(data)
    learning = check_learning(data)
    hooks, wrong_hooks = _check_hooks(settings)
    mistakes = [*wrong, *wrong_hooks, *learning.mistakes]
    data = learning.entry
    if learning.learns is not None:
        unknown = check_metrics(data, learning.learns, hooks)
        mistakes += [mistake for mistake in unknown if not (wrong_hooks and f"'{HOOKS}" in mistake.message)]
        mistakes += _hooks_without_events(hooks, learning.learns)
        mistakes += check_mutations(data, learning.parts)
    elif learning.candidates:
        mistakes += check_metrics_of_any(data, [Policies.alone(each(each.Config())) for each in learning.candidates])
    learns = learning.learns
    may_be_missing = learns is not None and learns.is_alone and learns.data_alone
    env = _check_env(data, learns if makes_envs else None, may_be_missing=may_be_missing)
    mistakes += env.mistakes
    if settings is not None and settings.evaluation is not None and settings.evaluation.env is None:
        mistakes += _evaluation_without_env(env.value)
    configs = {part.location: part.value for part in learning.parts if part.value is not None}
    sound = learning.learns is not None and len(configs) == len(learning.parts)
    if settings is not None and sound and not env.mistakes + learning.mistakes:
        spaces = {**env.spaces, **learning.spaces}
        mistakes += _check_number(settings, spaces, max_trials)
        mistakes += check_tuning(settings, configs, spaces)
        mistakes += _check_chain(settings, spaces)
    mistakes += _check_needed(configs)
    if settings is None or not sound or env.value is None or mistakes:
        return None, mistakes, learning
    written = {key: data[key] for key in LEARNING_KEYS if key in data and key != "algorithm"}
    experiment = Experiment(
        name=name,
        algorithm=learning.algorithm,
        env=env.value,
        config=configs["config",],
        policies=learning.policies,
        mapping=data.get("mapping"),
        train=tuple(data.get("train") or ()),
        seats=learning.seats.seats,
        league=learning.seats.league if learning.seats.seats else None,
        origin=origin,
        template={"env": data.get("env"), "config": data.get("config") or {}} | written,
        **{field: getattr(settings, field) for field in RunSettings.model_fields},
    )
    mistakes = _check_trials(experiment, learning.models)
    learned_from = [name for own in experiment.settings.values() for name in own.env_columns]
    if lacks := lacking_column(experiment.env.columns, learned_from):
        mistakes.append(Mistake(("env", "columns"), lacks))
    if not mistakes:
        mistakes = opponent_mistakes(experiment.learns, experiment.env)
    return (None if mistakes else experiment), mistakes, learning


def env_mistakes(config: EnvConfig) -> list[Mistake]:
    """Validates that an env, its arguments and its wrappers exist and are installed, without instantiating the env."""
    named = (config.named_by,)
    bare = config.replace(wrappers=(), **({} if config.preset is None else {"preset": None}))
    mistakes = _mistakes_at(named, bare)
    if mistakes and config.kwargs and not _mistakes_at(named, bare.replace(kwargs={})):
        return _mistakes_at(("kwargs",), bare)
    if not mistakes and config.preset is not None:
        mistakes = _mistakes_at(("preset",), config)
    if not mistakes and config.evaluation_kwargs:
        mistakes = _mistakes_at(("evaluation_kwargs",), bare.in_evaluation())
    for index, wrapper in enumerate([] if mistakes else config.wrappers):
        mistakes += _mistakes_at(("wrappers", index), bare.replace(wrappers=(wrapper,)))
    return mistakes


def _mistakes_at(location: Location, config: EnvConfig) -> list[Mistake]:
    return refusals(location, partial(check_world, config))


def _check_env(data: Mapping[str, Any], learns: Policies | None, *, may_be_missing: bool) -> Section[EnvConfig]:
    """Validates the env, and that policies support its actions, for which it is created unless `learns` is None.

    One that may be missing lacks only where the data to learn from is wrong.
    """
    if "env" not in data:
        begins = data.get("begins")
        if may_be_missing and isinstance(begins, Mapping) and begins.get("recorded"):
            wrong = "is missing: the spaces of data that an earlier stage records are not known before, so name it"
            return Section(("env",), EnvConfig, None, None, {}, [Mistake(("env",), wrong)])
        missing = [] if may_be_missing else [Mistake(("env",), "is missing: add for instance env: CartPole-v1")]
        return Section(("env",), EnvConfig, None, None, {}, missing)
    return _env_section(data["env"], ("env",), learns)


def _env_section(env: Any, where: Location, learns: Policies | None = None) -> Section[EnvConfig]:
    if env is None or (isinstance(env, list | int | float) and not is_search_space(env)):
        wrong = f"must be a Gymnasium id, package.module:factory or a mapping with an id, not {shown(env)}"
        return Section(where, EnvConfig, env, None, {}, [Mistake(where, wrong)])

    def further(config: EnvConfig) -> list[Mistake]:
        return env_mistakes(config) or ([] if learns is None else action_mistakes(config, learns))

    return check_section(EnvConfig, env, where, further)


def _evaluation_without_env(env: EnvConfig | None) -> list[Mistake]:
    if env is None or env.id != WITHOUT_ENV:
        return []
    return [Mistake(("evaluation",), "needs an env to evaluate in: add evaluation.env, or env next to config")]


def _unknown_keys(data: Mapping[str, Any], learning: CheckedLearning) -> list[Mistake]:
    """Mistakes for unknown keys of a spec entry; the message names the correct section if the key exists elsewhere."""
    of_policies = () if "policies" in data else ("mapping", "train", *SEAT_KEYS)
    of_stages = () if "begins" in data else ("begins", STAGES)
    known = [key for key in ENTRY_KEYS if key not in (*of_policies, *of_stages)]
    models: dict[str, Sequence[type[ConfigModel]]] = {
        dotted(location): [model] for location, model in learning.models.items()
    } or {"config": [candidate.Config for candidate in learning.candidates] or [AlgorithmConfig]}
    mistakes = []
    for key in data:
        if key in ENTRY_KEYS:
            continue
        places = (place_of(str(key), of_path, path) for path, of_path in models.items())
        in_env = holder_of(str(key), EnvConfig, "env")
        message = next(filter(None, places), "") or (f"'{key}' belongs under {in_env}" if in_env else "")
        mistakes.append(Mistake((key,), message or unknown_key(str(key), known), at_key=True))
    return mistakes


def _check_needed(configs: Mapping[Location, AlgorithmConfig]) -> list[Mistake]:
    """Mistakes for null settings that training requires to be set."""
    return [
        Mistake((*location, name), message)
        for location, config in configs.items()
        if isinstance(config, AlgorithmConfig)
        for name, message in config.needed.items()
        if getattr(config, name) is None
    ]


def _check_settings(data: Mapping[str, Any]) -> tuple[RunSettings | None, list[Mistake]]:
    """Validates all keys of a spec entry except those of algorithms, policies and env."""
    written = {key: value for key, value in data.items() if key in RunSettings.model_fields}
    spaces, wrong_spaces = find_spaces(written)
    mutations = [mistake for mistake in wrong_spaces if _is_mutation(mistake.location)]
    misplaced = [*spaces, *(mistake.location for mistake in wrong_spaces)]
    misplaced = [location for location in misplaced if not _is_mutation(location)]
    written = _with_defaults_of_data(_with_best(written, data), data)
    written, in_evaluation = _with_evaluation_env(written)
    settings, mistakes = validate(RunSettings, written)
    mistakes = _with_misplaced(mistakes, misplaced) + in_evaluation
    if settings is not None and settings.evaluation is not None and settings.evaluation.against is not None:
        mistakes += _against_mistakes(settings.evaluation.against, data.get("env"))
    if settings is not None and settings.evaluation is not None and settings.evaluation.env is None:
        mistakes += _clients_evaluation_mistakes(data.get("env"))
    if settings is not None and settings.evaluation is not None and settings.evaluation.oracle:
        mistakes += _oracle_mistakes(data.get("env"))
    worded = {mistake.location[: len(MUTATIONS) + 1] for mistake in mutations}  # reported at the exact value
    mistakes = [mistake for mistake in mistakes if mistake.location not in worded] + mutations
    if "stop" not in written:
        mistakes = [mistake for mistake in mistakes if mistake.location != ("stop",)]
        mistakes.append(
            Mistake(("stop",), "is missing: say when a trial ends, for instance stop: {env_steps: 100_000}")
        )
    return settings, mistakes


def _check_hooks(settings: RunSettings | None) -> tuple[Sequence[Plugin], list[Mistake]]:
    """Makes each hook once; returns the hooks, none if one is wrong, and the mistakes."""
    mistakes = []
    for number, hook in enumerate([] if settings is None else settings.hooks):
        for path, own in hook.items():
            mistakes += refusals(("hooks", number), partial(make_hook, path, own))
    if settings is None or mistakes:
        return (), mistakes
    wrong = refusals(("hooks",), partial(declared_by, settings.hooks))
    return (() if wrong else settings.hooks), wrong


def _hooks_without_events(hooks: Sequence[Plugin], learns: Policies) -> list[Mistake]:
    """Mistakes for hooks on steps and fragments of an algorithm whose workers collect in another way."""
    in_workers = worker_hooks(hooks)
    for algorithm in learns.algorithms.values() if in_workers else ():
        if algorithm.worker_factory != ROLLOUT_WORKER or from_data_alone(algorithm.config):
            message = (
                f"{algorithm.name()} collects no fragments of env steps, which {', '.join(in_workers[0])} needs: "
                f"use {', '.join(TRIAL_EVENTS)}"
            )
            return [Mistake(("hooks", hooks.index(in_workers[0])), message)]
    return []


def _with_misplaced(mistakes: Sequence[Mistake], spaces: Sequence[Location]) -> list[Mistake]:
    """Replaces a type error by a message on search spaces, where an entry has a search space in an unsupported place.

    Search spaces under an unknown key are not reported.
    """
    unknown = [mistake.location for mistake in mistakes if mistake.at_key]
    spaces = [space for space in spaces if not any(space[: len(key)] == key for key in unknown)]
    message = "a search space is only allowed below config and env, and in the mutations of pbt"
    return [mistake for mistake in mistakes if not concerns(mistake.location, spaces)] + [
        Mistake(space, "write [low, high]" if space[: len(BOUNDS)] == BOUNDS else message) for space in spaces
    ]


def _with_best(written: dict[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Sets the default of ``checkpoint.best``, which depends on the rest of the entry.

    Resolved specs therefore contain the metric, and a resumed run keeps the metric of its start.
    """
    checkpoint = written.get("checkpoint", {})
    if not isinstance(checkpoint, Mapping) or "best" in checkpoint:
        return written
    return {**written, "checkpoint": {**checkpoint, "best": judged_by(data)}}


def _with_defaults_of_data(written: dict[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Sets defaults of the schedulers and searchers of trials that learn from data alone: SGD steps and evaluations."""
    config, stop = data.get("config"), data.get("stop")
    names_data = isinstance(config, Mapping) and config.get("input") is not None
    if not names_data or not isinstance(stop, Mapping) or "sgd_steps" not in stop or "env_steps" in stop:
        return written
    tuned = {}
    for key in ("scheduler", "searcher"):
        kind, settings = kind_of(written.get(key)), kind_settings(written.get(key))
        clock = {"time_attr": "sgd_steps"} if key == "scheduler" and kind not in ("pbt", "pb2") else {}
        if kind not in ("", "random"):
            tuned[key] = {kind: {"metric": judged_by(data), **clock, **settings}}
    return {**written, **tuned}


def _with_evaluation_env(written: dict[str, Any]) -> tuple[dict[str, Any], list[Mistake]]:
    """Settings whose evaluation env is parsed into its config class, and the mistakes in that env."""
    evaluation = written.get("evaluation")
    if not isinstance(evaluation, Mapping) or evaluation.get("env") is None:
        return written, []
    section = _env_section(evaluation["env"], ("evaluation", "env"))
    return {**written, "evaluation": {**evaluation, "env": section.value}}, section.mistakes


def _against_mistakes(opponent: str, env: Any) -> list[Mistake]:
    """Mistakes in `evaluation.against`, the scripted opponent of evaluations."""
    where: Location = ("evaluation", "against")
    if not names_world(env):
        return [Mistake(where, "is for worlds of many agents: an env with one has no sides")]
    return refusals(where, partial(ScriptedOpponent, opponent))


def _clients_evaluation_mistakes(env: Any) -> list[Mistake]:
    """Mistakes of evaluations in an external env, whose clients are busy with episodes to learn from."""
    if not isinstance(env, Mapping) or "external" not in env:
        return []
    message = (
        "is missing: the clients of env.external run episodes to learn from. Name an env such as CartPole-v1, or a "
        "server of its own for clients that evaluate, {external: {port: 9950, spaces: ...}}"
    )
    return [Mistake(("evaluation", "env"), message)]


def _oracle_mistakes(env: Any) -> list[Mistake]:
    """Mistakes of `evaluation.oracle` where an env has no exact values; none if the env itself is not valid."""
    section = check_section(EnvConfig, env, ("env",), env_mistakes)
    if section.value is None or section.mistakes:
        return []
    solved = make_game_tree if names_world(env) else finite_mdp
    return refusals(("evaluation", "oracle"), partial(solved, section.value))


def _is_mutation(location: Location) -> bool:
    return location[: len(MUTATIONS)] == MUTATIONS and len(location) > len(MUTATIONS)


def _check_number(settings: RunSettings, spaces: Mapping[Location, SearchSpace], max_trials: int) -> list[Mistake]:
    """Validates the number of trials (bounded), and that no two trials are equal."""
    trials = settings.configurations_in(spaces) * len(settings.seeds)
    if trials > max_trials:
        message = f"has {trials:,} trials, more than {max_trials:,}; --max-trials {trials} allows them"
        return [Mistake((), message, at_key=True)]
    is_drawn = settings.searches or settings.population is not None or any(not each.is_grid for each in spaces.values())
    if settings.num_samples > 1 and not is_drawn:
        message = (
            f"{settings.num_samples} samples would be equal: nothing is drawn at random; for repetitions write seeds"
        )
        return [Mistake(("num_samples",), message)]
    return []


def _check_chain(settings: RunSettings, spaces: Mapping[Location, SearchSpace]) -> list[Mistake]:
    """Validates that an experiment which begins after another has one trial per seed."""
    if settings.begins is None or settings.configurations_in(spaces) == 1:
        return []
    message = "each seed begins with its weights of an earlier experiment: leave out search spaces and samples here"
    return [Mistake(("begins",), message)]


def _check_trials(experiment: Experiment, settings: Mapping[Location, type[ConfigModel]]) -> list[Mistake]:
    """Validates the sampled hyperparameters of each trial, including constraints across fields."""
    mistakes: list[Mistake] = []
    # The suggestions of a searcher are not known yet, but come from the same spaces. It repeats suggestions that the
    # config refuses, so it is enough that one is valid.
    drawn = experiment.replace(searcher=None) if experiment.searches else experiment
    seen: set[int] = set()
    for planned in drawn.plan():
        if planned.configuration in seen and not experiment.mutated():
            continue
        seen.add(planned.configuration)
        data = filled(experiment.template, planned.values)
        models = {**settings, ("env",): type(experiment.env)}
        found = [
            replace(mistake, location=(*location, *mistake.location))
            for location, model in models.items()
            for mistake in validate(model, value_at(data, location))[1]
        ]
        if experiment.searches and not found:
            return []
        which = "in a suggestion such as" if experiment.searches else f"in trial {planned.index:03}"
        mistakes += [replace(mistake, message=f"{which}: {mistake.message}") for mistake in found]
        if len(mistakes) >= (MAX_REFUSED if experiment.searches else MAX_TOLD):
            break
    return mistakes[:MAX_TOLD]
