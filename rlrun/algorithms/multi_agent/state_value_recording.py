"""Recording of log-probabilities of actions, and of denormalized, optionally centralized values (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.sample_batch import WORLD_STATE, SampleBatch
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.policy.action_spaces.action_space import Floats, StochasticActions
from rlrun.engine.policy.fragment_collector import FragmentCollector
from rlrun.engine.policy.recordings import LogProbsAndValues

LEAST_VARIANCE = 1e-2
"""Lower bound of the variance that value targets are normalized by."""


class LogProbsAndStateValues(LogProbsAndValues):
    """Adds the columns `logp` and `values` to rollouts, for MAPPO and IPPO; values are on the scale of rewards.

    Args:
        action_space: Action distributions.
        value_network: Value network, whose head `value` outputs normalized values.
        moments_at: Offset of the value moments in the loaded parameters.
        sees_state: Whether the env's global state is an input of the value network.
        sees_observation: Whether the agent's own observation is an input of the value network.
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

    @override
    def load(self, flat: Floats) -> None:
        super().load(flat)
        self._moments = flat[self.moments_at : self.moments_at + 3].copy()

    @override
    def postprocess(self, batch: SampleBatch, collector: FragmentCollector) -> None:
        """Adds log-probabilities and denormalized values to a rollout fragment, after normalizing its observations."""
        super().postprocess(batch, collector)
        batch["values"] = denormalized(batch["values"], self._moments)

    @override
    def value_inputs(self, batch: SampleBatch) -> Any:
        return value_inputs(batch, sees_state=self.sees_state, sees_observation=self.sees_observation)


def value_inputs(batch: SampleBatch, *, sees_state: bool, sees_observation: bool) -> dict[str, Any]:
    """Inputs of a value network: the multi-agent env's global state, the agent's own observation, or both.

    Args:
        batch: Batch with normalized `obs` and, if values are centralized, the global state.
        sees_state: Whether to include the global state.
        sees_observation: Whether to include the agent's own observation.
    """
    state = {"state": batch[WORLD_STATE]} if sees_state else {}
    return {**state, **({"observation": batch["obs"]} if sees_observation else {})}


def denormalized(outputs: Floats, moments: Floats) -> Floats:
    """Denormalizes values to the scale of rewards, [...]; the inverse of `value_norm.normalized`.

    Args:
        outputs: Normalized values, [...].
        moments: Running moments of the value targets, [3].
    """
    mean, square, weight = moments.astype(np.float64).tolist()
    if not weight:
        return outputs
    mean, square = mean / weight, square / weight
    deviation = np.sqrt(max(square - mean * mean, LEAST_VARIANCE))
    values: Floats = (outputs * deviation + mean).astype(np.float32)
    return values
