"""Names of the built-in exploration strategies in specs."""

from __future__ import annotations

from typing import Literal

NoiseKind = Literal["gaussian", "ornstein_uhlenbeck"]

QExploration = Literal["epsilon_greedy", "soft_q", "parameter_noise"]
