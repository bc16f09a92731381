"""Settings of curiosity (intrinsic rewards) and of constraints on costs."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from rlrun.engine.settings.config import (
    ConfigModel,
    Fraction,
    NonEmptyText,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
)

CuriosityKind = Literal["rnd", "icm", "re3"]


class CuriosityConfig(ConfigModel):
    """Settings of intrinsic rewards, whose returns continue across episode ends and have a separate value head."""

    kind: CuriosityKind = "rnd"
    """Novelty: `rnd`, error in predicting a random network's features; `icm`, error of a learned forward model; `re3`,
    distance between a fragment's observations in random features."""
    intrinsic_coeff: NonNegativeFloat = 1.0
    """Weight of the advantages of intrinsic rewards."""
    extrinsic_coeff: NonNegativeFloat = 2.0
    """Weight of the advantages of the env's own rewards."""
    gamma: Fraction = 0.99
    """Discount factor of intrinsic rewards. It must be below 1, because their returns continue across episodes."""
    gae_lambda: Fraction = 0.95
    """Weight between one-step (0) and Monte Carlo (1) advantages of intrinsic rewards."""
    hiddens: tuple[PositiveInt, ...] = (64,)
    """Widths of the dense layers of each novelty network."""
    features: PositiveInt = 32
    """Number of output features of each novelty network."""
    learn_every: PositiveInt = 8
    """For `rnd` and `icm`: the networks train on one of every `learn_every` minibatches."""
    forward_weight: Fraction = 0.2
    """For `icm`: weight beta of the forward model's loss relative to the inverse model's (eq. 7)."""
    num_neighbours: PositiveInt = 3
    """For `re3`: number k; novelty grows with the distance to the k-th nearest neighbor."""

    @field_validator("gamma")
    @classmethod
    def _returns_are_bounded(cls, gamma: float) -> float:
        if gamma == 1:
            raise ValueError(
                "must be below 1, because intrinsic returns continue across episodes and would grow without bound"
            )
        return gamma


class ConstraintConfig(ConfigModel):
    """Settings of a constraint on the mean undiscounted cost per episode."""

    column: NonEmptyText
    """Name of the cost in each step's info, which must be listed in `env.columns`."""
    limit: NonNegativeFloat
    """Upper bound of the mean undiscounted cost per episode."""
    gamma: Fraction = 0.99
    """Discount factor of the costs."""
    gae_lambda: Fraction = 0.95
    """Weight between one-step (0) and Monte Carlo (1) advantages of costs."""
    multiplier_lr: PositiveFloat = 0.05
    """Learning rate of the Lagrange multiplier: change per update and unit of excess cost."""
