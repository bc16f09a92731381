"""Memory of a behavior policy: what it keeps of each slot's episode, and when it forgets."""

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.episode_memory import EpisodeMemory
from rlrun.engine.policy.view_memory import ViewMemory

SEEN, ACTIONS = Box(-9, 9, (1,)), Discrete(5)


class Sums:
    """Adds the last actions and rewards to a state [B, 2]."""

    def __init__(self, *, knows_chosen: bool) -> None:
        self.knows_chosen = knows_chosen

    def after_actions(self, state: NDArray[np.float32], actions: Any) -> NDArray[np.float32]:
        return np.stack([state[:, 0] + np.float32(actions), state[:, 1]], -1)

    def after_rewards(self, state: NDArray[np.float32], rewards: NDArray[Any]) -> NDArray[np.float32]:
        return np.stack([state[:, 0], state[:, 1] + np.float32(rewards)], -1)


def viewing(**views: int) -> EpisodeMemory:
    leaves = policy_leaves(SEEN, ACTIONS, ModelConfig.parse({"views": views}), normalize_observations=False)
    return EpisodeMemory(0, ViewMemory(leaves, DiscreteActions(ACTIONS)), None)


def numbers(*rows: float) -> NDArray[np.float32]:
    return np.array(rows, np.float32)[:, None]


def flags(*which: bool) -> NDArray[np.bool_]:
    return np.array(which)


def test_a_policy_without_memory_has_an_empty_state_and_passes_observations_through() -> None:
    memory, seen = EpisodeMemory(0, None, None), numbers(1, 2)
    assert not memory.is_used
    assert memory.state() == {}
    assert memory.allocate(3, 2) == {}
    assert memory.see(seen, None) is seen
    assert memory.before(seen) is None


def test_the_recurrent_state_is_recorded_before_each_step_and_is_zero_at_episode_starts() -> None:
    memory = EpisodeMemory(2, None, None)
    batch = SampleBatch(memory.allocate(2, 3))
    memory.collect(numbers(0, 0, 0), batch, 0, flags(True, True, True), None)
    memory.keep(np.arange(1, 7, dtype=np.float32).reshape(3, 2), None)
    memory.collect(numbers(0, 0, 0), batch, 1, flags(False, True, False), None)
    assert batch["state"].tolist() == [[[0, 0]] * 3, [[1, 2], [0, 0], [5, 6]]]
    assert batch["episode_starts"].tolist() == [[True] * 3, [False, True, False]]


def test_slots_that_do_not_act_keep_their_state_and_record_nothing() -> None:
    memory, acts = EpisodeMemory(1, None, None), flags(True, False)
    batch = SampleBatch(state=np.full((1, 2, 1), 7.0, np.float32), episode_starts=np.zeros((1, 2), np.bool_))
    memory.keep(numbers(3, 4), None)
    memory.collect(numbers(0, 0), batch, (0, acts), flags(False, False), acts)
    memory.keep(numbers(8, 9), acts)
    assert batch["state"][0].tolist() == [[3], [7]]
    assert memory.recurrent.tolist() == [[8], [4]]


def test_a_different_number_of_slots_starts_with_a_zero_state() -> None:
    memory = EpisodeMemory(1, None, None)
    memory.keep(numbers(3, 4), None)
    assert np.array_equal(memory.before(numbers(0, 0, 0)), numbers(0, 0, 0))  # type: ignore[arg-type]
    memory.collect(numbers(0), SampleBatch(memory.allocate(1, 1)), 0, flags(False), None)
    assert memory.recurrent.tolist() == [[0]]


@pytest.mark.parametrize(("knows_chosen", "after_own"), [(False, [[2, 0], [0, 0]]), (True, [[0, 0], [0, 0]])])
def test_chosen_actions_are_added_to_the_memory_unless_the_network_has_already_added_them(
    knows_chosen: bool, after_own: list[list[float]]
) -> None:
    memory = EpisodeMemory(2, None, Sums(knows_chosen=knows_chosen))
    assert memory.takes_actions is not knows_chosen
    memory.begin(flags(True, True))
    memory.remember(np.array([2, 3]), flags(True, False))
    assert memory.recurrent.tolist() == after_own
    memory.replace_actions(np.array([10, 10]))
    memory.take_rewards(np.array([0.5, 1.5]))
    assert memory.recurrent.tolist() == [[after_own[0][0] + 10, 0.5], [10, 1.5]]


def test_a_view_shows_the_last_observations_and_actions_of_an_episode() -> None:
    memory = viewing(obs=2, prev_actions=1)
    assert memory.is_used
    assert memory.takes_actions
    batch = SampleBatch(memory.allocate(2, 2))
    memory.collect(numbers(1, 5), batch, 0, flags(True, True), None)
    memory.remember(np.array([3, 4]), None)
    view = memory.collect(numbers(2, 6), batch, 1, flags(False, True), None)
    assert view["view:frames"][..., 0].tolist() == [[1, 2], [0, 6]]
    assert view["view:prev_actions"][0].tolist() == [3]
    assert batch["episode_steps"][:2].tolist() == [[0, 0], [1, 0]]


def test_a_memory_that_shows_only_observations_does_not_need_actions() -> None:
    assert not viewing(obs=2).takes_actions


def test_a_saved_memory_is_restored_unless_the_size_of_its_state_differs(wording) -> None:
    memory, other = EpisodeMemory(2, None, None), EpisodeMemory(2, None, None)
    memory.keep(np.array([[1, 2]], np.float32), None)
    other.load_state(memory.state())
    assert other.recurrent.tolist() == [[1, 2]]
    with wording.raised(ValueError):
        EpisodeMemory(3, None, None).load_state(memory.state())
