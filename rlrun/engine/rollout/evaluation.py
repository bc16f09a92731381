"""Evaluation of policies over a fixed number of episodes: returns with a confidence interval."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.action_kind import ActionKind
from rlrun.engine.data.results import data_frame
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import INTERRUPT_S, Watched
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.spaces import first_bad_row
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.functional.seeding import generator
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.endless_episodes import EpisodeWatchdog
from rlrun.engine.rollout.episode_sums import MOST_INFO_NUMBERS, numbers_in, too_many_numbers
from rlrun.engine.settings.metric import is_name
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.worlds.make import make_vector_world
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.vector_world import SlotRows, VectorWorld, place_of

if TYPE_CHECKING:
    import pandas

AGENT_EPISODES = "rlrun.engine.rollout.agent_episodes:AgentEpisodes"
"""Import path of the accumulator of agents' episodes in a multi-agent world."""

EXACT_INTERVAL = "rlrun.engine.functional.intervals:exact_interval"
"""Import path of the confidence interval of a rate."""

ENV_SLOTS = 8
"""Default number of episodes that run in parallel."""

RESAMPLES = 10_000
"""Number of bootstrap resamples for the confidence interval."""

_EVALUATION_STREAM = 1
_BOOTSTRAP_SEED = 0
_RESAMPLED_AT_ONCE = 1_000_000
_ROUNDING = 1e-9


