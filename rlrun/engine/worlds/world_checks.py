"""Validation of the values that a world's `reset` and `step` return."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from rlrun.engine.envs.spaces import Spaces, mismatch
from rlrun.engine.messages.errors import MANY_NAMES, EnvironmentUnusable, did_you_mean
from rlrun.engine.worlds.policy_slots import PolicySlots


class Refusal(NamedTuple):
    """Validation error of a value that a world returned.

    Attributes:
        reason: Error message.
        agent: Id of the agent at fault; None if the error concerns the whole value.
    """

    reason: str
    agent: str | None = None


_PARTS = ("observations", "rewards", "terminateds", "truncateds", "infos")


def observations_refusal(observations: Any, slots_of: Callable[[str], PolicySlots]) -> Refusal | None:
    """Validates observations by agent id; returns the error, or None if they are valid.

    Args:
        observations: Observations that the world returned, by agent id.
        slots_of: Function that returns the slots of the policy to which an agent id belongs.
    """
    if found := _no_mapping("observations", observations):
        return found
    for agent, observation in observations.items():
        if reason := mismatch(slots_of(agent).spaces.observation, observation):
            return Refusal(reason, agent)
    return None


def step_refusal(result: Any, slots_of: Callable[[str], PolicySlots]) -> Refusal | None:
    """Validates the return value of a world's `step`; returns the first error, or None if it is valid.

    Args:
        result: Return value of the world's `step`.
        slots_of: Function that returns the slots of the policy to which an agent id belongs.
    """
    if not isinstance(result, tuple) or len(result) != 6:
        size = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
        return Refusal(f"it must return WorldStep({', '.join(_PARTS)}, ended), not {size}")
    parts: dict[str, Any] = dict(zip(_PARTS, result[:5], strict=True))
    found = (_no_mapping(name, part) for name, part in parts.items())
    if refusal := next((refusal for refusal in found if refusal), None):
        return refusal
    refused = itertools.chain(_values_refused(parts), _flags_refused(*result[2:4], result[5]))
    return next(refused, None) or observations_refusal(parts["observations"], slots_of)


def ends_refusal(terminateds: Mapping[str, Any], truncateds: Mapping[str, Any], ended: Any) -> Refusal | None:
    """Validates the termination and truncation flags and `ended` of a step; returns the error, or None if valid."""
    return next(_flags_refused(terminateds, truncateds, ended), None)


def strange_reward(agents: Collection[str], known: Collection[str]) -> Refusal | None:
    """Returns the error for a reward given to an unknown agent id; None if all ids are known.

    Args:
        agents: Ids of agents that received a reward but no observation in the episode.
        known: Ids of the possible agents, and of all that have appeared.
    """
    for agent in agents:
        if agent not in known:
            hint = did_you_mean(agent, known) or f"; must be one of: {', '.join(itertools.islice(known, MANY_NAMES))}"
            reason = "it received a reward, but the episode ended without an observation for an agent with this id"
            return Refusal(f"{reason}{hint}", agent)
    return None


def other_spaces(world_id: str, policy: str, agents: Mapping[str, Spaces]) -> EnvironmentUnusable:
    """Creates the error for agents that share a policy but have different spaces."""
    told = "; ".join(f"agent '{agent}' has {observation}, {action}" for agent, (observation, action) in agents.items())
    return EnvironmentUnusable(
        f"env {world_id}: agents of one policy must have equal spaces, but the agents of policy {policy} differ: "
        f"{told}. Map the agents to different policies, or unify their spaces with a wrapper"
    )


def _values_refused(parts: Mapping[str, Mapping[str, Any]]) -> Iterator[Refusal]:
    for agent, reward in parts["rewards"].items():
        if np.ndim(reward) or not isinstance(reward, int | float | np.number | np.bool_ | np.ndarray):
            yield Refusal(f"the reward must be a number, not {reward!r}", agent)
        elif not math.isfinite(reward):
            yield Refusal(f"the reward must be a finite number, not {reward}", agent)
    for agent, info in parts["infos"].items():
        if not isinstance(info, Mapping):
            yield Refusal(f"the info must be a dict, not {type(info).__name__}", agent)


def _flags_refused(terminateds: Mapping[str, Any], truncateds: Mapping[str, Any], ended: Any) -> Iterator[Refusal]:
    if not isinstance(ended, bool | np.bool_):
        yield Refusal(f"ended must be True or False, not {ended!r}")
    for name, flags in (("terminateds", terminateds), ("truncateds", truncateds)):
        for agent, flag in flags.items():
            if not isinstance(flag, bool | np.bool_):
                yield Refusal(f"{name} must contain True or False, not {flag!r}", agent)


def _no_mapping(name: str, part: Any) -> Refusal | None:
    if not isinstance(part, Mapping):
        return Refusal(f"{name} must be a dict keyed by agent id, not {type(part).__name__}")
    for agent in part:
        if not isinstance(agent, str):
            return Refusal(f"{name} must be a dict keyed by agent id, and an id must be a string, not {agent!r}")
    return None


def silence_refusal(living: Iterable[str], acting: Container[str]) -> Refusal:
    """Creates the error for a living agent without an observation, in a world where all agents act at each step."""
    agent = next(agent for agent in living if agent not in acting)
    return Refusal(
        "the agent is alive but has no observation; with clock: parallel, all living agents act in each "
        "step. If agents take turns, set clock: per_agent",
        agent,
    )


def taken_slots(policy: str, per_world: int) -> str:
    """Returns the error message for an agent that appears when all slots of its policy in the world are occupied."""
    return (
        f"policy {policy} has no free slot: all its slots in each world ({per_world}) are in use. Raise "
        f"policies.{policy}.slots to the number of agents that live at once plus those that have just ended"
    )
