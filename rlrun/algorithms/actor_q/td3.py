"""TD3: DDPG with clipped double Q-learning, delayed policy updates and target policy smoothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from rlrun.algorithms.actor_q.ddpg import DDPG, DDPGConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.settings.config import NonNegativeFloat, defaults

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.actor_q.networks import DeterministicNetworks


@defaults(num_critics=2, policy_delay=2, target_update_interval=2)
class TD3Config(DDPGConfig):
    """Settings of TD3 (Fujimoto et al., arXiv:1802.09477)."""

    draws_noise: ClassVar[bool] = True
    target_noise: NonNegativeFloat = 0.2
    """Standard deviation of the target policy smoothing noise, in units of half the distance between the action
    bounds."""
    target_noise_clip: NonNegativeFloat = 0.5
    """Clip bound of the target policy smoothing noise."""


class TD3(DDPG):
    """DDPG with clipped double Q-learning, delayed policy updates and target policy smoothing (arXiv:1802.09477)."""

    Config: ClassVar[type[TD3Config]] = TD3Config
    config: TD3Config

    @override
    def next_actions(self, outputs: DeterministicNetworks, batch: SampleBatch) -> Tensor:
        """Target policy smoothing: actions [S, L, D] with clipped noise (arXiv:1802.09477, eq. 14)."""
        bound = self.config.target_noise_clip
        noise = (batch["next_noise"] * self.config.target_noise).clamp(-bound, bound)
        smoothed: Tensor = super().next_actions(outputs, batch) + noise
        return smoothed.clamp(-1.0, 1.0)
