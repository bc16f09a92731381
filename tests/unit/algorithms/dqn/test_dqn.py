"""DQN as a whole: what it learns in worlds whose values are known, when it learns, and what it keeps."""

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import rlrun
from rlrun import DQN, Training
from rlrun.algorithms.dqn.dqn import IQN, IQNConfig
from rlrun.algorithms.dqn.networks import FRACTIONS, WAVES, QNetworks
from rlrun.algorithms.dqn.q_values import midpoints, waves
from rlrun.algorithms.td_loss import quantile_huber
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.flow.operators.replay import NormalizeObservations
from rlrun.engine.flow.plan import plan_text
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.policy.observation_filter import EPSILON
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.save import saved_state
from tests.results import numbers
from tests.rounding import rounding_error

SPACES = Spaces(Box(-1, 1, (3,)), Discrete(2))
SMALL_IQN = {"num_atoms": 4, "acting_quantiles": 5, "num_cosines": 6, "model": {"hiddens": [8, 8]}}

SMALL = {
    "model": {"hiddens": [8], "activation": "tanh", "orthogonal_init": False},
    "minibatch_size": 16,
    "learning_starts": 40,
    "target_update_interval": 7,
    "min_env_steps_per_iteration": 50,
    "epsilon": 0.5,
}
TABULAR = {
    "model": {"hiddens": [], "orthogonal_init": False},
    "minibatch_size": 32,
    "learning_starts": 100,
    "target_update_interval": 20,
    "training_intensity": 0.5,
    "min_env_steps_per_iteration": 500,
    "epsilon": 1.0,
}
RAINBOW = {"dueling": True, "noisy": True, "distribution": "c51", "num_atoms": 5, "n_step": 3}
KINDS = {
    "plain": {"double": False},
    "rainbow": RAINBOW,
    "quantile": {"distribution": "quantile", "num_atoms": 4},
    "soft": {"exploration": "soft_q"},
    "parameter noise": {"exploration": "parameter_noise", "normalize_observations": True},
}


def action_values(training, observations):
    return training.acting.policy().behavior().outputs(np.asarray(observations))


class Pictures(gymnasium.Env):
    """Shows a black or a white picture and pays for naming the color, in episodes of five steps."""

    observation_space = Box(0, 255, (36, 36, 1), np.uint8)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Shows the first picture."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._show(), {}

    def step(self, action):
        """Pays, and shows the next one."""
        self._elapsed += 1
        reward = float(action == self._white)
        return self._show(), reward, False, self._elapsed >= 5, {}

    def _show(self):
        self._white = int(self.np_random.integers(2))
        return np.full((36, 36, 1), 255 * self._white, np.uint8)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_restored_run_continues_bit_for_bit(kind, tmp_path):
    with Training("CartPole-v1", DQN(**{**SMALL, **kind, "num_envs_per_worker": 3}), seed=4) as training:
        first = [numbers(training.step()) for _ in range(3)]
        training.save(tmp_path / "checkpoint")
        expected = [numbers(training.step()) for _ in range(3)]
        weights = training.running.trainee.learner.flat()
    assert {f"learner/{metric.name}" for metric in algorithm_class("dqn").learner_metrics} <= set(first[-1])
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert [numbers(restored.step()) for _ in range(3)] == expected
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), weights)


def test_learning_begins_after_learning_starts_and_proceeds_at_exactly_the_training_intensity():
    config = {**SMALL, "learning_starts": 120, "training_intensity": 0.3, "num_envs_per_worker": 3}
    with Training("CartPole-v1", DQN(**config), seed=1) as training:
        results = [training.step() for _ in range(6)]
    assert results[1]["env_steps"] < 120 < results[-1]["env_steps"]
    due = [max(math.floor(0.3 * (result["env_steps"] - 120)), 0) for result in results]
    assert [result["sgd_steps"] for result in results] == due
    assert due[:2] == [0, 0]
    assert due[-1] > 30


def test_the_metric_minibatches_per_env_step_covers_one_iteration_even_after_adopting_a_run(
    tmp_path,
):
    config = {**SMALL, "training_intensity": 0.5}
    with Training("CartPole-v1", DQN(**config), seed=1) as behind:
        behind.step()
        behind.save(tmp_path / "checkpoint")
    with Training("CartPole-v1", DQN(**config), seed=2) as ahead:
        for _ in range(4):
            before = ahead.step()
        assert before["minibatches_per_env_step"] == pytest.approx(0.5, abs=0.02)
        saved_state.adopt(ahead.running, read_checkpoint(tmp_path / "checkpoint"))
        taken_over = ahead.running.trainee.clock.env_steps, ahead.running.trainee.learner.sgd_steps
        assert taken_over < (before["env_steps"], before["sgd_steps"])
        after = ahead.step()
    steps, minibatches = after["env_steps"] - taken_over[0], after["sgd_steps"] - taken_over[1]
    assert after["minibatches_per_env_step"] == minibatches / steps


