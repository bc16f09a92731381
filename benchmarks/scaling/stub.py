"""Workers without envs: they deliver fragments of a given size as fast as they are requested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rollout import Episode, Rollout
from rlrun.engine.rollout.worker import Orders

LENGTH, COLUMNS = 32, 8
"""Number of steps and envs in each fragment."""
ROWS = LENGTH * COLUMNS


@dataclass(frozen=True)
class Fragment:
    """Sizes of a fragment, and of the weights sent back to workers.

    Attributes:
        observation: Shape of an observation.
        dtype: Data type of an observation.
        outputs: Number of policy outputs recorded for each step.
        parameters: Number of parameters in the policy's network.
    """

    observation: tuple[int, ...]
    dtype: str
    outputs: int
    parameters: int

    def batch(self) -> SampleBatch:
        """Returns a fragment with the columns that IMPALA's workers deliver."""
        step = (LENGTH, COLUMNS)
        return SampleBatch(
            obs=np.ones((LENGTH + 1, COLUMNS, *self.observation), self.dtype),
            actions=np.zeros(step, np.int64),
            outputs=np.zeros((*step, self.outputs), np.float32),
            logp=np.zeros(step, np.float32),
            values=np.zeros((LENGTH + 1, COLUMNS), np.float32),
            rewards=np.ones(step, np.float32),
            terminateds=np.zeros(step, np.bool_),
            truncateds=np.zeros(step, np.bool_),
            valid=np.ones(step, np.bool_),
        )

    def num_bytes(self) -> int:
        """Number of bytes in its columns."""
        return sum(column.nbytes for column in self.batch().values())


@dataclass
class StubWeights(Weights):
    """Weights that also specify the fragments to deliver from now on.

    Attributes:
        fragment: Sizes of those fragments.
    """

    fragment: Fragment | None = None


@dataclass(frozen=True)
class StubConfig:
    """Configuration of a stub worker.

    Attributes:
        worker_index: Index of the worker.
        first_fragment: Number of its first fragment.
    """

    worker_index: int = 0
    first_fragment: int = 0


class StubWorker:
    """Delivers the same fragment over and over."""

    def __init__(self, config: StubConfig) -> None:
        """Creates no batch yet, because the first orders specify the fragments."""
        self._config = config
        self._fragment = config.first_fragment
        self._shape: Fragment | None = None
        self._batch = SampleBatch()
        self._version = 0

    def follow(self, orders: Orders) -> None:
        """Stores the version of the weights and the sizes of fragments."""
        latest = orders.weights["default"]
        assert isinstance(latest, StubWeights)
        assert latest.fragment is not None
        self._version = latest.version
        if latest.fragment != self._shape:
            self._shape, self._batch = latest.fragment, latest.fragment.batch()

    def sample(self) -> Rollout:
        """Returns a fragment in which one episode has ended."""
        assert self._shape is not None
        self._fragment += 1
        return Rollout(
            worker_index=self._config.worker_index,
            fragment=self._fragment - 1,
            batches={"default": SampleBatch(self._batch)},
            episodes=[Episode(1.0, ROWS)],
            filter_deltas={},
            env_steps=ROWS,
            weights_versions={"default": self._version},
            sample_s=0.0,
        )

    def state(self) -> dict[str, Any]:
        """Returns the number of the next fragment."""
        return {"fragment": self._fragment}

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Continues with the saved fragment number."""
        self._fragment = int(state["fragment"])
        return 0

    def close(self) -> None:
        """No-op."""
