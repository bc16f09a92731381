"""Settings of SlateQ: its Q network, its choice model of the user, and exploration."""

from __future__ import annotations

from rlrun.algorithms.settings.off_policy import OffPolicyConfig
from rlrun.algorithms.td_loss import HuberSettings
from rlrun.engine.nn.model_config import WHO_EMBEDS_ACTIONS, QModelConfig
from rlrun.engine.settings.config import Schedule, defaults, fixed


@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("networks of items are built by rlrun", module=None)
@fixed("the click that is learned from is the last one alone", views={})
class SlateModelConfig(QModelConfig):
    """Settings of SlateQ's Q network, whose inputs are an item and the rest of the observation."""


@defaults(
    lr=2.5e-4, minibatch_size=32, learning_starts=20_000, target_update_interval=800, replay={"sampling": "prioritized"}
)
@fixed("a slate's click is in the observation after it", n_step=1)
@fixed("features of items enter as they are", normalize_observations=False)
class SlateQConfig(HuberSettings, OffPolicyConfig):
    """Settings of SlateQ (Ie et al., arXiv:1905.12767); the defaults follow RLlib."""

    model: SlateModelConfig = SlateModelConfig(hiddens=(256, 32), activation="relu", orthogonal_init=False)
    """Network architecture."""
    choice_lr: Schedule = 1e-3
    """Learning rate of the choice model."""
    epsilon: Schedule = ((0, 1.0), (250_000, 0.01))
    """Probability of a uniformly random slate."""
