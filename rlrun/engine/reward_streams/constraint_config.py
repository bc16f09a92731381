"""Settings of a cost constraint, for a constrained MDP with a Lagrange multiplier."""

from __future__ import annotations

from rlrun.engine.settings.config import ConfigModel, Fraction, NonEmptyText, NonNegativeFloat, PositiveFloat


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
    """Learning rate of the Lagrange multiplier: change per update and per unit of cost above or below the limit."""
