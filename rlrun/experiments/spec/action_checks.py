"""Validation that algorithms support the actions of the env in which they are to learn."""

from __future__ import annotations

from typing import Any

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.space_kinds import action_kinds
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import hangs_fail_after
from rlrun.engine.messages.errors import RlrunError
from rlrun.engine.messages.explain import Mistake
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.worlds.make import spaces_of_policies

OFFERED = ("ppo", "sac", "dqn", "td3", "impala", "es", "iql", "cql", "td3_bc", "bc", "marwil")
"""Algorithms that a message offers, the first of each family first."""

MOST_OFFERED = 4
"""Maximum number of algorithms that a message offers."""


def action_mistakes(env: EnvConfig, learns: Policies) -> list[Mistake]:
    """Mistakes for algorithms that do not support an env's actions; creates the env once.

    An env that cannot be created has no mistakes here; what is wrong with it is reported when it is to run.

    Args:
        env: The env or world.
        learns: The policies with their algorithms.
    """
    if env.external is not None:
        return []
    try:
        with hangs_fail_after(learns.sampling.worker_timeout_s):
            spaces = spaces_of_policies(env, learns.agent_mapping())
    except RlrunError:
        return []
    mistakes = []
    for policy, algorithm in learns.algorithms.items():
        kinds = action_kinds(spaces[policy].action) if policy in spaces else ()
        if not kinds or set(kinds) & set(algorithm.acts_in):
            continue
        others = [name for name in OFFERED if _could_replace(name, algorithm, kinds, in_world=env.has_many_agents)]
        instead = f"; take {', '.join(others[:MOST_OFFERED])} or another one (`rlrun algorithms`)" if others else ""
        whose = "" if learns.is_alone else f"policy {policy}: "
        message = f"{whose}{algorithm.name()} acts in {' or '.join(algorithm.acts_in)}, not in {spaces[policy].action}"
        mistakes.append(Mistake((env.named_by,), message + instead))
    return mistakes


def _could_replace(name: str, refused: Algorithm[Any], kinds: tuple[str, ...], *, in_world: bool) -> bool:
    """Whether an algorithm supports the actions, and learns where the refused one does: in an env, a world or data."""
    other = algorithm_class(name)
    same_source = issubclass(other.Config, DataSettings) == isinstance(refused.config, DataSettings)
    return same_source and bool(set(kinds) & set(other.acts_in)) and (other.learns_in_worlds or not in_world)
