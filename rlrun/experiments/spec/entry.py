"""Validation of one entry of a spec file: the result is an `Experiment`, or an error with all mistakes in the entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.envs.env_config import WITHOUT_ENV, EnvConfig, missing_column, names_world
from rlrun.engine.envs.env_model import finite_mdp
from rlrun.engine.hook import TRIAL_EVENTS, declared_by, make_hook, worker_hooks
from rlrun.engine.league.scripted_opponent import ScriptedOpponent
from rlrun.engine.messages.explain import Location, Mistake, shown
from rlrun.engine.rollout.worker import ROLLOUT_WORKER
from rlrun.engine.settings.config import ConfigModel, Plugin
from rlrun.engine.settings.metric import HOOKS
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.training.assemble.policies import Policies, learns_offline
from rlrun.engine.worlds.make_worlds import make_game_tree
from rlrun.experiments.spec.auto_settings import auto_mistakes, without_auto
from rlrun.experiments.spec.env_checks import check_env, check_env_section, env_mistakes
from rlrun.experiments.spec.expansion import filled, value_at
from rlrun.experiments.spec.experiment import MAX_TRIALS, EvaluationConfig, Experiment, RunSettings, judged_by
from rlrun.experiments.spec.foreign_keys import (
    as_written,
    foreign_entry_keys,
    foreign_keys,
    in_one_round,
    with_rlrun_keys,
)
from rlrun.experiments.spec.keys import ENTRY_KEYS, LEARNING_KEYS, unknown_entry_keys
from rlrun.experiments.spec.learning import CheckedLearning, check_learning
from rlrun.experiments.spec.loggers import make_logger
from rlrun.experiments.spec.machines import MACHINE_KEYS, OnMachine, on_machine
from rlrun.experiments.spec.metric_checks import check_metrics, check_metrics_of_any
from rlrun.experiments.spec.mutation_checks import BOUNDS, MUTATIONS, check_mutations
from rlrun.experiments.spec.search_space import SearchSpace, find_spaces
from rlrun.experiments.spec.seats import opponent_mistakes
from rlrun.experiments.spec.section import Section, check_section, overlaps, refusals, validate
from rlrun.experiments.spec.tuning import kind_of, kind_settings
from rlrun.experiments.spec.tuning_checks import check_tuning

NEEDED_KEYS = ("algorithm", "env", "stop")
"""Required keys of an entry in a spec file. A misspelled key is reported, and its value is validated under the correct
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
        origin: Source of the entry (a file, or defaults), used in messages.
        max_trials: Maximum number of trials of the experiment.
        makes_envs: Whether to create each env once, to check that the algorithms support its actions.

    Returns:
        The experiment (None if it is not valid), and all mistakes with their locations in the entry.

    Raises:
        UserCodeError: A user's module raises an exception while it is imported.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", name):
        return None, [
            Mistake(
                (),
                f"the name '{name}' must consist of letters, digits and _.+-, because it becomes a directory name",
                True,
            )
        ]
    if not isinstance(data, Mapping):
        return None, [Mistake((), f"must be a mapping with algorithm, env, config and stop, not {shown(data)}")]
    keys = foreign_entry_keys(data, ENTRY_KEYS, NEEDED_KEYS)
    written = with_rlrun_keys(data, keys)
    on = on_machine(written) if any(key in written for key in MACHINE_KEYS) else OnMachine(written, [])
    found = without_auto(on.entry)
    entry = found.entry
    experiment, mistakes, learning = _check(name, entry, origin, max_trials, makes_envs=makes_envs)
    mistakes = [*mistakes, *found.mistakes]
    if found.auto and learning.learns is not None:
        mistakes += auto_mistakes(found.auto, entry, learning.learns.first, experiment)
        experiment = experiment and experiment.replace(auto=found.auto)
    inside = foreign_keys(entry, {**learning.models, (): RunSettings, ("env",): EnvConfig})
    if inside:
        ours = with_rlrun_keys(entry, inside)
        further = _check(name, ours, origin, max_trials, makes_envs=makes_envs)[1]
        mistakes = in_one_round(mistakes, further, inside)
    mistakes = on.as_written(mistakes) if on.settings else mistakes
    mistakes = unknown_entry_keys(data, learning.classes_by_path) + on.mistakes + as_written(mistakes, keys)
    return (None if mistakes else experiment), mistakes


TENSORS = {
    "settings": "rlrun.engine.training.assemble.tensor_settings:refuse_misfits",
    "dataflow": "rlrun.engine.training.assemble.description:Description",
    "instances": "rlrun.engine.envs.tensor_backend:allows_one_instance",
}
"""Import paths of the checks of an env of tensors."""


