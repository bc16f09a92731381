"""Curriculum: env arguments that follow the training's metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlrun.errors import TrainingFailed
from rlrun.registry import load_object


class Curriculum:
    """A function from an iteration's metrics to the keyword arguments of envs.

    It is called at the end of each iteration. If its result differs from the last one, each env is made again with the
    new arguments at its next episode. It should depend on its argument alone: only its last result is saved.

    Args:
        path: package.module:function.

    Attributes:
        kwargs: Its last result; empty before the first iteration has ended.

    Raises:
        UsageError: There is no such function.
    """

    def __init__(self, path: str) -> None:
        self.kwargs: dict[str, Any] = {}
        self._path = path
        self._function: Callable[[Mapping[str, Any]], Any] = load_object(path, "curriculum")

    def advance(self, metrics: Mapping[str, Any]) -> bool:
        """Calls the function, and returns whether its result has changed.

        Args:
            metrics: The iteration's result, flat.

        Raises:
            TrainingFailed: Its result is no mapping of keyword arguments.
        """
        returned = self._function(dict(metrics))
        if not isinstance(returned, Mapping) or not all(isinstance(name, str) for name in returned):
            raise TrainingFailed(f"the curriculum {self._path} must return keyword arguments, a dict, not {returned!r}")
        before, self.kwargs = self.kwargs, dict(returned)
        return self.kwargs != before
