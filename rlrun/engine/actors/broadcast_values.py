"""Values broadcast to actors, of which a restarted actor receives the latest again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any


class BroadcastValues:
    """Latest value broadcast to actors for each method and topic; each value is stored in Ray's object store once."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, Hashable], tuple[Any, Any]] = {}  # with its reference

    def tell(self, method: str, value: Any, about: Hashable, shells: Iterable[Any]) -> None:
        """Calls a method of the actors' objects with a value, which replaces the former value of this method and topic.

        Args:
            method: Name of the method.
            value: Its argument; the same object as the last one is not stored again.
            about: Topic of the value.
            shells: Ray's handles of the actors; None for an actor between a failure and its restart.
        """
        key = method, about
        if key not in self._values or self._values[key][0] is not value:
            import ray

            self._values[key] = (value, ray.put(value))
        _, reference = self._values[key]
        for shell in shells:
            if shell is not None:
                shell.tell.options(num_returns=0).remote(method, reference)

    def repeat(self, shell: Any) -> None:
        """Calls each method of a restarted actor's object with the latest value, in the order of the broadcasts."""
        for (method, _), (_, reference) in self._values.items():
            shell.tell.options(num_returns=0).remote(method, reference)
