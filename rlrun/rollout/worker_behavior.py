"""What a rollout worker asks of whatever acts in its slots: a behavior policy, or the seat of a league."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.functional.moments import Moments
from rlrun.policy.weights import Weights

Floats = NDArray[np.float32]


class WorkerBehavior(Protocol):
    """Acts in slots, and records what is learned from; `BehaviorPolicy` says more of each method."""

    @property
    def weights_version(self) -> int:
        """Version of the weights that it was given last, -1 before the first."""
        ...

    @property
    def world_columns(self) -> tuple[str, ...]:
        """What fragments tell of the whole world: `WORLD_STATE`, `ACTS`, both or neither."""
        ...

    @property
    def network_noise(self) -> int:
        """How many of a step's noise numbers are the network's own, the first ones."""
        ...

    @property
    def network_noise_every(self) -> int | None:
        """Steps for which the network's own noise stays the same, as `Exploration` says."""
        ...

    def load(self, weights: Weights) -> None:
        """Takes over weights, statistics and how much to explore."""
        ...

    def assign_envs(self, first_slot: int, num_slots: int) -> None:
        """Is told in which slots it acts: from `first_slot` on, of the `num_slots` of all workers together."""
        ...

    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws the noise of a whole fragment, [T, B, ...]."""
        ...

    def allocate_fragment(self, length: int, slots: int) -> SampleBatch:
        """Returns empty arrays for what `act` records, [T, B, ...]."""
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
        """Acts once for all slots, and returns actions for the env, [B, ...]."""
        ...

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Is told what each slot was given in the step that was just taken, [B]."""
        ...

    def close_fragment(self, batch: SampleBatch, episode_starts: NDArray[np.bool_], shown: NDArray[np.bool_]) -> None:
        """Records what belongs to the observations behind a fragment's last step, in place."""
        ...

    def postprocess(self, batch: SampleBatch) -> None:
        """Turns a recorded fragment into what is learned from, in place."""
        ...

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Is told in which slots an episode begins with what `actions` is asked about next, [B]."""
        ...

    def actions(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        """Returns actions for the env, [B, ...], outside of fragments: drawn, or without a generator the likeliest."""
        ...

    def env_actions(self, actions: Any) -> Any:
        """Turns recorded actions [N, ...] into what the env was given."""
        ...

    def observation_moments(self, observations: Any, filled: NDArray[np.bool_]) -> Mapping[str, Moments]:
        """Returns the statistics of raw observations [T, B, ...] that a filter wants, by its names."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns what is remembered from step to step."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        ...
