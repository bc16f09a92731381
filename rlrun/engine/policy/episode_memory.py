"""Memory of a behavior policy: recurrent state and history views of the running episodes (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves

if TYPE_CHECKING:
    from rlrun.engine.policy.view_memory import ViewMemory

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


class StateInputs(Protocol):
    """Protocol of networks whose recurrent state also depends on the actions taken and the rewards received."""

    @property
    def knows_chosen(self) -> bool:
        """Whether the network updates its own state with the chosen actions."""
        ...

    def after_actions(self, state: Floats, actions: Any) -> Floats:
        """Recurrent state [B, state_size] updated with the policy's own actions [B, ...] as the last actions."""
        ...

    def after_rewards(self, state: Floats, rewards: NDArray[Any]) -> Floats:
        """Recurrent state [B, state_size] updated with the rewards [B] of the last step."""
        ...


class EpisodeMemory:
    """Memory of each slot's episode: the network's recurrent state, and recent steps for networks with history views.

    Args:
        state_size: Size of the recurrent state, 0 for none.
        views: View memory; None for a network without views.
        inputs: Inputs of the recurrent state besides observations; None for none.

    Attributes:
        recurrent: Recurrent state, [B, state_size].
        is_used: Whether actions depend on earlier steps of an episode.
        takes_actions: Whether the memory needs the actions that were chosen.
    """

    def __init__(self, state_size: int, views: ViewMemory | None, inputs: StateInputs | None) -> None:
        self.state_size = state_size
        self.views = views
        self.inputs = inputs
        self.is_used = bool(state_size) or views is not None
        shows_actions = views is not None and views.has_actions
        self.takes_actions = shows_actions or (inputs is not None and not inputs.knows_chosen)
        self.recurrent: Floats = np.zeros((0, state_size), np.float32)
        self._slots = 0

    def begin(self, starts: Flags) -> None:
        """Clears the memory in slots whose next observation starts an episode, [B]."""
        self._slots = len(starts)
        if self.views is not None:
            self.views.begin(starts)
        if len(self.recurrent) != len(starts):
            self.recurrent = np.zeros((len(starts), self.state_size), np.float32)
        elif starts.any():
            self.recurrent[starts] = 0.0

    def see(self, observations: Any, acts: Flags | None) -> Any:
        """Adds raw observations [B, ...] of the acting slots (None for all); returns the network's view of them."""
        if self.views is None:
            return observations
        self.begin(np.zeros(len(leaves(observations)[0]), np.bool_))
        return self.views.see(observations, acts)

    def collect(self, observations: Any, batch: SampleBatch, where: Any, starts: Flags, acts: Flags | None) -> Any:
        """Begins episodes and adds observations like `begin` and `see`.

        Also records the memory's columns of the fragment.

        Args:
            observations: Raw observations, a tree of [B, ...].
            batch: The fragment's columns.
            where: Index of the (t, b) entries to fill.
            starts: Mask of the slots whose observation starts an episode, [B].
            acts: Mask of the slots that act, [B]; None for all.

        Returns:
            The network's view of the observations.
        """
        if len(starts) != self._slots or starts.any():
            self.begin(starts)
        if self.state_size:
            batch["episode_starts"][where] = starts if acts is None else starts[acts]
            batch["state"][where] = self.recurrent if acts is None else self.recurrent[acts]
        if self.views is None:
            return observations
        view = self.views.see(observations, acts)
        self.views.record(batch, where, acts)
        return view

    def before(self, observations: Any) -> Floats | None:
        """Recurrent state [B, state_size] before observations [B, ...]; None for a network without recurrent state."""
        if not self.state_size:
            return None
        slots = len(leaves(observations)[0])
        if len(self.recurrent) != slots:
            self.begin(np.ones(slots, np.bool_))
        return self.recurrent

    def keep(self, state: Floats, acts: Flags | None) -> None:
        """Replaces the recurrent state by a newer one [B, state_size], in the slots that act."""
        self.recurrent = state if acts is None else np.where(acts[:, None], state, self.recurrent)

    def remember(self, actions: Any, acts: Flags | None) -> None:
        """Adds the policy's own actions [B, ...] just chosen, in the acting slots (None for all)."""
        if self.views is not None:
            self.views.act(actions, acts)
        if self.inputs is not None and not self.inputs.knows_chosen:
            self.keep(self.inputs.after_actions(self.recurrent, actions), acts)

    def replace_actions(self, actions: Any) -> None:
        """Replaces the last actions by the policy's own form of the actions [B, ...] that were actually executed."""
        if self.views is not None:
            self.views.replace_actions(actions)
        if self.inputs is not None:
            self.recurrent = self.inputs.after_actions(self.recurrent, actions)

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Adds the rewards [B] of the last step to the memory."""
        if self.views is not None:
            self.views.take_rewards(rewards)
        if self.inputs is not None and len(self.recurrent) == len(rewards):
            self.recurrent = self.inputs.after_rewards(self.recurrent, rewards)

    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Allocates the columns that `collect` records: [T, B, ...], or [T + 1, B] for views."""
        columns: dict[str, NDArray[Any]] = {}
        if self.state_size:
            columns["episode_starts"] = np.empty((length, slots), np.bool_)
            columns["state"] = np.empty((length, slots, self.state_size), np.float32)
        return columns if self.views is None else {**columns, **self.views.allocate(length, slots)}

    def state(self) -> dict[str, Any]:
        """Recurrent state and view memory; empty for a policy without memory."""
        state: dict[str, Any] = {"recurrent_state": self.recurrent.copy()} if self.state_size else {}
        return state if self.views is None else {**state, "views": self.views.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the memory from `state()`."""
        if self.state_size:
            recurrent = np.array(state["recurrent_state"], np.float32)
            if recurrent.shape[1:] != (self.state_size,):
                raise ValueError(f"a recurrent state {recurrent.shape} of a network that has {self.state_size}")
            self.recurrent = recurrent
        if self.views is not None:
            self.views.load_state(state["views"])
