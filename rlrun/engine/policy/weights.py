"""Weights of a policy, as broadcast from the learner to rollout workers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.moments import Moments
from rlrun.engine.settings.config import Schedule


@dataclass(frozen=True)
class LearningWeights:
    """Full learner state in a broadcast, for learners that run on the rollout workers.

    Attributes:
        flat: All parameters, [P].
        optimizer: Optimizer state by name, which replaces the receiver's; empty to keep the receiver's.
        target: The target network's parameters, [P]; None to keep the receiver's.
    """

    flat: NDArray[np.float32]
    optimizer: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    target: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Weights:
    """Snapshot of a policy's parameters, running statistics and schedules.

    Attributes:
        version: Number of earlier broadcasts.
        acting: Flat copy of the parameters needed for acting, [A]: the slice `Policy.acting_range`.
        filters: Running statistics by name: `observations/<part>` for the observation filter, `returns` for reward
            scaling.
        env_steps: Env steps taken at the time of the snapshot, for schedules on the rollout workers.
        schedules: Scheduled settings by name, as functions of the env steps.
        learning: Full learner state for learners on the rollout workers; None if there are none.
        lineup: Opponents, for the weights of a league seat; None for the weights of a policy.
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
        policy: Name of the policy that the snapshot was taken of; "" for a script.
        weights: Weights of the snapshot; None for a script.
    """

    name: str
    policy: str = ""
    weights: Weights | None = None


@dataclass(frozen=True)
class Lineup:
    """Distribution over the opponents of a league seat.

    Attributes:
        members: The opponents.
        probabilities: Sampling probability of each opponent, [M]; the sum is 1.
    """

    members: tuple[Member, ...]
    probabilities: NDArray[np.float64]
