"""What fragments tell besides actions: log-probabilities and values, for on-policy losses and first priorities (NumPy).

Without one of these a fragment holds raw observations and actions, as a replay keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import WORLD_STATE, SampleBatch
from rlrun.data.tree import map_tree
from rlrun.data.views import viewed
from rlrun.nn.acting import ActingNetwork, Heads
from rlrun.policy.action_spaces.action_space import Floats, StochasticActions
from rlrun.policy.behavior import BehaviorPolicy

LEAST_VARIANCE = 1e-2
"""Value targets that vary less are not blown up by normalisation."""


class LogProbsAndValues:
    """`logp` [T, B] of the actions and `values` [T + 1, B] of filtered observations.

    Values that the network does not give with every step come from one pass over the whole fragment. Those of a
    recurrent network follow from its state: it gives all of them, of an episode's final observation too, and that
    behind the fragment without moving the state.

    Args:
        action_space: The distributions.
        value_network: Has the values' heads; None where the network that acts is recurrent and has them.
        heads: The heads of values by column, those of further streams of rewards among them.
    """

    reads_heads = True

    def __init__(
        self,
        action_space: StochasticActions,
        value_network: ActingNetwork | None,
        heads: Mapping[str, str] = MappingProxyType({"values": "value"}),
    ) -> None:
        self.action_space = action_space
        self.value_network = value_network
        self.heads = dict(heads)  # a view of a mapping does not travel
        self._come_along = False

    def load(self, flat: Floats) -> None:
        """Takes new parameters [A]."""
        if self.value_network is not None:
            self.value_network.load(flat)

    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Returns empty `outputs` [T, B, K] and values [T + 1, B]."""
        return {
            "outputs": np.empty((length, slots, self.action_space.num_outputs), np.float32),
            **{column: np.full((length + 1, slots), np.nan, np.float32) for column in self.heads},
        }

    def record(self, batch: SampleBatch, where: Any, heads: Heads, acts: NDArray[np.bool_] | None) -> None:
        """Records the outputs, and the values if they come along."""
        self._come_along = "value" in heads
        batch["outputs"][where] = heads["outputs"] if acts is None else heads["outputs"][acts]
        if self._come_along:
            for column, head in self.heads.items():
                values = heads[head][:, 0]
                batch[column][where] = values if acts is None else values[acts]

    def postprocess(self, batch: SampleBatch, policy: BehaviorPolicy) -> None:
        """Filters the observations, and adds log-probabilities and missing values.

        A closing value that is there already is that of a step which goes on, from when it was taken.
        """
        policy.filter_fragment(batch)
        seen = viewed(batch)
        batch["logp"] = self.action_space.log_prob(batch.pop("outputs"), batch["actions"])
        if self.value_network is None:
            closing = policy.closing_heads(map_tree(lambda leaf: leaf[-1], seen["obs"]))
            for column, head in self.heads.items():
                last = batch[column][-1]
                last[:] = np.where(np.isnan(last), closing[head][:, 0], last)
            return
        missing = len(batch["values"]) - 1 if self._come_along else 0
        cells = batch["values"][missing:].size
        rows = map_tree(lambda leaf: leaf[missing:].reshape(cells, *leaf.shape[2:]), self.value_inputs(seen))
        heads, _ = self.value_network({"obs": rows})
        for column, head in self.heads.items():
            values = batch[column]
            values[missing:] = heads[head].reshape(-1, values.shape[1])

    def value_inputs(self, batch: SampleBatch) -> Any:
        """Returns what the value network sees, a tree of [T + 1, B, ...]."""
        return batch["obs"]


class LogProbsAndStateValues(LogProbsAndValues):
    """`logp` and `values` as `LogProbsAndValues`, with values that are normalised, and may see the world's state.

    Args:
        action_space: The distributions.
        value_network: Has a head `value`, of normalised values.
        moments_at: Where the moments of `rlrun.policy.value_norm` begin in the parameters that are loaded.
        sees_state: Whether the network sees the world's state.
        sees_observation: Whether it sees the agent's own observation.
    """

    def __init__(
        self,
        action_space: StochasticActions,
        value_network: ActingNetwork,
        *,
        moments_at: int,
        sees_state: bool,
        sees_observation: bool,
    ) -> None:
        super().__init__(action_space, value_network)
        self.moments_at = moments_at
        self.sees_state = sees_state
        self.sees_observation = sees_observation
        self._moments: Floats = np.zeros(3, np.float32)

    def load(self, flat: Floats) -> None:
        """Takes new parameters [A]."""
        super().load(flat)
        self._moments = flat[self.moments_at : self.moments_at + 3].copy()

    def postprocess(self, batch: SampleBatch, policy: BehaviorPolicy) -> None:
        """Filters the observations, and adds log-probabilities and values in the scale of rewards."""
        super().postprocess(batch, policy)
        batch["values"] = denormalized(batch["values"], self._moments)

    def value_inputs(self, batch: SampleBatch) -> Any:
        """Returns what the value network sees."""
        return value_inputs(batch, sees_state=self.sees_state, sees_observation=self.sees_observation)


