"""What episodes are about follows from how the training goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlrun.errors import TrainingFailed
from rlrun.registry import load_object


class Curriculum:
    """A function from an iteration's metrics to the keyword arguments of envs.

    It is asked when an iteration ends. Where it returns something else than before, envs are made anew with that when
    their next episodes begin. It should depend on its argument alone: only what it returned last is saved.

    Args:
        path: package.module:function.

    Attributes:
        kwargs: What it returned last; nothing before the first iteration has ended.

    Raises:
        UsageError: There is no such function.
    """

    def __init__(self, path: str) -> None:
        self.kwargs: dict[str, Any] = {}
        self._path = path
        self._function: Callable[[Mapping[str, Any]], Any] = load_object(path, "curriculum")

    def advance(self, metrics: Mapping[str, Any]) -> bool:
        """Asks the function, and returns whether it says something else than before.

        Args:
            metrics: The iteration's result, flat.

        Raises:
            TrainingFailed: It returned no keyword arguments.
        """
        returned = self._function(dict(metrics))
        if not isinstance(returned, Mapping) or not all(isinstance(name, str) for name in returned):
            raise TrainingFailed(f"the curriculum {self._path} must return keyword arguments, a dict, not {returned!r}")
        before, self.kwargs = self.kwargs, dict(returned)
        return self.kwargs != before
