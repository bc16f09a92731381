"""Checks an env in a rollout with random actions; each finding explains its effect on training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.backend import backend_of
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_findings import (
    EnvFinding,
    error_finding,
    observation_findings,
    reward_findings,
    seed_finding,
    space_findings,
    speed_finding,
    type_findings,
)
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.running_statistics import SETTINGS, statistics_wrappers
from rlrun.engine.envs.spaces import empty_batch
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.worlds.agent_lifecycle import AgentLifecycle
from rlrun.engine.worlds.make import make_vector_world
from rlrun.engine.worlds.make_worlds import steps_all_at_once
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.random_play import SLOTS, RandomRollout, ShownToPolicy, digest, play
from rlrun.engine.worlds.vector_world import ONLY_AGENT, VectorWorld

MAX_REPLAY_S = 60.0


def check_by_stepping(
    config: EnvConfig,
    mapping: PolicyMapping,
    slots: Mapping[str, int],
    *,
    steps: int,
    seed: int = 0,
    begin: Callable[[str], object] = lambda stage: None,
) -> list[EnvFinding]:
    """Validates an env or world in a random rollout: spaces, rewards, seeds, exact replay and speed.

    Args:
        config: The env or world.
        mapping: Mapping from agents to policies.
        slots: Number of slots (simultaneous agents) per world, by policy; by default the number of possible agents.
        steps: Total number of env steps.
        seed: Root seed of the episodes.
        begin: Callback at the start of each stage of the check, with a short description of the stage.

    Returns:
        Findings, in the order in which the user should read them.

    Raises:
        UsageError: A name or a keyword argument does not exist, or an agent has no policy.
        EnvironmentUnusable: A package is not installed, or the env has no supported form.
        EnvError: The env raised in its constructor, or outside the random rollout.
    """

    def make(own_seed: int) -> VectorWorld:
        return make_vector_world(config, SLOTS, EpisodeSeeds(own_seed, 0), mapping, slots)

    begin(f"taking {steps:,} env steps with random actions")
    worlds = make(seed)
    try:
        with Watched(f"env {config.id}: check", worlds.places):
            played = play(worlds, max(steps // SLOTS, 2))
    finally:
        worlds.close()
    ended_by = [] if played.error is None else [error_finding(played.error)]
    general = [*_general(config, worlds), *ended_by]
    if not played.actions:
        return general
    found = [
        *general,
        *(one for policy in worlds.spaces for one in _of_policy(policy, worlds, played.policies[policy])),
        *_episodes(config, played),
    ]
    if not ended_by:
        begin(f"checking the values that a single {'world' if config.has_many_agents else 'env'} returns")
        found += _raw_value_findings(config, worlds, mapping, steps, seed)
    begin("repeating the episodes with equal and other seeds")
    found += _seeds(config, make(seed), make(seed + 1), played)
    if not ended_by:
        begin("replaying the actions, as a resume does")
        found += _replay(config, make(seed), played)
    return [*found, _speed(config, played)]


def _general(config: EnvConfig, worlds: VectorWorld) -> Iterator[EnvFinding]:
    """Yields findings that need no env step: clock, state, backend and spaces."""
    if config.has_many_agents:
        yield EnvFinding("clock", "ok", worlds.clock)
        if worlds.state_space is not None:
            yield EnvFinding("state", "ok", str(worlds.state_space))
    for policy, spaces in worlds.spaces.items():
        yield from _named(policy, worlds, space_findings(spaces))
    if not config.has_many_agents:
        yield EnvFinding("backend", "ok", backend_of(config))


def _named(policy: str, worlds: VectorWorld, found: Iterable[EnvFinding]) -> Iterator[EnvFinding]:
    """Yields findings on the agents of one policy, prefixed with the policy's name if there are several policies."""
    for one in found:
        yield replace(one, topic=f"{policy}: {one.topic}") if len(worlds.spaces) > 1 else one


def _raw_value_findings(
    config: EnvConfig, worlds: VectorWorld, mapping: PolicyMapping, steps: int, seed: int
) -> Iterator[EnvFinding]:
    """Yields findings on the raw return values of a single env or world."""
    if not config.has_many_agents:
        (spaces,) = worlds.spaces.values()
        if backend_of(config) == "loop":
            yield from type_findings(config, spaces, seed)
    elif not steps_all_at_once(config):
        yield from AgentLifecycle(config, worlds.spaces, mapping).findings(steps, seed)