def value_inputs(batch: SampleBatch, *, sees_state: bool, sees_observation: bool) -> dict[str, Any]:
    """Returns what a value of the world's state is a function of, a tree of [..., ...].

    Args:
        batch: `obs`, as the network is to see it, and the world's state.
        sees_state: Whether it sees the state.
        sees_observation: Whether it sees the agent's own observation.
    """
    state = {"state": batch[WORLD_STATE]} if sees_state else {}
    return {**state, **({"observation": batch["obs"]} if sees_observation else {})}


def denormalized(outputs: Floats, moments: Floats) -> Floats:
    """Returns normalised values in the scale of rewards, [...]: the inverse of `rlrun.policy.value_norm.normalized`.

    Args:
        outputs: Normalised values, [...].
        moments: The moments, [3].
    """
    mean, square, weight = moments.astype(np.float64).tolist()
    if not weight:
        return outputs
    mean, square = mean / weight, square / weight
    deviation = np.sqrt(max(square - mean * mean, LEAST_VARIANCE))
    values: Floats = (outputs * deviation + mean).astype(np.float32)
    return values


class QValues:
    """The values of all actions as they were when one was chosen, `q_values` [T + 1, B, A].

    Args:
        num_actions: A.
    """

    reads_heads = True

    def __init__(self, num_actions: int) -> None:
        self.num_actions = num_actions

    def load(self, flat: Floats) -> None:
        """Needs no parameters."""

    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Returns empty `q_values`."""
        return {"q_values": np.full((length + 1, slots, self.num_actions), np.nan, np.float32)}

    def record(self, batch: SampleBatch, where: Any, heads: Heads, acts: NDArray[np.bool_] | None) -> None:
        """Records the values of a step."""
        batch["q_values"][where] = heads["outputs"] if acts is None else heads["outputs"][acts]

    def postprocess(self, batch: SampleBatch, policy: BehaviorPolicy) -> None:
        """Adds the values in the closing observation, as far as they are not there already."""
        values = batch["q_values"]
        behind = policy.filtered(map_tree(lambda leaf: leaf[-1], viewed(batch)["obs"]))
        closing = policy.closing_heads(behind)["outputs"]
        values[-1] = np.where(np.isnan(values[-1]), closing, values[-1])


class CriticValues:
    """The values of the actor's own actions, `values` [T + 1, B], and of those taken, `taken_values` [T, B].

    Both come from a pass over the whole fragment.

    Args:
        critic: Has the inputs `obs` and `actions`.
    """

    reads_heads = False

    def __init__(self, critic: ActingNetwork) -> None:
        self.critic = critic

    def load(self, flat: Floats) -> None:
        """Takes new parameters [A]."""
        self.critic.load(flat)

    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Returns nothing: all is added in the end."""
        return {}

    def record(self, batch: SampleBatch, where: Any, heads: Heads, acts: NDArray[np.bool_] | None) -> None:
        """Records nothing."""

    def postprocess(self, batch: SampleBatch, policy: BehaviorPolicy) -> None:
        """Adds both."""
        taken = batch["actions"]
        length, slots = taken.shape[:2]
        cells = (length + 1) * slots
        rows = policy.filtered(map_tree(lambda leaf: leaf.reshape(cells, *leaf.shape[2:]), viewed(batch)["obs"]))
        heads, _ = policy.network({"obs": rows})
        own = policy.action_space.mode(heads["outputs"])
        batch["values"] = self._values(rows, own).reshape(length + 1, slots)
        began = map_tree(lambda leaf: leaf[: length * slots], rows)
        batch["taken_values"] = self._values(began, taken.reshape(length * slots, -1)).reshape(length, slots)

    def _values(self, observations: Any, actions: Any) -> Floats:
        heads, _ = self.critic({"obs": observations, "actions": actions})
        return heads["outputs"]
