"""Memory of an acting policy: recurrent state and recent steps of the running episodes (NumPy)."""

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
    """Interface of networks whose recurrent state also depends on past actions and rewards."""

    @property
    def knows_chosen(self) -> bool:
        """Whether the network itself stores the chosen actions in its recurrent state."""
        ...

    def after_actions(self, state: Floats, actions: Any) -> Floats:
        """Returns the recurrent state [B, state_size] of B env slots, updated with the actions that were just taken."""
        ...

    def after_rewards(self, state: Floats, rewards: NDArray[Any]) -> Floats:
        """Returns the recurrent state [B, state_size] of B env slots, updated with the rewards of the last step."""
        ...


class EpisodeMemory:
    """Recurrent state and recent steps of the episode in each env slot, as inputs of the network at the next step.

    Recent steps are needed by networks that see stacked observations, past actions or past rewards.

    Args:
        state_size: Size of the recurrent state, 0 for none.
        views: Memory of recent steps; None for a network that sees only the current step.
        inputs: Stores past actions and rewards in the recurrent state; None if that state depends only on observations.

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
        """Clears the memory of the env slots in which a new episode begins (mask `starts` [B])."""
        self._slots = len(starts)
        if self.views is not None:
            self.views.begin(starts)
        if len(self.recurrent) != len(starts):
            self.recurrent = np.zeros((len(starts), self.state_size), np.float32)
        elif starts.any():
            self.recurrent[starts] = 0.0

    def see(self, observations: Any, acts: Flags | None) -> Any:
        """Stores the raw observations of B env slots; returns the network's input, which may include recent steps.

        Slots that do not act are unchanged; if `acts` is None, all act.
        """
        if self.views is None:
            return observations
        self.begin(np.zeros(len(leaves(observations)[0]), np.bool_))
        return self.views.see(observations, acts)

    def collect(self, observations: Any, batch: SampleBatch, where: Any, starts: Flags, acts: Flags | None) -> Any:
        """Prepares the network's input for one step, and records what a learner needs to reproduce this input.

        Clears the memory where episodes begin, adds the observations to it, and writes the recurrent state and past
        steps to the fragment's columns.

        Args:
            observations: Raw observations, a tree of [B, ...].
            batch: The fragment's columns.
            where: Index of the (t, b) entries to fill.
            starts: Mask of the slots whose observation starts an episode, [B].
            acts: Mask of the slots that act, [B]; None for all.

        Returns:
            The network's input: the observations, together with recent steps if the network sees them.
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
        """Returns the recurrent state [B, state_size] before B observations are processed; None without recurrence."""
        if not self.state_size:
            return None
        slots = len(leaves(observations)[0])
        if len(self.recurrent) != slots:
            self.begin(np.ones(slots, np.bool_))
        return self.recurrent

    def keep(self, state: Floats, acts: Flags | None) -> None:
        """Stores the new recurrent state [B, state_size] of the env slots that act."""
        self.recurrent = state if acts is None else np.where(acts[:, None], state, self.recurrent)

    def remember(self, actions: Any, acts: Flags | None) -> None:
        """Stores the actions of the env slots that act (`acts`; None for all), before conversion to env actions."""
        if self.views is not None:
            self.views.act(actions, acts)
        if self.inputs is not None and not self.inputs.knows_chosen:
            self.keep(self.inputs.after_actions(self.recurrent, actions), acts)

    def replace_actions(self, actions: Any) -> None:
        """Replaces the last stored actions with those that the envs executed, in the policy's representation."""
        if self.views is not None:
            self.views.replace_actions(actions)
        if self.inputs is not None:
            self.recurrent = self.inputs.after_actions(self.recurrent, actions)

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Stores the rewards of the last step in all B env slots."""
        if self.views is not None:
            self.views.take_rewards(rewards)
        if self.inputs is not None and len(self.recurrent) == len(rewards):
            self.recurrent = self.inputs.after_rewards(self.recurrent, rewards)

    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Allocates the columns that `collect` fills, for a fragment of T steps in B env slots."""
        columns: dict[str, NDArray[Any]] = {}
        if self.state_size:
            columns["episode_starts"] = np.empty((length, slots), np.bool_)
            columns["state"] = np.empty((length, slots, self.state_size), np.float32)
        return columns if self.views is None else {**columns, **self.views.allocate(length, slots)}

    def state(self) -> dict[str, Any]:
        """Returns the recurrent state and recent steps for a checkpoint; empty for a policy without memory."""
        state: dict[str, Any] = {"recurrent_state": self.recurrent.copy()} if self.state_size else {}
        return state if self.views is None else {**state, "views": self.views.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores recurrent state and recent steps from the result of `state()`."""
        if self.state_size:
            recurrent = np.array(state["recurrent_state"], np.float32)
            if recurrent.shape[1:] != (self.state_size,):
                raise ValueError(
                    f"the recurrent state has shape {recurrent.shape}, but the network expects a state of "
                    f"size {self.state_size}"
                )
            self.recurrent = recurrent
        if self.views is not None:
            self.views.load_state(state["views"])
