"""What is done after every so many env steps."""

from __future__ import annotations

from typing import Any

from rlrun.functional.saved_numbers import as_count


class Recurring:
    """Says when something is due: from a first number of stored steps on, and then after every so many.

    Args:
        first: Steps before the first time.
        every: Steps between two times.
    """

    def __init__(self, first: int, every: int) -> None:
        self.first = first
        self.every = every
        self._last: int | None = None

    def is_due(self, stored_steps: int) -> bool:
        """Whether it is time now, which is then the last time."""
        if self._last is not None and stored_steps < self._last:
            self._last = None  # a replay that was not saved begins anew, and so does what is learned from it
        is_due = stored_steps >= self.first if self._last is None else stored_steps - self._last >= self.every
        if is_due:
            self._last = stored_steps
        return is_due

    def state(self) -> dict[str, Any]:
        """Returns the last time."""
        return {"last": self._last}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        self._last = None if state["last"] is None else as_count(state["last"])