@dataclass(frozen=True)
class _ParsedEntry:
    """Spec entry whose sections are each parsed on their own, so that mistakes in one section hide none in another.

    Attributes:
        settings: All settings except those of algorithms, policies and env; None if invalid.
        hooks: The hooks; none if one is wrong.
        learning: The algorithms, the policies and their configs.
        env: The env.
        env_warnings: Warnings from the creation of the env.
        max_trials: Maximum number of trials.
        wrong_settings: Mistakes in the settings.
        wrong_hooks: Mistakes in the hooks.
    """

    settings: RunSettings | None
    hooks: Sequence[Plugin]
    learning: CheckedLearning
    env: Section[EnvConfig]
    env_warnings: tuple[str, ...]
    max_trials: int
    wrong_settings: Sequence[Mistake]
    wrong_hooks: Sequence[Mistake]

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """The entry as written, with presets and the run's length filled in."""
        return self.learning.entry

    @cached_property
    def configs(self) -> dict[Location, AlgorithmConfig]:
        """The valid configs by location, with the first value of every search space."""
        return {part.location: part.value for part in self.learning.parts if part.value is not None}

    @property
    def can_learn(self) -> bool:
        """Whether all algorithms are known and all configs are valid."""
        return self.learning.learns is not None and len(self.configs) == len(self.learning.parts)


def _parsed(data: Mapping[str, Any], max_trials: int, *, makes_envs: bool) -> _ParsedEntry:
    """Parses each section of a spec entry."""
    settings, wrong_settings = _check_settings(data)
    learning = check_learning(data)
    hooks, wrong_hooks = _check_hooks(settings)
    learns = learning.learns
    may_be_missing = learns is not None and learns.is_alone and learns.is_offline
    env, warnings = check_env(learning.entry, learns if makes_envs else None, may_be_missing=may_be_missing)
    return _ParsedEntry(settings, hooks, learning, env, warnings, max_trials, wrong_settings, wrong_hooks)


def _check(
    name: str, data: Mapping[str, Any], origin: str, max_trials: int, *, makes_envs: bool
) -> tuple[Experiment | None, list[Mistake], CheckedLearning]:
    """Validates all known keys of a spec entry."""
    entry = _parsed(data, max_trials, makes_envs=makes_envs)
    mistakes = [mistake for check in CHECKS for mistake in check(entry)]
    if entry.settings is None or not entry.can_learn or entry.env.value is None or mistakes:
        return None, mistakes, entry.learning
    experiment = _experiment(name, origin, entry, entry.settings, entry.env.value)
    mistakes = _check_trials(experiment, entry.learning.models)
    mistakes += opponent_mistakes(experiment.learns, experiment.env) if experiment.seats else []
    return (None if mistakes else experiment), mistakes, entry.learning


def _experiment(name: str, origin: str, entry: _ParsedEntry, settings: RunSettings, env: EnvConfig) -> Experiment:
    """Experiment of an entry without mistakes."""
    data, learning = entry.data, entry.learning
    written = {key: data[key] for key in LEARNING_KEYS if key in data and key != "algorithm"}
    return Experiment(
        name=name,
        algorithm=learning.algorithm,
        env=env,
        config=entry.configs["config",],
        policies=learning.policies,
        mapping=data.get("mapping"),
        train=tuple(data.get("train") or ()),
        seats=learning.seats.seats,
        league=learning.seats.league if learning.seats.seats else None,
        origin=origin,
        env_warnings=entry.env_warnings,
        template={"env": data.get("env"), "config": data.get("config") or {}} | written,
        **{field: getattr(settings, field) for field in RunSettings.model_fields},
    )


def _wrong_values(entry: _ParsedEntry) -> list[Mistake]:
    """Mistakes within single sections, except the env."""
    return [*entry.wrong_settings, *entry.wrong_hooks, *entry.learning.mistakes]


def _metric_mistakes(entry: _ParsedEntry) -> list[Mistake]:
    """Mistakes for metrics that are not reported; the metrics of hooks are unknown if a hook is invalid."""
    learning = entry.learning
    if learning.learns is None:
        candidates = [Policies.alone(each(each.Config())) for each in learning.candidates]
        return check_metrics_of_any(entry.data, candidates) if candidates else []
    unknown = check_metrics(entry.data, learning.learns, entry.hooks)
    return [mistake for mistake in unknown if not (entry.wrong_hooks and f"'{HOOKS}" in mistake.message)]


