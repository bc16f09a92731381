"""Decentralized networks for action selection in a team, one per member (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.acting import ActingNetwork, Floats, Heads


class MemberNetworks:
    """Separate networks with which K team members act; agent b, counted over all teams, uses network b modulo K.

    Args:
        networks: Feed-forward networks of the members.

    Attributes:
        state_size: Size of the recurrent state: 0.
    """

    state_size = 0

    def __init__(self, networks: Sequence[ActingNetwork]) -> None:
        self.networks = tuple(networks)

    def load(self, flat: Floats) -> None:
        """Loads the flat parameter vector, which may be a read-only array in Ray's object store."""
        for network in self.networks:
            network.load(flat)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Forward pass of each member's network on its own slots; returns the head `outputs` [W * K, ...].

        Raises:
            UsageError: If the number of slots is not a multiple of K.
        """
        members = len(self.networks)
        slots = len(leaves(inputs["obs"])[0])
        if slots % members:
            raise UsageError(
                f"this policy acts for whole teams of {members}, because each member has its own actor, but it "
                "received "
                f"{slots} observation{'s' if slots != 1 else ''}; evaluate it in its world, or set share_actor: true"
            )
        parts = []
        for member, network in enumerate(self.networks):
            own = map_tree(lambda leaf, member=member: leaf[member::members], inputs["obs"])
            parts.append(network({"obs": own})[0]["outputs"])
        return {"outputs": np.stack(parts, 1).reshape(slots, -1)}, None
