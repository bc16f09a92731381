"""Settings and metrics that model-based algorithms share."""

from __future__ import annotations

from rlrun.algorithms.loss_metrics import GRAD_NORM
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.settings.config import fixed
from rlrun.engine.settings.metric import Metric


@fixed("collected and imagined transitions are drawn uniformly", sampling="uniform", priority_alpha=0.6)
@fixed("collected and imagined transitions are drawn uniformly", priority_beta=0.4, priority_epsilon=1e-6)
@fixed("a learned model predicts vectors", frame_stack=None)
@fixed("imagined transitions have the goals of the states that they begin in", hindsight=None)
@fixed("imagined transitions are of single steps", length=20, burn_in=20, stride=10)
class TransitionReplayConfig(SequenceReplayConfig):
    """Settings of the replay buffer of collected transitions."""


DYNAMICS_METRICS = (
    Metric(
        "dynamics/loss", "", "Negative log-likelihood of all networks of the model, and its regularisation", mode="min"
    ),
    Metric("dynamics/mse", "", "Their mean squared error, targets in units of their spread", mode="min"),
    GRAD_NORM.below("dynamics/"),
)
"""Metrics of the dynamics ensemble's loss."""
