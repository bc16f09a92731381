"""What a broadcast carries."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlrun.config import Schedule
from rlrun.functional.moments import Moments


@dataclass(frozen=True)
class LearningWeights:
    """What goes along for who learns on the acting side.

    Attributes:
        flat: All parameters, [P].
        optimizer: The optimizer's tensors by name, if who learns is to go on from them instead of its own.
        target: The target network's parameters, [P]; None if who learns is to keep those it has.
    """

    flat: NDArray[np.float32]
    optimizer: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    target: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Weights:
    """A policy's parameters and statistics at one moment of learning.

    Attributes:
        version: How many broadcasts came before it.
        acting: The parameters that act, [A]: the slice of the flat vector that `Policy.acting_range` names.
        filters: Running statistics by name: `observations/<part>` for the observation filter, `returns` for reward
            scaling.
        env_steps: Env steps taken when it was made, for schedules on the acting side.
        schedules: Settings that change with the env steps, by name.
        learning: All parameters, for who learns on the acting side; None where nobody does.
        lineup: Who may sit in a seat of a league, whose weights these are then; None of a policy.
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
    """A frozen opponent: a policy with the weights of one moment, or a script.

    Attributes:
        name: What it is called, one name for one set of weights; of a script `module:Name`.
        policy: The policy whose weights they are; "" of a script.
        weights: The weights; None of a script.
    """

    name: str
    policy: str = ""
    weights: Weights | None = None


@dataclass(frozen=True)
class Lineup:
    """Who may sit in a seat, and how often.

    Attributes:
        members: The opponents.
        probabilities: Of each, [M]; they add up to 1.
    """

    members: tuple[Member, ...]
    probabilities: NDArray[np.float64]
