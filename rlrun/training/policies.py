"""Which policies a training has: one where an env has one agent, any number in a world of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from rlrun.algorithm import Algorithm
from rlrun.algorithm_config import SamplingSettings
from rlrun.errors import UsageError, did_you_mean
from rlrun.rollout.rollout import DEFAULT_POLICY


@dataclass(frozen=True)
class Policies:
    """The policies of a training: how each one learns, and which agents of a world it acts for.

    Attributes:
        algorithms: The algorithms with their settings, by policy. How experience is collected is said by `sampling`
            alone, whatever their settings say of it.
        sampling: How experience is collected, for all of them.
        slots: Most agents that a policy acts for in each world at a time; by default as many as the world's possible
            agents that are its.
        mapping: Policies by pattern of agent ids, or `module:function`; see `rlrun.worlds.mapping`. None where one
            policy is everybody's.
        train: The policies that learn, by default all; the others act with the weights that they begin with.
    """

    algorithms: Mapping[str, Algorithm[Any]]
    sampling: SamplingSettings
    slots: Mapping[str, int] = field(default_factory=dict)
    mapping: Mapping[str, str] | str | None = None
    train: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Checks that what is said of policies is said of some that there are.

        Raises:
            UsageError: It is not.
        """
        if not self.algorithms:
            raise UsageError("a training needs at least one policy")
        for name in (*self.train, *self.slots):
            if name not in self.algorithms:
                hint = did_you_mean(name, self.algorithms) or f"; there are {', '.join(self.algorithms)}"
                raise UsageError(f"there is no policy {name!r}{hint}")

    @classmethod
    def alone(cls, algorithm: Algorithm[Any]) -> Self:
        """Returns the one policy that an algorithm learns; all settings are the algorithm's own."""
        return cls({DEFAULT_POLICY: algorithm}, algorithm.config)

    @property
    def trained(self) -> tuple[str, ...]:
        """The policies that learn."""
        return self.train or tuple(self.algorithms)

    @property
    def first(self) -> Algorithm[Any]:
        """The first policy's algorithm: the only one where an env has one agent."""
        return next(iter(self.algorithms.values()))
