"""Protocol of acting in rollout workers, implemented by behavior policies and league seats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.moments import Moments
from rlrun.engine.policy.weights import Weights

Floats = NDArray[np.float32]


class WorkerBehavior(Protocol):
    """Protocol of a behavior policy in rollout workers: batched actions and recorded columns; see `BehaviorPolicy`."""

    @property
    def weights_version(self) -> int:
        """Version of the weights loaded last, -1 before the first."""
        ...

    @property
    def world_columns(self) -> tuple[str, ...]:
        """World-level columns required in fragments: `WORLD_STATE`, `ACTS`, both or neither."""
        ...

    @property
    def network_noise(self) -> int:
        """Number of a step's noise variables that the network itself uses (gSDE); they come first."""
        ...

    @property
    def network_noise_every(self) -> int | None:
        """Steps for which the network's own noise is held; see `Exploration`."""
        ...

    def load(self, weights: Weights) -> None:
        """Loads weights, filter statistics and exploration settings."""
        ...

    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Assigns the slots from `first_slot` on, of the `num_slots` of all workers together."""
        ...

    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws the noise of a whole fragment, [T, B, ...]."""
        ...

    def allocate_fragment(self, length: int, slots: int) -> SampleBatch:
        """Returns uninitialised arrays for the columns of `act`, [T, B, ...]."""
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

    def close_fragment(self, batch: SampleBatch, episode_starts: NDArray[np.bool_], shown: NDArray[np.bool_]) -> None:
        """Records the closing row in place, such as the values of the observations after the last step."""
        ...

    def postprocess(self, batch: SampleBatch) -> None:
        """Postprocesses a recorded fragment in place, such as by n-step transitions."""
        ...

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Resets recurrent state in slots [B] whose next observation starts an episode."""
        ...

    def actions(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        """Returns actions for the env, [B, ...], without recording: sampled, or greedy without a generator."""
        ...

    def env_actions(self, actions: Any) -> Any:
        """Maps recorded actions [N, ...] to the env's actions."""
        ...

    def own_actions(self, actions: Any) -> Any:
        """Maps the env's actions [N, ...] to actions as they are recorded."""
        ...

    def observation_moments(self, observations: Any, filled: NDArray[np.bool_]) -> Mapping[str, Moments]:
        """Returns moments of raw observations [T, B, ...] for the observation filter, by name."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns the state between steps, such as recurrent state."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the state between steps from `state()`."""
        ...