def _of_policy(policy: str, worlds: VectorWorld, shown: ShownToPolicy) -> Iterator[EnvFinding]:
    """Yields findings on one policy's agents: observations, rewards, episode lengths and slots."""
    found: list[EnvFinding] = []
    if shown.observations:
        rows = map_tree(lambda *leaf: np.stack(leaf)[:, None], *shown.observations)
        space = worlds.spaces[policy].observation
        found += observation_findings(space, rows, len(shown.rewards), lambda t, _: shown.where[t])
    if shown.rewards:
        found += reward_findings(np.array(shown.rewards))
    if ONLY_AGENT not in worlds.possible_agents:
        found = [*_acting(shown), *found, _slots(policy, worlds.slots[policy] // SLOTS, shown.most)]
    yield from _named(policy, worlds, found)


def _slots(policy: str, slots: int, most: int) -> EnvFinding:
    """Returns the finding on a policy's number of slots per world, compared with the most agents at a time."""
    if most and 2 * most < slots:
        reason = "empty slots cost memory, and count as rows of a batch"
        advice = f"set policies.{policy}.slots: {most + 1}, unless better policies keep more agents alive"
        return EnvFinding("slots", "note", f"at most {most} of {slots} were in use", reason, advice)
    return EnvFinding("slots", "ok", f"at most {most} of {slots} were in use")


def _acting(shown: ShownToPolicy) -> Iterator[EnvFinding]:
    if not shown.observations:
        reason = "a policy whose agents never appear learns nothing"
        yield EnvFinding("agents", "note", "none ever appeared", reason, "use a mapping that assigns agents to it")
        return
    if ends := shown.ends():
        yield EnvFinding("lives", "ok", ends)
    else:
        reason = "an agent whose episode does not end has no return"
        yield EnvFinding("lives", "note", "none ended", reason, "set env.max_episode_steps if the world never ends")
    if shown.legal:
        yield EnvFinding("action masks", "ok", f"{np.mean(shown.legal):.0%} of the actions are legal on average")


def _episodes(config: EnvConfig, played: RandomRollout) -> Iterator[EnvFinding]:
    lengths = played.lengths
    if played.error and not lengths:
        return
    if not lengths:
        found = f"none ended within {len(played.actions):,} steps"
        reason = "until an episode ends there is no return to report, and evaluations do not finish"
        yield EnvFinding("episodes", "note", found, reason, "set env.max_episode_steps: 1000 if episodes never end")
    elif config.has_many_agents:
        yield EnvFinding("episodes", "ok", f"{len(lengths)} of {min(lengths)} to {max(lengths)} steps")
    else:
        (shown,) = played.policies.values()
        yield _episodes_of_one_agent(shown)
    if played.missing_finals:
        found = f"{played.missing_finals} agents were truncated without a final observation"
        reason = "the value of their last step uses the previous observation"
        yield EnvFinding(
            "final observations", "note", found, reason, "return a final observation for each agent that ends"
        )


def _episodes_of_one_agent(shown: ShownToPolicy) -> EnvFinding:
    found = shown.ends()
    if max(shown.lengths) == 1 and len(shown.lengths) > 1:
        return EnvFinding("episodes", "note", found, "the env is a bandit, or terminated is always True")
    if shown.both:
        reason = "such an end counts as terminated: no future reward is expected"
        return EnvFinding("episodes", "note", f"{found}, {shown.both} of them both", reason)
    return EnvFinding("episodes", "ok", found)


def _seeds(config: EnvConfig, repeated: VectorWorld, other: VectorWorld, played: RandomRollout) -> Iterator[EnvFinding]:
    try:
        if not repeated.seeds_episodes:
            yield EnvFinding("seeds", "note", "this env cannot seed single episodes", "resuming starts new episodes")
            return
        with Watched(f"env {config.id}: check", lambda: [*repeated.places(), *other.places()]):
            found = seed_finding(
                _first_difference(repeated, played),
                partial(_first_difference, other, played),
                starts_vary=len(played.starts) > 1,
                is_world=config.has_many_agents,
            )
        yield replace(found, is_severe=found.verdict == "note" and _starts_between_numbers(played))
    finally:
        repeated.close()
        other.close()


def _starts_between_numbers(played: RandomRollout) -> bool:
    """Whether the first state contains fractions, as random states do; whole numbers may be a fixed start."""
    first = [leaf for own in played.policies.values() for leaf in leaves(own.observations[:1])]
    return any(np.issubdtype(np.asarray(leaf).dtype, np.floating) and (np.asarray(leaf) % 1).any() for leaf in first)


def _first_difference(worlds: VectorWorld, played: RandomRollout) -> int | None:
    """Returns the first step at which fresh worlds differ from recorded digests under equal actions; None if equal."""
    if digest(worlds, worlds.reset()) != played.digests[0]:
        return 0
    for t, expected in enumerate(played.digests[1:], 1):
        try:
            rows = worlds.step(played.actions[t - 1])
        except EnvError:  # the actions are not legal there, or the env returned an invalid value for the first time
            return t
        if digest(worlds, rows) != expected:
            return t
    return None


def _replay(config: EnvConfig, worlds: VectorWorld, played: RandomRollout) -> Iterator[EnvFinding]:
    """Yields the finding on exact resume: fresh worlds are restored to the final positions by replaying actions."""
    kind, slots, actions = (
        ("world", "worlds", "joint actions") if config.has_many_agents else ("env", "env slots", "actions")
    )
    try:
        if not worlds.seeds_episodes:
            return
        taken = [
            _of_world(played.actions[len(played.actions) - place.length :], world, worlds)
            for world, place in enumerate(played.places)
        ]
        with Watched(f"env {config.id}: check", worlds.places):
            worlds.reset()
            start = time.perf_counter()
            _, exact = worlds.restore(played.places, taken, played.last, MAX_REPLAY_S)
        seconds = time.perf_counter() - start
    finally:
        worlds.close()
    if all(exact):
        steps = sum(place.length for place in played.places)
        yield EnvFinding("resume", "ok", f"{steps} {actions} replayed in {seconds:.2g} s, exactly")
    elif wrappers := statistics_wrappers(config):
        found = f"checkpoints do not contain the statistics of {' and '.join(wrappers)}"
        reason = "resuming and evaluations start with new statistics"
        instead = ", ".join(f"config.{SETTINGS[name]}" for name in wrappers)
        yield EnvFinding("resume", "note", found, reason, f"use {instead} instead if the algorithm has it")
    else:
        found = f"{SLOTS - sum(exact)} of {SLOTS} {slots} reached a different state when their actions were replayed"
        reason = "part of the state does not depend on seed and actions, so resuming starts new episodes there"
        yield EnvFinding("resume", "wrong", found, reason, f"have reset(seed=...) set the whole state of the {kind}")


def _of_world(actions: list[dict[str, Any]], world: int, worlds: VectorWorld) -> dict[str, Any]:
    """Returns one world's actions by policy, arrays [length, K, ...]."""
    taken: dict[str, Any] = {}
    for policy, slots in worlds.slots.items():
        width, spaces = slots // SLOTS, worlds.spaces[policy]
        own = slice(world * width, (world + 1) * width)
        rows = [map_tree(lambda leaf, own=own: leaf[own], step[policy]) for step in actions]
        nothing = map_tree(lambda leaf: np.zeros((0, *leaf.shape), leaf.dtype), empty_batch(spaces.action, width))
        taken[policy] = map_tree(lambda *leaf: np.stack(leaf), *rows) if rows else nothing
    return taken


def _speed(config: EnvConfig, played: RandomRollout) -> EnvFinding:
    steps, agent_steps = len(played.actions) * SLOTS, sum(len(own.rewards) for own in played.policies.values())
    of_agents = f"{agent_steps / max(played.seconds, 1e-9):,.0f} of agents"
    how = f"of worlds, {of_agents}, in one process, {SLOTS} worlds"
    return speed_finding(steps, played.seconds, how if config.has_many_agents else f"in one process, {SLOTS} env slots")
