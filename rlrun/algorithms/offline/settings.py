"""Network settings shared by several offline algorithms."""

from __future__ import annotations

from rlrun.engine.nn.model_config import WHO_HAS_PRIVILEGES, WHO_IS_RECURRENT, CriticsModelConfig, SoftModelConfig
from rlrun.engine.settings.config import fixed


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@fixed("actions are sampled independently at each step", use_sde=False, sde_sample_freq=None)
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class RegressedModelConfig(CriticsModelConfig):
    """Network settings for a stochastic actor with state-independent standard deviations, and for Q functions."""


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@fixed("actions are sampled independently at each step", use_sde=False, sde_sample_freq=None)
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class ConservativeModelConfig(SoftModelConfig):
    """Network settings for a tanh-Gaussian actor and its Q functions, without a recurrent core."""
