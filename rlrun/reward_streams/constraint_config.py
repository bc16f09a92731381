"""Settings of a cost constraint, for a constrained MDP with a Lagrange multiplier."""

from __future__ import annotations

from rlrun.config import ConfigModel, Fraction, NonEmptyText, NonNegativeFloat, PositiveFloat


class ConstraintConfig(ConfigModel):
    """Settings of a constraint on the mean undiscounted cost per episode."""

    column: NonEmptyText
    """The cost of each step: a number in its info, which `env.columns` names."""
    limit: NonNegativeFloat
    """What an episode may cost on average, not discounted."""
    gamma: Fraction = 0.99
    """Discount of future costs."""
    gae_lambda: Fraction = 0.95
    """Weight between one-step (0) and Monte Carlo (1) advantages of costs."""
    multiplier_lr: PositiveFloat = 0.05
    """How far the multiplier moves at each update per unit of cost above or below the limit."""