def test_the_target_network_holds_the_weights_from_the_last_update_interval():
    with Training("CartPole-v1", DQN(**SMALL, compile=False), seed=1) as training:
        training.start()
        learner = training.running.trainee.learner
        recorded, step = {0: learner.flat()}, learner.step

        def recording(batch, **settings):
            priorities = step(batch, **settings)
            recorded[learner.sgd_steps] = learner.flat()
            return priorities

        learner.step = recording
        for _ in range(4):
            result = training.step()
            last = result["sgd_steps"] // 7 * 7
            np.testing.assert_array_equal(learner.target(), recorded[last])
        assert last > 7
        assert len({flat.tobytes() for flat in recorded.values()}) == len(recorded) > 7


def test_values_bootstrap_across_a_truncation():
    env = {"id": "rlrun.toys:ConstantReward", "kwargs": {"episode_len": 5}}
    with Training(env, DQN(**TABULAR, gamma=0.8, n_step=2, lr=[[0, 0.2], [1500, 1e-2]]), seed=0) as training:
        while training.step()["env_steps"] < 1500:
            pass
        np.testing.assert_allclose(action_values(training, [[0.0]]), 1 / (1 - 0.8), atol=0.02)


@pytest.mark.parametrize(
    ("kind", "values"), [({}, [0, 1]), ({"distribution": "c51", "v_min": -1, "v_max": 2, "num_atoms": 4}, [0, 1])]
)
def test_the_value_of_a_terminated_episode_is_exactly_its_discounted_rewards(kind, values):
    with Training(
        "rlrun.toys:ActionReward", DQN(**{**TABULAR, **kind, "lr": [[0, 0.1], [2000, 1e-3]]}), seed=0
    ) as training:
        while training.step()["env_steps"] < 1000:
            pass
        np.testing.assert_allclose(action_values(training, [[0.0]])[0], values, atol=0.02)
        assert training.evaluate(5).mean == 1.0


LAKE = {"id": "FrozenLake-v1", "kwargs": {"desc": ["SFF", "HFH", "FFG"], "is_slippery": False}}


def test_dqn_learns_the_optimal_values_of_a_small_grid_world():
    """The goal is four steps from the start and is all that pays; a hole ends the episode without a reward."""
    config = {**TABULAR, "gamma": 0.9, "lr": [[0, 0.1], [3000, 1e-2]], "num_envs_per_worker": 4}
    with Training(LAKE, DQN(**config), seed=0) as training:
        while training.step()["env_steps"] < 3000:
            pass
        best = action_values(training, [0, 1, 4, 7]).max(-1)
        assert training.evaluate(4).returns == [1.0] * 4
    np.testing.assert_allclose(best, 0.9 ** np.arange(3, -1, -1), atol=0.05)


def test_dqn_can_be_trained_on_image_observations():
    config = {**SMALL, "model": {"hiddens": []}, "lr": 1e-3, "gamma": 0.0, "min_env_steps_per_iteration": 200}
    with Training(f"{__name__}:Pictures", DQN(**config), seed=0) as training:
        training.step()
        assert training.running.trainee.learner.last_batch["obs"].dtype == np.uint8
        assert training.evaluate(20).mean == 5.0


def copy_of_the_replay(training):
    """Returns a copy of a running algorithm's replay."""
    config, state = training.description.algorithm.config, training.running.flow.state()["operators"]
    replay = training.running.trainee.make_replay(config.replay, n_step=config.n_step, gamma=config.gamma)
    (kept,) = [part for place, part in state.items() if place.endswith("StoreToReplay")]
    replay.load_state(kept["operator"])
    return replay


