"""Settings of algorithms whose deterministic actors are explored with by noise around their actions."""

from __future__ import annotations

from typing import Literal

from rlrun.config import ConfigModel, Fraction, ImportPath, Schedule

NoiseKind = Literal["gaussian", "ornstein_uhlenbeck"]
"""Names of the noises that come with deterministic actors."""


class ActionNoiseSettings(ConfigModel):
    """Noise around the actions of a deterministic actor, next to the settings of `OffPolicyConfig`."""

    exploration: NoiseKind | ImportPath = "gaussian"
    """Noise that actions are explored with: new at each step (Gaussian), or an Ornstein-Uhlenbeck process;
    `package.module:Class` is an exploration of one's own."""
    exploration_noise: Schedule = 0.1
    """Standard deviation of that noise, or of the process's steps, in units of half the distance of the bounds."""
    ou_theta: Fraction = 0.15
    """Part of an Ornstein-Uhlenbeck process's noise that a step takes back."""
