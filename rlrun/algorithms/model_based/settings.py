"""Settings and metrics shared by model-based algorithms: dynamics ensemble, its training, and replay buffer."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import model_validator

from rlrun.algorithms.loss_metrics import GRAD_NORM
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.settings.config import ConfigModel, NonEmptyText, PositiveInt, fixed
from rlrun.engine.settings.metric import Metric

OBJECTIVE = "dynamics"
"""Name of the objective that the members of an ensemble minimize."""

FEWEST_TRANSITIONS = 20
"""Minimum number of transitions for a fit, so that some are held out."""


@fixed("collected and imagined transitions are sampled uniformly", sampling="uniform", priority_alpha=0.6)
@fixed("collected and imagined transitions are sampled uniformly", priority_beta=0.4, priority_epsilon=1e-6)
@fixed("a learned model predicts vectors", frame_stack=None)
@fixed("imagined transitions keep the goal of their start state", hindsight=None)
@fixed("imagined transitions span single steps", length=20, burn_in=20, stride=10)
class TransitionReplayConfig(SequenceReplayConfig):
    """Settings of the replay buffer of collected transitions."""


DYNAMICS_METRICS = (
    Metric(
        "dynamics/loss", "", "Negative log-likelihood of all networks of the model, plus regularization", mode="min"
    ),
    Metric("dynamics/mse", "", "Mean squared error of all networks of the model on standardized targets", mode="min"),
    GRAD_NORM.below("dynamics/"),
)
"""Metrics of the dynamics ensemble's loss."""


class DynamicsConfig(ConfigModel):
    """Settings of the ensemble of dynamics models and its training."""

    num_members: PositiveInt = 7
    """Number of networks (members) in the ensemble."""
    num_elites: PositiveInt = 5
    """Number of elites: members with the least error on held-out transitions, which are used for predictions."""
    hiddens: tuple[PositiveInt, ...] = (200, 200, 200, 200)
    """Widths of each network's hidden layers."""
    minibatch_size: PositiveInt = 256
    """Transitions per minibatch of each network."""
    holdout_ratio: Annotated[float, Ge(0.05), Le(0.5)] = 0.2
    """Fraction of the transitions that is held out from training."""
    patience: PositiveInt = 5
    """Early stopping: number of epochs without improvement after which a fit ends. An improvement is an error on
    held-out transitions at least 1% below the best one of that network."""
    max_epochs: PositiveInt = 200
    """Maximum number of epochs of a fit."""
    fit_interval: PositiveInt = 250
    """Env steps between two fits; each fit starts from the parameters of the preceding one."""
    terminated: NonEmptyText | None = None
    """Termination rule: a function in `rlrun.algorithms.model_based.rules`, such as `never`, or a custom
    `package.module:function`. It maps observations [N, D], actions [N, ...] and next observations [N, D] of the env to
    termination flags [N]. null for terminations predicted by the networks."""
    reward: NonEmptyText | None = None
    """Reward function with the arguments of the termination rule, which returns rewards [N]. null for rewards predicted
    by the networks."""

    @model_validator(mode="after")
    def _elites_are_members(self) -> DynamicsConfig:
        if self.num_elites > self.num_members:
            raise ValueError(f"num_elites ({self.num_elites}) must not exceed num_members ({self.num_members})")
        return self
