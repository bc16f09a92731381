"""Joint transitions of a team: observations, actions and reward of all members at one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.packing import zeroed
from rlrun.engine.data.sample_batch import ACTS, WORLD_STATE, SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.messages.errors import CheckpointError

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee

TeamReward = Literal["sum", "once"]
"""A team's reward: the sum of its members' rewards, or the shared reward counted once."""

GIVEN = "given"
"""Key of a joint observation: each member's reward of the previous step, [T + 1, W, K]."""


class JoinTeams(StatefulOperator):
    """Joins the K members of each of W teams: a rollout fragment of agents [T, W * K] becomes joint steps [T, W].

    Inputs are pairs (worker index, fragment). All K agents of a multi-agent env form one team. A joint observation is a
    tree: `agents` [T + 1, W, K, ...], the mask `present` [T + 1, W, K] and, if recorded, the global `state` [T + 1, W,
    ...]. Joint actions are [T, W, K]. Entries of absent members are 0. Recurrent members have separate states: `state`
    [T, W, K * state_size] and `episode_starts` [T, W, K].

    A member is present while it acts, and one step longer if its episode was truncated, for bootstrapping. A terminated
    member's value is masked. The team's episode ends when no member acts any more. It is truncated if one of the
    members that acted last was truncated, else terminated.

    Args:
        trainee: The team's policy in training.
        reward: Rule for the team reward: `sum` over members, or `once`, the mean over the members that acted.
        shows_given: Whether joint observations include each member's previous reward, as the entry `given`.
    """

    def __init__(self, trainee: Trainee, reward: TeamReward, *, shows_given: bool = False) -> None:
        self.trainee = trainee
        self.reward = reward
        self.shows_given = shows_given
        # Maps each worker to the mask [W, K] of members truncated at the last step of its latest fragment.
        self._cut_off: dict[int | None, NDArray[np.bool_]] = {}
        # Maps each worker to the members' rewards [W, K] at the last step of its latest fragment.
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
            # All present members have the same state, so the first one's is taken; rows of empty slots hold zeros.
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
    """Validates the shape of state carried over from the previous fragment, and returns the state.

    Raises:
        CheckpointError: The state is from a checkpoint with another number of teams or members.
    """
    if kept.shape != latest.shape:
        raise CheckpointError(f"the checkpoint's team flags have shape {kept.shape}, not {latest.shape}")
    return kept


def _zeroed(leaf: NDArray[Any], holds: NDArray[np.bool_]) -> NDArray[Any]:
    """Zeroes entries of an array [T, W, K, ...] where the mask `holds` [T, W, K] is false."""
    shape = leaf.shape
    flat = zeroed(leaf.reshape(shape[0], -1, *shape[3:]), holds.reshape(shape[0], -1))
    zeros: NDArray[Any] = flat.reshape(shape)
    return zeros
