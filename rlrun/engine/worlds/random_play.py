"""Rollouts of envs with random actions, which are recorded for the env check."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlrun.engine.data.action_masks import ACTION_MASK, has_action_mask
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.env_findings import ACTION_SEED
from rlrun.engine.envs.episode_position import EpisodePosition
from rlrun.engine.envs.random_actions import RandomActions
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.worlds.vector_world import ONLY_AGENT, VectorWorld, WorldRows

SLOTS = 2
"""Number of vectorized worlds in a random rollout."""
REPEATED_STEPS = 200
"""Number of steps that the check of reproducibility repeats with equal seeds and actions."""


@dataclass
class ShownToPolicy:
    """Observations, rewards and episode ends of one policy's agents in a random rollout.

    Attributes:
        observations: Observations, one row each.
        where: Description of each observation's origin: env and step, or agent.
        rewards: Reward of each agent in each step of its episodes.
        lengths: Length of each completed episode of an agent.
        legal: Fraction of actions that are legal, for each observation with an action mask.
        terminated: Number of terminated episodes.
        truncated: Number of truncated episodes.
        both: Number of episodes that were both terminated and truncated.
        most: Maximum number of agents at once in a world, including agents that have just ended.
    """

    observations: list[Any] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    legal: list[float] = field(default_factory=list)
    terminated: int = 0
    truncated: int = 0
    both: int = 0
    most: int = 0

    def ends(self) -> str:
        """Returns a summary of the finished episodes: number, range of lengths, terminations, truncations.

        The result is "" if there are none.
        """
        if not self.lengths:
            return ""
        shortest, longest = min(self.lengths), max(self.lengths)
        steps = f"{shortest}" if shortest == longest else f"{shortest} to {longest}"
        told = f"{len(self.lengths)} {'episode' if len(self.lengths) == 1 else 'episodes'} of {steps} steps"
        return f"{told}; {self.terminated} terminated, {self.truncated} truncated"


@dataclass(frozen=True)
class RandomRollout:
    """Record of a random rollout.

    Attributes:
        policies: Observations, rewards and episode ends, by policy.
        actions: Actions by step and policy, arrays [B, ...].
        digests: Hashes of observations and rewards after the reset and after each of the first steps.
        last: Hash of each world's state after the last step.
        places: Position of each world (episode and step within it) after the last step.
        starts: Hashes of the first states of the episodes.
        lengths: Length of each completed episode of a world.
        missing_finals: Number of truncated agents without a final observation.
        seconds: Wall time of the steps.
        error: Error that ended the rollout: an exception of the env, or an invalid return value; None if there is none.
    """

    policies: Mapping[str, ShownToPolicy]
    actions: list[dict[str, Any]]
    digests: list[Any]
    last: list[str]
    places: list[EpisodePosition]
    starts: set[str]
    lengths: list[int]
    missing_finals: int
    seconds: float
    error: EnvError | None


def play(worlds: VectorWorld, length: int) -> RandomRollout:
    """Resets worlds, takes `length` steps with random actions, and returns the record of the rollout."""
    random = {policy: RandomActions(spaces, ACTION_SEED) for policy, spaces in worlds.spaces.items()}
    shown = {policy: ShownToPolicy() for policy in worlds.spaces}
    digests: list[Any] = []
    actions: list[dict[str, Any]] = []
    starts: set[str] = set()
    lengths: list[int] = []
    missing_finals, seconds = 0, 0.0
    ended_by: EnvError | None = None
    taken = {policy: np.zeros(slots, np.int64) for policy, slots in worlds.slots.items()}
    before = np.zeros(SLOTS, np.int64)
    try:
        rows = worlds.reset()
        digests.append(digest(worlds, rows))
        starts.update(worlds.hashes())
        for t in range(length):
            chosen = {}
            for policy, own in rows.policies.items():
                chosen[policy] = random[policy].draw(own.observations)
                taken[policy] += own.acts
            _note(shown, worlds, rows.policies, t)
            start = time.perf_counter()
            rows = worlds.step(chosen)
            seconds += time.perf_counter() - start
            actions.append({policy: map_tree(np.copy, own) for policy, own in chosen.items()})
            missing_finals += rows.missing_finals
            for policy, own in rows.policies.items():
                ends = own.terminateds | own.truncateds
                noted = shown[policy]
                noted.rewards += own.rewards[(own.living & ~own.starts) | ends].tolist()
                noted.terminated += int(own.terminateds.sum())
                noted.truncated += int(own.truncateds.sum())
                noted.both += int((own.terminateds & own.truncateds).sum())
                noted.lengths += taken[policy][ends].tolist()
                taken[policy][ends] = 0
                noted.most = max(noted.most, int((own.living | ends).reshape(SLOTS, -1).sum(axis=1).max()))
            if not rows.stepped.all():
                starts.update(one for one, stepped in zip(worlds.hashes(), rows.stepped, strict=True) if not stepped)
            before += rows.stepped
            lengths += before[rows.ended].tolist()
            before[rows.ended] = 0
            if t < REPEATED_STEPS:
                digests.append(digest(worlds, rows))
        _note(shown, worlds, rows.policies, length)
    except EnvError as error:
        ended_by = error
    return RandomRollout(
        shown, actions, digests, worlds.hashes(), worlds.places(), starts, lengths, missing_finals, seconds, ended_by
    )


def digest(worlds: VectorWorld, rows: WorldRows) -> Any:
    """Returns a digest of the worlds' observations and rewards."""
    return worlds.hashes(), [own.rewards.tobytes() for own in rows.policies.values()]


def _note(shown: Mapping[str, ShownToPolicy], worlds: VectorWorld, rows: Mapping[str, Any], t: int) -> None:
    """Records observations and fractions of legal actions after t steps."""
    places = worlds.places()
    for policy, own in rows.items():
        noted, owners = shown[policy], worlds.owners(policy)
        for slot in (own.acts | own.terminateds | own.truncateds).nonzero()[0].tolist():
            world = slot // (len(own.acts) // len(places))
            place = places[world]
            noted.observations.append(map_tree(lambda leaf, slot=slot: leaf[slot].copy(), own.observations))
            agent = f"agent {owners[slot]!r}, episode with seed {place.seed}, step {place.length}"
            noted.where.append(f"env {world}, after {t} steps" if owners[slot] == ONLY_AGENT else agent)
            if own.acts[slot] and has_action_mask(worlds.spaces[policy].observation):
                noted.legal.append(float(np.mean(own.observations[ACTION_MASK][slot])))
