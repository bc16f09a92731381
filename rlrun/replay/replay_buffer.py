"""A replay in this process: experience, how it is drawn, and how much learning it allows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.replay.replay_config import ReplayConfig
from rlrun.replay.ring import ReplayRing


class ReplayBuffer:
    """Keeps experience and draws minibatches from it.

    Attributes:
        config: Its settings.
        stored_steps: Steps put by since it was empty.
        drawn_batches: Minibatches drawn since then.
    """

    def __init__(self, config: ReplayConfig, *, num_lanes: int, n_step: int, gamma: float, seed: int) -> None:
        """Takes what is kept and how.

        Args:
            config: Its settings.
            num_lanes: Workers whose fragments are put by.
            n_step: Steps that are folded into one.
            gamma: Discount.
            seed: Seed of the draws.
        """
        self.config = config
        self.stored_steps = 0
        self.drawn_batches = 0
        self._ring = ReplayRing(config.capacity, num_lanes, n_step, gamma)
        self._generator = np.random.Generator(np.random.Philox(seed))

    @property
    def num_ready(self) -> int:
        """Steps that can be drawn."""
        return self._ring.num_ready

    @property
    def num_bytes(self) -> int:
        """Bytes that are set aside."""
        return self._ring.num_bytes

    def add(self, lane: int, fragment: SampleBatch) -> int:
        """Puts a fragment [T, B] by and returns how many steps it holds.

        Args:
            lane: Number of the worker that it comes from, from 0.
            fragment: Its columns, with raw observations.
        """
        self._ring.insert(lane, fragment)
        steps = int(np.count_nonzero(fragment["valid"]))
        self.stored_steps += steps
        return steps

    def sample(self, batch_size: int, env_steps: int) -> SampleBatch:
        """Draws a minibatch.

        Args:
            batch_size: Steps in it, S.
            env_steps: Env steps so far, for schedules.

        Returns:
            Rows [S, 1] with `obs`, `actions`, `rewards` and `discounts` (over the steps that are folded), `next_obs`,
            `valid`, `weights`, and the `cells` [S] by which priorities are told.
        """
        self.drawn_batches += 1
        cells = self._ring.draw(self._generator, batch_size)
        weights: NDArray[np.float32] = np.ones((batch_size, 1), np.float32)
        return SampleBatch(self._ring.gather(cells), weights=weights, cells=cells)

    def update_priorities(self, cells: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Takes how much is to be learned from rows still."""

    def state(self) -> dict[str, Any]:
        """Returns everything that is kept, and the state of the draws."""
        return {
            "stored_steps": self.stored_steps,
            "drawn_batches": self.drawn_batches,
            "ring": self._ring.state(),
            "generator": dict(self._generator.bit_generator.state),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        self.stored_steps = int(state["stored_steps"])
        self.drawn_batches = int(state["drawn_batches"])
        self._ring.load_state(state["ring"])
        self._generator.bit_generator.state = dict(state["generator"])
