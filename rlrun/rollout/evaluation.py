"""Evaluation: returns of a fixed number of episodes, with a confidence interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.envs.env_config import EnvConfig
from rlrun.envs.env_watch import INTERRUPT_S, Watched
from rlrun.envs.episode_place import EpisodeSeeds
from rlrun.envs.make import make_vector_env
from rlrun.envs.vector_env import VectorEnv, refuse_bad_observations
from rlrun.errors import UsageError
from rlrun.functional.seeding import generator
from rlrun.rollout.endless_episodes import AwaitedEpisodes

ENV_SLOTS = 8
"""Default number of episodes that run in parallel."""

RESAMPLES = 10_000
"""Resamples of the bootstrap."""

_EVALUATION_STREAM = 1
_BOOTSTRAP_SEED = 0
_RESAMPLED_AT_ONCE = 1_000_000


class ActsInEnv(Protocol):
    """Interface of a policy in an evaluation, as behavior policies have it."""

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Resets recurrent state in env slots [B] whose next observation starts an episode."""
        ...

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Takes the rewards [B] of the last step, for policies that observe them."""
        ...

    def actions(self, observations: Any, generator: np.random.Generator | None) -> Any:
        """Returns actions for the env, [B, ...]: sampled with a generator, the most likely ones without."""
        ...


STATISTICS = ("mean", "std", "ci95", "min", "max", "len_mean")
"""Printed statistics of an evaluation."""


@dataclass(frozen=True)
class EvaluationResult:
    """Returns and lengths of an evaluation's episodes, in their order.

    Attributes:
        returns: Sum of raw rewards of each episode.
        lengths: Steps of each episode.
        policies: Of a world of many agents, the episodes of each policy's agents; a return of the world is that of all
            its agents.
        columns: Sums of the columns that the env's config names over each episode, by name.
    """

    returns: list[float]
    lengths: list[int]
    policies: Mapping[str, EvaluationResult] = field(default_factory=dict)
    columns: Mapping[str, list[float]] = field(default_factory=dict)

    @property
    def column_means(self) -> dict[str, float]:
        """Mean sum over an episode of each column, as `episode_columns/<name>_mean`."""
        return {column_metric(name): float(np.mean(sums)) for name, sums in self.columns.items()}

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns (of these episodes, divided by their number)."""
        return float(np.std(self.returns))

    @property
    def min(self) -> float:
        """Lowest return."""
        return min(self.returns)

    @property
    def max(self) -> float:
        """Highest return."""
        return max(self.returns)

    @property
    def len_mean(self) -> float:
        """Mean length."""
        return float(np.mean(self.lengths))

    @cached_property
    def ci95(self) -> tuple[float, float]:
        """95 % interval of the mean return: percentile bootstrap with fixed draws, so that it can be repeated."""
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

    def to_dict(self) -> dict[str, Any]:
        """Returns all of it as plain data; the statistics of a policy none of whose agents appeared are None."""
        statistics = self._statistics() if self.returns else dict.fromkeys(STATISTICS)
        return {
            "episodes": len(self.returns),
            **statistics,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
            **({"columns": dict(self.columns)} if self.columns else {}),
            **({"policies": {policy: own.to_dict() for policy, own in self.policies.items()}} if self.policies else {}),
        }


def column_metric(name: str) -> str:
    """Returns the metric's name of a column's mean sum over an episode."""
    return f"episode_columns/{name}_mean"


@dataclass(frozen=True)
class EvaluationSeeds(EpisodeSeeds):
    """Seeds by an episode's number over all env slots, so that it does not depend on the number of slots.

    Attributes:
        num_envs: Number of env slots, B; env slot b runs the episodes b, b + B, b + 2 B, ...
    """

    num_envs: int = 1

    @override
    def seed(self, env_index: int, episode: int) -> int:
        """Returns the seed of an env slot's episode."""
        return super().seed(0, episode * self.num_envs + env_index)

    @override
    def seeds(self, env_indices: NDArray[Any], episodes: NDArray[Any]) -> NDArray[np.int64]:
        numbers = np.asarray(episodes) * self.num_envs + env_indices
        return super().seeds(np.zeros_like(numbers), numbers)


