"""Curriculum learning by a user's function, which maps the training's metrics to keyword arguments of the env."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.settings.registry import load_object


class Curriculum:
    """User's function that computes the env's keyword arguments from the metrics of each iteration.

    The function is called at the end of each iteration. If its result changes, each env is recreated with the new
    arguments at its next episode. The function should keep no state, since checkpoints hold only its last result.

    Args:
        path: Import path of the function, `package.module:function`.

    Attributes:
        kwargs: Current keyword arguments of envs, the function's last result; empty in the first iteration.

    Raises:
        UsageError: The function does not exist.
    """

    def __init__(self, path: str) -> None:
        self.kwargs: dict[str, Any] = {}
        self._path = path
        self._function: Callable[[Mapping[str, Any]], Any] = load_object(path, "curriculum")

    def advance(self, metrics: Mapping[str, Any]) -> bool:
        """Calls the user's function with an iteration's metrics; returns whether the env's arguments have changed.

        Args:
            metrics: Result of the iteration, a flat dict.

        Raises:
            TrainingFailed: The function's result is not a mapping of keyword arguments.
        """
        returned = self._function(dict(metrics))
        if not isinstance(returned, Mapping) or not all(isinstance(name, str) for name in returned):
            raise TrainingFailed(
                f"the curriculum {self._path} must return a dict of keyword arguments, not {returned!r}"
            )
        before, self.kwargs = self.kwargs, dict(returned)
        return self.kwargs != before
