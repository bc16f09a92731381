"""Settings of networks that several offline algorithms share."""

from __future__ import annotations

from rlrun.engine.nn.model_config import WHO_HAS_PRIVILEGES, WHO_IS_RECURRENT, CriticsModelConfig, SoftModelConfig
from rlrun.engine.settings.config import fixed


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@fixed("actions are sampled independently at each step", use_sde=False, sde_sample_freq=None)
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class RegressedModelConfig(CriticsModelConfig):
    """Settings of the networks of a stochastic actor with state-independent standard deviations, and Q functions."""


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@fixed("actions are sampled independently at each step", use_sde=False, sde_sample_freq=None)
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class ConservativeModelConfig(SoftModelConfig):
    """Settings of the networks of a tanh-Gaussian actor and its Q functions, without a recurrent core."""
