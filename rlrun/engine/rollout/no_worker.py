"""Placeholder rollout worker for training on recorded data, which does not step envs."""

from __future__ import annotations

from typing import Any

from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.rollout.worker import Orders


class NoWorker:
    """Rollout worker without envs, for training on recorded data.

    Args:
        config: Unused.
    """

    def __init__(self, config: Any) -> None:
        return

    def follow(self, orders: Orders) -> None:
        """Ignores new weights, since no policy acts."""

    def sample(self) -> Rollout:
        """Always raises RuntimeError, since there is no env to step.

        Raises:
            RuntimeError: Always, since training on recorded data has no rollouts.
        """
        raise RuntimeError("training only from data does not step an env: its dataflow must not start with rollouts")

    def state(self) -> dict[str, Any]:
        """Returns an empty state for a checkpoint, since no experience is collected."""
        return {"unsaved": []}

    def place(self) -> dict[str, Any]:
        """Returns an empty state, since a restart does not need one."""
        return self.state()

    def load_state(self, state: Any) -> int:
        """Does nothing, since the worker has no state."""
        return 0

    def close(self) -> None:
        """Does nothing: there are no envs to close."""
