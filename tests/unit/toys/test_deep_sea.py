from __future__ import annotations

import itertools

import numpy as np
import pytest

from rlrun.toys.deep_sea import DeepSea


def played(env: DeepSea, actions: tuple[int, ...]) -> tuple[float, dict[str, float]]:
    """Returns an episode's return and its last info."""
    env.reset(seed=0)
    rewards = []
    for action in actions:
        _, reward, is_over, _, info = env.step(action)
        rewards.append(reward)
    assert is_over
    return sum(rewards), info


@pytest.mark.parametrize("mapping_seed", [0, 1])
def test_one_sequence_of_actions_alone_finds_the_treasure(mapping_seed: int) -> None:
    env = DeepSea(4, mapping_seed)
    returns = {actions: played(env, actions) for actions in itertools.product((0, 1), repeat=4)}
    (best,) = [actions for actions, (total, _) in returns.items() if total > 0]
    assert returns[best][0] == pytest.approx(0.99)
    assert {actions: info["treasure"] for actions, (_, info) in returns.items()} == {
        actions: float(actions == best) for actions in returns
    }
    assert max(total for actions, (total, _) in returns.items() if actions != best) == pytest.approx(0.0)


def test_the_seed_of_the_mapping_decides_which_action_goes_right() -> None:
    assert not np.array_equal(DeepSea(10, 0)._right, DeepSea(10, 1)._right)
    np.testing.assert_array_equal(DeepSea(10, 3)._right, DeepSea(10, 3)._right)


def test_the_diver_is_seen_in_its_cell_and_nowhere_behind_the_last_step() -> None:
    env = DeepSea(3)
    shown = [env.reset(seed=0)[0], *(env.step(0)[0] for _ in range(3))]
    assert [grid.sum() for grid in shown] == [1.0, 1.0, 1.0, 0.0]
    assert [int(grid.argmax()) // 3 for grid in shown[:-1]] == [0, 1, 2]
