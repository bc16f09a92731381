"""Checks a multi-agent env in random episodes: when agents appear and end, and whether rewards are lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_findings import ACTION_SEED, EnvFinding
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.random_actions import RandomActions
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.vector_env import close_or_warn, env_error
from rlrun.engine.worlds.make_worlds import make_world
from rlrun.engine.worlds.mapping import PolicyMapping


class AgentLifecycle:
    """Random rollout of a multi-agent env that counts agents' appearances and ends, and detects irregularities.

    An example of an irregularity is a reward for an agent that has already ended.

    Args:
        config: Config of the env.
        spaces: Observation and action space of the agents, by policy.
        mapping: Mapping from agents to policies.
    """

    def __init__(self, config: EnvConfig, spaces: Mapping[str, Spaces], mapping: PolicyMapping) -> None:
        self._config = config
        self._mapping = mapping
        self._random = {policy: RandomActions(own, ACTION_SEED) for policy, own in spaces.items()}
        self._place = EpisodePosition(0, 0, 0)
        self._births = 0
        self._ends = 0
        self._never_shown: set[str] = set()
        self._lost: set[str] = set()
        self._left: set[str] = set()
        self._both: set[str] = set()

    def findings(self, steps: int, seed: int) -> Iterator[EnvFinding]:
        """Takes `steps` random steps in the multi-agent env; yields the counts and irregularities as findings."""
        world = make_world(self._config)
        seeds, episode, taken = EpisodeSeeds(seed, 0), 0, 0
        try:
            with Watched(f"env {self._config.id}: check", lambda: [self._place]):
                while taken < steps:
                    self._place = EpisodePosition(episode, seeds.seed(0, episode), 0)
                    taken += self._play(world, min(steps - taken, self._config.max_episode_steps or steps))
                    episode += 1
        except (Exception, SystemExit) as error:
            raise env_error(self._config.id, "step()", str(self._place), error) from error
        finally:
            close_or_warn(world.close, self._config.id, str(self._place))
        yield EnvFinding("births and ends", "ok", f"{self._births} agents appeared, {self._ends} ended")
        yield from self._irregularity(
            self._never_shown,
            "ended without ever receiving an observation",
            "nothing is learned from such agents, and they are not counted",
            "give each agent an observation at least one step before its end",
        )
        yield from self._irregularity(
            self._lost,
            "received a reward after their end, or without ever appearing in the episode",
            "such rewards belong to no return; `dropped_rewards` counts them",
            "give the reward no later than in the step that ends the agent",
        )
        yield from self._irregularity(
            self._left,
            "had not ended when the world's episode ended",
            "they count as truncated, so the value of their last observation is bootstrapped",
            "set `terminateds` for agents that have ended",
        )
        yield from self._irregularity(
            self._both,
            "were both terminated and truncated",
            "such an end counts as terminated: no future reward is expected",
            "",
        )

    def _irregularity(self, agents: set[str], what: str, reason: str, advice: str) -> Iterator[EnvFinding]:
        if agents:
            named = ", ".join(sorted(agents)[:3]) + (", ..." if len(agents) > 3 else "")
            yield EnvFinding("births and ends", "note", f"{named} {what}", reason, advice)

    def _play(self, world: Any, most: int) -> int:
        """Steps the current episode with random actions; returns the number of steps."""
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
