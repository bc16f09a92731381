"""Settings of action noise, the exploration of deterministic actors."""

from __future__ import annotations

from typing import Literal

from rlrun.engine.settings.config import ConfigModel, Fraction, ImportPath, Schedule

NoiseKind = Literal["gaussian", "ornstein_uhlenbeck"]
"""Names of the noises that come with deterministic actors."""


class ActionNoiseSettings(ConfigModel):
    """Mixin for configs of `OffPolicyConfig`: exploration noise added to the actions of a deterministic actor."""

    exploration: NoiseKind | ImportPath = "gaussian"
    """Exploration noise of actions in training: Gaussian, independent at each step, or an Ornstein-Uhlenbeck process;
    `package.module:Class` is a custom exploration."""
    exploration_noise: Schedule = 0.1
    """Standard deviation of the Gaussian noise, or of the Ornstein-Uhlenbeck process's increments, in units of half the
    distance between the action bounds."""
    ou_theta: Fraction = 0.15
    """Mean reversion rate theta of the Ornstein-Uhlenbeck process: the fraction of the noise that decays per step."""