def test_replay_stores_raw_observations_and_samples_use_current_statistics():
    with Training("CartPole-v1", DQN(**SMALL, normalize_observations=True), seed=1) as training:
        for _ in range(3):
            training.step()
        raw = copy_of_the_replay(training).experience.sample(64, 0)
        moments = training.running.trainee.filters.moments["observations/"]
        assert moments.count > 100
        assert np.abs(training.running.trainee.learner.last_batch["obs"]).mean() > 2 * np.abs(raw["obs"]).mean()
        found = NormalizeObservations(training.running.trainee)(raw)
        for name in ("obs", "next_obs"):
            expected = (raw[name] - moments.mean) / np.sqrt(moments.variance + EPSILON)
            np.testing.assert_allclose(found[name], expected.clip(-10, 10), atol=rounding_error(4, size=10.0))
        np.testing.assert_array_equal(found["rewards"], raw["rewards"])


def test_gradients_computed_for_another_learner_include_the_noise_parameters():
    with Training("CartPole-v1", DQN(**SMALL, **RAINBOW), seed=1) as training:
        training.start()
        learner = training.running.trainee.learner
        size = learner.policy.parameters.range_under("sigmas.")[0]  # the standard deviations come after the means
        rows = np.ones((4, 1), np.float32)
        batch = SampleBatch(obs=np.ones((4, 1, 4), np.float32), actions=np.zeros((4, 1), np.int64), rewards=rows)
        batch.update(next_obs=batch["obs"], discounts=rows, weights=rows, valid=np.ones((4, 1), bool))
        gradients = learner.gradients(batch, scheduled={"lr": 1e-3})[: len(learner.flat())]
        assert np.count_nonzero(gradients[:size]) > 0
        assert np.count_nonzero(gradients[size:]) > 0


def test_the_plan_shows_where_observations_are_normalised():
    for normalizes in (False, True):
        plan = plan_text(Training("CartPole-v1", DQN(normalize_observations=normalizes)).description.plan().describe())
        assert ("NormalizeObservations" in plan) == normalizes


@pytest.mark.usefixtures("traced_updates")
@pytest.mark.parametrize("kind", [{}, RAINBOW, KINDS["quantile"]], ids=["means", "rainbow", "quantile"])
def test_traced_and_eager_updates_agree(kind):
    learners = []
    for compiled in (False, True):
        training = Training("CartPole-v1", DQN(**{**SMALL, **kind, "compile": compiled}), seed=2)
        training.start()
        learners.append(training.running.trainee.learner)
    generator = np.random.default_rng(0)
    first = learners[0].flat()
    for _ in range(10):
        batch = SampleBatch(
            obs=generator.normal(size=(16, 1, 4)).astype(np.float32),
            actions=generator.integers(0, 2, (16, 1)),
            rewards=generator.normal(size=(16, 1)).astype(np.float32),
            discounts=generator.choice([0.0, 0.9], (16, 1)).astype(np.float32),
            next_obs=generator.normal(size=(16, 1, 4)).astype(np.float32),
            weights=generator.random((16, 1), np.float32),
            valid=np.ones((16, 1), bool),
        )
        eager, other = (learner.step(SampleBatch(batch), scheduled={"lr": 1e-3}) for learner in learners)
        np.testing.assert_allclose(eager, other, atol=rounding_error(16 * 10))
    assert np.abs(learners[0].flat() - first).max() > 1e-3
    np.testing.assert_allclose(learners[0].flat(), learners[1].flat(), atol=rounding_error(16 + 10))
    assert learners[0].take_statistics() == pytest.approx(learners[1].take_statistics(), rel=rounding_error(16 * 10))


def drawn_noise(policy, rows):
    columns = policy.draws(np.random.default_rng(1), rows, 1)
    return SampleBatch({name: torch.from_numpy(column) for name, column in columns.items()})


def test_iqn_quantiles_equal_those_of_the_papers_network_at_each_fraction():
    policy = IQN(IQNConfig.parse(SMALL_IQN)).policy(SPACES, seed=3)
    named = {name: p.detach().numpy() for name, p in policy.module.named_parameters()}
    batch, observations = drawn_noise(policy, 2), np.random.default_rng(0).normal(size=(2, 1, 3)).astype(np.float32)
    found = policy.outputs(dict(policy.module.named_parameters()), batch).q_outputs(torch.from_numpy(observations))

    def layer(x, name):
        return x @ named[f"{name}.weight"].T + named[f"{name}.bias"]

    prefix = next(name for name in named if name.startswith("network.features")).rsplit(".", 1)[0]
    psi = np.maximum(layer(observations, prefix), 0)[:, :, None]
    cosines = np.cos(np.pi * np.arange(6) * batch[FRACTIONS].numpy()[..., :4, None])
    phi = np.maximum(layer(cosines, "decoder.embedding"), 0)
    expected = layer(np.maximum(layer(psi * phi, "decoder.hidden"), 0), "decoder.output")
    np.testing.assert_allclose(found.detach().numpy(), expected.swapaxes(2, 3), atol=rounding_error(30))


