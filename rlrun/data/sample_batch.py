"""Columns of experience that share their leading dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rlrun.data.packing import zeroed
from rlrun.data.tree import map_tree

WORLD_STATE = "world_state"
"""Column of a fragment with the whole world's state, the same for all agents of it, [T + 1, B, D]."""

ACTS = "acts"
"""Column of a fragment that says whether an agent acts in a row, the closing one included, [T + 1, B]."""

EPISODE_STEPS = "episode_steps"
"""Column of a fragment with views: steps of its episode before a row, [T + 1, B]; see `rlrun.data.views`."""

PREV_REWARDS = "prev_rewards"
"""Column of a fragment with views: what the env gave for the step before a row, [T + 1, B]."""

HISTORY = "history"
"""Column of a fragment with views: what came before its first row, leaves [1 + rows, B, ...]."""

CLOSING_COLUMNS = (
    "obs",
    "values",
    "intrinsic_values",
    "cost_values",
    "q_values",
    WORLD_STATE,
    ACTS,
    EPISODE_STEPS,
    PREV_REWARDS,
)
"""Columns of a fragment with one row more than the others: the observation after its last step, and its value."""

OWN_COLUMNS = frozenset(
    {
        *CLOSING_COLUMNS,
        HISTORY,
        "actions",
        "advantages",
        "cost_advantages",
        "cost_value_targets",
        "curiosity_next_obs",
        "curiosity_obs",
        "discounts",
        "episode_starts",
        "indices",
        "intrinsic_advantages",
        "intrinsic_rewards",
        "intrinsic_value_targets",
        "logp",
        "next_obs",
        "outputs",
        "rewards",
        "state",
        "taken_values",
        "target_outputs",
        "terminateds",
        "truncateds",
        "valid",
        "value_targets",
        "weights",
        "weights_version",
    }
)
"""Columns that rlrun itself writes, whose names no number of an env's info can have."""


class SampleBatch(dict[str, Any]):
    """A mapping from column names to trees of arrays.

    From a worker the leading dimensions are [T, B] (time, env slots), and `obs` and `values` close the fragment
    with one row more; in the learner they are [S, L] (rows of L consecutive steps). The columns are Gymnasium's `obs`,
    `actions`, `rewards`, `terminateds`, `truncateds`, then `valid` (1 where a step filled the cell) and what a policy
    or operator
    adds (`logp`, `values`, `advantages`, ...).
    """

    @property
    def num_rows(self) -> int:
        """Cells of the batch, T * B, whether a step filled them or not."""
        shape = self["valid"].shape
        return int(shape[0] * shape[1])

    def map(self, function: Callable[..., Any]) -> SampleBatch:
        """Returns the batch with a function applied to every array."""
        return SampleBatch({name: map_tree(function, column) for name, column in self.items()})

    def steps(self) -> SampleBatch:
        """Returns the batch without its closing rows, so that all columns are [T, B]."""
        length = len(self["valid"])
        return SampleBatch(
            {
                name: map_tree(lambda leaf: leaf[:length], column) if name in CLOSING_COLUMNS else column
                for name, column in self.items()
            }
        )

    def closed(self) -> SampleBatch:
        """Returns the batch with a closing row in every column, [T + 1, B]; no step fills it.

        The observation after the last step, and what a network makes of it, then stands behind that step like the one
        after an episode's end does.
        """

        def close(leaf: Any) -> Any:
            return np.concatenate([leaf, np.zeros((1, *leaf.shape[1:]), leaf.dtype)])

        return SampleBatch(
            {name: column if name in CLOSING_COLUMNS else map_tree(close, column) for name, column in self.items()}
        )

    def rows(self, length: int) -> SampleBatch:
        """Cuts [T, B] columns into rows of consecutive steps of one env slot, [S, length].

        Args:
            length: Steps in a row; it divides T.
        """

        def cut(leaf: Any) -> Any:
            time, slots, *shape = leaf.shape
            if length == 1:
                return leaf.reshape(time * slots, 1, *shape)
            pieces = leaf.reshape(time // length, length, slots, *shape)
            return np.moveaxis(pieces, 2, 1).reshape(time // length * slots, length, *shape)

        return self.map(cut)

    def zero_invalid(self, keep: Sequence[str] = ()) -> SampleBatch:
        """Returns the batch with zeros in the cells that no step filled, so that no garbage reaches a loss.

        Args:
            keep: Columns to leave: what a network makes of the observation there may be asked for.
        """
        valid = self["valid"]
        if valid.all():
            return self
        return SampleBatch({name: tree if name in keep else zeroed(tree, valid) for name, tree in self.items()})


def network_columns(batch: Mapping[str, Any]) -> SampleBatch:
    """Returns the columns of a batch that a network is run on, and `valid`.

    Those are observations and recurrent state, and the actions that an autoregressive one is given.
    """
    names = ("obs", "valid", "state", "episode_starts", "actions")
    return SampleBatch({name: batch[name] for name in names if name in batch})


def concatenated(batches: Sequence[Mapping[str, Any]]) -> SampleBatch:
    """Puts fragments of equal length side by side: [T, B1], [T, B2] -> [T, B1 + B2]."""
    if len(batches) == 1:
        return SampleBatch(batches[0])
    lengths = {batch["valid"].shape[0] for batch in batches}
    if len(lengths) > 1:
        raise ValueError(f"fragments of different lengths cannot stand side by side: {sorted(lengths)}")
    first, *others = batches
    return SampleBatch(
        {
            name: map_tree(lambda *parts: np.concatenate(parts, axis=1), column, *(other[name] for other in others))
            for name, column in first.items()
        }
    )
