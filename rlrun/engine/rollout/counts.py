"""Counters of the experience that a trial has received: env steps, episodes and observation statistics."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.engine.functional.moments import Moments, merge_named
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.rollout.rollout import Episode, Rollout

if TYPE_CHECKING:
    from rlrun.engine.rollout.endless_episodes import EndlessEpisodes
    from rlrun.engine.rollout.hook_answers import HookAnswers
    from rlrun.engine.rollout.inference.served import Served
    from rlrun.engine.rollout.phases import FragmentTimes


@dataclass(frozen=True)
class MeasuredFragment:
    """Timing of a fragment that the trial has received from a worker.

    Attributes:
        worker: Index of the collecting worker.
        env_steps: Env steps of the fragment.
        times: Durations that the worker measured while collecting.
        received: Time of arrival, in seconds of `time.perf_counter`.
        served: Counts of the requests to an inference server; None if the worker chose the actions.
    """

    worker: int
    env_steps: int
    times: FragmentTimes
    received: float
    served: Served | None = None


class RolloutCounts:
    """Counters of received fragments; also keeps finished episodes and statistics until a `take_*` method returns them.

    Attributes:
        env_steps: Env steps of all rollouts received.
        agent_steps: Number of steps by each policy's agents, in multi-agent envs.
        missing_finals: Number of agents' episodes truncated without a final observation.
        dropped_rewards: Number of rewards for agents whose episode had ended or had never begun.
        sample_s: Seconds of sampling, summed over the workers.
        env_slots_restarted: Number of env slots of restarted workers that began a new episode, since this process
            started.
        fragments_left_out: Number of fragments of slow workers that were dropped, since this process started.
        endless: Check called after each fragment, which warns if no episode ends; None for no warning.
        measured: Timings of the fragments, in the order of their arrival; None if they are not recorded.
        hooks: Metrics and stop reasons that the workers' hooks returned; None without hooks.
        lost_steps: Steps lost since this process started, in unfinished fragments of failed workers; only counted if an
            inference server chooses the actions.
        filter_deltas: By policy, the statistics of observations and returns that have not been taken yet, by name.
        record: Function called with each rollout to write its steps to a data set; None without a data set.
    """

    def __init__(self) -> None:
        self.env_steps = 0
        self.sample_s = 0.0
        self.env_slots_restarted = 0
        self.fragments_left_out = 0
        self.endless: EndlessEpisodes | None = None
        self.measured: list[MeasuredFragment] | None = None
        self.hooks: HookAnswers | None = None
        self.lost_steps = 0
        self.record: Callable[[Rollout], None] | None = None
        self.agent_steps: Counter[str] = Counter()
        self.missing_finals = self.dropped_rewards = 0
        self._episodes: list[Episode] = []
        self._agent_episodes: dict[str, list[Episode]] = {}
        self.filter_deltas: dict[str, dict[str, Moments]] = {}

    def count(self, rollout: Rollout) -> None:
        """Counts a fragment's steps, episodes and observation statistics; writes its steps to the data set, if any."""
        if self.record is not None:
            self.record(rollout)
        if self.hooks is not None and rollout.hooks is not None:
            self.hooks.merge(rollout.hooks)
        self.env_steps += rollout.env_steps
        self.sample_s += rollout.sample_s
        self.env_slots_restarted += rollout.env_slots_restarted
        if rollout.served is not None:
            self.lost_steps += rollout.served.lost_steps
        self._episodes += rollout.episodes
        self.missing_finals += rollout.missing_finals
        self.dropped_rewards += rollout.dropped_rewards
        if rollout.agent_steps:
            self.agent_steps.update(rollout.agent_steps)
            for policy, episodes in rollout.agent_episodes.items():
                self._agent_episodes.setdefault(policy, []).extend(episodes)
        if self.measured is not None and rollout.times is not None:
            self.measured.append(
                MeasuredFragment(
                    rollout.worker_index, rollout.env_steps, rollout.times, time.perf_counter(), rollout.served
                )
            )
        for policy in rollout.filter_deltas:
            if rollout.filter_deltas[policy]:
                merge_named(self.filter_deltas.setdefault(policy, {}), rollout.filter_deltas[policy])
        if self.endless is not None and self.endless.looks:
            self.endless.look(
                self.env_steps,
                has_episodes=bool(self._episodes),
                has_agent_episodes=bool(rollout.agent_steps) and any(rollout.agent_episodes.values()),
            )

    def take_episodes(self) -> list[Episode]:
        """Returns the finished episodes received since the last call, and clears them."""
        taken, self._episodes = self._episodes, []
        return taken

    def take_agent_episodes(self, policy: str) -> list[Episode]:
        """Returns the finished episodes of a policy's agents received since the last call, and clears them."""
        return self._agent_episodes.pop(policy, [])

    def take_filter_deltas(self, policy: str) -> dict[str, Moments]:
        """Returns the statistics of a policy's observations and returns collected since the last call, by name."""
        return self.filter_deltas.pop(policy, {})

    def state(self) -> dict[str, Any]:
        """Returns, for a checkpoint, the counts, and the episodes and statistics kept for the `take_*` methods."""
        return {**self._of_episodes(), **(self._of_agents() if self.agent_steps else {})}

    def _of_episodes(self) -> dict[str, Any]:
        return {
            "env_steps": self.env_steps,
            "episodes": [dataclasses.asdict(episode) for episode in self._episodes],
            "filter_deltas": {
                policy: {name: delta.state() for name, delta in deltas.items()}
                for policy, deltas in self.filter_deltas.items()
            },
        }

    def _of_agents(self) -> dict[str, Any]:
        """Serializes the agent step counters of multi-agent worlds."""
        return {
            "agent_steps": dict(self.agent_steps),
            "missing_finals": self.missing_finals,
            "dropped_rewards": self.dropped_rewards,
            "agent_episodes": {
                policy: [dataclasses.asdict(episode) for episode in episodes]
                for policy, episodes in self._agent_episodes.items()
            },
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the counts, and the episodes and statistics not yet taken, from the result of `state()`."""
        self.env_steps = as_count(state["env_steps"])
        self._episodes = [Episode(**episode) for episode in state["episodes"]]
        self.load_agent_steps(state)
        self._agent_episodes = {
            policy: [Episode(**episode) for episode in episodes]
            for policy, episodes in state.get("agent_episodes", {}).items()
        }
        self.filter_deltas = {
            policy: {name: Moments.from_state(delta) for name, delta in deltas.items()}
            for policy, deltas in state["filter_deltas"].items()
        }

    def load_agent_steps(self, state: Mapping[str, Any]) -> None:
        """Restores the counters of multi-agent envs from the result of `state()`, which may lack them.

        For single-agent envs, `state()` does not include these counters.
        """
        self.agent_steps = Counter({policy: as_count(steps) for policy, steps in state.get("agent_steps", {}).items()})
        self.missing_finals = as_count(state.get("missing_finals", 0))
        self.dropped_rewards = as_count(state.get("dropped_rewards", 0))
