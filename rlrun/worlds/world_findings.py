"""Steps a world by random actions as training would, and says what is found and what it means for learning."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from rlrun.data.action_masks import ACTION_MASK, has_action_mask
from rlrun.data.tree import map_tree
from rlrun.envs.env_check import (
    MAX_REPLAY_S,
    REPEATED_STEPS,
    SLOTS,
    EnvFinding,
    observation_findings,
    refusal_finding,
    reward_findings,
    seed_finding,
    space_findings,
    speed_finding,
)
from rlrun.envs.env_watch import Watched
from rlrun.envs.episode_place import EpisodePlace, EpisodeSeeds
from rlrun.envs.random_actions import RandomActions
from rlrun.envs.spaces import Spaces, empty_batch
from rlrun.envs.vector_env import BadReturn, EnvError, close_or_warn, env_error
from rlrun.worlds.make import make_vector_world, make_world, steps_all_at_once
from rlrun.worlds.mapping import PolicyMapping
from rlrun.worlds.vector_world import VectorWorld
from rlrun.worlds.world_config import WorldConfig

_ACTION_SEED = 0


@dataclass
class _Shown:
    """What the agents of one policy were shown and given, one entry for each.

    Attributes:
        observations: Rows of observations.
        where: Where each of them was shown.
        rewards: What agents were given in each step in which they lived.
        lengths: Steps of each agent's episode that ended.
        legal: Share of the actions that was legal, for each observation with a mask on which somebody acted.
        terminated: Episodes that ended for good.
        truncated: Episodes that were cut off.
        most: Most agents at once in a world, those that have just ended included.
    """

    observations: list[Any] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    legal: list[float] = field(default_factory=list)
    terminated: int = 0
    truncated: int = 0
    most: int = 0


@dataclass(frozen=True)
class _Played:
    """What a number of steps showed.

    Attributes:
        policies: By policy, what its agents were shown.
        actions: By step and policy, leaves [B, ...].
        hashes: Digests of the worlds, from the reset on and behind each of the first steps.
        last: Digests of the worlds in the end.
        places: Where the worlds are in the end.
        lengths: Steps of each episode of a world that ended.
        missing_finals: Agents that were cut off and showed no final observation.
        seconds: Wall time of the steps.
        refusal: What the world returned behind all that, and no world may return; "" for nothing.
    """

    policies: Mapping[str, _Shown]
    actions: list[dict[str, Any]]
    hashes: list[list[str]]
    last: list[str]
    places: list[EpisodePlace]
    lengths: list[int]
    missing_finals: int
    seconds: float
    refusal: str


def check_world_by_stepping(
    config: WorldConfig, mapping: PolicyMapping, slots: Mapping[str, int], *, steps: int, seed: int = 0
) -> list[EnvFinding]:
    """Steps a world by random actions, and tries what training, resume and evaluation count on.

    Args:
        config: The world.
        mapping: Which agents are one policy's.
        slots: By policy, its slots in each world, where they are not as many as its possible agents.
        steps: Steps of worlds to take in all.
        seed: Root seed of its episodes.

    Returns:
        What was found, in the order in which a reader should take it in.

    Raises:
        UsageError: A name or a keyword argument does not exist, or an agent is no policy's.
        EnvironmentUnusable: A package is not installed, or no policies can be trained in this.
        EnvError: The world's own code raised.
    """

    def make(own_seed: int) -> VectorWorld:
        return make_vector_world(config, SLOTS, EpisodeSeeds(own_seed, 0), mapping, slots)

    worlds = make(seed)
    try:
        with Watched(f"env {config.id}: check", worlds.places):
            played = _play(worlds, max(steps // SLOTS, 2))
    finally:
        worlds.close()
    refused = [refusal_finding(played.refusal)] if played.refusal else []
    general = [
        EnvFinding("clock", "ok", worlds.clock),
        *([] if worlds.state_space is None else [EnvFinding("state", "ok", str(worlds.state_space))]),
        *refused,
    ]
    if not played.actions:
        return general
    return [
        *general,
        *(one for policy in worlds.spaces for one in _of_policy(policy, worlds, played.policies[policy])),
        *_episodes(played),
        *(
            []
            if refused or steps_all_at_once(config)
            else _LifeBook(config, worlds.spaces, mapping).findings(steps, seed)
        ),
        *_seeds(config.id, make(seed), make(seed + 1), played),
        *([] if refused else _replay(config.id, make(seed), played)),
        _speed(played),
    ]


def _play(worlds: VectorWorld, length: int) -> _Played:
    random = {policy: RandomActions(spaces, _ACTION_SEED) for policy, spaces in worlds.spaces.items()}
    shown = {policy: _Shown() for policy in worlds.spaces}
    hashes: list[list[str]] = []
    actions: list[dict[str, Any]] = []
    lengths: list[int] = []
    missing_finals, seconds, refusal = 0, 0.0, ""
    taken = {policy: np.zeros(slots, np.int64) for policy, slots in worlds.slots.items()}
    before = np.zeros(SLOTS, np.int64)
    try:
        rows = worlds.reset()
        hashes.append(worlds.hashes())
        for t in range(length):
            chosen = {}
            for policy, own in rows.policies.items():
                chosen[policy] = random[policy].draw(own.observations)
                taken[policy] += own.acts
            _note(shown, worlds, rows.policies)
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
                noted.truncated += int((own.truncateds & ~own.terminateds).sum())
                noted.lengths += taken[policy][ends].tolist()
                taken[policy][ends] = 0
                noted.most = max(noted.most, int((own.living | ends).reshape(SLOTS, -1).sum(axis=1).max()))
            before += rows.stepped
            lengths += before[rows.ended].tolist()
            before[rows.ended] = 0
            if t < REPEATED_STEPS:
                hashes.append(worlds.hashes())
        _note(shown, worlds, rows.policies)
    except BadReturn as error:
        refusal = str(error)
    return _Played(shown, actions, hashes, worlds.hashes(), worlds.places(), lengths, missing_finals, seconds, refusal)


def _note(shown: Mapping[str, _Shown], worlds: VectorWorld, rows: Mapping[str, Any]) -> None:
    """Notes what agents see, and what they may do."""
    places = worlds.places()
    for policy, own in rows.items():
        noted, owners = shown[policy], worlds.owners(policy)
        for slot in (own.acts | own.terminateds | own.truncateds).nonzero()[0].tolist():
            world = slot // (len(own.acts) // len(places))
            place = places[world]
            noted.observations.append(map_tree(lambda leaf, slot=slot: leaf[slot].copy(), own.observations))
            noted.where.append(f"agent {owners[slot]!r}, episode with seed {place.seed}, step {place.length}")
            if own.acts[slot] and has_action_mask(worlds.spaces[policy].observation):
                noted.legal.append(float(np.mean(own.observations[ACTION_MASK][slot])))


def _of_policy(policy: str, worlds: VectorWorld, shown: _Shown) -> Iterator[EnvFinding]:
    """Says what is found of the agents of one policy; with its name where there are several."""
    spaces = worlds.spaces[policy]
    found = [*space_findings(spaces), *_acting(shown)]
    if shown.observations:
        rows = map_tree(lambda *leaf: np.stack(leaf)[:, None], *shown.observations)
        found += observation_findings(spaces.observation, rows, len(shown.rewards), lambda t, _: shown.where[t])
    if shown.rewards:
        found += reward_findings(np.array(shown.rewards))
    slots = worlds.slots[policy] // SLOTS
    if shown.most and 2 * shown.most < slots:
        reason = "empty slots cost memory, and count where batches are filled"
        advice = f"policies.{policy}.slots: {shown.most + 1}, if no policy keeps more of them alive"
        found.append(EnvFinding("slots", "note", f"{shown.most} of {slots} were taken at most", reason, advice))
    else:
        found.append(EnvFinding("slots", "ok", f"{shown.most} of {slots} were taken at most"))
    for one in found:
        yield replace(one, topic=f"{policy}: {one.topic}") if len(worlds.spaces) > 1 else one


def _acting(shown: _Shown) -> Iterator[EnvFinding]:
    if not shown.observations:
        reason = "a policy whose agents never appear learns nothing"
        yield EnvFinding("agents", "note", "none was ever there", reason, "a mapping that gives it agents")
        return
    lengths = shown.lengths
    if lengths:
        ends = f"{shown.terminated} terminated, {shown.truncated} truncated"
        yield EnvFinding("lives", "ok", f"{len(lengths)} of {min(lengths)} to {max(lengths)} steps; {ends}")
    else:
        reason = "an agent whose episode does not end has no return"
        yield EnvFinding("lives", "note", "none ended", reason, "env.max_episode_steps, if the world never ends")
    if shown.legal:
        yield EnvFinding("action masks", "ok", f"{np.mean(shown.legal):.0%} of the actions are legal on average")


def _episodes(played: _Played) -> Iterator[EnvFinding]:
    lengths = played.lengths
    if played.refusal and not lengths:
        return
    if not lengths:
        found = f"none ended within {len(played.actions):,} steps"
        reason = "without an end there is no return of the world to report, and evaluations do not end"
        yield EnvFinding("episodes", "note", found, reason, "env.max_episode_steps: 1000, if it never ends")
    else:
        yield EnvFinding("episodes", "ok", f"{len(lengths)} of {min(lengths)} to {max(lengths)} steps")
    if played.missing_finals:
        found = f"{played.missing_finals} agents were cut off without a final observation"
        reason = "values of their last step come from the observation before it"
        yield EnvFinding("final observations", "note", found, reason, "show an agent that ends what it sees then")


class _LifeBook:
    """Keeps book of births and ends as a world of dicts tells them, before anything is made of them.

    Args:
        config: The world.
        spaces: By policy, the spaces of its agents.
        mapping: Which agents are whose.
    """

    def __init__(self, config: WorldConfig, spaces: Mapping[str, Spaces], mapping: PolicyMapping) -> None:
        self._config = config
        self._mapping = mapping
        self._random = {policy: RandomActions(own, _ACTION_SEED) for policy, own in spaces.items()}
        self._place = EpisodePlace(0, 0, 0)
        self._births = 0
        self._ends = 0
        self._never_shown: set[str] = set()
        self._lost: set[str] = set()
        self._left: set[str] = set()
        self._both: set[str] = set()

    def findings(self, steps: int, seed: int) -> Iterator[EnvFinding]:
        """Plays so many steps, and says what is found."""
        world = make_world(self._config)
        seeds, episode, taken = EpisodeSeeds(seed, 0), 0, 0
        try:
            with Watched(f"env {self._config.id}: check", lambda: [self._place]):
                while taken < steps:
                    self._place = EpisodePlace(episode, seeds.seed(0, episode), 0)
                    taken += self._play(world, min(steps - taken, self._config.max_episode_steps or steps))
                    episode += 1
        except (Exception, SystemExit) as error:
            raise env_error(self._config.id, "step()", str(self._place), error) from error
        finally:
            close_or_warn(world.close, self._config.id, str(self._place))
        yield EnvFinding("births and ends", "ok", f"{self._births} agents appeared, {self._ends} ended")
        yield from self._odd(
            self._never_shown,
            "ended without ever having been shown anything",
            "nothing is learned from it, and it counts nowhere",
            "show an agent an observation at least one step before its end",
        )
        yield from self._odd(
            self._lost,
            "were given a reward when they had ended or before an episode in which they never appeared",
            "no return has it, and `dropped_rewards` counts it",
            "give the reward in the step that ends the agent, or before",
        )
        yield from self._odd(
            self._left,
            "were left without an end of their own when the episode of the world ended",
            "they count as truncated: a value of what would follow is added",
            "say `terminateds` where nothing follows",
        )
        yield from self._odd(
            self._both, "ended terminated and truncated", "such an end counts as terminated: nothing is expected", ""
        )

    def _odd(self, agents: set[str], what: str, reason: str, advice: str) -> Iterator[EnvFinding]:
        if agents:
            named = ", ".join(sorted(agents)[:3]) + (", ..." if len(agents) > 3 else "")
            yield EnvFinding("births and ends", "note", f"{named} {what}", reason, advice)

    def _play(self, world: Any, most: int) -> int:
        """Plays the episode of the place; returns its steps."""
        shown = world.reset(self._place.seed)
        living, early = set(shown), set[str]()
        self._births += len(living)
        for t in range(most):
            actions = {
                agent: self._random[self._mapping.policy_of(agent, 0)].draw_one(seen) for agent, seen in shown.items()
            }
            observations, rewards, terminateds, truncateds, _, ended = world.step(actions)
            self._place = replace(self._place, length=t + 1)
            over = {agent for flags in (terminateds, truncateds) for agent, flag in flags.items() if flag}
            born = set() if ended else observations.keys() - living - over
            early -= born
            early |= {agent for agent, reward in rewards.items() if reward} - living - born
            self._births += len(born)
            self._never_shown |= over - living
            self._both |= {agent for agent in over if terminateds.get(agent) and truncateds.get(agent)}
            self._ends += len(over & living)
            living = (living | born) - over
            shown = {agent: seen for agent, seen in observations.items() if agent in living}
            if ended:
                self._left |= living
                self._lost |= early
                return t + 1
        return most


def _seeds(world_id: str, repeated: VectorWorld, other: VectorWorld, played: _Played) -> Iterator[EnvFinding]:
    try:
        with Watched(f"env {world_id}: check", lambda: [*repeated.places(), *other.places()]):
            found = seed_finding(
                _first_difference(repeated, played),
                partial(_first_difference, other, played),
                kind="world",
                advice="draw all randomness from a generator that reset(seed) makes",
            )
        yield found
    finally:
        repeated.close()
        other.close()


def _first_difference(worlds: VectorWorld, played: _Played) -> int | None:
    """Returns after how many steps other worlds show something else under the same actions; None for never."""
    worlds.reset()
    if worlds.hashes() != played.hashes[0]:
        return 0
    for t, expected in enumerate(played.hashes[1:], 1):
        try:
            worlds.step(played.actions[t - 1])
        except EnvError:  # the actions are not legal where it has come to
            return t
        if worlds.hashes() != expected:
            return t
    return None


def _replay(world_id: str, worlds: VectorWorld, played: _Played) -> Iterator[EnvFinding]:
    """Brings fresh worlds to where the played ones ended, as a resume does."""
    try:
        taken = [
            _of_world(played.actions[len(played.actions) - place.length :], world, worlds)
            for world, place in enumerate(played.places)
        ]
        with Watched(f"env {world_id}: check", worlds.places):
            worlds.reset()
            start = time.perf_counter()
            _, exact = worlds.restore(played.places, taken, played.last, MAX_REPLAY_S)
        seconds = time.perf_counter() - start
    finally:
        worlds.close()
    if all(exact):
        steps = sum(place.length for place in played.places)
        yield EnvFinding("resume", "ok", f"{steps} joint actions replayed in {seconds:.2g} s, exactly")
    else:
        found = f"{SLOTS - sum(exact)} of {SLOTS} worlds came elsewhere when their actions were replayed"
        reason = "a world has state that seed and actions do not decide; a resume begins new episodes there"
        yield EnvFinding("resume", "wrong", found, reason, "have reset(seed) set all of the world's state")


def _of_world(actions: list[dict[str, Any]], world: int, worlds: VectorWorld) -> dict[str, Any]:
    """Returns one world's actions by policy, leaves [length, K, ...]."""
    taken: dict[str, Any] = {}
    for policy, slots in worlds.slots.items():
        width, spaces = slots // SLOTS, worlds.spaces[policy]
        own = slice(world * width, (world + 1) * width)
        rows = [map_tree(lambda leaf, own=own: leaf[own], step[policy]) for step in actions]
        nothing = map_tree(lambda leaf: np.zeros((0, *leaf.shape), leaf.dtype), empty_batch(spaces.action, width))
        taken[policy] = map_tree(lambda *leaf: np.stack(leaf), *rows) if rows else nothing
    return taken


def _speed(played: _Played) -> EnvFinding:
    steps, agent_steps = len(played.actions) * SLOTS, sum(len(own.rewards) for own in played.policies.values())
    of_agents = f"{agent_steps / max(played.seconds, 1e-9):,.0f} of agents"
    return speed_finding(steps, played.seconds, f"of worlds, {of_agents}, in one process, {SLOTS} worlds")