class ActsInWorld(Protocol):
    """Interface of a policy that can play evaluation episodes in a batch of B env slots."""

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Clears the policy's memory of the env slots where a new episode begins (mask `starts` [B])."""
        ...

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Receives the rewards of the last step in B env slots, for policies that see past rewards."""
        ...

    def actions(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        """Returns env actions for the slots in the mask `acts`: sampled if a random generator is given, else greedy."""
        ...


STATISTICS = ("mean", "std", "ci95", "min", "max", "len_mean")
"""Printed statistics of an evaluation."""


@dataclass(frozen=True)
class EvaluationResult:
    """Result of an evaluation: return and length of each episode.

    Attributes:
        returns: Sum of raw rewards of each episode.
        lengths: Steps of each episode.
        policies: Results of each policy's agents in a multi-agent env, where `returns` are sums over all agents.
        columns: For each per-step number that the env's config names (`columns`), its sum over each episode.
        infos: By name, the values of each number in the infos of the episodes' last steps; an episode without the
            number is left out. In a multi-agent world, only the results in `policies` have infos.
    """

    returns: list[float]
    lengths: list[int]
    policies: Mapping[str, EvaluationResult] = field(default_factory=dict)
    columns: Mapping[str, list[float]] = field(default_factory=dict)
    infos: Mapping[str, list[float]] = field(default_factory=dict)

    @property
    def info_means(self) -> dict[str, float]:
        """Mean over episodes of each number in the infos of their last steps, by name of the metric (`info/<name>`)."""
        return {f"info/{name}": float(np.mean(numbers)) for name, numbers in self.infos.items()}

    @property
    def column_means(self) -> dict[str, float]:
        """Mean over episodes of each configured column's sum, by name of the metric (`episode_columns/<name>_mean`).

        Columns are per-step numbers, named in the env's config.
        """
        return {column_metric(name): float(np.mean(sums)) for name, sums in self.columns.items()}

    @cached_property
    def rates(self) -> dict[str, tuple[float, float]]:
        """Exact 95% confidence intervals of success rates.

        A rate is a number in the infos of all episodes' last steps, or the sum of a per-step column, that is 0 or 1 in
        every episode.
        """
        found, full = {**self.infos, **self.columns}, len(self.returns)
        rates = {name: own for name, own in found.items() if len(own) == full > 0 and set(own) <= {0.0, 1.0}}
        return {name: load_internal(EXACT_INTERVAL)(int(sum(sums)), len(sums)) for name, sums in rates.items()}

    @property
    def mean(self) -> float:
        """Mean return over the episodes."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Population standard deviation of the episodes' returns (divisor N)."""
        return float(np.std(self.returns))

    @property
    def min(self) -> float:
        """Lowest return of an episode."""
        return min(self.returns)

    @property
    def max(self) -> float:
        """Highest return of an episode."""
        return max(self.returns)

    @property
    def len_mean(self) -> float:
        """Mean number of steps per episode."""
        return float(np.mean(self.lengths))

    @cached_property
    def ci95(self) -> tuple[float, float]:
        """95% confidence interval of the mean return, by percentile bootstrap with a fixed seed."""
        returns = np.asarray(self.returns)
        draws = np.random.Generator(np.random.Philox(_BOOTSTRAP_SEED))
        at_once = max(1, _RESAMPLED_AT_ONCE // len(returns))
        means = np.concatenate(
            [
                returns[draws.integers(len(returns), size=(min(at_once, RESAMPLES - done), len(returns)))].mean(axis=1)
                for done in range(0, RESAMPLES, at_once)
            ]
        )
        low, high = np.percentile(means, [2.5, 97.5])
        return float(low), float(high)

    def _statistics(self) -> dict[str, Any]:
        values = (self.mean, self.std, list(self.ci95), self.min, self.max, self.len_mean)
        return dict(zip(STATISTICS, values, strict=True))

    def to_pandas(self) -> pandas.DataFrame:
        """Converts the episodes to a DataFrame: `episode_return`, `episode_len`, and columns that the env adds.

        Raises:
            UsageError: pandas is not installed.
        """
        columns = {"episode_return": self.returns, "episode_len": self.lengths, **self.columns}
        return data_frame([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])

    def to_dict(self) -> dict[str, Any]:
        """Converts the result to plain data; statistics of a policy that finished no episode are None."""
        statistics = self._statistics() if self.returns else dict.fromkeys(STATISTICS)
        return {
            "episodes": len(self.returns),
            **statistics,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
            **({"columns": dict(self.columns)} if self.columns else {}),
            **({"infos": dict(self.infos)} if self.infos else {}),
            **({"rates_ci95": {name: list(ends) for name, ends in self.rates.items()}} if self.rates else {}),
            **({"policies": {policy: own.to_dict() for policy, own in self.policies.items()}} if self.policies else {}),
        }


def interval_gap(mine: EvaluationResult, other: EvaluationResult) -> float:
    """Returns the gap between the 95% confidence intervals of two evaluations' mean returns; 0 if they overlap.

    The gap is positive if the second interval is above the first, and negative if it is below. Rounding differences
    between means of equal returns count as 0.

    Examples:
        >>> low, high = EvaluationResult([1.0, 1.0], [5, 5]), EvaluationResult([3.0, 3.0], [5, 5])
        >>> interval_gap(low, high), interval_gap(high, low), interval_gap(low, low)
        (2.0, -2.0, 0.0)
    """
    gap = max(0.0, other.ci95[0] - mine.ci95[1]) - max(0.0, mine.ci95[0] - other.ci95[1])
    return gap if abs(gap) > _ROUNDING * max(map(abs, (*mine.ci95, *other.ci95))) else 0.0


def column_metric(name: str) -> str:
    """Returns the name of the metric that holds the mean, over episodes, of a per-step column's sum."""
    return f"episode_columns/{name}_mean"


@dataclass(frozen=True)
class EvaluationSeeds(EpisodeSeeds):
    """Source of the seeds of evaluation episodes.

    An episode's seed depends on the episode's number, but not on the number of parallel envs.

    Attributes:
        num_envs: Number of env slots, B; env slot b runs the episodes b, b + B, b + 2 B, ...
    """

    num_envs: int = 1

    @override
    def seed(self, env_index: int, episode: int) -> int:
        """Returns the seed of the next episode in an env slot."""
        return super().seed(0, episode * self.num_envs + env_index)

    @override
    def seeds(self, env_indices: NDArray[Any], episodes: NDArray[Any]) -> NDArray[np.int64]:
        numbers = np.asarray(episodes) * self.num_envs + env_indices
        return super().seeds(np.zeros_like(numbers), numbers)


def evaluate(
    behaviors: Mapping[str, ActsInWorld],
    env: EnvConfig,
    episodes: int,
    seed: int,
    *,
    mapping: PolicyMapping | None = None,
    slots: Mapping[str, int] = MappingProxyType({}),
    actions: ActionKind = "greedy",
    num_envs: int | None = None,
    draw: Callable[[NDArray[Any] | None], None] | None = None,
) -> EvaluationResult:
    """Evaluates policies over a fixed number of episodes.

    Episodes are assigned to env slots in advance, since counting whichever episodes finish first would favor short
    ones. The seed of an episode depends only on its number, if the backend can seed single episodes. A deterministic
    policy then gets the same results with any number of env slots.

    Args:
        behaviors: Behavior policies by name.
        env: The single- or multi-agent env (world); returns are sums of its raw rewards.
        episodes: Number of episodes.
        seed: Seed of the episodes and of the actions.
        mapping: Mapping of agents to policies; None if one policy acts for all agents.
        slots: Maximum number of each policy's agents in a world at a time, as in training.
        actions: Whether actions are greedy or sampled.
        num_envs: Number of parallel envs or worlds; 8 by default, at most `episodes`.
        draw: Callback that receives an image of the world [height, width, 3] at each step; episodes then run in
            sequence. None for no rendering.

    Returns:
        Result with the return of each episode, summed over all agents. In a multi-agent world, the result includes the
        results of each policy's agents, in the order of the world's episodes.

    Raises:
        UsageError: There are no episodes to run.
        EnvError: The env raises, or an episode does not end.
        KeyboardInterrupt: The user interrupted the run, and `INTERRUPT_S` seconds have passed since.
    """
    at_most = num_envs if draw is None else 1
    side_by_side, seeds = parallel_episodes(episodes, seed, at_most, exactly=env.fixed_num_envs)
    worlds = make_vector_world(env, side_by_side, seeds, mapping or PolicyMapping(tuple(behaviors)), slots)
    draws = generator(seed, "evaluation") if actions == "sampled" else None
    name = f"env {env.id}: evaluation"
    lives = {
        policy: load_internal(AGENT_EPISODES)(number, number // side_by_side, worlds.columns)
        for policy, number in worlds.slots.items()
        if env.has_many_agents
    }
    try:
        with Watched(name, worlds.places):
            awaited = EpisodeWatchdog(name, env.max_episode_steps, INTERRUPT_S)
            return _run(behaviors, worlds, lives, name, episodes, draws, draw, awaited)
    finally:
        worlds.close()


def parallel_episodes(
    episodes: int, seed: int, at_most: int | None = None, *, exactly: int | None = None
) -> tuple[int, EvaluationSeeds]:
    """Returns the number of episodes to run in parallel, and the source of their seeds.

    Args:
        episodes: Total number of episodes.
        seed: Seed of the evaluation.
        at_most: Maximum number of parallel episodes, 8 by default.
        exactly: Fixed number of env slots of the env; None if any number is possible.

    Raises:
        UsageError: There are no episodes to run.
    """
    if episodes < 1:
        raise UsageError(f"an evaluation needs at least 1 episode, not {episodes}")
    slots = exactly or min(episodes, at_most or ENV_SLOTS)
    return slots, EvaluationSeeds(run_seed=seed, worker_index=0, stream=_EVALUATION_STREAM, num_envs=slots)


def _run(
    behaviors: Mapping[str, ActsInWorld],
    worlds: VectorWorld,
    lives: Mapping[str, Any],
    name: str,
    episodes: int,
    draws: np.random.Generator | None,
    draw: Callable[[NDArray[Any] | None], None] | None,
    awaited: EpisodeWatchdog,
) -> EvaluationResult:
    """Steps all worlds until each has finished its assigned episodes; ignores further episodes."""
    number = worlds.num_worlds
    current = np.arange(number)
    returns, lengths = [0.0] * episodes, [0] * episodes
    infos: list[Mapping[str, float]] = [{}] * episodes
    columns = {name: [0.0] * episodes for name in worlds.columns}
    sums, steps = np.zeros(number), np.zeros(number, np.int64)
    column_sums = {name: np.zeros(number) for name in worlds.columns}
    acting, living = [*behaviors.items()], [*lives.items()]
    rows = worlds.reset()
    if draw is not None:
        draw(worlds.render())
    while current.min() < episodes:
        actions = {}
        for policy, behavior in acting:
            shown = rows.policies[policy]
            _refuse_bad_observations(worlds, policy, shown, name)
            behavior.begin_episodes(shown.starts)
            actions[policy] = behavior.actions(shown.observations, draws, shown.acts)
        for policy, own in living:
            own.act(rows.policies[policy].acts)
        rows = worlds.step(actions)
        if draw is not None:
            draw(worlds.render())
        steps += rows.stepped
        for policy, behavior in acting:
            shown = rows.policies[policy]
            behavior.take_rewards(shown.rewards)
            sums += np.add.reduce(shown.rewards.reshape(number, -1), axis=1)
            for name, column in shown.columns.items():
                column_sums[name] += np.add.reduce(column.reshape(number, -1), axis=1)
        for policy, own in living:
            own.take(rows.policies[policy], rows.infos.get(policy, {}), current, episodes)
        last_infos = next(iter(rows.infos.values()), {})
        for world in rows.ended.nonzero()[0]:
            if current[world] < episodes:
                returns[current[world]], lengths[current[world]] = float(sums[world]), int(steps[world])
                infos[current[world]] = numbers_in(last_infos.get(int(world), {}))
                for name, found in columns.items():
                    found[current[world]] = float(column_sums[name][world])
            current[world] += number
            sums[world], steps[world] = 0.0, 0
            for totals in column_sums.values():
                totals[world] = 0.0
        awaited.look(int(np.where(current < episodes, steps, 0).max()))
    results = {policy: own.result() for policy, own in lives.items()}
    return EvaluationResult(returns, lengths, results, columns, {} if lives else numbers_by_name(infos))


def numbers_by_name(infos: Iterable[Mapping[str, float]]) -> dict[str, list[float]]:
    """Groups the numbers of episodes by name; at most `MOST_INFO_NUMBERS` names, each a valid name of a metric.

    Args:
        infos: Numbers of each episode's info by name.

    Warns:
        UserWarning: There are more names.
    """
    found: dict[str, list[float]] = {}
    for name, number in ((name, info[name]) for info in infos for name in info if is_name(name)):
        found.setdefault(name, []).append(number)
    if len(found) > MOST_INFO_NUMBERS:
        warnings.warn(too_many_numbers([*found][MOST_INFO_NUMBERS]), stacklevel=2)
    return {name: found[name] for name in [*found][:MOST_INFO_NUMBERS]}


def _refuse_bad_observations(worlds: VectorWorld, policy: str, shown: SlotRows, name: str) -> None:
    """Validates observations, including final ones: finite and within the policy's space."""
    space = worlds.spaces[policy].observation
    if first_bad_row(space, map_tree(lambda leaf: leaf[None], shown.observations)) is None:
        return
    seen = (shown.acts | shown.terminateds | shown.truncateds).nonzero()[0]  # other rows are undefined
    if bad := first_bad_row(space, map_tree(lambda leaf: leaf[seen][None], shown.observations)):
        (_, number), reason = bad
        raise EnvError(f"{name}, {place_of(worlds, policy, int(seen[number]))}: {reason}")
