"""Minibatch counters per objective, which implement `Objective.every` (delayed updates)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.learner.objective import Objective


class ObjectiveCounts:
    """Minibatch counters per objective, which select the objectives that are due.

    Args:
        objectives: The learner's objectives, in order.
    """

    def __init__(self, objectives: Sequence[Objective]) -> None:
        self._objectives = tuple(each for each in objectives if each.loss is not None)
        self._asked = {objective.name: 0 for objective in self._objectives}
        self._some_need_others = any(objective.needs for objective in self._objectives)

    def due(self, names: Collection[str] | None = None) -> list[Objective]:
        """Counts one minibatch, and returns the objectives that are due, in order.

        Args:
            names: Names of the objectives that the minibatch trains; None for all with a loss.

        Raises:
            ValueError: A name matches no objective with a loss; or a due objective needs tensors of an objective that
                is not due.
        """
        if names is not None and (unknown := set(names) - set(self._asked)):
            raise ValueError(f"no objective with a loss is called {', '.join(sorted(unknown))}")
        asked = self._objectives if names is None else [each for each in self._objectives if each.name in names]
        due = [each for each in asked if self._asked[each.name] % each.every == 0]
        if self._some_need_others:
            _require_needed(due)
        for each in asked:
            self._asked[each.name] += 1
        return due

    def state(self) -> dict[str, int]:
        """State dict: minibatch count by objective."""
        return dict(self._asked)

    def load_state(self, state: Mapping[str, int]) -> None:
        """Restores the counters from a `state()` dict."""
        self._asked = {name: as_count(state[name]) for name in self._asked}


def _require_needed(due: Sequence[Objective]) -> None:
    """Raises a ValueError if an objective that is due needs tensors of one that is not."""
    present = {each.name for each in due}
    for objective in due:
        if missing := [name for name in objective.needs if name not in present]:
            raise ValueError(f"objective {objective.name} needs what {missing[0]} carries, which is not due with it")
