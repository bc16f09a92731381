"""Validation of a spec entry's learning part: an algorithm, or the policies of a world, with their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from pydantic import create_model

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.algorithm_config import SAMPLING, AlgorithmConfig, WorldSamplingSettings
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.envs.env_config import names_world
from rlrun.engine.envs.presets import with_preset
from rlrun.engine.envs.without_env import without_env
from rlrun.engine.flow.clock import ClockUnit
from rlrun.engine.messages.errors import SpecError, UsageError, did_you_mean
from rlrun.engine.messages.explain import Location, Mistake, annotation_at, dotted, shown, unknown_name
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.replay.samplers import sampler_of
from rlrun.engine.settings.config import ConfigModel, fixed, is_config
from rlrun.engine.settings.registry import (
    known_algorithm,
)
from rlrun.engine.training.assemble.custom_operators import custom_operator_class
from rlrun.engine.training.assemble.env_of_data import check_input
from rlrun.engine.training.assemble.policies import Policies, clock_unit_of
from rlrun.engine.training.assemble.policy_spec import PolicySpec
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.experiments.spec.algorithm_checks import candidates_for, check_algorithm
from rlrun.experiments.spec.keys import SHARED, in_policies, unknown_policy_keys, with_key_location
from rlrun.experiments.spec.search_space import SearchSpace, find_spaces, is_search_space
from rlrun.experiments.spec.seats import NAME_PATTERN, SEAT_KEYS, CheckedSeats, check_seats
from rlrun.experiments.spec.section import Section, check_section, refusals
from rlrun.experiments.spec.stop_config import with_run_length


@dataclass(frozen=True)
class CheckedLearning:
    """Result of validating the algorithms, policies and env of a spec entry.

    Attributes:
        entry: The entry, with presets and the run's length filled in.
        mistakes: Mistakes, with locations in the entry.
        algorithm: Names of the entry's algorithms, joined for display.
        parts: The sections that contain settings, and their locations.
        policies: Policies of a multi-agent world by name; empty if the entry names a single algorithm instead.
        seats: The checked seats (roles of frozen opponents) and league.
        learns: The policies, with default settings in place of invalid ones; None if an algorithm is unknown.
        candidates: Algorithms that an unknown name may refer to.
    """

    entry: Mapping[str, Any]
    mistakes: list[Mistake]
    algorithm: str = ""
    parts: tuple[Section[AlgorithmConfig], ...] = ()
    policies: dict[str, PolicySpec] = field(default_factory=dict)
    seats: CheckedSeats = field(default_factory=CheckedSeats)
    learns: Policies | None = None
    candidates: tuple[type[Algorithm[Any]], ...] = ()

    @property
    def spaces(self) -> dict[Location, SearchSpace]:
        """Search spaces of all settings in the entry, by location."""
        return {where: space for section in self._sections for where, space in section.spaces.items()}

    @property
    def models(self) -> dict[Location, type[ConfigModel]]:
        """Config classes of all settings in the entry, by location."""
        return {section.location: section.model for section in self._sections}

    @property
    def classes_by_path(self) -> dict[str, Sequence[type[ConfigModel]]]:
        """Config classes of all settings by path, for all candidate algorithms if the algorithm is unknown."""
        candidates = [candidate.Config for candidate in self.candidates] or [AlgorithmConfig]
        return {dotted(location): [model] for location, model in self.models.items()} or {"config": candidates}

    @property
    def _sections(self) -> tuple[Section[ConfigModel], ...]:
        return (*self.parts, *self.seats.sections)


def check_learning(entry: Mapping[str, Any]) -> CheckedLearning:
    """Validates the learning part of a spec entry: algorithm and config, or the policies, mapping, train and seats.

    Raises:
        UserCodeError: A user's module raises an exception while it is imported.
    """
    return _check_policies(entry) if "policies" in entry else _check_alone(entry)


# One algorithm.


def _check_alone(entry: Mapping[str, Any]) -> CheckedLearning:
    algorithm, mistakes = check_algorithm(entry)
    mistakes += [
        Mistake((key,), f"'{key}' needs several policies: add policies, or leave it out", at_key=True)
        for key in ("mapping", "train", *SEAT_KEYS)
        if key in entry
    ]
    if algorithm is None:
        candidates = candidates_for(entry.get("algorithm"))
        models = [candidate.Config for candidate in candidates]
        mistakes += _check_without_algorithm(_stated(entry, "config"), AlgorithmConfig, models, ("config",))
        return CheckedLearning(entry, mistakes, candidates=candidates)
    name, model = known_algorithm(entry["algorithm"]), algorithm.Config
    written = _stated(entry, "config")
    wrong = _unsupported_search_spaces(entry.get("env"), written)
    mistakes += wrong
    env = entry.get("env")
    if not wrong and isinstance(env, Mapping) and "preset" in env:
        env, written = with_preset(env, written, model)
        entry = {**entry, "env": env}
    written, wrong = with_run_length(written, entry.get("stop"), _clock_unit(algorithm, written))
    mistakes += wrong
    config = _with_custom_classes(check_section(model, written, ("config",), algorithm=name))
    mistakes += [with_key_location(mistake, name, [model]) for mistake in config.mistakes]
    learns = Policies.alone(algorithm(config.value or model()))
    in_place_of_env, wrong = _check_input(config.value, entry)
    mistakes += wrong
    entry = {**in_place_of_env, **entry, "config": written}
    return CheckedLearning(entry, mistakes, name, (config,), learns=learns)


def _with_custom_classes(config: Section[AlgorithmConfig]) -> Section[AlgorithmConfig]:
    """Checks the operators of `before_learning` and samplers of replays; settings with an invalid one have no value."""
    if config.value is None:
        return config
    mistakes = []
    for number, operator in enumerate(config.value.before_learning):
        for path, settings in operator.items():
            where: Location = (*config.location, "before_learning", number)
            mistakes += refusals(where, partial(custom_operator_class, path, settings))
    for name in type(config.value).model_fields:
        if isinstance(replay := getattr(config.value, name), ReplayConfig):
            mistakes += refusals((*config.location, name, "sampling"), partial(sampler_of, replay))
    return replace(config, value=None, mistakes=[*config.mistakes, *mistakes]) if mistakes else config


def _clock_unit(algorithm: type[Algorithm[Any]], written: Any) -> ClockUnit:
    """Unit of the schedules of settings as written, which may be wrong."""
    named = written.get("input") if isinstance(written, Mapping) and "input" in algorithm.Config.model_fields else None
    try:
        return clock_unit_of(algorithm(input=named)) if named else algorithm.clock_unit
    except SpecError:
        return algorithm.clock_unit


def _check_input(
    config: AlgorithmConfig | None, entry: Mapping[str, Any], where: Location = ("config",)
) -> tuple[dict[str, Any], list[Mistake]]:
    """Opens the data sets named in settings; returns the config that replaces a missing env, and the mistakes.

    Data sets that an earlier stage records do not exist yet, and are not opened.

    Raises:
        DataSetError: A data set cannot be read.
    """
    if not isinstance(config, DataSettings):
        return {}, []
    begins = entry.get("begins")
    to_come = begins.get("recorded", ()) if isinstance(begins, Mapping) else ()
    try:
        spaces = check_input(config, to_come)
    except UsageError as error:
        return {}, [Mistake((*where, "input"), str(error))]
    return ({} if spaces is None else {"env": without_env(spaces).to_data()}), []


def _unsupported_search_spaces(env: Any, config: Any) -> list[Mistake]:
    """Mistakes for search spaces whose values are presets, or whole sections in which a preset sets keys."""
    spaces = find_spaces({"env": env, "config": config})[0]
    mistakes = []
    for where, space in spaces.items():
        envs = [value for _, value in space.probes()] if where == ("env",) else []
        if where == ("env", "preset") or any(isinstance(value, Mapping) and "preset" in value for value in envs):
            message = "a preset also sets config, so it cannot vary: write a separate experiment for each"
            mistakes.append(Mistake(where, message))
    if isinstance(env, Mapping) and env.get("preset") is not None:
        sections = [where for where in spaces if where in {("config",), ("config", "model"), ("config", "replay")}]
        message = f"preset {env['preset']} sets keys of {{}}: vary these keys individually"
        mistakes += [Mistake(where, message.format(where[-1])) for where in sections if not mistakes]
    return mistakes


def _check_without_algorithm(
    written: Any, shared: type[AlgorithmConfig], models: Sequence[type[AlgorithmConfig]], where: Location
) -> list[Mistake]:
    """Validates the settings of an unknown algorithm: values of shared settings, and names of the others.

    Args:
        written: The settings.
        shared: Config class with the settings that all algorithms share.
        models: Config classes of the candidate algorithms.
        where: Location of the settings in the entry.
    """
    found = []
    for mistake in check_section(shared, written, where).mistakes:
        below = mistake.location[len(where) :]
        is_setting = mistake.at_key and bool(below) and is_config(annotation_at(shared, below[:-1]))
        if not is_setting or below[-1] in shared.refused:
            found.append(mistake)
        elif models and not any(model.has_setting(dotted(below)) for model in models):
            found.append(with_key_location(mistake, "", models, dotted(where)))
    return found


# Several policies.


def _check_policies(entry: Mapping[str, Any]) -> CheckedLearning:
    policies = entry["policies"]
    mistakes = []
    if "algorithm" in entry:
        message = "each policy has its own algorithm: leave out algorithm, or policies"
        mistakes.append(Mistake(("algorithm",), message, at_key=True))
    if not isinstance(policies, Mapping) or not policies or is_search_space(policies):
        message = f"must be a mapping of names to policies, each with an algorithm, not {shown(policies)}"
        return CheckedLearning(entry, [*mistakes, Mistake(("policies",), message)])
    if "env" in entry and not names_world(entry["env"]):
        world = "a multi-agent world, such as env: {world: package.module:factory} or env: {pettingzoo: MODULE}"
        mistakes.append(Mistake(("env",), f"`policies` can be set only for {world}; this env has a single agent"))
    checked = {}
    for name, policy in policies.items():
        one = _check_policy(name, policy, entry, len(_trained(entry, list(policies))))
        mistakes += one.mistakes
        checked[name] = one
    entry = {**entry, "policies": {name: one.entry for name, one in checked.items()}}
    settings = {name: one.part.model for name, one in checked.items() if one.part is not None}
    sampling, wrong = _check_sampling(entry, settings)
    entry = {**entry, "config": sampling.data}
    if "league" in entry:
        entry = {**entry, "league": _stated(entry, "league")}
    seats = check_seats(entry, list(policies), _trained(entry, list(policies)))
    wrong_roles = _role_mistakes(entry, list(policies), list(seats.seats))
    mistakes += [*wrong, *wrong_roles, *seats.mistakes]
    parts = tuple(one.part for one in checked.values() if one.part is not None)
    specs = {name: one.spec for name, one in checked.items() if one.spec is not None}
    title = " + ".join(dict.fromkeys(spec.algorithm for spec in specs.values()))
    learns = None
    if len(specs) == len(checked):
        mapping = None if wrong_roles else entry.get("mapping")
        learns = Policies.from_specs(specs, WorldSamplingSettings(), mapping, (), seats.seats, seats.league)
        mistakes += refusals(("policies",), learns.check_input)
    return CheckedLearning(entry, mistakes, title, (sampling, *parts), specs, seats, learns)


@dataclass(frozen=True)
class _CheckedPolicy:
    """Result of validating one policy of a multi-agent entry.

    Attributes:
        entry: The policy as written, with the run's length filled in.
        mistakes: Mistakes, with locations in the experiment's entry.
        part: Settings of the policy; None if its algorithm is not known.
        spec: The policy, with default settings if they are wrong; None if its algorithm is not known.
    """

    entry: Any
    mistakes: list[Mistake]
    part: Section[AlgorithmConfig] | None = None
    spec: PolicySpec | None = None


def _check_policy(name: Any, policy: Any, entry: Mapping[str, Any], num_trained: int) -> _CheckedPolicy:
    place: Location = ("policies", name)
    if not NAME_PATTERN.fullmatch(str(name)):
        message = f"the policy name '{name}' must consist of letters, digits and _-, because metrics are named after it"
        return _CheckedPolicy(policy, [Mistake(place, message, at_key=True)])
    if not isinstance(policy, Mapping):
        message = f"must be a mapping with algorithm, config and slots, not {shown(policy)}"
        return _CheckedPolicy(policy, [Mistake(place, message)])
    algorithm, mistakes = check_algorithm(policy)
    models = [each.Config for each in (candidates_for(policy.get("algorithm")) if algorithm is None else (algorithm,))]
    mistakes += _slots_mistakes(policy)
    mistakes = [replace(mistake, location=(*place, *mistake.location)) for mistake in mistakes]
    mistakes += unknown_policy_keys(policy, models, place)
    where: Location = (*place, "config")
    if algorithm is None:
        own, shared = [_without_sampling(model) for model in models], _without_sampling(AlgorithmConfig)
        return _CheckedPolicy(
            policy, mistakes + _check_without_algorithm(_stated(policy, "config"), shared, own, where)
        )
    written = _stated(policy, "config")
    unit = _clock_unit(algorithm, written)
    written, wrong = with_run_length(written, _own_stop(entry.get("stop"), unit, num_trained), unit, where)
    mistakes += wrong
    model = _without_sampling(algorithm.Config)
    called = known_algorithm(policy["algorithm"])
    config = _with_custom_classes(check_section(model, written, where, algorithm=called))
    mistakes += [with_key_location(mistake, called, [model], f"policies.{name}.config") for mistake in config.mistakes]
    mistakes += _check_input(config.value, entry, where)[1]
    settings = algorithm.Config() if config.value is None else algorithm.Config.parse(config.value.to_data())
    slots = policy.get("slots") if not _slots_mistakes(policy) else None
    spec = PolicySpec(algorithm=called, config=settings, slots=slots)
    return _CheckedPolicy({**policy, "config": written}, mistakes, config, spec)


def _own_stop(stop: Any, unit: ClockUnit, num_trained: int) -> Any:
    """Stop criteria in the steps of one policy, since a run counts the SGD steps of all its policies."""
    if unit != "sgd_steps" or not isinstance(stop, Mapping) or not isinstance(stop.get(unit), int):
        return stop
    return {**stop, unit: stop[unit] // num_trained}


def _slots_mistakes(policy: Mapping[str, Any]) -> list[Mistake]:
    slots = policy.get("slots")
    is_number = isinstance(slots, int) and not isinstance(slots, bool) and slots > 0
    if slots is None or is_number:
        return []
    return [Mistake(("slots",), f"must be a whole number > 0 or null, not {shown(slots)}")]


def _check_sampling(
    entry: Mapping[str, Any], models: Mapping[str, type[AlgorithmConfig]]
) -> tuple[Section[WorldSamplingSettings], list[Mistake]]:
    """Validates the settings of sampling; for a setting of learning, the message lists the policies that accept it."""
    section = check_section(WorldSamplingSettings, _stated(entry, "config"), ("config",))
    return section, [in_policies(mistake, models) for mistake in section.mistakes]


def _trained(entry: Mapping[str, Any], policies: list[str]) -> list[str]:
    """Names of the policies to train; all policies if the entry lists no existing one."""
    train = entry.get("train")
    named = [name for name in policies if name in train] if isinstance(train, list | tuple) else []
    return named or policies


def _role_mistakes(entry: Mapping[str, Any], names: list[str], seats: list[str]) -> list[Mistake]:
    """Mistakes in `mapping` (agents to policies) and `train` (policies that learn)."""
    mistakes = []
    train = entry.get("train")
    if train is not None and (not isinstance(train, list | tuple) or not train or is_search_space(train)):
        mistakes.append(
            Mistake(("train",), f"must be a list of policies, not {shown(train)}; leave it out to train all")
        )
    else:
        for index, name in enumerate(train or ()):
            if name not in names:
                message = unknown_name(name, names, "must name a policy: unknown name")
                mistakes.append(Mistake(("train", index), message))
    mapping, names = entry.get("mapping"), [*names, *seats]
    if isinstance(mapping, Mapping) and not is_search_space(mapping):
        for pattern, name in mapping.items():
            if name not in names:
                hint = did_you_mean(name, names) if isinstance(name, str) else ""
                message = f"names {shown(name)}, which is not a policy{hint or '; must be one of: ' + ', '.join(names)}"
                mistakes.append(Mistake(("mapping", pattern), message))
        if not mapping:
            mistakes.append(Mistake(("mapping",), "maps no agent: add a pattern, such as '*'"))
    elif mapping is not None and not isinstance(mapping, str):
        message = (
            "must be a mapping from patterns of agent ids to policies, or package.module:function, not "
            f"{shown(mapping)}"
        )
        mistakes.append(Mistake(("mapping",), message))
    else:
        where: Location = ("mapping",) if mapping is not None else ("policies",)
        mistakes += refusals(where, partial(PolicyMapping, names, mapping))
    return mistakes


@cache
def _without_sampling(model: type[AlgorithmConfig]) -> type[AlgorithmConfig]:
    """Variant of an algorithm's config class that fixes the settings of sampling."""
    usual = model()
    values = {name: getattr(usual, name) for name in SAMPLING if name in model.model_fields}
    own = create_model(model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__)
    return fixed(SHARED, **values)(own)


def _stated(data: Mapping[str, Any], key: str) -> Any:
    """Section of a spec entry as written; {} if null, as when all lines are commented out."""
    return {} if data.get(key) is None else data[key]
