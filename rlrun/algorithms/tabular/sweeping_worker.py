"""Worker of value iteration: sweeps over the tabular model of an env, without env steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlrun.engine.envs.env_model import finite_mdp
from rlrun.engine.functional.returns import Doubles
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig


@dataclass(frozen=True, kw_only=True)
class SweepingWorkerConfig(WorkerConfig):
    """Config of a sweeping worker; picklable.

    Attributes:
        gamma: Discount factor.
    """

    gamma: float


@dataclass(frozen=True)
class Sweep:
    """Result of a sweep over all states.

    Attributes:
        q: Action values after the sweep, [S, A].
        change: Largest change of a state's value.
    """

    q: Doubles
    change: float


class SweepingWorker:
    """Worker that runs one sweep of Bellman backups per fragment; implements `rlrun.engine.rollout.worker.Worker`."""

    def __init__(self, config: SweepingWorkerConfig) -> None:
        self.config = config
        (self.policy,) = config.behaviors
        self.mdp = finite_mdp(config.env)
        self.values: Doubles = np.zeros(len(self.mdp.starts))
        self._fragment = config.first_fragment

    def follow(self, orders: Orders) -> None:
        """Ignores broadcast weights, since a sweep needs no policy."""

    def sample(self) -> Rollout:
        """Runs one sweep of Bellman optimality backups over all states."""
        q = self.mdp.backup(self.values, self.config.gamma)
        values = q.max(-1)
        sweep = Sweep(q, float(np.abs(values - self.values).max()))
        self.values = values
        self._fragment += 1
        return Rollout(self.config.worker_index, self._fragment - 1, {self.policy: sweep}, env_steps=0)

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: action values and number of sweeps."""
        return {"fragment": self._fragment, "values": self.values.copy(), "unsaved": []}

    def place(self) -> dict[str, Any]:
        """State from which a lost worker is restarted: the same as `state()`."""
        return self.state()

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores the worker from `state()`."""
        self._fragment = as_count(state["fragment"])
        self.values[:] = state["values"]
        return 0

    def close(self) -> None:
        """Does nothing, since there are no envs to close."""
