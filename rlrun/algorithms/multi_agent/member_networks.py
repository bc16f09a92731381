"""Acting networks of a team's members, one per member (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.tree import leaves, map_tree
from rlrun.errors import UsageError
from rlrun.nn.acting import ActingNetwork, Floats, Heads


class MemberNetworks:
    """Acting networks of K members: slot b of W worlds' slots [W * K] uses network b modulo K.

    Args:
        networks: The members' networks, without recurrent state.

    Attributes:
        state_size: Numbers of recurrent state: none.
    """

    state_size = 0

    def __init__(self, networks: Sequence[ActingNetwork]) -> None:
        self.networks = tuple(networks)

    def load(self, flat: Floats) -> None:
        """Takes new parameters [A], read-only; they may be in the object store."""
        for network in self.networks:
            network.load(flat)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Takes one step, as `NumpyNetwork` does.

        Raises:
            UsageError: If slots are not those of whole teams.
        """
        members = len(self.networks)
        slots = len(leaves(inputs["obs"])[0])
        if slots % members:
            raise UsageError(
                f"each of the {members} members of the team has an actor of its own, and {slots} observations are "
                "not those of whole teams: evaluate the policy in its world, or set share_actor: true"
            )
        parts = []
        for member, network in enumerate(self.networks):
            own = map_tree(lambda leaf, member=member: leaf[member::members], inputs["obs"])
            parts.append(network({"obs": own})[0]["outputs"])
        return {"outputs": np.stack(parts, 1).reshape(slots, -1)}, None
