"""Policy of PPG: policy and value networks, and an auxiliary value head on the policy network (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.nn.network_spec import Head, NetworkSpec
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs

AUXILIARY_VALUE = "auxiliary_value"
"""Name of the auxiliary value head."""


@dataclass(frozen=True)
class PhasicOutputs(ActorCriticOutputs):
    """Outputs of PPG's networks for the losses.

    Attributes:
        auxiliary_values: State values of the auxiliary head on the policy network, [S, L].
    """

    auxiliary_values: Tensor


class PhasicPolicy(ActorCriticPolicy):
    """Actor-critic policy whose policy network has an additional value head, used only in auxiliary phases."""

    @override
    def spec(self) -> NetworkSpec:
        found = super().spec()
        policy, values = found.towers
        heads = (*policy.heads, Head(AUXILIARY_VALUE, f"{AUXILIARY_VALUE}_head", 1))
        return replace(found, towers=(replace(policy, heads=heads), values))

    @override
    def outputs_of(
        self, views: Mapping[str, Tensor], heads: Mapping[str, Tensor], batch: SampleBatch
    ) -> ActorCriticOutputs:
        found = super().outputs_of(views, heads, batch)
        return PhasicOutputs(found.distribution, found.values, heads[AUXILIARY_VALUE].squeeze(-1))


def action_outputs(outputs: ActorCriticOutputs, batch: SampleBatch) -> Tensor:
    """Outputs of the policy network that parametrize the action distributions, [rows, steps, num_outputs]."""
    return outputs.distribution.outputs
