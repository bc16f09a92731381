from __future__ import annotations

import itertools

import numpy as np
import pytest

from rlrun.toys.tabular_mdps import DeepSea, RandomMDP, TwoLanes, random_mdp


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
def test_only_one_sequence_of_actions_finds_the_treasure(mapping_seed: int) -> None:
    env = DeepSea(4, mapping_seed)
    returns = {actions: played(env, actions) for actions in itertools.product((0, 1), repeat=4)}
    (best,) = [actions for actions, (total, _) in returns.items() if total > 0]
    assert returns[best][0] == pytest.approx(0.99)
    assert {actions: info["treasure"] for actions, (_, info) in returns.items()} == {
        actions: float(actions == best) for actions in returns
    }
    assert max(total for actions, (total, _) in returns.items() if actions != best) == pytest.approx(0.0)


def test_the_mapping_seed_determines_which_action_moves_right_in_each_cell() -> None:
    assert not np.array_equal(DeepSea(10, 0)._right, DeepSea(10, 1)._right)
    np.testing.assert_array_equal(DeepSea(10, 3)._right, DeepSea(10, 3)._right)


def test_the_diver_is_shown_in_its_current_row_and_nowhere_after_the_last_step() -> None:
    env = DeepSea(3)
    shown = [env.reset(seed=0)[0], *(env.step(0)[0] for _ in range(3))]
    assert [grid.sum() for grid in shown] == [1.0, 1.0, 1.0, 0.0]
    assert [int(grid.argmax()) // 3 for grid in shown[:-1]] == [0, 1, 2]


def test_the_fast_lane_advances_two_cells_at_a_cost_that_depends_on_the_cell() -> None:
    env = TwoLanes(num_cells=5, episode_len=4)
    env.reset(seed=0)
    steps = [env.step(action) for action in (0, 1, 0, 1)]  # from cells 0, 1, 3 and 0: slow, fast, fast, slow
    assert [reward for _, reward, *_ in steps] == [1.0, 2.0, 2.0, 1.0]
    assert [info["cost"] for *_, info in steps] == [0.0, 1.0, 1.0, 0.0]
    assert [over for *_, over, _, _ in steps] == [False, False, False, True]
    assert steps[-1][0].tolist() == pytest.approx([0, 1, 0, 0, 0, 0, 1])


def test_the_fast_lane_costs_less_in_a_calm_cell() -> None:
    env = TwoLanes(num_cells=5)
    env.reset(seed=0)
    assert env.step(1)[-1] == {"cost": 0.2}


def test_each_task_has_a_fixed_mdp_that_differs_from_those_of_other_tasks() -> None:
    env = RandomMDP()
    options = [random_mdp(seed)["reset_options"] for seed in (1, 1, 2)]
    found = []
    for option in options:
        env.reset(seed=0, options=option)
        found.append(env.best_return)
    assert found[0] == found[1] != found[2]


def test_the_best_return_is_the_maximum_over_all_two_step_plans() -> None:
    env = RandomMDP(num_states=2, num_actions=2, episode_len=2)
    env.reset(seed=0, options={"mdp": 4})
    rewards, moves = env._rewards, np.diff(env._cumulated, prepend=0.0)
    worths = [
        rewards[0, first] + sum(moves[0, first, state] * rewards[state, then[state]] for state in (0, 1))
        for first, *then in itertools.product((0, 1), repeat=3)
    ]
    assert env.best_return == pytest.approx(max(worths))


def test_rewards_and_next_states_are_drawn_from_the_distributions_of_the_mdp() -> None:
    env = RandomMDP(num_states=3, num_actions=2, episode_len=1)
    rewards, states = [], []
    for seed in range(3000):
        env.reset(seed=seed, options={"mdp": 7})
        state, reward, terminated, truncated, info = env.step(1)
        rewards.append(reward)
        states.append(state)
    assert (terminated, truncated) == (False, True)
    assert np.mean(rewards) == pytest.approx(env._rewards[0, 1], abs=0.06)
    np.testing.assert_allclose(
        np.bincount(states, minlength=3) / 3000, np.diff(env._cumulated[0, 1], prepend=0.0), atol=0.03
    )
    assert info["minus_regret"] == pytest.approx(env._rewards[0, 1] - env.best_return)
