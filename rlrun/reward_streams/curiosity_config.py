"""Settings of curiosity: intrinsic rewards in addition to the env's rewards."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from rlrun.config import ConfigModel, Fraction, NonNegativeFloat, PositiveInt

CuriosityKind = Literal["rnd", "icm", "re3"]


class CuriosityConfig(ConfigModel):
    """Settings of intrinsic rewards, whose returns continue across episode ends and have their own value head."""

    kind: CuriosityKind = "rnd"
    """What is new: an observation of which a network does not know yet what a random one makes (`rnd`); a step whose
    outcome a model does not foresee (`icm`); an observation far from the others of its fragment (`re3`)."""
    intrinsic_coeff: NonNegativeFloat = 1.0
    """Weight of the advantages of intrinsic rewards."""
    extrinsic_coeff: NonNegativeFloat = 2.0
    """Weight of the advantages of the env's own rewards."""
    gamma: Fraction = 0.99
    """Discount of future intrinsic rewards, below 1: their returns end with no episode."""
    gae_lambda: Fraction = 0.95
    """Weight between one-step (0) and Monte Carlo (1) advantages of intrinsic rewards."""
    hiddens: tuple[PositiveInt, ...] = (64,)
    """Widths of the dense layers of each of its networks."""
    features: PositiveInt = 32
    """Numbers that they make of an observation."""
    learn_every: PositiveInt = 8
    """Of `rnd` and `icm`: their networks learn from one of so many minibatches."""
    forward_weight: Fraction = 0.2
    """Of `icm`: the weight of the forward model's loss beside the inverse model's (eq. 7's beta)."""
    num_neighbours: PositiveInt = 3
    """Of `re3`: the distance to which of the nearest observations counts."""

    @field_validator("gamma")
    @classmethod
    def _returns_are_bounded(cls, gamma: float) -> float:
        if gamma == 1:
            raise ValueError("it must be below 1: intrinsic returns never end, and without a discount grow for ever")
        return gamma
