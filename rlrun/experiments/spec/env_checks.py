"""Validation of envs: whether they exist and are installed, and whether algorithms support their actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.space_kinds import action_kinds
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import hangs_fail_after
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import RlrunError
from rlrun.engine.messages.explain import Location, Mistake, shown
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.worlds.make import agents_and_spaces, check_world
from rlrun.experiments.spec.search_space import is_search_space
from rlrun.experiments.spec.section import Section, check_section, refusals

OFFERED = ("ppo", "sac", "dqn", "td3", "impala", "es", "iql", "cql", "td3_bc", "bc", "marwil")
"""Algorithms that a message may suggest for an env, in order of preference."""

MOST_AGENTS = 8
"""Maximum number of agents that a warning lists."""

MOST_OFFERED = 4
"""Maximum number of algorithms that a message suggests."""


def env_mistakes(config: EnvConfig) -> list[Mistake]:
    """Validates that an env, its arguments and its wrappers exist and are installed, without creating the env."""
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


def check_env(
    data: Mapping[str, Any], learns: Policies | None, *, may_be_missing: bool
) -> tuple[Section[EnvConfig], tuple[str, ...]]:
    """Validates the env of an entry, and that policies support its actions; creates the env unless `learns` is None.

    The argument `learns` holds the entry's policies. A missing `env` is a mistake unless `may_be_missing` is set (for
    offline algorithms). Even then, the env is required if an earlier stage is to record the data, because the spaces of
    a data set that does not exist yet are unknown.

    Returns:
        The checked section, and warnings about agents that do not exist in the env.
    """
    if "env" not in data:
        begins = data.get("begins")
        if may_be_missing and isinstance(begins, Mapping) and begins.get("recorded"):
            wrong = (
                "is missing: name the env, because the spaces of data from an earlier stage are not known in advance"
            )
            return Section(("env",), EnvConfig, None, None, {}, [Mistake(("env",), wrong)]), ()
        missing = [] if may_be_missing else [Mistake(("env",), "is missing: add, for example, env: CartPole-v1")]
        return Section(("env",), EnvConfig, None, None, {}, missing), ()
    agents: dict[str, None] = {}

    def with_policies(config: EnvConfig) -> list[Mistake]:
        if learns is None or config.external is not None:
            return []
        possible, spaces = _made(config, learns)
        agents.update(dict.fromkeys(possible))
        return action_mistakes(config, learns, spaces)

    section = check_env_section(data["env"], ("env",), with_policies)
    varies = section.value is not None and section.value.tasks is not None  # other tasks may have other agents
    return section, () if learns is None or varies else tuple(_unmatched_patterns(learns, [*agents]))


def check_env_section(
    env: Any, where: Location, further: Callable[[EnvConfig], list[Mistake]] = lambda config: []
) -> Section[EnvConfig]:
    """Validates an env section as written, without creating the env.

    Args:
        env: The env as written: an id, an import path or a mapping.
        where: Location in the entry.
        further: Function that runs further checks on a valid env config, and returns the mistakes.
    """
    if env is None or (isinstance(env, list | int | float) and not is_search_space(env)):
        wrong = f"must be a Gymnasium id, package.module:factory or a mapping with an id, not {shown(env)}"
        return Section(where, EnvConfig, env, None, {}, [Mistake(where, wrong)])
    return check_section(EnvConfig, env, where, lambda config: env_mistakes(config) or further(config))


def _made(env: EnvConfig, learns: Policies) -> tuple[tuple[str, ...], dict[str, Spaces]]:
    """Creates an env once; returns its agents, and the spaces of its policies.

    If the env cannot be created, both are empty; the error is then raised at the start of training.
    """
    try:
        with hangs_fail_after(learns.sampling.worker_timeout_s):
            return agents_and_spaces(env, learns.agent_mapping())
    except RlrunError:
        return (), {}


def _unmatched_patterns(learns: Policies, agents: Sequence[str]) -> list[str]:
    """Warnings about patterns in `mapping` that match no possible agent; none if the agents are not known."""
    if not agents or not isinstance(learns.mapping, Mapping):
        return []
    known = ", ".join(agents[:MOST_AGENTS]) + (", ..." if len(agents) > MOST_AGENTS else "")
    unmatched = learns.agent_mapping().unmatched(agents)
    return [f"mapping: pattern '{pattern}' matches none of {known}" for pattern in unmatched]


def action_mistakes(env: EnvConfig, learns: Policies, spaces: Mapping[str, Spaces]) -> list[Mistake]:
    """Reports a mistake for each algorithm that does not support an env's actions.

    Args:
        env: The env or world.
        learns: The policies with their algorithms.
        spaces: Spaces of the policies' agents in the env.
    """
    mistakes = []
    for policy, algorithm in learns.algorithms.items():
        kinds = action_kinds(spaces[policy].action) if policy in spaces else ()
        if not kinds or set(kinds) & set(algorithm.acts_in):
            continue
        others = [name for name in OFFERED if _could_replace(name, algorithm, kinds, in_world=env.has_many_agents)]
        instead = (
            f"; use {', '.join(others[:MOST_OFFERED])} or another algorithm (`rlrun algorithms`)" if others else ""
        )
        whose = "" if learns.is_alone else f"policy {policy}: "
        message = (
            f"{whose}{algorithm.name()} needs a {' or '.join(algorithm.acts_in)} action space, but "
            f"{'this env has' if learns.is_alone else 'its agents have'} {spaces[policy].action}"
        )
        mistakes.append(Mistake((env.named_by,), message + instead))
    return mistakes


def _could_replace(name: str, refused: Algorithm[Any], kinds: tuple[str, ...], *, in_world: bool) -> bool:
    """Whether an algorithm supports the actions, and learns where the refused one does: in an env, a world or data."""
    other = algorithm_class(name)
    same_source = issubclass(other.Config, DataSettings) == isinstance(refused.config, DataSettings)
    return same_source and bool(set(kinds) & set(other.acts_in)) and (other.learns_in_worlds or not in_world)
