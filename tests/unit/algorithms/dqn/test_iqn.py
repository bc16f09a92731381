"""IQN: quantiles at drawn fractions, against the formulas of its paper."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import rlrun
from rlrun.algorithms.dqn.implicit_quantiles import FRACTIONS
from rlrun.algorithms.dqn.iqn import IQN, IQNConfig
from rlrun.algorithms.dqn.mean_quantiles import midpoints, waves
from rlrun.algorithms.dqn.networks import WAVES, QNetworks
from rlrun.algorithms.dqn.return_distributions import quantile_huber
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError
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


def test_next_actions_are_chosen_at_midpoints_and_valued_at_drawn_fractions():
    rows = 200
    algorithm = IQN(IQNConfig.parse(SMALL))
    policy = algorithm.policy(SPACES, seed=3)
    generator = torch.Generator().manual_seed(0)
    views = {name: torch.randn(p.shape, generator=generator) for name, p in policy.module.named_parameters()}
    observations = torch.randn(rows, 1, 3, generator=generator)
    views["decoder.output.bias"] -= policy.outputs(views, SampleBatch()).values(observations).median(0)[0][0]  # close
    batch = SampleBatch(drawn(policy, rows), next_obs=observations, rewards=torch.zeros(rows, 1))
    networks = policy.outputs(views, batch)
    at_drawn = networks.target_q_outputs(observations)
    best = policy.outputs(views, SampleBatch()).target_values(observations).argmax(-1)
    _, following = algorithm._rewards_and_returns(networks, batch)
    torch.testing.assert_close(following, at_drawn[torch.arange(rows), 0, best[:, 0]][:, None])
    assert (at_drawn.mean(-1).argmax(-1) != best).any()  # which the fractions of the target would have chosen


def test_a_certain_action_next_to_a_noisy_one_gives_the_target_that_it_is_worth():
    """A return of 1.0 for certain, next to N(0.9, 1): choosing by 8 drawn quantiles gives 1.1 on average."""
    fractions = torch.from_numpy(np.random.default_rng(0).random((4_000, 1, 16), np.float32))

    class Quantiles(QNetworks):
        def _run(self, views, observations, which, *, at_midpoints=False):
            taus = torch.from_numpy(midpoints(32)).expand(4_000, 1, 32) if at_midpoints else fractions[..., 8:]
            noisy = 0.9 + torch.special.ndtri(taus)
            return torch.stack([torch.ones_like(noisy), noisy], -2)

    networks = Quantiles(None, None, IQNConfig().q.returns, 2, {}, {}, waves=fractions)
    batch = SampleBatch(next_obs=torch.zeros(4_000, 1, 3), rewards=torch.zeros(4_000, 1))
    _, following = IQN(IQNConfig())._rewards_and_returns(networks, batch)
    assert torch.equal(following, torch.ones(4_000, 1, 8))
    by_drawn = networks.means(networks.target_q_outputs(None)).amax(-1)
    assert by_drawn.mean() == pytest.approx(1.1, abs=0.02)


def test_soft_targets_weigh_actions_by_their_values_at_midpoints():
    rows, tau = 20, 0.03
    algorithm = IQN(IQNConfig.parse({**SMALL, "munchausen": {"temperature": tau, "alpha": 0.9, "clip": -1.0}}))
    policy = algorithm.policy(SPACES, seed=3)
    views = dict(policy.module.named_parameters())
    obs, next_obs = torch.randn(2, rows, 1, 3, generator=torch.Generator().manual_seed(0))
    columns = {"obs": obs, "next_obs": next_obs, "rewards": torch.ones(rows, 1)}
    batch = SampleBatch(drawn(policy, rows), **columns, actions=torch.zeros(rows, 1, dtype=torch.int64))
    fixed, networks = policy.outputs(views, SampleBatch()), policy.outputs(views, batch)
    rewards, following = algorithm._rewards_and_returns(networks, batch)
    taken = (fixed.target_values(obs) / tau).log_softmax(-1)[..., 0]
    torch.testing.assert_close(rewards, 1 + 0.9 * (tau * taken).clamp(-1, 0))
    ahead = (fixed.target_values(next_obs) / tau).log_softmax(-1)[..., None]
    torch.testing.assert_close(following, (ahead.exp() * (networks.target_q_outputs(next_obs) - tau * ahead)).sum(-2))


def test_it_is_refused_with_layers_that_it_replaces(wording):
    for other in ({"dueling": True}, {"noisy": True}, {"model": {"normalization": "layer"}}):
        with wording.raised(SpecError):
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
