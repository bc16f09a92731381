"""Checks over all slots of a vector world at once: actions before a step, rewards and action masks after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np

from rlrun.engine.data.action_masks import ACTION_MASK, has_action_mask, masked_choices
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.spaces import action_mismatch
from rlrun.engine.envs.vector_env import EnvError, Tree, first_not_finite
from rlrun.engine.worlds.policy_slots import PolicySlots
from rlrun.engine.worlds.running_world import RunningWorld


class SlotChecks:
    """Checks on a policy's arrays as a whole, which cost less than separate checks of each agent's values.

    Args:
        world_id: Name of the worlds in messages.
        worlds: The running worlds, which name themselves in messages.
        policies: Slots by policy.
    """

    def __init__(self, world_id: str, worlds: Sequence[RunningWorld], policies: Mapping[str, PolicySlots]) -> None:
        self._id = world_id
        self._worlds = worlds
        self._policies = policies
        self._choices = {
            policy: np.cumsum([0, *masked_choices(slots.spaces.action)[:-1]])
            for policy, slots in policies.items()
            if has_action_mask(slots.spaces.observation)
        }

    def actions(self, actions: Mapping[str, Tree]) -> None:
        """Validates the actions of the slots that act, leaves [B, ...] by policy.

        Raises:
            EnvError: They are not in the policy's action space.
        """
        for policy, slots in self._policies.items():
            acts = slots.rows.acts
            acting = map_tree(lambda leaf, acts=acts: np.asarray(leaf)[acts], actions[policy])
            if reason := action_mismatch(slots.spaces.action, acting, int(acts.sum())):
                raise EnvError(f"env {self._id} cannot be given these actions of policy {policy}: {reason}")

    def rewards(self) -> None:
        """Validates that rewards are finite.

        Raises:
            EnvError: One is not.
        """
        for slots in self._policies.values():
            if (bad := first_not_finite(slots.rows.rewards)) is not None:
                (slot,) = bad
                self._refuse(slots, slot, f"the reward must be a finite number, not {slots.rows.rewards[slot]}")

    def masks(self) -> None:
        """Validates action masks: acting agents need a legal action; masks of final observations may be all False.

        Raises:
            EnvError: A mask allows no action.
        """
        for policy, firsts in self._choices.items():
            slots = self._policies[policy]
            allowed = np.logical_or.reduceat(slots.rows.observations[ACTION_MASK], firsts, axis=1).all(1)
            if not (allowed | ~slots.rows.acts).all():
                slot = int(np.flatnonzero(slots.rows.acts & ~allowed)[0])
                self._refuse(
                    slots,
                    slot,
                    f"its {ACTION_MASK} allows no action. Have it allow at least one action of each choice, or end "
                    "the agent's episode there",
                )

    def _refuse(self, slots: PolicySlots, slot: int, reason: str) -> NoReturn:
        self._worlds[slot // slots.per_world].refuse(slots.owners[slot], reason)
