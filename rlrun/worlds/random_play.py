"""Random play of worlds: observations, rewards and ends by policy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlrun.data.action_masks import ACTION_MASK, has_action_mask
from rlrun.data.tree import map_tree
from rlrun.envs.env_findings import ACTION_SEED
from rlrun.envs.episode_place import EpisodePlace
from rlrun.envs.random_actions import RandomActions
from rlrun.envs.vector_env import BadReturn
from rlrun.worlds.vector_world import ONLY_AGENT, VectorWorld, WorldRows

SLOTS = 2
"""Worlds side by side."""
REPEATED_STEPS = 200
"""Steps that are taken a second time with the same seeds and actions."""


@dataclass
class ShownToPolicy:
    """Observations, rewards and ends of the agents of one policy.

    Attributes:
        observations: Rows of observations.
        where: Where each of them was shown.
        rewards: What agents were given in each step in which they lived.
        lengths: Steps of each agent's episode that ended.
        legal: Share of the actions that was legal, for each observation with a mask on which an agent acted.
        terminated: Episodes that ended for good.
        truncated: Episodes that were cut off.
        both: Episodes that ended in both ways.
        most: Most agents at once in a world, those that have just ended included.
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
        """Returns the lengths and ends of episodes in words; "" if none ended."""
        if not self.lengths:
            return ""
        told = f"{len(self.lengths)} of {min(self.lengths)} to {max(self.lengths)} steps"
        return f"{told}; {self.terminated} terminated, {self.truncated} truncated"


@dataclass(frozen=True)
class Played:
    """Record of a number of steps.

    Attributes:
        policies: Observations, rewards and ends, by policy.
        actions: By step and policy, leaves [B, ...].
        digests: Digests of observations and rewards, from the reset on and after each of the first steps.
        last: Digests of the worlds in the end.
        places: Where the worlds are in the end.
        lengths: Steps of each episode of a world that ended.
        missing_finals: Agents that were cut off and showed no final observation.
        seconds: Wall time of the steps.
        refusal: Error of a return that no env may make, which ended the play; "" for none.
    """

    policies: Mapping[str, ShownToPolicy]
    actions: list[dict[str, Any]]
    digests: list[Any]
    last: list[str]
    places: list[EpisodePlace]
    lengths: list[int]
    missing_finals: int
    seconds: float
    refusal: str


def play(worlds: VectorWorld, length: int) -> Played:
    """Takes random actions for a number of steps, from the first episodes on."""
    random = {policy: RandomActions(spaces, ACTION_SEED) for policy, spaces in worlds.spaces.items()}
    shown = {policy: ShownToPolicy() for policy in worlds.spaces}
    digests: list[Any] = []
    actions: list[dict[str, Any]] = []
    lengths: list[int] = []
    missing_finals, seconds, refusal = 0, 0.0, ""
    taken = {policy: np.zeros(slots, np.int64) for policy, slots in worlds.slots.items()}
    before = np.zeros(SLOTS, np.int64)
    try:
        rows = worlds.reset()
        digests.append(digest(worlds, rows))
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
            before += rows.stepped
            lengths += before[rows.ended].tolist()
            before[rows.ended] = 0
            if t < REPEATED_STEPS:
                digests.append(digest(worlds, rows))
        _note(shown, worlds, rows.policies, length)
    except BadReturn as error:
        refusal = str(error)
    return Played(shown, actions, digests, worlds.hashes(), worlds.places(), lengths, missing_finals, seconds, refusal)


def digest(worlds: VectorWorld, rows: WorldRows) -> Any:
    """Returns a digest of what worlds show, and the rewards that they give."""
    return worlds.hashes(), [own.rewards.tobytes() for own in rows.policies.values()]


def _note(shown: Mapping[str, ShownToPolicy], worlds: VectorWorld, rows: Mapping[str, Any], t: int) -> None:
    """Records observations and legal actions after t steps."""
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
