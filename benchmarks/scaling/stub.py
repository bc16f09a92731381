"""Workers without envs: they deliver fragments of a given size as fast as they are asked."""

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
"""Steps and envs of every fragment."""
ROWS = LENGTH * COLUMNS


@dataclass(frozen=True)
class Fragment:
    """What is in a fragment, and in the weights that go back.

    Attributes:
        observation: Shape of an observation.
        dtype: Type of its numbers.
        outputs: Numbers that the policy puts out for each step, recorded with it.
        parameters: Parameters of the policy's network.
    """

    observation: tuple[int, ...]
    dtype: str
    outputs: int
    parameters: int

    def batch(self) -> SampleBatch:
        """Returns one, with the columns that IMPALA's workers deliver."""
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
        """Bytes of its columns."""
        return sum(column.nbytes for column in self.batch().values())


@dataclass
class StubWeights(Weights):
    """Weights that also say which fragments to deliver from now on.

    Attributes:
        fragment: What is in them.
    """

    fragment: Fragment | None = None


@dataclass(frozen=True)
class StubConfig:
    """What a stub is made from.

    Attributes:
        worker_index: Its index.
        first_fragment: Number of its first fragment.
    """

    worker_index: int = 0
    first_fragment: int = 0


class StubWorker:
    """Delivers the same fragment over and over."""

    def __init__(self, config: StubConfig) -> None:
        """Makes nothing before it knows which fragment."""
        self._config = config
        self._fragment = config.first_fragment
        self._shape: Fragment | None = None
        self._batch = SampleBatch()
        self._version = 0

    def follow(self, orders: Orders) -> None:
        """Takes the version, and the shape of fragments."""
        latest = orders.weights["default"]
        assert isinstance(latest, StubWeights)
        assert latest.fragment is not None
        self._version = latest.version
        if latest.fragment != self._shape:
            self._shape, self._batch = latest.fragment, latest.fragment.batch()

    def sample(self) -> Rollout:
        """Returns a fragment in which one episode ended."""
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
        """Returns its place."""
        return {"fragment": self._fragment}

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Returns to a place."""
        self._fragment = int(state["fragment"])
        return 0

    def close(self) -> None:
        """Holds nothing."""
