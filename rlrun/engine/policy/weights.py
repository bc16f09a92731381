"""Weights of a policy, as the learner sends them to rollout workers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.moments import Moments
from rlrun.engine.settings.config import Schedule


@dataclass(frozen=True)
class LearningWeights:
    """Complete parameters and optimizer state of a learner, sent to rollout workers that run their own learners.

    Attributes:
        flat: All parameters in one flat vector.
        optimizer: Optimizer state by name, which replaces the receiver's; empty to keep the receiver's.
        target: The target network's parameters, in a vector like `flat`; None to keep the receiver's.
    """

    flat: NDArray[np.float32]
    optimizer: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    target: NDArray[np.float32] | None = None


@dataclass(slots=True)  # created for each broadcast; a frozen instance would take three times as long
class Weights:
    """Snapshot of a policy's parameters, running statistics and schedules, which the learner sends to rollout workers.

    Attributes:
        version: Number of snapshots sent before this one.
        acting: Flat copy of the parameters needed for acting.
        filters: Running statistics by name: `observations/<part>` for the observation filter, `returns` for reward
            scaling.
        env_steps: Env steps taken at the time of the snapshot, for schedules on the rollout workers.
        schedules: Scheduled settings by name, as functions of the env steps.
        learning: Full learner state for learners on the rollout workers; None if there are none.
        lineup: Frozen opponents that act in place of this policy; None if the policy acts itself.
    """

    version: int
    acting: NDArray[np.float32]
    filters: dict[str, Moments] = field(default_factory=dict)
    env_steps: int = 0
    schedules: dict[str, Schedule] = field(default_factory=dict)
    learning: LearningWeights | None = None
    lineup: Lineup | None = None


@dataclass(frozen=True)
class Member:
    """Frozen opponent of a league: a snapshot of a policy, or a scripted opponent.

    Attributes:
        name: Unique name of the snapshot; `module:Name` for a script.
        policy: Name of the policy that the snapshot was taken from; "" for a script.
        weights: Weights of the snapshot; None for a script.
    """

    name: str
    policy: str = ""
    weights: Weights | None = None


@dataclass(frozen=True)
class Lineup:
    """Frozen opponents of a league, any of which may act in place of a policy, and the probability of each.

    Attributes:
        members: The opponents.
        probabilities: Sampling probability of each opponent; the sum is 1.
    """

    members: tuple[Member, ...]
    probabilities: NDArray[np.float64]
