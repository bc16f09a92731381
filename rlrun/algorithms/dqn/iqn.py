"""IQN: DQN with an implicit quantile network."""

from __future__ import annotations

from typing import ClassVar

from rlrun.algorithms.dqn.dqn import DQN, DQNConfig
from rlrun.engine.settings.config import defaults


@defaults(distribution="iqn", num_atoms=8, double=False)
class IQNConfig(DQNConfig):
    """Settings of IQN (Dabney et al., arXiv:1806.06923): DQN with 8 quantiles at random fractions per transition."""


class IQN(DQN):
    """Implicit quantile networks: DQN of the return's quantiles at random fractions (arXiv:1806.06923)."""

    Config: ClassVar[type[IQNConfig]] = IQNConfig
    config: IQNConfig