def evaluate(
    behavior: ActsInEnv,
    env: EnvConfig,
    episodes: int,
    seed: int,
    explore: bool = False,
    num_envs: int | None = None,
) -> EvaluationResult:
    """Evaluates a policy over a fixed number of episodes.

    Episodes are assigned to env slots beforehand: the first ones to finish would be the short ones. The seed of
    an episode depends on its number alone, so that a policy that draws nothing gets the same results with any number of
    env slots, wherever the env's backend can seed single episodes.

    Args:
        behavior: The behavior policy.
        env: The env, whose raw rewards are summed.
        episodes: Number of episodes.
        seed: Seed of the episodes and of the actions.
        explore: Whether actions are sampled instead of the most likely ones.
        num_envs: Env slots, 8 by default, never more than episodes.

    Raises:
        UsageError: There are no episodes to run.
        EnvError: The env raises, or an episode does not end.
        KeyboardInterrupt: The user has interrupted the run, `INTERRUPT_S` ago.
    """
    slots, seeds = episodes_side_by_side(episodes, seed, num_envs)
    world = make_vector_env(env, slots, seeds)
    draws = generator(seed, "evaluation") if explore else None
    name = f"env {env.id}: evaluation"
    try:
        with Watched(name, world.places):
            awaited = AwaitedEpisodes(name, env.max_episode_steps, INTERRUPT_S)
            return _run(behavior, world, name, episodes, draws, awaited)
    finally:
        world.close()


def episodes_side_by_side(episodes: int, seed: int, at_most: int | None = None) -> tuple[int, EvaluationSeeds]:
    """Returns the number of episodes that run in parallel, and their seeds.

    Args:
        episodes: Number of all episodes.
        seed: Seed of the evaluation.
        at_most: Greatest number that runs in parallel, 8 by default.

    Raises:
        UsageError: If there are no episodes to run.
    """
    if episodes < 1:
        raise UsageError(f"an evaluation needs at least 1 episode, not {episodes}")
    slots = min(episodes, at_most or ENV_SLOTS)
    return slots, EvaluationSeeds(run_seed=seed, worker_index=0, stream=_EVALUATION_STREAM, num_envs=slots)


def _run(
    behavior: ActsInEnv,
    world: VectorEnv,
    name: str,
    episodes: int,
    draws: np.random.Generator | None,
    awaited: AwaitedEpisodes,
) -> EvaluationResult:
    """Steps all env slots until each has run its episodes; further episodes of a slot are ignored."""
    slots = world.num_envs
    current = np.arange(slots)
    sums, steps = np.zeros(slots), np.zeros(slots, np.int64)
    begins = np.zeros(slots, np.bool_)
    behavior.begin_episodes(np.ones(slots, np.bool_))
    returns, lengths = [0.0] * episodes, [0] * episodes
    columns = {name: [0.0] * episodes for name in world.columns}
    column_sums = {name: np.zeros(slots) for name in world.columns}
    observations = world.reset()
    while current.min() < episodes:
        refuse_bad_observations(world, observations, name)
        observations, rewards, terminateds, truncateds, _ = world.step(behavior.actions(observations, draws))
        behavior.take_rewards(rewards)
        behavior.begin_episodes(begins)
        sums += rewards
        steps += ~begins
        for name, latest in world.columns.items():
            column_sums[name] += np.where(begins, 0.0, latest)
        begins = terminateds | truncateds
        for slot in begins.nonzero()[0]:
            if current[slot] < episodes:
                returns[current[slot]], lengths[current[slot]] = float(sums[slot]), int(steps[slot])
                for name, own in column_sums.items():
                    columns[name][current[slot]] = float(own[slot])
            current[slot] += slots
            sums[slot], steps[slot] = 0.0, 0
            for own in column_sums.values():
                own[slot] = 0.0
        awaited.look(int(np.where(current < episodes, steps, 0).max()))
    return EvaluationResult(returns, lengths, columns=columns)