def _hooks_without_events(entry: _ParsedEntry) -> list[Mistake]:
    """Mistakes for hooks on steps and fragments of an algorithm whose workers collect in another way."""
    in_workers = worker_hooks(entry.hooks) if entry.hooks else []
    if not in_workers or entry.learning.learns is None:
        return []
    for algorithm in entry.learning.learns.algorithms.values():
        if algorithm.worker_factory != ROLLOUT_WORKER or learns_offline(algorithm.config):
            message = (
                f"{algorithm.name()} does not collect fragments of env steps, so {', '.join(in_workers[0])} "
                f"would never be called: use {', '.join(TRIAL_EVENTS)}"
            )
            return [Mistake(("hooks", entry.hooks.index(in_workers[0])), message)]
    return []


def _logger_mistakes(entry: _ParsedEntry) -> list[Mistake]:
    """Mistakes in custom loggers, each of which is made once."""
    if entry.settings is None or "loggers" not in entry.data:
        return []
    return [
        mistake
        for path, settings in entry.settings.loggers.custom.items()
        for mistake in refusals(("loggers", path), partial(make_logger, path, settings))
    ]


def _mutation_mistakes(entry: _ParsedEntry) -> list[Mistake]:
    """Mistakes for settings that a population cannot mutate."""
    if entry.learning.learns is None or "scheduler" not in entry.data:
        return []
    return check_mutations(entry.data, entry.learning.parts)


def _env_mistakes(entry: _ParsedEntry) -> list[Mistake]:
    """Mistakes in the env, and for evaluations where there is no env to evaluate in."""
    evaluation = None if entry.settings is None else entry.settings.evaluation
    env = entry.env.value
    if evaluation is None or evaluation.env is not None or env is None or env.id != WITHOUT_ENV:
        return entry.env.mistakes
    message = "needs an env to evaluate in: add evaluation.env, or add env next to `config`"
    return [*entry.env.mistakes, Mistake(("evaluation",), message)]


def _missing_columns(entry: _ParsedEntry) -> list[Mistake]:
    """Mistakes for columns of the env that an algorithm learns from but the env's config does not name."""
    env, learns = entry.env, entry.learning.learns
    if env.value is None or env.mistakes or learns is None:
        return []
    learned_from = [name for algorithm in learns.algorithms.values() for name in algorithm.config.env_columns]
    lacks = missing_column(env.value.columns, learned_from)
    return [Mistake(("env", "columns"), lacks)] if lacks else []


def _tensor_mistakes(entry: _ParsedEntry) -> list[Mistake]:
    """Mistakes in settings and algorithms that do not work with an env of tensors, and in its evaluations."""
    env, learns = entry.env.value, entry.learning.learns
    if env is None or env.tensors is None or entry.env.mistakes or learns is None:
        return []
    records = bool(entry.data.get("output"))
    check = partial(load_internal(TENSORS["settings"]), env, learns, records=records, hooks=())
    mistakes = refusals(("env", "tensors"), check)
    if not mistakes:
        mistakes = refusals(("algorithm",), load_internal(TENSORS["dataflow"])(env, learns, seed=0).plan)
    evaluation = None if entry.settings is None else entry.settings.evaluation
    judged_in = None if evaluation is None else evaluation.env or env
    if judged_in is not None and judged_in.id == env.id and load_internal(TENSORS["instances"])(env):
        message = (
            f"env {env.id} allows one instance in a process, which the training uses: leave out evaluation, and run "
            "`rlrun evaluate` afterwards"
        )
        mistakes.append(Mistake(("evaluation",), message, at_key=True))
    return mistakes


def _plan_mistakes(entry: _ParsedEntry) -> list[Mistake]:
    """Mistakes in the number of trials, their scheduler and their searcher, of an entry whose sections are valid."""
    settings = entry.settings
    if settings is None or not entry.can_learn or entry.env.mistakes or entry.learning.mistakes:
        return []
    spaces = {**entry.env.spaces, **entry.learning.spaces}
    is_tuned = settings.scheduler is not None or settings.searcher is not None
    return [
        *_check_number(settings, spaces, entry.max_trials),
        *(check_tuning(settings, entry.configs, spaces) if is_tuned else ()),
        *_check_chain(settings, spaces),
    ]


def _missing_settings(entry: _ParsedEntry) -> list[Mistake]:
    """Mistakes for null settings that training requires to be set."""
    return [
        Mistake((*location, name), message)
        for location, config in entry.configs.items()
        if isinstance(config, AlgorithmConfig)
        for name, message in config.needed.items()
        if getattr(config, name) is None
    ]


