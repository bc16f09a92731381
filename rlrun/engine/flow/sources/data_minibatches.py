"""Source of minibatches for a dataflow, drawn from data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch, concatenated_rows
from rlrun.engine.data.tree import leaves, map_tree, named_leaves
from rlrun.engine.data.views import VIEW_FRAMES, VIEW_OBS, VIEW_PREV_ACTIONS, VIEW_PREV_REWARDS, is_viewed, shown, split
from rlrun.engine.datasets.data_set import DataSet, Indices
from rlrun.engine.datasets.input_config import InputConfig
from rlrun.engine.datasets.input_sets import identity, opened, require_same
from rlrun.engine.datasets.shuffle_window import ShuffleWindow, ViewFactory
from rlrun.engine.datasets.transitions import DataView
from rlrun.engine.envs.make import check_same_spaces
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.replay import NormalizeObservations
from rlrun.engine.flow.sources.items import StatefulSource, from_items
from rlrun.engine.functional.moments import Moments
from rlrun.engine.functional.saved_numbers import load_generator
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.observation_leaves import ObservationTree
from rlrun.engine.policy.action_spaces.action_space import ActionSpace
from rlrun.engine.policy.observation_filter import ObservationFilter
from rlrun.engine.policy.view_memory import padding_of

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee


COLUMNS = {VIEW_FRAMES: "obs", VIEW_PREV_ACTIONS: "actions", VIEW_PREV_REWARDS: "rewards"}
"""Columns of a data set from which the parts of a view are gathered."""


class MinibatchSettings(Protocol):
    """Interface of the settings for minibatches from data sets."""

    @property
    def input(self) -> Sequence[InputConfig] | None:
        """Data sets to learn from, each with its share of the minibatches."""

    @property
    def minibatch_size(self) -> int:
        """Number of transitions, or sequences, in a minibatch."""

    @property
    def normalize_observations(self) -> bool:
        """Whether observations are normalized by mean and variance of the data sets."""


def data_minibatches(trainee: Trainee, config: MinibatchSettings, view: ViewFactory) -> Flow[SampleBatch]:
    """Creates a flow of minibatches from data sets, with env actions converted to the policy's representation.

    Args:
        trainee: The policy in training.
        config: Settings of the algorithm.
        view: Function that defines how a data set is read, for example as n-step transitions.
    """
    measures = config.normalize_observations
    flow = from_items(DataMinibatches(trainee, config.input, view, config.minibatch_size, measures=measures))
    return flow.for_each(NormalizeObservations(trainee)) if measures else flow


class DataMinibatches(StatefulSource[SampleBatch]):
    """Draws minibatches from data sets, uniformly with replacement; each set contributes its share of the rows.

    A remote data set that is too large to copy is sampled from a moving window of its files. A checkpoint contains the
    state of the random draws and hashes of the data sets, not their rows.

    Args:
        trainee: The policy in training.
        parts: The data sets with their shares; None raises an error at the first minibatch.
        view: Function that defines how a data set is read, for example as n-step transitions.
        minibatch_size: Number of transitions, or sequences, in a minibatch.
        measures: Whether to take the data sets' mean and variance of observations for the policy's normalization.
    """

    def __init__(
        self,
        trainee: Trainee,
        parts: Sequence[InputConfig] | None,
        view: ViewFactory,
        minibatch_size: int,
        *,
        measures: bool,
    ) -> None:
        self.trainee = trainee
        self.parts = tuple(parts or ())
        self.view = view
        self.minibatch_size = minibatch_size
        self.measures = measures
        self._windows: list[ShuffleWindow] = []
        self._sets: list[DataSet] = []
        self._action_space: ActionSpace
        self._generator = np.random.Generator(np.random.Philox(child_seed(trainee.seed, "data")))

    @override
    def settings(self) -> dict[str, Any]:
        return {"minibatch_size": self.minibatch_size}

    @override
    def __next__(self) -> SampleBatch:
        """Returns the next minibatch.

        Raises:
            UsageError: There is no data set, or it does not fit the policy.
            DataSetError: A data set cannot be read.
        """
        self._open()
        drawn = zip(self._windows, self._numbers(), strict=True)
        batch = concatenated_rows([window.draw(number, self._generator) for window, number in drawn if number])
        acted = {name: batch[name] for name in ("actions", "next_actions") if name in batch}
        own = {name: self._own_actions(actions, batch["valid"].shape) for name, actions in acted.items()}
        return SampleBatch(batch, **own)

    def _numbers(self) -> list[int]:
        """Number of items to draw from each data set, on average in proportion to its share."""
        if len(self.parts) == 1:
            return [self.minibatch_size]
        shares = np.array([part.share for part in self.parts])
        numbers: list[int] = self._generator.multinomial(self.minibatch_size, shares / shares.sum()).tolist()
        return numbers

    def _own_actions(self, actions: Any, shape: tuple[int, ...]) -> Any:
        """Converts env actions [sequences, steps, ...] to the policy's representation."""
        rows = SampleBatch(actions=actions).map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]))["actions"]
        own = self._action_space.from_env(rows)
        return own.reshape(*shape, *own.shape[1:])

    def _open(self) -> None:
        """Opens the data sets, and initializes the observation filter if it has no moments yet."""
        if self._sets:
            return
        if not self.parts:
            raise UsageError(f"policy {self.trainee.name} learns from data: set config.input to a data set")
        sets, spaces = [opened(part) for part in self.parts], self.trainee.spaces
        for data in sets:
            check_same_spaces(f"the data set {data.folder}", Spaces(*data.manifest.spaces), spaces)
        self._action_space = self.trainee.policy.behavior().action_space
        self._windows = [ShuffleWindow(data, self._view_as_policy) for data in sets]
        self._sets = sets
        if self.measures and not self.trainee.filters.moments:
            for data in sets:
                self.trainee.filters.merge(observation_moments(data, shown(self.trainee.policy.leaves)))

    def _view_as_policy(self, data: DataSet) -> DataView:
        """Returns the view of a data set whose observations are as the policy sees them when acting."""
        leaves = self.trainee.policy.leaves
        return self.view(ViewedSet(data, leaves, self._action_space) if is_viewed(leaves) else data)

    @override
    def state(self) -> dict[str, Any]:
        """Returns the state of the random draws, and hashes that identify the data sets, for a checkpoint."""
        self._open()
        return {
            "sets": [identity(data) for data in self._sets],
            "windows": [window.state() for window in self._windows],
            "generator": dict(self._generator.bit_generator.state),
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the state of the random draws from the result of `state()`.

        Raises:
            DataSetError: A data set was altered since the state was saved.
        """
        self._open()
        require_same(self._sets, state["sets"])
        for window, own in zip(self._windows, state["windows"], strict=True):
            window.load_state(own)
        load_generator(self._generator, state["generator"])


def observation_moments(data: DataSet, leaves: Any) -> dict[str, Moments]:
    """Returns count, mean and variance of each observation entry in a data set, by the name that normalization uses.

    Args:
        data: The data set.
        leaves: Observation entries and how each is encoded.

    Raises:
        UsageError: The data set lacks the moments of an entry, for example because its sums overflowed.
    """
    names = [name for _, name in named_leaves(ObservationFilter(leaves).names) if name]
    moments, found = data.moments(), {}
    for name in names:
        path = name.removeprefix("observations/")
        column = f"obs/{path}" if path else "obs"
        if column not in moments:
            raise UsageError(f"normalize_observations: {data.folder} has no statistics of its column '{column}'")
        found[name] = moments[column]
    return found


class ViewedSet(DataSet):
    """Data set whose observations are extended by past steps, just as the policy's inputs are when it acts.

    Past steps belong to the same episode; steps before its start are padding. Final observations are extended too.

    Args:
        data: The data set.
        leaves_of: The network's inputs (current observation and past steps), a tree of `ObservationLeaf`.
        action_space: The policy's action space, which converts between the policy's actions and env actions.
    """

    def __init__(self, data: DataSet, leaves_of: ObservationTree, action_space: ActionSpace) -> None:
        super().__init__(data.folder, data.manifest)
        self._read = data._read  # keeps files open
        self._leaves = leaves_of
        self._action_space = action_space
        self._name = VIEW_FRAMES if VIEW_FRAMES in leaves_of else VIEW_OBS

    @override
    def rows(self, indices: Indices, names: Sequence[str] | None = None) -> SampleBatch:
        batch = super().rows(indices, names)
        return SampleBatch(batch, obs=self._viewed(batch["obs"], indices)) if "obs" in batch else batch

    def _viewed(self, observed: Any, rows: Indices) -> dict[str, Any]:
        """Returns the view of each row's observation, leaves [N, ...] or [N, K, ...]."""
        parts = split(observed, self._name)
        starts = self.episodes.starts
        firsts = starts[starts.searchsorted(rows, side="right") - 1]
        for name, nothing in padding_of(self._leaves, self._action_space, parts[self._name]).items():
            parts[name] = self._part(name, nothing, rows, firsts)
        return parts

    def _part(self, name: str, nothing: Any, rows: Indices, firsts: Indices) -> Any:
        """Returns one part of the view: the values of the last rows up to each row, oldest first, [N, K, ...].

        Args:
            name: The part. Frames include a row's own observation; actions and rewards are those before the row.
            nothing: The part's padding, [K, ...].
            rows: Rows of the set, [N].
            firsts: First row of each row's episode, [N].
        """
        number = len(leaves(nothing)[0])
        reached = rows[:, None] - np.arange(number, 0, -1) + (name == VIEW_FRAMES)
        values = super().rows(np.maximum(reached, firsts[:, None]).ravel(), (COLUMNS[name],))[COLUMNS[name]]
        if name == VIEW_FRAMES:
            values = split(values, name)[name]
        elif name == VIEW_PREV_ACTIONS:
            values = self._action_space.from_env(values)
        is_before = reached < firsts[:, None]

        def padded(padding: Any, leaf: Any) -> Any:
            stacked = leaf.reshape(*reached.shape, *leaf.shape[1:]).astype(padding.dtype, copy=False)
            stacked[is_before] = padding[0]
            return stacked

        return map_tree(padded, nothing, values)
