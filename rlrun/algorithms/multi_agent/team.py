"""Fragments of teams: all members' experience of a moment in one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.data.packing import zeroed
from rlrun.data.sample_batch import ACTS, WORLD_STATE, SampleBatch
from rlrun.data.tree import map_tree
from rlrun.errors import CheckpointError
from rlrun.flow.flow import StatefulOperator

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee

TeamReward = Literal["sum", "once"]
"""A team's reward: the sum of its members' rewards, or the shared reward counted once."""

GIVEN = "given"
"""Part of a team's observation: each member's reward of the step before it, [T + 1, W, K]."""


class Team(StatefulOperator):
    """Joins the members of each team: a fragment [T, W * K] becomes one of teams [T, W].

    It works on pairs of worker and fragment.

    All K slots of a world are one team, and a row is the same moment for all of them. An observation is a tree of
    `agents` [T + 1, W, K, ...], of who is `present` [T + 1, W, K] and, where it was recorded, of the world's `state` [T
    + 1, W, ...]; actions are [T, W, K]. Absent members have zeros. Recurrent members have states of their own: `state`
    [T, W, K * state_size] and `episode_starts` [T, W, K].

    A member is present while it acts, and in the row after it if its episode was truncated: its value is then
    bootstrapped, while a terminated member adds nothing. The team's episode lasts as long as one member acts; it is
    truncated if one of the members that ended last was, else terminated.

    Args:
        trainee: The training of the team.
        reward: The team's reward; `once` is the mean reward of the members that acted.
        shows_given: Whether observations hold each member's reward of the step before them, as `GIVEN`.
    """

    def __init__(self, trainee: Trainee, reward: TeamReward, *, shows_given: bool = False) -> None:
        self.trainee = trainee
        self.reward = reward
        self.shows_given = shows_given
        # By worker, the members whose episode was truncated by the last step of its last fragment, [W, K].
        self._cut_off: dict[int | None, NDArray[np.bool_]] = {}
        # By worker, its members' rewards of that step, [W, K].
        self._given: dict[int | None, NDArray[np.float32]] = {}

    @override
    def settings(self) -> dict[str, Any]:
        return {"reward": self.reward}

    @override
    def __call__(self, item: tuple[int | None, SampleBatch]) -> tuple[int | None, SampleBatch]:
        worker, fragment = item
        world = self.trainee.world
        assert world is not None  # the policy was built in a world

        def by_team(leaf: NDArray[Any]) -> NDArray[Any]:
            return leaf.reshape(len(leaf), -1, world.slots, *leaf.shape[2:])

        valid, present = by_team(fragment["valid"]), by_team(fragment[ACTS]).copy()
        acts_next = present[1:].any(-1)
        cut_off = valid & by_team(fragment["truncateds"] & ~fragment["terminateds"])
        present[1:] |= cut_off
        if worker in self._cut_off:
            present[0] |= _of_shape(self._cut_off[worker], cut_off[-1])
        self._cut_off[worker] = cut_off[-1]
        steps = valid.any(-1)
        ends, was_cut_off = steps & ~acts_next, cut_off.any(-1)
        each = np.where(valid, by_team(fragment["rewards"]), 0).astype(np.float32)
        rewards = each.sum(-1)
        if self.reward == "once":
            rewards = rewards / valid.sum(-1).clip(1)
        agents = map_tree(lambda leaf: _zeroed(by_team(leaf), present), fragment["obs"])
        obs = {"agents": agents, "present": present}
        if self.shows_given:
            before = _of_shape(self._given.get(worker, np.zeros_like(each[0])), each[0])
            obs[GIVEN] = np.concatenate([before[None], each])
            self._given[worker] = each[-1]
        if WORLD_STATE in fragment:
            # Rows of empty slots hold zeros; all present members have the same state.
            first = present.argmax(-1)
            time, team = np.indices(first.shape, sparse=True)
            obs["state"] = by_team(fragment[WORLD_STATE])[time, team, first]
        team = SampleBatch(
            obs=obs,
            actions=_zeroed(by_team(fragment["actions"]), valid),
            rewards=rewards.astype(np.float32),
            terminateds=ends & ~was_cut_off,
            truncateds=ends & was_cut_off,
            valid=steps,
        )
        if "state" in fragment:
            team["episode_starts"] = by_team(fragment["episode_starts"]) & valid
            team["state"] = _zeroed(by_team(fragment["state"]), present[:-1]).reshape(*steps.shape, -1)
        return worker, team

    @override
    def state(self) -> dict[str, Any]:
        return {
            "cut_off": [[worker, flags.copy()] for worker, flags in self._cut_off.items()],
            "given": [[worker, rewards.copy()] for worker, rewards in self._given.items()],
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._cut_off = {worker: np.array(flags, np.bool_) for worker, flags in state["cut_off"]}
        self._given = {worker: np.array(rewards, np.float32) for worker, rewards in state["given"]}


def _of_shape(kept: NDArray[Any], latest: NDArray[Any]) -> NDArray[Any]:
    """Returns the state kept from the fragment before.

    Raises:
        CheckpointError: It came from a checkpoint, and is of another number of teams or members.
    """
    if kept.shape != latest.shape:
        raise CheckpointError(f"the checkpoint's flags of teams have the shape {kept.shape}, not {latest.shape}")
    return kept


def _zeroed(leaf: NDArray[Any], holds: NDArray[np.bool_]) -> NDArray[Any]:
    """Returns [T, W, K, ...] with zeros where `holds` [T, W, K] is false."""
    shape = leaf.shape
    flat = zeroed(leaf.reshape(shape[0], -1, *shape[3:]), holds.reshape(shape[0], -1))
    zeros: NDArray[Any] = flat.reshape(shape)
    return zeros