CHECKS: Sequence[Callable[[_ParsedEntry], list[Mistake]]] = (
    _wrong_values,
    _metric_mistakes,
    _hooks_without_events,
    _logger_mistakes,
    _mutation_mistakes,
    _env_mistakes,
    _plan_mistakes,
    _missing_settings,
    _missing_columns,
    _tensor_mistakes,
)
"""Checks of a spec entry, functions that return mistakes; the user gets the mistakes of all checks at once."""


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
    if settings is not None and settings.evaluation is not None:
        mistakes += _evaluation_mistakes(settings.evaluation, data.get("env"))
    worded = {mistake.location[: len(MUTATIONS) + 1] for mistake in mutations}  # reported at the exact value instead
    mistakes = [mistake for mistake in mistakes if mistake.location not in worded] + mutations
    if "stop" not in written:
        mistakes = [mistake for mistake in mistakes if mistake.location != ("stop",)]
        mistakes.append(Mistake(("stop",), "is missing: set when a trial ends, such as stop: {env_steps: 100_000}"))
    return settings, mistakes


def _check_hooks(settings: RunSettings | None) -> tuple[Sequence[Plugin], list[Mistake]]:
    """Makes each hook once; returns the hooks, none if one is wrong, and the mistakes."""
    mistakes = []
    for number, hook in enumerate([] if settings is None else settings.hooks):
        for path, own in hook.items():
            mistakes += refusals(("hooks", number), partial(make_hook, path, own))
    if settings is None or not settings.hooks or mistakes:
        return (), mistakes
    wrong = refusals(("hooks",), partial(declared_by, settings.hooks))
    return (() if wrong else settings.hooks), wrong


def _with_misplaced(mistakes: Sequence[Mistake], spaces: Sequence[Location]) -> list[Mistake]:
    """Replaces a type error with a message about search spaces if an entry has one in an unsupported place.

    Search spaces under an unknown key are not reported.
    """
    unknown = [mistake.location for mistake in mistakes if mistake.at_key]
    spaces = [space for space in spaces if not any(space[: len(key)] == key for key in unknown)]
    message = "a search space is allowed only below config and env, and in the mutations of pbt"
    return [mistake for mistake in mistakes if not overlaps(mistake.location, spaces)] + [
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
    section = check_env_section(evaluation["env"], ("evaluation", "env"))
    return {**written, "evaluation": {**evaluation, "env": section.value}}, section.mistakes


def _evaluation_mistakes(evaluation: EvaluationConfig, env: Any) -> list[Mistake]:
    """Mistakes for evaluations that the env, as written, cannot have."""
    mistakes: list[Mistake] = []
    if evaluation.against is not None:
        mistakes += _against_mistakes(evaluation.against, env)
    if evaluation.env is None:
        mistakes += _clients_evaluation_mistakes(env)
    if evaluation.oracle:
        mistakes += _oracle_mistakes(env)
    return mistakes


def _against_mistakes(opponent: str, env: Any) -> list[Mistake]:
    """Mistakes in `evaluation.against`, the scripted opponent of evaluations."""
    where: Location = ("evaluation", "against")
    if not names_world(env):
        return [Mistake(where, "works only in multi-agent worlds: a single-agent env has no sides")]
    return refusals(where, partial(ScriptedOpponent, opponent))


def _clients_evaluation_mistakes(env: Any) -> list[Mistake]:
    """Mistakes of evaluations in an external env, whose clients are busy with episodes to learn from."""
    if not isinstance(env, Mapping) or "external" not in env:
        return []
    message = (
        "is missing: the clients of env.external run only training episodes. Set it to an env such as "
        "CartPole-v1, or to a second server for evaluation clients: {external: {port: 9950, spaces: ...}}"
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
        message = (
            f"has {trials:,} trials, more than the limit of {max_trials:,}; pass --max-trials {trials} to allow them"
        )
        return [Mistake((), message, at_key=True)]
    is_drawn = settings.searches or settings.population is not None or any(not each.is_grid for each in spaces.values())
    if settings.num_samples > 1 and not is_drawn:
        message = (
            f"{settings.num_samples} samples would be identical, because there is no random search space; for "
            "repetitions, set seeds"
        )
        return [Mistake(("num_samples",), message)]
    return []


def _check_chain(settings: RunSettings, spaces: Mapping[Location, SearchSpace]) -> list[Mistake]:
    """Validates that an experiment which begins after another has one trial per seed."""
    if settings.begins is None or settings.configurations_in(spaces) == 1:
        return []
    message = "each seed starts from its weights of an earlier experiment: leave out search spaces and samples"
    return [Mistake(("begins",), message)]


def _check_trials(experiment: Experiment, settings: Mapping[Location, type[ConfigModel]]) -> list[Mistake]:
    """Validates the sampled hyperparameters of each trial, including constraints across fields."""
    mistakes: list[Mistake] = []
    # A searcher's suggestions are not known yet, but come from the same spaces. Suggestions that the config refuses are
    # drawn again, so it is enough that one is valid.
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
