"""The floor counts exactly the matrix products of an update, and the steps of the bare env."""

from __future__ import annotations

import pytest

from benchmarks import floor

DQN = {"batch": 10, "num_envs": 2, "hiddens": [3], "training_intensity": 0.5}


@pytest.fixture(autouse=True)
def _seconds_are_flops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "product_s", lambda rows, inner, columns: float(rows * inner * columns))


def test_the_cost_of_a_minibatch_is_the_sum_of_one_product_per_layer_and_per_gradient() -> None:
    forward = 10 * (4 * 3 + 3 * 2)
    assert floor.forward_s(10, [4, 3, 2]) == forward
    assert floor.learned_s(10, [4, 3, 2]) == 2 * forward + 10 * 3 * 2  # no gradient is computed for the input
    assert floor.backward_s(10, [4, 3, 2], weights=False, inputs=True) == forward


def test_dqn_makes_three_forward_passes_and_one_backward_pass_per_minibatch() -> None:
    forward, back_to_the_hidden_layer = 10 * (4 * 3 + 3 * 2), 10 * 3 * 2
    update = (4 * forward + back_to_the_hidden_layer) * 0.5
    assert floor.dqn_s(DQN, 4, 2) == (update, 4 * 3 + 3 * 2)


def test_the_learning_cost_of_ppo_grows_with_epochs_and_is_zero_if_it_only_samples() -> None:
    order = {"env": "CartPole-v1", "kind": "train", "minibatch": 8, "num_envs": 2, "fragment": 4, "epochs": 5}
    order["hiddens"] = ()
    acting = 4 * 2 + 4 * 1  # the policy acts in each step, the value is computed once for the fragment
    assert floor.ppo_s(order, 4, 2) == (5 * 2 * acting, acting)
    assert floor.ppo_s({**order, "kind": "sampling"}, 4, 2) == (0.0, acting)


def test_the_cost_of_td3_includes_an_actor_update_for_every_second_minibatch() -> None:
    order = {"batch": 10, "num_envs": 1, "hiddens": (), "training_intensity": 1.0, "algorithm": "td3"}
    actor, critic = 10 * 3, 10 * 4
    critics = 2 * critic + 2 * (2 * critic)
    assert floor.actor_critic_s(order, 3, 1) == (actor + critics + (2 * actor + 2 * critic) / 2, 3)
