"""Batches of experience, as columns with common leading dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from rlrun.engine.data.packing import zeroed
from rlrun.engine.data.tree import map_tree

WORLD_STATE = "world_state"
"""Column of a fragment with the global state of the multi-agent world, equal for all agents, [T + 1, B, D]."""

ACTS = "acts"
"""Column of a fragment: whether an agent acts in a row, with the closing row, [T + 1, B]."""

EPISODE_STEPS = "episode_steps"
"""Column of a fragment with views: number of steps in the episode before a row, [T + 1, B]; see `engine.data.views`."""

PREV_REWARDS = "prev_rewards"
"""Column of a fragment with views: the env's reward of the step before a row, [T + 1, B]."""

HISTORY = "history"
"""Column of a fragment with views: the rows before its first one, leaves [1 + rows, B, ...]."""

TAKEN_LOGP = "taken_logp"
"""Column of a fragment that is recorded for a data set: log-probability of each action in the env's units, [T, B]."""
EPISODE = "episode"
"""Column of a fragment of episodes that share seeds: index of the row's episode among the worker's episodes, [T, B]."""
LOGGED = "logged"
"""Column of a fragment: whether a client chose the action instead of the policy, [T, B]."""

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
"""Columns of a fragment with T + 1 rows: the last is for the observation after the last step."""

OWN_COLUMNS = frozenset(
    {
        *CLOSING_COLUMNS,
        HISTORY,
        EPISODE,
        TAKEN_LOGP,
        LOGGED,
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
        "kl_penalty_coeff",
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
"""Names of rlrun's standard columns, which values from an env's info must not use."""


@final
class SampleBatch(dict[str, Any]):
    """Batch of experience: a mapping from column names to trees of arrays.

    In a rollout worker's batch (a fragment), the leading dimensions are [T, B] (time, env slots), and `CLOSING_COLUMNS`
    such as `obs` have one more row, after the last step. In the learner they are [S, L] (rows of L consecutive steps).
    The columns are Gymnasium's `obs`, `actions`, `rewards`, `terminateds` and `truncateds`, and `valid` (1 where the
    entry holds a step). Policies and operators add further columns (`logp`, `values`, `advantages`, ...).
    """

    @property
    def num_rows(self) -> int:
        """Number of entries (T steps times B env slots), including invalid ones."""
        shape = self["valid"].shape
        return int(shape[0] * shape[1])

    def map(self, function: Callable[..., Any]) -> SampleBatch:
        """Returns a batch with a function applied to each array of the batch."""
        return SampleBatch({name: map_tree(function, column) for name, column in self.items()})

    def steps(self) -> SampleBatch:
        """Returns a copy of the batch without the row after the last step, so that all columns are [T, B]."""
        length = len(self["valid"])
        return SampleBatch(
            {
                name: map_tree(lambda leaf: leaf[:length], column) if name in CLOSING_COLUMNS else column
                for name, column in self.items()
            }
        )

    def closed(self) -> SampleBatch:
        """Returns a copy of the batch in which every column has an additional last row, marked invalid, [T + 1, B].

        The observation after the last step is thus in a row after the step, like the final observation of an episode.
        """

        def close(leaf: Any) -> Any:
            return np.concatenate([leaf, np.zeros((1, *leaf.shape[1:]), leaf.dtype)])

        return SampleBatch(
            {name: column if name in CLOSING_COLUMNS else map_tree(close, column) for name, column in self.items()}
        )

    def rows(self, length: int) -> SampleBatch:
        """Splits T steps of B env slots into S rows, [S, length], each with consecutive steps of one env slot.

        Args:
            length: Number of steps in a row; must divide T.
        """

        def cut(leaf: Any) -> Any:
            time, slots, *shape = leaf.shape
            if length == 1:
                return leaf.reshape(time * slots, 1, *shape)
            pieces = leaf.reshape(time // length, length, slots, *shape)
            return np.moveaxis(pieces, 2, 1).reshape(time // length * slots, length, *shape)

        return self.map(cut)

    def zero_invalid(self, keep: Sequence[str] = ()) -> SampleBatch:
        """Returns a copy of the batch with invalid entries set to zero, so that undefined values do not reach a loss.

        Args:
            keep: Columns to leave unchanged, such as observations if a network must evaluate final observations.
        """
        valid = self["valid"]
        if valid.all():
            return self
        return SampleBatch({name: tree if name in keep else zeroed(tree, valid) for name, tree in self.items()})


def network_columns(batch: Mapping[str, Any]) -> SampleBatch:
    """Selects the columns of a batch that networks take as inputs, and the column `valid`.

    Inputs are the observations, the recurrent state, and, for autoregressive networks, the actions.
    """
    names = ("obs", "valid", "state", "episode_starts", "actions")
    return SampleBatch({name: batch[name] for name in names if name in batch})


def concatenated(batches: Sequence[Mapping[str, Any]]) -> SampleBatch:
    """Concatenates fragments of T steps each along the env slots: [T, B1], [T, B2] -> [T, B1 + B2]."""
    lengths = {batch["valid"].shape[0] for batch in batches}
    if len(lengths) > 1:
        raise ValueError(f"fragments of different lengths cannot be concatenated: {sorted(lengths)}")
    return concatenated_rows(batches, axis=1)


def concatenated_rows(batches: Sequence[Mapping[str, Any]], axis: int = 0) -> SampleBatch:
    """Concatenates batches along an axis (by default, the row axis); all must have the same columns."""
    first, *others = batches
    if not others:
        return SampleBatch(first)
    return SampleBatch(
        {
            name: map_tree(lambda *parts: np.concatenate(parts, axis), column, *(other[name] for other in others))
            for name, column in first.items()
        }
    )
