"""Opponent pool of a league: snapshots (past selves) of the trained policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.league.saved_weights import loaded_weights, saved_weights
from rlrun.engine.policy.weights import Member, Weights


class Pool:
    """Opponent pool with a limited number of past selves per policy; the oldest is evicted, but never the first.

    Args:
        limit: Maximum number of past selves of a policy.

    Attributes:
        members: The past selves, those of each policy from oldest to newest.

    Examples:
        >>> import numpy as np
        >>> pool = Pool(limit=3)
        >>> for version in range(5):
        ...     added = pool.add("main", Weights(version, np.zeros(1, np.float32)))
        >>> [member.name for member in pool.members], pool.newest("main").name
        (['main:0', 'main:3', 'main:4'], 'main:4')
    """

    def __init__(self, limit: int) -> None:
        self.members: list[Member] = []
        self._limit = limit
        self._added: dict[str, int] = {}

    def add(self, policy: str, weights: Weights) -> Member:
        """Adds a snapshot of a policy's weights as a new member."""
        number = self._added.get(policy, 0)
        self._added[policy] = number + 1
        member = Member(f"{policy}:{number}", policy, weights)
        own = [other for other in self.members if other.policy == policy]
        if len(own) == self._limit:
            self.members.remove(own[min(1, len(own) - 1)])
        self.members.append(member)
        return member

    def of(self, policies: Sequence[str]) -> list[Member]:
        """Returns the past selves of the given policies."""
        return [member for member in self.members if member.policy in policies]

    def newest(self, policy: str) -> Member:
        """Returns a policy's newest past self; at least one must exist."""
        return self.of([policy])[-1]

    def state(self) -> dict[str, Any]:
        """Returns the pool's members with their weights, for checkpoints."""
        return {
            "added": dict(self._added),
            "members": [
                {"name": own.name, "policy": own.policy, "weights": saved_weights(own.weights)}
                for own in self.members
                if own.weights is not None
            ],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the pool's members from `state()`."""
        self._added = {str(policy): as_count(number) for policy, number in state["added"].items()}
        self.members = [
            Member(str(own["name"]), str(own["policy"]), loaded_weights(own["weights"])) for own in state["members"]
        ]
