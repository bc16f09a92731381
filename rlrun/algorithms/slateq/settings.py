"""Settings of SlateQ: its Q network, its choice model of the user, and exploration."""

from __future__ import annotations

from rlrun.algorithms.settings.off_policy import OffPolicyConfig
from rlrun.algorithms.td_loss import HuberSettings
from rlrun.engine.nn.model_config import WHO_EMBEDS_ACTIONS, QModelConfig
from rlrun.engine.settings.config import Schedule, defaults, fixed


@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("rlrun builds the networks itself", module=None)
@fixed("slateq learns only from the last click", views={})
class SlateModelConfig(QModelConfig):
    """Settings of SlateQ's Q network, whose inputs are an item and the rest of the observation."""


@defaults(
    lr=2.5e-4, minibatch_size=32, learning_starts=20_000, target_update_interval=800, replay={"sampling": "prioritized"}
)
@fixed("the click appears only in the next observation", n_step=1)
@fixed("item features are used unnormalized", normalize_observations=False)
class SlateQConfig(HuberSettings, OffPolicyConfig):
    """Settings of SlateQ (Ie et al., arXiv:1905.12767); the defaults follow RLlib."""

    model: SlateModelConfig = SlateModelConfig(hiddens=(256, 32), activation="relu", orthogonal_init=False)
    """Network architecture."""
    choice_lr: Schedule = 1e-3
    """Learning rate of the choice model."""
    epsilon: Schedule = ((0, 1.0), (250_000, 0.01))
    """Probability of a uniformly random slate."""