def test_the_iqn_loss_weighs_errors_by_the_drawn_fractions():
    quantiles, targets = torch.tensor([[1.0, 3.0]]), torch.tensor([[3.0, 4.0]])
    loss = quantile_huber(quantiles, targets, torch.tensor([[0.9, 0.2]]))
    assert loss.item() == pytest.approx(0.9 * (1.5 + 2.5) / 2 + 0.2 * (0.0 + 0.5) / 2)


def test_online_and_target_quantiles_draw_separate_fractions_and_greedy_uses_midpoints():
    policy = IQN(IQNConfig.parse(SMALL_IQN)).policy(SPACES, seed=3)
    views, batch = dict(policy.module.named_parameters()), drawn_noise(policy, 2)
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
    algorithm = IQN(IQNConfig.parse(SMALL_IQN))
    policy = algorithm.policy(SPACES, seed=3)
    generator = torch.Generator().manual_seed(0)
    views = {name: torch.randn(p.shape, generator=generator) for name, p in policy.module.named_parameters()}
    observations = torch.randn(rows, 1, 3, generator=generator)
    # The actions' values become nearly equal, so that the drawn fractions can change the best action.
    views["decoder.output.bias"] -= policy.outputs(views, SampleBatch()).values(observations).median(0)[0][0]
    batch = SampleBatch(drawn_noise(policy, rows), next_obs=observations, rewards=torch.zeros(rows, 1))
    networks = policy.outputs(views, batch)
    at_drawn = networks.target_q_outputs(observations)
    best = policy.outputs(views, SampleBatch()).target_values(observations).argmax(-1)
    _, following = algorithm._rewards_and_returns(networks, batch)
    torch.testing.assert_close(following, at_drawn[torch.arange(rows), 0, best[:, 0]][:, None])
    assert (at_drawn.mean(-1).argmax(-1) != best).any()  # the drawn fractions would have chosen other actions


def test_the_target_for_a_certain_action_beside_a_noisy_one_is_unbiased():
    """A certain return of 1.0, next to N(0.9, 1): choosing with 8 drawn quantiles gives 1.1 on average."""
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


def test_soft_iqn_targets_weigh_actions_by_their_values_at_midpoints():
    rows, tau = 20, 0.03
    algorithm = IQN(IQNConfig.parse({**SMALL_IQN, "munchausen": {"temperature": tau, "alpha": 0.9, "clip": -1.0}}))
    policy = algorithm.policy(SPACES, seed=3)
    views = dict(policy.module.named_parameters())
    obs, next_obs = torch.randn(2, rows, 1, 3, generator=torch.Generator().manual_seed(0))
    columns = {"obs": obs, "next_obs": next_obs, "rewards": torch.ones(rows, 1)}
    batch = SampleBatch(drawn_noise(policy, rows), **columns, actions=torch.zeros(rows, 1, dtype=torch.int64))
    fixed, networks = policy.outputs(views, SampleBatch()), policy.outputs(views, batch)
    rewards, following = algorithm._rewards_and_returns(networks, batch)
    taken = (fixed.target_values(obs) / tau).log_softmax(-1)[..., 0]
    torch.testing.assert_close(rewards, 1 + 0.9 * (tau * taken).clamp(-1, 0))
    ahead = (fixed.target_values(next_obs) / tau).log_softmax(-1)[..., None]
    torch.testing.assert_close(following, (ahead.exp() * (networks.target_q_outputs(next_obs) - tau * ahead)).sum(-2))


def test_iqn_refuses_dueling_noisy_and_normalized_layers(wording):
    for other in ({"dueling": True}, {"noisy": True}, {"model": {"normalization": "layer"}}):
        with wording.raised(SpecError):
            IQNConfig.parse(other)


def test_drawn_fractions_continue_bit_for_bit_after_a_resume(tmp_path):
    settings = {**SMALL_IQN, "learning_starts": 32, "min_env_steps_per_iteration": 64, "compile": False}
    with rlrun.Training("CartPole-v1", rlrun.IQN(**settings), seed=1) as training:
        training.step()
        training.save(tmp_path / "saved")
        training.step()
        expected = training.running.trainee.learner.flat()
    with rlrun.Training.restore(tmp_path / "saved") as training:
        training.step()
        np.testing.assert_array_equal(training.running.trainee.learner.flat(), expected)
