"""IQN: quantiles at drawn fractions, against the formulas of its paper."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import rlrun
from rlrun.algorithms.dqn.implicit_quantiles import FRACTIONS
from rlrun.algorithms.dqn.iqn import IQN, IQNConfig
from rlrun.algorithms.dqn.mean_quantiles import midpoints, waves
from rlrun.algorithms.dqn.networks import WAVES
from rlrun.algorithms.dqn.return_distributions import quantile_huber
from rlrun.data.sample_batch import SampleBatch
from rlrun.envs.spaces import Spaces
from rlrun.errors import SpecError
from tests.rounding import rounding_error

SPACES = Spaces(Box(-1, 1, (3,)), Discrete(2))
SMALL = {"num_atoms": 4, "acting_quantiles": 5, "num_cosines": 6, "model": {"hiddens": [8, 8]}}


def drawn(policy, rows):
    columns = policy.draws(np.random.default_rng(1), rows, 1)
    return SampleBatch({name: torch.from_numpy(column) for name, column in columns.items()})


def test_quantiles_are_what_the_paper_s_network_gives_at_each_fraction():
    policy = IQN(IQNConfig.parse(SMALL)).policy(SPACES, seed=3)
    named = {name: p.detach().numpy() for name, p in policy.module.named_parameters()}
    batch, observations = drawn(policy, 2), np.random.default_rng(0).normal(size=(2, 1, 3)).astype(np.float32)
    found = policy.outputs(dict(policy.module.named_parameters()), batch).q_outputs(torch.from_numpy(observations))

    def layer(x, name):
        return x @ named[f"{name}.weight"].T + named[f"{name}.bias"]

    prefix = next(name for name in named if name.startswith("network.features")).rsplit(".", 1)[0]
    psi = np.maximum(layer(observations, prefix), 0)[:, :, None]
    cosines = np.cos(np.pi * np.arange(6) * batch[FRACTIONS].numpy()[..., :4, None])
    phi = np.maximum(layer(cosines, "decoder.embedding"), 0)
    expected = layer(np.maximum(layer(psi * phi, "decoder.hidden"), 0), "decoder.output")
    np.testing.assert_allclose(found.detach().numpy(), expected.swapaxes(2, 3), atol=rounding_error(30))


def test_the_loss_weighs_errors_by_the_drawn_fractions():
    quantiles, targets = torch.tensor([[1.0, 3.0]]), torch.tensor([[3.0, 4.0]])
    loss = quantile_huber(quantiles, targets, torch.tensor([[0.9, 0.2]]))
    assert loss.item() == pytest.approx(0.9 * (1.5 + 2.5) / 2 + 0.2 * (0.0 + 0.5) / 2)


def test_online_and_target_quantiles_have_fractions_of_their_own_and_greedy_choices_fixed_ones():
    policy = IQN(IQNConfig.parse(SMALL)).policy(SPACES, seed=3)
    views, batch = dict(policy.module.named_parameters()), drawn(policy, 2)
    observations = torch.randn(2, 1, 3, generator=torch.Generator().manual_seed(0))
    networks = policy.outputs(views, batch)
    assert networks.q_outputs(observations).shape == (2, 1, 2, 4)
    assert not torch.equal(networks.q_outputs(observations), networks.target_q_outputs(observations))
    assert batch[FRACTIONS].unique().numel() == batch[FRACTIONS].numel() == 2 * 8
    fixed = policy.outputs(views, SampleBatch()).values(observations).argmax(-1)
    assert torch.equal(networks.greedy_actions(observations), fixed)
    np.testing.assert_allclose(
        waves(midpoints(2), 3), [[1, np.cos(np.pi / 4), 0], [1, -np.cos(np.pi / 4), 0]], atol=1e-7
    )
    assert batch[WAVES].shape == (2, 1, 8, 6)


def test_it_is_refused_with_layers_that_it_replaces():
    for other in ({"dueling": True}, {"noisy": True}, {"model": {"normalization": "layer"}}):
        with pytest.raises(SpecError, match="distribution iqn has layers of its own"):
            IQNConfig.parse(other)


def test_fractions_go_on_bit_for_bit_after_a_resume(tmp_path):
    settings = {**SMALL, "learning_starts": 32, "min_env_steps_per_iteration": 64, "compile": False}
    with rlrun.Training("CartPole-v1", rlrun.IQN(**settings), seed=1) as training:
        training.step()
        training.save(tmp_path / "saved")
        training.step()
        expected = training.running.trainee.learner.flat()
    with rlrun.Training.restore(tmp_path / "saved") as training:
        training.step()
        np.testing.assert_array_equal(training.running.trainee.learner.flat(), expected)
