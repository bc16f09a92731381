"""Validation of experience restored from a checkpoint, postponed until its expected layout is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rlrun.engine.data.sample_batch import HISTORY
from rlrun.engine.data.tree import named_leaves
from rlrun.engine.messages.errors import CheckpointError


class RestoredRows:
    """Rows of experience restored from a checkpoint; their layout is validated once the first new rows arrive.

    The expected columns are known only from the first new rows. Validation is needed since a checkpoint may come from
    an untrusted source.

    Args:
        free_axis: Axis along which rows are concatenated; its length is therefore not validated.

    Attributes:
        rows: Rows that still await validation.
    """

    def __init__(self, free_axis: int = 0) -> None:
        self._free_axis = free_axis
        self.rows: list[Mapping[str, Any]] = []

    def load(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Stores rows restored from a checkpoint, for later validation."""
        self.rows = list(rows)

    def compare(self, arrived: Mapping[str, Any]) -> None:
        """Validates the restored rows' names, dtypes and shapes against the first new rows; later calls are no-ops.

        Raises:
            CheckpointError: Names, dtypes or shapes differ.
        """
        if not self.rows:
            return
        rows, self.rows = self.rows, []
        own = self._layout(arrived)
        for held in rows:
            try:
                found = self._layout(held)
            except (LookupError, TypeError, AttributeError) as error:
                raise CheckpointError(f"the checkpoint's waiting rows are invalid: {error}") from error
            for name in sorted({*found, *own}):
                if found.get(name) != own.get(name):
                    raise CheckpointError(
                        f"the rows in the checkpoint do not match the env: {name} is {found.get(name, 'absent')} in "
                        f"the checkpoint, but {own.get(name, 'absent')} in the env"
                    )

    def _layout(self, rows: Mapping[str, Any]) -> dict[str, str]:
        """Dtype and shape of each column, as text; the free axis is measured relative to `valid`."""
        axis = self._free_axis
        length = rows["valid"].shape[axis]
        layout = {}
        for name, leaf in named_leaves(dict(rows)):
            shape = list(leaf.shape)
            if name.partition("/")[0] != HISTORY:
                shape[axis] -= length
            layout[name] = f"{leaf.dtype} {shape}"
        return layout
