"""Interface of policies that act in rollout workers, whether they learn or are frozen opponents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.moments import Moments
from rlrun.engine.policy.action_spaces.action_space import ActionSpace
from rlrun.engine.policy.exploration.exploration import NoiseSource
from rlrun.engine.policy.weights import Weights

Floats = NDArray[np.float32]


class Collector(Protocol):
    """Interface of the object that records, for one policy, the columns of a fragment."""

    @property
    def world_columns(self) -> tuple[str, ...]:
        """Columns about the whole multi-agent env that the policy needs: `WORLD_STATE`, `ACTS`, both or neither."""
        ...

    def allocate(self, length: int, slots: int, lent: SampleBatch | None = None) -> SampleBatch:
        """Allocates, without initializing, the columns that are filled while acting, for T steps in B slots.

        The columns in `lent`, which include `actions`, are used as they are instead of being allocated.
        """
        ...

    def close(self, batch: SampleBatch, episode_starts: NDArray[np.bool_], shown: NDArray[np.bool_]) -> None:
        """Records, in place, data about the observations after the fragment's last step, for example their values."""
        ...

    def moments(self, observations: Any, filled: NDArray[np.bool_]) -> Mapping[str, Moments]:
        """Returns count, mean and variance of a fragment's raw observations, by name, for the observation filter.

        Args:
            observations: The fragment's column `obs`, [T + 1, B, ...]; the closing row does not count.
            filled: Mask of the entries that hold an observation, [T, B].
        """
        ...

    def postprocess(self, batch: SampleBatch) -> None:
        """Completes a recorded fragment in place, for example by adding log-probabilities and values."""
        ...


class WorkerBehavior(Protocol):
    """Interface of a policy in a rollout worker, which acts in a batch of slots and records its actions."""

    @property
    def weights_version(self) -> int:
        """Version of the weights that were loaded last; -1 before any were loaded."""
        ...

    @property
    def action_space(self) -> ActionSpace:
        """Converts between env actions and the representation in which the policy records actions."""
        ...

    @property
    def noise_source(self) -> NoiseSource:
        """Object that draws the random numbers for a fragment's exploration."""
        ...

    @property
    def collector(self) -> Collector:
        """Object that records the columns of this policy's fragments."""
        ...

    def load(self, weights: Weights) -> None:
        """Loads new weights, observation statistics and exploration settings."""
        ...

    def act(
        self,
        observations: Any,
        noise: Floats,
        record: SampleBatch,
        t: int,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> Any:
        """Chooses and records the actions of one step in all B slots, and returns them for the env."""
        ...

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Receives the rewards of the last step in B slots, for policies that see past rewards."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns the state that the policy keeps between steps, such as recurrent state, for a checkpoint."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the state that the policy keeps between steps, from the result of `state()`."""
        ...
