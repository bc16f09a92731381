"""Placeholder worker of trainings that learn from recorded data alone, without an env."""

from __future__ import annotations

from typing import Any

from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.rollout.worker import Orders


class NoWorker:
    """Placeholder worker without envs; implements `rlrun.engine.rollout.worker.Worker`.

    Args:
        config: Unused.
    """

    def __init__(self, config: Any) -> None:
        return

    def follow(self, orders: Orders) -> None:
        """Ignores broadcast weights, since no policy acts."""

    def sample(self) -> Rollout:
        """Raises RuntimeError, since there is nothing to collect.

        Raises:
            RuntimeError: Always: a training from data alone has no stream of rollouts.
        """
        raise RuntimeError("a training from data alone steps no env: its dataflow must not begin with rollouts")

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: empty."""
        return {"unsaved": []}

    def place(self) -> dict[str, Any]:
        """State from which a lost worker is restarted, identical to `state()`."""
        return self.state()

    def load_state(self, state: Any) -> int:
        """Does nothing, since the worker has no state."""
        return 0

    def close(self) -> None:
        """Does nothing: there are no envs to close."""
