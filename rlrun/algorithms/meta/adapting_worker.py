"""Rollout worker of MAML: inner-loop adaptation to one task per fragment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch, concatenated
from rlrun.engine.data.tree import leaves
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import spaces_of
from rlrun.engine.functional.masked import standardized
from rlrun.engine.functional.returns import reverse_scan
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rollout import DEFAULT_POLICY, Episode, Rollout
from rlrun.engine.rollout.rollout_worker import RolloutWorker
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces

TASKS = 0x7A5C
"""Stream id of task seeds, separate from episode seeds."""


@dataclass(frozen=True, kw_only=True)
class AdaptingWorkerConfig(WorkerConfig):
    """Config of an adapting worker; picklable.

    Attributes:
        make_policy: Factory that creates the policy from spaces and a seed; its initial parameters are unused.
        inner_steps: Number of inner gradient steps per adaptation.
        inner_lr: Step size of the inner gradient steps.
        gamma: Discount factor.
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
    """Creates an adapting worker's config from a rollout worker's config and the settings of the inner loop."""
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return AdaptingWorkerConfig(
        **fields, make_policy=make_policy, inner_steps=inner_steps, inner_lr=inner_lr, gamma=gamma
    )


class AdaptingWorker:
    """Rollout worker that alternates episodes of one task with inner gradient steps of MAML.

    The task is sampled from a seed that all B parallel envs share within a fragment. Each env runs one episode before
    each gradient step and one after the last, in `inner_steps` + 1 phases. Steps after an episode's end are masked. A
    fragment is [T, (inner_steps + 1) * B]: the B episodes of the first phase, then those of the second, and so on.

    Attributes:
        config: Config of the worker.
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
        """Loads the broadcast weights, from which the next adaptation to a task starts."""
        self._weights = orders.weights.get(DEFAULT_POLICY, self._weights)

    def sample(self) -> Rollout:
        """Collects the episodes of one task: those before each inner gradient step, and those after the last.

        Raises:
            EnvError: The env raised an exception, or returned something outside its spaces.
        """
        weights = self._weights
        if weights is None:
            raise RuntimeError("a worker started to adapt before it received weights")
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
        """Masks all but each slot's first episode in a batch [T, B], and adds advantages."""
        valid = batch["valid"] & ~after_first_end(batch["terminateds"] | batch["truncateds"])
        seen = np.concatenate([leaf.reshape(*valid.shape, -1) for leaf in leaves(batch.steps()["obs"])], axis=-1)
        advantages = baseline_advantages(batch["rewards"], seen, valid, self.config.gamma)
        return SampleBatch(batch, valid=valid, advantages=advantages)

    def _adapted(self, weights: Weights, batch: SampleBatch) -> Weights:
        """Weights after one inner gradient step on a batch [T, B]."""
        from rlrun.algorithms.meta.adaptation import adapted_acting

        moved = adapted_acting(self._policy, weights.acting, batch, self.config.inner_lr)
        return dataclasses.replace(weights, acting=moved)

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: index of the next rollout, and policy state; rollouts start new episodes."""
        return {"fragment": self._fragment, "worker": {**self._worker.state(), "slots": []}}

    def place(self) -> dict[str, Any]:
        """State from which a lost worker is restarted, identical to `state()`."""
        return self.state()

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores the worker from `state()`; envs start new episodes."""
        self._fragment = state["fragment"]
        return self._worker.load_state(state["worker"])

    def close(self) -> None:
        """Closes the envs."""
        self._worker.close()


def after_first_end(ends: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask [steps, envs] of the steps after the first episode end in each parallel env."""
    behind = np.zeros_like(ends)
    behind[1:] = np.logical_or.accumulate(ends[:-1], axis=0)
    return behind


def episodes_of(batch: SampleBatch, columns: Sequence[str] = ()) -> list[Episode]:
    """Lists the return and length of each completed episode in a batch that has one episode per column.

    Args:
        batch: Batch [T, B].
        columns: Names of columns that are also summed over each episode.
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


Floats = NDArray[np.float32]

RIDGE = 1e-5
"""Ridge penalty, for a unique solution of the regression."""


def baseline_advantages(
    rewards: Floats, observations: NDArray[np.floating], valid: NDArray[np.bool_], gamma: float
) -> Floats:
    """Standardized advantages: returns minus a linear baseline, with mean 0 and standard deviation 1.

    The baseline is a ridge regression on the observation o, o^2, the time t / 100, its square and its cube, and 1. The
    regression is fitted to the same returns from which it is subtracted. Returns are not bootstrapped at the ends of
    episodes.

    Args:
        rewards: Rewards of one episode per parallel env, from the first step on, [T, B].
        observations: Observations before the steps, [T, B, ...].
        valid: Mask of the episodes' steps, [T, B], without gaps.
        gamma: Discount factor.

    Returns:
        Advantages [T, B], 0 after the end of the episode.

    Source:
        Duan et al., arXiv:1604.06778, section 5 and supplement, as in Finn et al., arXiv:1703.03400, section 5.3.
    """
    length, slots = rewards.shape
    discounts = np.full((length, slots), gamma)
    returns = reverse_scan(np.where(valid, rewards, 0.0).astype(np.float64), discounts)
    seen = observations.reshape(length, slots, -1).astype(np.float64)
    time = np.broadcast_to(np.arange(length)[:, None, None] / 100.0, (length, slots, 1))
    features = np.concatenate([seen, seen**2, time, time**2, time**3, np.ones_like(time)], -1)
    x, y = features[valid], returns[valid]
    coefficients = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ y)
    return standardized((returns - features @ coefficients).astype(np.float32), valid)
