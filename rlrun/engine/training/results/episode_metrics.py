"""Metrics of episodes: means of returns, lengths and numbers from infos over the last 100 episodes."""

from __future__ import annotations

import dataclasses
import operator
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.rollout.episode_sums import MOST_INFO_NUMBERS, too_many_numbers
from rlrun.engine.rollout.evaluation import column_metric
from rlrun.engine.rollout.rollout import Episode
from rlrun.engine.settings.metric import MOST_NAME_CHARACTERS, is_name

WINDOW = 100
"""Number of most recently finished episodes over which returns and lengths are averaged."""

MOST_AGENTS = 32
"""Maximum number of possible agents with separate metrics, each of which is a column of every result.

In larger worlds, a policy's metrics include the minimum and maximum over its agents' episodes.
"""


class EpisodeMetrics:
    """Number of episodes, and means of return, length and numbers from infos over the last 100 episodes.

    Args:
        announce: Callback for warnings, at most one of each kind: too many numbers in infos, or invalid metric names.
    """

    def __init__(self, announce: Callable[[str], None] = lambda text: None) -> None:
        self.episodes = 0
        self._announce = announce
        self._announced: set[str] = set()
        self._last: deque[Episode] = deque(maxlen=WINDOW)

    def add(self, episodes: Iterable[Episode]) -> None:
        """Adds episodes that have finished, in the order in which they ended."""
        for episode in episodes:
            self.episodes += 1
            self._append(episode)

    def result(self) -> dict[str, float | int | None]:
        """Returns the episode metrics by name; values are None before the first finished episode."""
        result: dict[str, float | int | None] = {"episodes": self.episodes, **returns_of(self._last)}
        for name in self._info_names():
            result[f"info/{name}"] = _mean([episode.info[name] for episode in self._last if name in episode.info])
        for name in dict.fromkeys(name for episode in self._last for name in episode.columns):
            sums = [episode.columns[name] for episode in self._last if name in episode.columns]
            result[column_metric(name)] = _mean(sums)
        return result

    @property
    def last(self) -> Sequence[Episode]:
        """The last 100 finished episodes, or all if fewer have finished."""
        return tuple(self._last)

    def _info_names(self) -> list[str]:
        """Returns the names of the info entries reported as metrics, at most `MOST_INFO_NUMBERS`; warns beyond that."""
        names = list(dict.fromkeys(name for episode in self._last for name in episode.info))
        if len(names) > MOST_INFO_NUMBERS:
            self._announce_once("number", too_many_numbers(names[MOST_INFO_NUMBERS]))
        return names[:MOST_INFO_NUMBERS]

    def _append(self, episode: Episode) -> None:
        """Stores an episode, without the numbers in its info whose keys are invalid metric names."""
        if bad := [name for name in episode.info if not is_name(name)]:
            self._announce_once(
                "name",
                f"the info of an episode's last step contains a number with the name {bad[0][:40]!r}, which is left "
                f"out of the results; metric names must be 1 to {MOST_NAME_CHARACTERS} printable characters "
                "on one line",
            )
            kept = {name: number for name, number in episode.info.items() if is_name(name)}
            episode = dataclasses.replace(episode, info=kept)
        self._last.append(episode)

    def _announce_once(self, kind: str, text: str) -> None:
        if kind not in self._announced:
            self._announced.add(kind)
            self._announce(text)

    def state(self) -> dict[str, Any]:
        """Returns the episode counts and recent episodes for checkpoints."""
        return {
            "episodes": self.episodes,
            "last": [[episode.episode_return, episode.length, episode.info, episode.columns] for episode in self._last],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the episode counts and recent episodes from the result of `state()`."""
        self.episodes = as_count(state["episodes"])
        self._last.clear()
        for total, length, info, columns in state["last"]:
            self._append(Episode(float(total), int(length), dict(info), columns=dict(columns)))
        self.result()  # raises an error if an info is not a number


class AgentMetrics:
    """Metrics of agents' episodes in a multi-agent env, for each policy and for each possible agent.

    Args:
        policies: Names of the policies.
        agents: Ids of the possible agents. Other agents, such as those created during an episode, count only in their
            policy's metrics. The same holds for all agents if there are more than `MOST_AGENTS`.
        announce: Callback for warnings about unusable numbers in infos, at most one of each kind per policy.
    """

    def __init__(
        self, policies: Iterable[str], agents: Collection[str], announce: Callable[[str], None] = lambda text: None
    ) -> None:
        self._of_policies = {policy: EpisodeMetrics(announce) for policy in policies}
        reported = agents if len(agents) <= MOST_AGENTS else ()
        self._of_agents: dict[str, EpisodeMetrics] = {agent: EpisodeMetrics() for agent in reported}

    def add(self, policy: str, episodes: Iterable[Episode]) -> None:
        """Adds newly finished episodes of a policy's agents, in the order in which they ended."""
        for episode in episodes:
            self._of_policies[policy].add([episode])
            if episode.agent in self._of_agents:
                self._of_agents[episode.agent].add([episode])

    def of_policy(self, policy: str) -> dict[str, float | int | None]:
        """Returns the metrics of the episodes of a policy's agents, by name."""
        return self._of_policies[policy].result()

    def of_policies(self, policies: Iterable[str]) -> dict[str, float | None]:
        """Returns joint metrics of return and length of several policies, over the last 100 episodes of each policy."""
        return returns_of([episode for policy in policies for episode in self._of_policies[policy].last])

    def of_agents(self) -> dict[str, float | int | None]:
        """Returns the mean return of each possible agent, by metric name; None before its first episode has ended.

        Empty if there are more than `MOST_AGENTS` agents.
        """
        return {
            f"agents/{agent}/episode_return_mean": own.result()["episode_return_mean"]
            for agent, own in self._of_agents.items()
        }

    def state(self) -> dict[str, Any]:
        """Returns the episode counts and recent episodes for checkpoints."""
        return {
            "policies": {policy: own.state() for policy, own in self._of_policies.items()},
            "agents": {agent: own.state() for agent, own in self._of_agents.items()},
        }

    def load_state(self, state: Mapping[str, Any], new: Collection[str] = ()) -> None:
        """Restores the metrics from the result of `state()`; policies and agents that it lacks start without episodes.

        Args:
            state: Result of `state()`.
            new: Policies that have replaced others of the same names, and start without episodes.
        """
        for kind, owned in (("policies", self._of_policies), ("agents", self._of_agents)):
            for name, saved in state[kind].items():
                if name in owned and name not in new:
                    owned[name].load_state(saved)


def returns_of(episodes: Collection[Episode]) -> dict[str, float | None]:
    """Returns mean, minimum and maximum return, and mean length, of episodes; each is None without episodes."""
    returns = [episode.episode_return for episode in episodes]
    return {
        "episode_return_mean": _mean(returns),
        "episode_return_min": min(returns, default=None),
        "episode_return_max": max(returns, default=None),
        "episode_len_mean": _mean([episode.length for episode in episodes]),
    }


def _mean(numbers: list[float] | list[int]) -> float | None:
    # This does not use `sum`, which rounds floats differently from Python 3.12 on.
    return reduce(operator.add, numbers) / len(numbers) if numbers else None
