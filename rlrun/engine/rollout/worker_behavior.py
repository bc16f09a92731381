"""Protocol of policies that act in rollout workers, implemented by behavior policies and league seats."""

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
    """Protocol of the columns that a behavior policy records; see `FragmentCollector`."""

    @property
    def world_columns(self) -> tuple[str, ...]:
        """World-level columns required in fragments: `WORLD_STATE`, `ACTS`, both or neither."""
        ...

    def allocate(self, length: int, slots: int) -> SampleBatch:
        """Returns uninitialized arrays for the columns of `act`, [T, B, ...]."""
        ...

    def close(self, batch: SampleBatch, episode_starts: NDArray[np.bool_], shown: NDArray[np.bool_]) -> None:
        """Records the closing row in place, for example the values of the observations after the last step."""
        ...

    def moments(self, observations: Any, filled: NDArray[np.bool_]) -> Mapping[str, Moments]:
        """Returns moments of raw observations [T, B, ...] for the observation filter, by name."""
        ...

    def postprocess(self, batch: SampleBatch) -> None:
        """Postprocesses a recorded fragment in place, for example to n-step transitions."""
        ...


class WorkerBehavior(Protocol):
    """Protocol of a behavior policy in rollout workers: batched actions and recorded columns; see `BehaviorPolicy`."""

    @property
    def weights_version(self) -> int:
        """Version of the weights loaded last, -1 before the first."""
        ...

    @property
    def action_space(self) -> ActionSpace:
        """Conversion between env actions and the form in which actions are recorded."""
        ...

    @property
    def noise_source(self) -> NoiseSource:
        """Source of the noise of fragments."""
        ...

    @property
    def collector(self) -> Collector:
        """Recorder of the fragment's columns, with their postprocessing."""
        ...

    def load(self, weights: Weights) -> None:
        """Loads weights, filter statistics and exploration settings."""
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
        """Records a step of all slots, and returns actions for the env, [B, ...]."""
        ...

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Receives the rewards [B] of the last step, for policies that observe them."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns the state kept between steps, such as recurrent state."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the state kept between steps from `state()`."""
        ...
