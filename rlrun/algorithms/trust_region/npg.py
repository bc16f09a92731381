"""NPG: natural policy gradient."""

from __future__ import annotations

from typing import ClassVar

from rlrun.algorithms.trust_region.settings import TRPOConfig
from rlrun.algorithms.trust_region.trpo import TRPO
from rlrun.engine.settings.config import defaults, fixed


@defaults(max_kl=0.05)
@fixed("the whole step is taken; trpo searches along it", line_search_steps=0, shrink=0.8)
class NPGConfig(TRPOConfig):
    """Settings of NPG: those of TRPO without the line search, so that `max_kl` bounds the step only to second order."""


class NPG(TRPO):
    """Natural policy gradient: steps of constant KL divergence (Kakade 2001; Rajeswaran et al., arXiv:1703.02660)."""

    Config: ClassVar[type[NPGConfig]] = NPGConfig
