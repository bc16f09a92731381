"""DQN's loss in closed form: networks here are tables, one row of numbers for each observation."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

from rlrun.algorithms.dqn.dqn import DQN, DQNConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError
from tests.rounding import rounding_error

STATES, ACTIONS = 3, 2


def loss_of(table, target_table, rows, **config):
    """Returns the loss on rows (state, action, reward, discount, next state[, weight[, valid]])."""
    algorithm = DQN(DQNConfig.parse({"model": {"hiddens": []}, **config}))
    policy = algorithm.policy(Spaces(Discrete(STATES), Discrete(ACTIONS)), seed=0)
    views, target_views = (policy.parameters.views(flat_of(numbers)) for numbers in (table, target_table))
    padded = [(*row, *(1.0, 1.0)[len(row) - 5 :]) for row in rows]
    states, actions, rewards, discounts, following, weights, valid = np.array(padded, np.float32).T[..., None]
    batch = SampleBatch(
        obs=torch.from_numpy(states).long(),
        actions=torch.from_numpy(actions).long(),
        rewards=torch.from_numpy(rewards),
        discounts=torch.from_numpy(discounts),
        next_obs=torch.from_numpy(following).long(),
        weights=torch.from_numpy(weights),
        valid=torch.from_numpy(valid).bool(),
    )
    return algorithm.loss(policy.outputs(views, batch, target_views), batch, {})


def flat_of(table):
    """Returns the parameters of a linear layer over one-hot observations that gives the table [states, numbers]."""
    numbers = torch.as_tensor(np.array(table, np.float32))
    return torch.cat([numbers.T.flatten(), torch.zeros(numbers.shape[1])])


ONLINE = [[1.0, 2.0], [5.0, 3.0], [0.0, 0.0]]
TARGET = [[9.0, 9.0], [4.0, 6.0], [7.0, 8.0]]


def test_double_q_learning_values_its_own_best_action_with_the_target_network():
    loss = loss_of(ONLINE, TARGET, [(0, 1, 0.5, 0.9, 1)], double=True)
    error = 2.0 - (0.5 + 0.9 * 4.0)
    assert loss.total.item() == pytest.approx(error**2 / 2)
    bounded = loss_of(ONLINE, TARGET, [(0, 1, 0.5, 0.9, 1)], double=True, huber=1.0)
    assert bounded.total.item() == pytest.approx(abs(error) - 0.5)
    assert loss.priorities.tolist() == pytest.approx([abs(error)])
    assert loss.statistics["q_mean"].item() == 2.0


def test_plain_q_learning_uses_the_target_networks_best_value():
    loss = loss_of(ONLINE, TARGET, [(0, 1, 0.5, 0.9, 1)], double=False)
    assert loss.priorities.tolist() == pytest.approx([abs(2.0 - (0.5 + 0.9 * 6.0))])


def test_after_a_termination_the_target_is_only_the_reward():
    loss = loss_of(ONLINE, TARGET, [(0, 1, 1.5, 0.0, 1)])
    assert loss.total.item() == pytest.approx(0.5 * 0.5**2)
    assert loss.statistics["td_error"].item() == pytest.approx(0.5)


@pytest.mark.parametrize(
    "config", [{}, {"distribution": "c51", "num_atoms": 3, "v_min": 0, "v_max": 2}, {"distribution": "quantile"}]
)
def test_the_loss_is_linear_in_the_row_weights_and_ignores_invalid_rows(config):
    generator = np.random.default_rng(0)
    numbers = ACTIONS * {"c51": 3, "quantile": 51}.get(config.get("distribution"), 1)
    table, target = generator.normal(size=(2, STATES, numbers))
    rows = [(0, 1, 0.5, 0.9, 1), (1, 0, -0.5, 0.9, 2), (2, 0, 1.0, 0.0, 0)]

    def total(*weights):
        return loss_of(table, target, [(*row, w) for row, w in zip(rows, weights, strict=True)], **config).total.item()

    assert total(1, 2, 3) == pytest.approx(
        total(1, 0, 0) + 2 * total(0, 1, 0) + 3 * total(0, 0, 1), rel=rounding_error(51)
    )
    assert total(1, 0, 0) > 0
    with_invalid = loss_of(table, target, [rows[0], (1, 0, 99.0, 0.9, 2, 1.0, 0.0)], **config)
    assert with_invalid.total.item() == pytest.approx(loss_of(table, target, rows[:1], **config).total.item())


def test_c51_learns_the_projected_distribution_and_uses_the_divergence_as_priority():
    # Atoms 0, 1, 2. The target's best next action returns 2 for certain, which becomes 0.5 + 0.5 * 2 = 1.5.
    certain = 50.0
    online = [[0.0, 0.0, 0.0, 1.0, 2.0, 3.0], [0.0, 0.0, certain, certain, 0.0, 0.0], [0.0] * 6]
    target = [[0.0] * 6, [0.0, 0.0, certain, certain, 0.0, 0.0], [0.0] * 6]
    loss = loss_of(
        online, target, [(0, 1, 0.5, 0.5, 1)], distribution="c51", num_atoms=3, v_min=0.0, v_max=2.0, double=True
    )
    log_probabilities = np.array([1.0, 2.0, 3.0]) - np.log(np.exp([1.0, 2.0, 3.0]).sum())
    expected = -(0.5 * log_probabilities[1] + 0.5 * log_probabilities[2])
    assert loss.total.item() == pytest.approx(expected, abs=rounding_error(6))
    assert loss.priorities.tolist() == pytest.approx([expected - np.log(2)], abs=rounding_error(6))
    assert loss.statistics["q_mean"].item() == pytest.approx(
        np.exp(log_probabilities) @ [0, 1, 2], abs=rounding_error(6)
    )
    assert loss.statistics["td_error"].item() == pytest.approx(
        np.exp(log_probabilities) @ [0, 1, 2] - 1.5, abs=rounding_error(6)
    )


def test_the_quantile_loss_compares_each_quantile_with_each_of_the_best_next_action():
    online, target = [[0.0, 0.0, 1.0, 3.0], [0.0] * 4, [0.0] * 4], [[0.0] * 4, [0.0, 1.0, 4.0, 6.0], [0.0] * 4]
    loss = loss_of(online, target, [(0, 1, 1.0, 0.5, 1)], distribution="quantile", num_atoms=2, double=False)
    targets = [1.0 + 0.5 * 4.0, 1.0 + 0.5 * 6.0]  # 3, 4
    # The quantile at 1 has weight 1/4 and errors 2 and 3, the one at 3 has weight 3/4 and errors 0 and 1.
    expected = 0.25 * (1.5 + 2.5) / 2 + 0.75 * (0.0 + 0.5) / 2
    assert loss.total.item() == pytest.approx(expected)
    assert loss.priorities.tolist() == pytest.approx([np.mean(targets) - 2.0])


def test_no_gradient_goes_through_targets():
    algorithm = DQN(DQNConfig.parse({"model": {"hiddens": []}, "huber": 1.0}))
    policy = algorithm.policy(Spaces(Discrete(STATES), Discrete(ACTIONS)), seed=0)
    flat = flat_of(ONLINE).requires_grad_()
    views = policy.parameters.views(flat)
    row = {"obs": 0, "actions": 1, "next_obs": 1}
    batch = SampleBatch({name: torch.full((1, 1), number) for name, number in row.items()})
    batch.update({name: torch.ones(1, 1) for name in ("rewards", "discounts", "weights", "valid")})
    (gradient,) = torch.autograd.grad(algorithm.loss(policy.outputs(views, batch), batch, {}).total, flat)
    assert gradient[:-ACTIONS].view(ACTIONS, STATES).T.tolist() == [[0.0, -1.0], [0.0, 0.0], [0.0, 0.0]]


def test_epsilon_defaults_to_0_with_noisy_networks_and_soft_q():
    assert DQNConfig.parse({}).epsilon == ((0, 1.0), (10_000, 0.05))
    assert DQNConfig.parse({"noisy": True}).epsilon == 0.0
    assert DQNConfig.parse({"exploration": "soft_q"}).epsilon == 0.0
    assert DQNConfig.parse({"exploration": "parameter_noise"}).epsilon == ((0, 1.0), (10_000, 0.05))
    assert DQNConfig.parse({"noisy": True, "epsilon": 0.1}).epsilon == 0.1


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"noisy": True, "exploration": "parameter_noise"},
            "noisy and exploration: parameter_noise both add noise to parameters; leave one out",
        ),
        (
            {"dueling": True, "model": {"module": "my:Net"}},
            "dueling does not work with a custom network: set it to false, or leave out model.module",
        ),
        ({"distribution": "c51", "v_min": 1, "v_max": 1}, r"v_min \(1\) below v_max \(1\)"),
        ({"distribution": "c51", "num_atoms": 1}, r"num_atoms \(1\) of at least 2"),
    ],
)
def test_incompatible_dqn_settings_are_refused(config, message):
    with pytest.raises(SpecError, match=message):
        DQNConfig.parse(config)


@pytest.mark.parametrize("setting", ["dueling", "distribution", "num_atoms", "noisy", "model.hiddens"])
def test_settings_that_determine_the_networks_shape_are_marked(setting):
    assert DQNConfig.shapes_parameters(setting)
    assert not DQNConfig.shapes_parameters("double")


@pytest.mark.parametrize(("clip", "bonus"), [(-10.0, -2 * np.log(1 + np.exp(2))), (-1.0, -1.0)])
def test_munchausen_adds_the_clipped_log_policy_to_the_reward_and_bootstraps_softly(clip, bonus):
    # The target network's policy at temperature 2 prefers action 0 by 4 in state 0, and no action in state 1.
    target = [[5.0, 1.0], [4.0, 4.0], [0.0, 0.0]]
    munchausen = {"alpha": 0.5, "temperature": 2.0, "clip": clip}
    loss = loss_of(ONLINE, target, [(0, 1, 0.5, 0.9, 1)], munchausen=munchausen)
    soft_value = 4.0 + 2 * np.log(2)
    assert loss.priorities.tolist() == pytest.approx([abs(2.0 - (0.5 + 0.5 * bonus + 0.9 * soft_value))])
    assert loss.total.item() == pytest.approx(loss.priorities.item() ** 2 / 2)


def test_a_soft_value_is_the_scaled_log_sum_of_exponentials_of_the_values():
    target = [[0.0, 0.0], [1.0, 0.2], [0.0, 0.0]]
    loss = loss_of(ONLINE, target, [(0, 1, 0.0, 1.0, 1)], munchausen={"alpha": 0.0, "temperature": 0.5})
    assert loss.priorities.tolist() == pytest.approx([abs(2.0 - 0.5 * np.log(np.exp(2.0) + np.exp(0.4)))])


def test_munchausen_refuses_settings_for_which_its_paper_defines_no_target():
    for further, word in [({"n_step": 3}, "n_step"), ({"double": True}, "double"), ({"distribution": "c51"}, "c51")]:
        with pytest.raises(SpecError, match=word):
            DQNConfig.parse({"munchausen": {}, **further})
    assert not DQNConfig.parse({"munchausen": {}}).double
