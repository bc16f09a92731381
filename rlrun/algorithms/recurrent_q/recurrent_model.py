"""Settings of a recurrent Q network."""

from __future__ import annotations

from rlrun.engine.nn.model_config import (
    WHO_DRAWS_IN_ORDER,
    WHO_EMBEDS_ACTIONS,
    WHO_HAS_PRIVILEGES,
    CoreKind,
    ModelConfig,
)
from rlrun.engine.settings.config import fixed


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("there is no value network", shared_value=False)
@fixed("no action is drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
@fixed("recurrent networks are built by rlrun", module=None)
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class RecurrentModelConfig(ModelConfig):
    """Network architecture of a recurrent Q policy: dense layers, a recurrent core, and a head for the Q values."""

    core: CoreKind = "lstm"
    """Recurrent core after the dense layers: `lstm`; `gru`, with three gates instead of four and half the recurrent
    state; or `gtrxl`, which attends to the last steps."""
    dueling: bool = True
    """Dueling network: Q values are the state value plus advantages minus their mean (Wang et al., arXiv:1511.06581,
    eq. 9)."""
