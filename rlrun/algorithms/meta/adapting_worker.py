"""Rollout worker of MAML, which adapts the policy to one task in each fragment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.meta.linear_baseline import baseline_advantages
from rlrun.data.sample_batch import SampleBatch, concatenated
from rlrun.data.tree import leaves
from rlrun.envs.episode_place import EpisodeSeeds
from rlrun.envs.make import spaces_of
from rlrun.policy.weights import Weights
from rlrun.rollout.rollout import DEFAULT_POLICY, Episode, Rollout
from rlrun.rollout.rollout_worker import RolloutWorker
from rlrun.rollout.worker import Orders
from rlrun.rollout.worker_config import WorkerConfig

if TYPE_CHECKING:
    from rlrun.envs.spaces import Spaces

TASKS = 0x7A5C
"""Stream of the seeds of tasks, apart from those of episodes."""


@dataclass(frozen=True, kw_only=True)
class AdaptingWorkerConfig(WorkerConfig):
    """Config of an adapting worker; picklable.

    Attributes:
        make_policy: Makes the policy from spaces and a seed, for the form of its network alone.
        inner_steps: Gradient steps of an adaptation.
        inner_lr: Their step size.
        gamma: Discount of future rewards.
    """

    make_policy: Callable[[Spaces, int], Any]
    inner_steps: int
    inner_lr: float
    gamma: float


def adapting(
    config: WorkerConfig,
    make_policy: Callable[[Spaces, int], Any],
    *,
    inner_steps: int,
    inner_lr: float,
    gamma: float,
) -> AdaptingWorkerConfig:
    """Returns the config of an adapting worker for that of a rollout worker."""
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return AdaptingWorkerConfig(
        **fields, make_policy=make_policy, inner_steps=inner_steps, inner_lr=inner_lr, gamma=gamma
    )


class AdaptingWorker:
    """Collects episodes of one task with the present weights, takes a gradient step on them, and collects others.

    A task is drawn from an episode's seed, which in a fragment is the same for all env slots. Each slot plays one
    episode before each gradient step and one after the last; steps after an episode's end are masked. A fragment is [T,
    (inner_steps + 1) * B]: the slots before the first step, then those after it, and so on.

    Attributes:
        config: Its config.
    """

    def __init__(self, config: AdaptingWorkerConfig) -> None:
        self.config = config
        self._phases = config.inner_steps + 1
        self._fragment = config.first_fragment
        self._worker = RolloutWorker(dataclasses.replace(config, first_fragment=config.first_fragment * self._phases))
        self._policy = config.make_policy(spaces_of(config.env), 0)
        self._columns = config.env.columns
        self._tasks = EpisodeSeeds(config.seed, config.worker_index, TASKS)
        self._weights: Weights | None = None

    def follow(self, orders: Orders) -> None:
        """Takes over the weights that adaptation starts from."""
        self._weights = orders.weights.get(DEFAULT_POLICY, self._weights)

    def sample(self) -> Rollout:
        """Collects the episodes of one task, before each step of its adaptation and after the last.

        Raises:
            EnvError: The env raised or returned something outside its spaces.
        """
        weights = self._weights
        if weights is None:
            raise RuntimeError("a worker adapts weights, and none have arrived")
        task = self._tasks.seed(0, self._fragment)
        rollouts: list[Rollout] = []
        batches: list[SampleBatch] = []
        for phase in range(self._phases):
            if phase:
                weights = self._adapted(weights, batches[-1])
            self._worker.follow(Orders({DEFAULT_POLICY: weights}))
            self._worker.begin([task] * self.config.num_envs)
            rollouts.append(self._worker.sample())
            batches.append(self._of_first_episodes(rollouts[-1].batches[DEFAULT_POLICY]))
        last = rollouts[-1]
        rollout = dataclasses.replace(
            last,
            fragment=self._fragment,
            batches={DEFAULT_POLICY: concatenated(batches)},
            env_steps=sum(int(np.count_nonzero(batch["valid"])) for batch in batches),
            episodes=episodes_of(batches[-1], self._columns),
            sample_s=sum(each.sample_s for each in rollouts),
        )
        self._fragment += 1
        return rollout

    def _of_first_episodes(self, batch: SampleBatch) -> SampleBatch:
        """Returns a batch [T, B] in which each slot's first episode counts alone, with its advantages."""
        valid = batch["valid"] & ~behind_first_end(batch["terminateds"] | batch["truncateds"])
        seen = np.concatenate([leaf.reshape(*valid.shape, -1) for leaf in leaves(batch.steps()["obs"])], axis=-1)
        advantages = baseline_advantages(batch["rewards"], seen, valid, self.config.gamma)
        return SampleBatch(batch, valid=valid, advantages=advantages)

    def _adapted(self, weights: Weights, batch: SampleBatch) -> Weights:
        """Returns weights after one inner step on a batch [T, B]."""
        from rlrun.algorithms.meta.adaptation import adapted_acting

        moved = adapted_acting(self._policy, weights.acting, batch, self.config.inner_lr)
        return dataclasses.replace(weights, acting=moved)

    def state(self) -> dict[str, Any]:
        """Returns the number of the next fragment and the state of the policy; every fragment starts new episodes."""
        return {"fragment": self._fragment, "worker": {**self._worker.state(), "slots": []}}

    def place(self) -> dict[str, Any]:
        """Returns `state()`."""
        return self.state()

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores `state()`; envs start new episodes."""
        self._fragment = state["fragment"]
        return self._worker.load_state(state["worker"])

    def close(self) -> None:
        """Frees what the envs hold."""
        self._worker.close()


def behind_first_end(ends: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask [T, B] of the steps after the first episode end in each env slot."""
    behind = np.zeros_like(ends)
    behind[1:] = np.logical_or.accumulate(ends[:-1], axis=0)
    return behind


def episodes_of(batch: SampleBatch, columns: Sequence[str] = ()) -> list[Episode]:
    """Returns the episodes of a batch [T, B], of which each slot holds one, where they ended in it.

    Args:
        batch: The batch.
        columns: Columns of the batch whose sums over an episode are its own too.
    """
    valid = batch["valid"]
    ended = ((batch["terminateds"] | batch["truncateds"]) & valid).any(0)
    returns, lengths = (batch["rewards"] * valid).sum(0), valid.sum(0)
    sums = {name: (batch[name] * valid).sum(0, dtype=np.float64) for name in columns}
    return [
        Episode(
            float(returns[slot]), int(lengths[slot]), columns={name: float(own[slot]) for name, own in sums.items()}
        )
        for slot in np.flatnonzero(ended)
    ]
