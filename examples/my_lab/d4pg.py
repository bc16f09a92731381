"""An actor-critic with custom critics: the categorical critics of D4PG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from typing_extensions import override

from rlrun.plugin import (
    DDPG,
    DDPGConfig,
    Loss,
    PositiveInt,
    SampleBatch,
    cross_entropy,
    masked_mean,
    projected,
    row_priorities,
    td_statistics,
)

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.plugin import (
        CriticsModelConfig,
        DeterministicNetworks,
        NetworkSpec,
        ObservationTree,
        Policy,
        Spaces,
    )


class D4PGConfig(DDPGConfig):
    """Settings of D4PG (Barth-Maron et al., arXiv:1804.08617)."""

    num_atoms: PositiveInt = 51
    """Possible returns that each critic gives probabilities of, evenly spaced."""
    v_min: float = -1500.0
    """Smallest return that a critic knows."""
    v_max: float = 0.0
    """Largest return that a critic knows."""


class D4PG(DDPG):
    """DDPG whose critics estimate a distribution over returns (arXiv:1804.08617)."""

    Config = D4PGConfig
    config: D4PGConfig

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """DDPG's policy, whose critics have an output for each possible return."""
        from rlrun.plugin import DeterministicPolicy

        return DeterministicPolicy(spaces, self.config, seed, critic=self.critic)

    def critic(
        self,
        leaves: ObservationTree,
        model: CriticsModelConfig,
        num_values: int,
        action_size: int,
    ) -> NetworkSpec:
        """Spec of each critic."""
        from rlrun.plugin import critic_spec

        return critic_spec(
            leaves, model, num_values * self.config.num_atoms, action_size
        )

    def returns(self, logits: Tensor) -> Tensor:
        """The possible returns [K], next to logits [..., K]."""
        number, config = logits.shape[-1], self.config
        ranks = logits.new_ones(number).cumsum(-1) - 1
        return config.v_min + ranks * ((config.v_max - config.v_min) / (number - 1))

    @override
    def critics_loss(
        self,
        outputs: DeterministicNetworks,
        batch: SampleBatch,
        scheduled: Mapping[str, Tensor],
    ) -> Loss:
        """Cross-entropy to the target critic's projected returns (eq. 4), [S, L]."""
        valid = batch["valid"].float()
        # Logits are [C, S, L, K].
        logits = outputs.values(outputs.present(batch), batch["actions"])
        possible = self.returns(logits)
        following = outputs.following(batch)
        next_actions = self.next_actions(outputs, batch)
        ahead = outputs.target_values(following, next_actions)[0].softmax(-1)
        rewards, discounts = batch["rewards"], batch["discounts"]
        moved = rewards.unsqueeze(-1) + discounts.unsqueeze(-1) * possible
        targets = projected(ahead, moved, possible).detach()
        losses = cross_entropy(logits, targets)
        loss = masked_mean(losses.sum(0) * batch["weights"], valid)
        values = (logits.detach().softmax(-1) * possible).sum(-1)
        distance = (values - (targets * possible).sum(-1)).abs().mean(0)
        return Loss(
            loss,
            td_statistics(loss, values[0], distance, valid),
            priorities=row_priorities(distance, valid),
        )

    @override
    def actor_loss(
        self,
        outputs: DeterministicNetworks,
        batch: SampleBatch,
        scheduled: Mapping[str, Tensor],
    ) -> Loss:
        """DDPG's actor loss, with the mean return as the value (eq. 5)."""
        observations = outputs.present(batch)
        logits = outputs.actor_values(
            self.config.actor_objective, observations, outputs.actions(observations)
        )
        values = (logits.softmax(-1) * self.returns(logits)).sum(-1)
        loss = -masked_mean(values, batch["valid"].float())
        return Loss(loss, {"loss": loss})
