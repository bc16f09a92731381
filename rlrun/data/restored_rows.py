"""Rows that were held back through a checkpoint, held to what comes after them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rlrun.data.sample_batch import HISTORY
from rlrun.data.tree import named_leaves
from rlrun.errors import CheckpointError


class RestoredRows:
    """Rows of a checkpoint, until the first rows arrive that they are to be put together with.

    Their owner cannot know the columns of its own before anything arrives. A checkpoint may be a stranger's.

    Args:
        free_axis: The axis along which they are put together, and may be of any length.
    """

    def __init__(self, free_axis: int = 0) -> None:
        self._free_axis = free_axis
        self._rows: list[Mapping[str, Any]] = []

    def load(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Takes what a checkpoint holds."""
        self._rows = list(rows)

    @property
    def waits(self) -> bool:
        """Whether there is anything to compare."""
        return bool(self._rows)

    def compare(self, arrived: Mapping[str, Any]) -> None:
        """Compares them with the first rows that arrive; nothing is compared after that.

        Raises:
            CheckpointError: Names, dtypes or shapes differ.
        """
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        own = self._layout(arrived)
        for held in rows:
            try:
                found = self._layout(held)
            except (LookupError, TypeError, AttributeError) as error:
                raise CheckpointError(f"the checkpoint's rows that wait for others are none: {error}") from error
            for name in sorted({*found, *own}):
                if found.get(name) != own.get(name):
                    told = f"{name}: {found.get(name, 'none')}, not {own.get(name, 'none')}"
                    raise CheckpointError(f"the checkpoint's rows that wait for others are not as the others: {told}")

    def _layout(self, rows: Mapping[str, Any]) -> dict[str, str]:
        """Returns dtype and shape of each column, in words; along the free axis how far it exceeds `valid`."""
        axis = self._free_axis
        length = rows["valid"].shape[axis]
        layout = {}
        for name, leaf in named_leaves(dict(rows)):
            shape = list(leaf.shape)
            if name.partition("/")[0] != HISTORY:
                shape[axis] -= length
            layout[name] = f"{leaf.dtype} {shape}"
        return layout
