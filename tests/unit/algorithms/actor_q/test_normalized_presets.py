"""XQC and FlashSAC: joint passes with target networks, categorical critics, projected weights and scaled rewards."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from torch import Tensor

from rlrun import DDPG, SAC, XQC, FlashSAC, Training
from rlrun.algorithms.actor_q.extended_sac import ExtendedSAC
from rlrun.algorithms.actor_q.extended_soft_policy import Categories
from rlrun.algorithms.actor_q.networks import DRAWN_CRITICS
from rlrun.algorithms.actor_q.scaled_rewards import MeasureReturns, ScaleRewards
from rlrun.algorithms.actor_q.soft_networks import SquashedNetworks
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.nn.batch_norm import batch_statistics
from rlrun.engine.policy.policy import Policy
from rlrun.engine.training.assemble.policies import Policies
from tests.wording import Wording

Doubles = NDArray[np.float64]

SPACES = Spaces(Box(-1, 1, (3,)), Box(-1, 1, (2,)))
ROWS = 6
SMALL: dict[str, Any] = {
    "model": {"hiddens": [4], "critic_hiddens": [4, 4]},
    "num_bins": 5,
    "learning_starts": 10,
    "minibatch_size": 8,
    "min_env_steps_per_iteration": 12,
    "compile": False,
}


def minibatch(seed: int = 1) -> SampleBatch:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"obs": 3, "next_obs": 3, "actions": 2, "noise": 2, "next_noise": 2}
    columns = {name: torch.randn(ROWS, 1, width, generator=generator) for name, width in shapes.items()}
    return SampleBatch(
        columns,
        rewards=torch.randn(ROWS, 1, generator=generator),
        discounts=0.9 * (torch.arange(ROWS) != 2)[:, None],
        valid=torch.arange(ROWS)[:, None] > 0,
        weights=torch.rand(ROWS, 1, generator=generator),
    )


def parameters(policy: Policy, seed: int) -> Tensor:
    """Random parameters; variances are positive."""
    flat = torch.randn(policy.parameters.size, generator=torch.Generator().manual_seed(seed))
    for name, view in policy.parameters.views(flat).items():
        if name.endswith("variance"):
            view.square_()
    return flat


def outputs_of(algorithm: Any) -> tuple[SquashedNetworks, Policy]:
    policy = algorithm.policy(SPACES, 0)
    online, target = (policy.parameters.views(parameters(policy, seed)) for seed in (2, 9))
    found: SquashedNetworks = policy.outputs(online, SampleBatch(), target)
    return found, policy


def logits_by_hand(x: Doubles, views: Any, critic: str) -> Doubles:
    """Outputs of a critic with one hidden layer in float64, with the batch statistics of all rows."""
    own = {name: view.detach().double().numpy() for name, view in views.items() if name.startswith(critic)}

    def normal(x: Doubles, name: str) -> Doubles:
        scaled: Doubles = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3)
        return np.asarray(scaled * own[f"{critic}.{name}.weight"] + own[f"{critic}.{name}.bias"])

    hidden = normal(x, "trunk.0.input_norm") @ own[f"{critic}.trunk.0.weight"].T
    found = np.maximum(normal(hidden, "trunk.0.norm"), 0) @ own[f"{critic}.head.weight"].T
    return np.asarray(found + own[f"{critic}.head.bias"])


def softmax(x: Doubles) -> Doubles:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def projected_by_hand(probabilities: Doubles, returns: Doubles, support: Doubles) -> Doubles:
    """Each probability is split between the two nearest returns of the support (C51), number by number."""
    found = np.zeros(len(support))
    for probability, value in zip(probabilities, returns, strict=True):
        place = (min(max(value, support[0]), support[-1]) - support[0]) / (support[1] - support[0])
        lower = min(int(place), len(support) - 2)
        found[lower] += probability * (lower + 1 - place)
        found[lower + 1] += probability * (place - lower)
    return found


def test_xqc_critics_learn_the_target_distribution_with_the_lower_mean_from_a_joint_pass() -> None:
    algorithm = XQC(model={"hiddens": [4], "critic_hiddens": [4]}, num_bins=5, support=(-2.0, 2.0))
    outputs, policy = outputs_of(algorithm)
    batch, support = minibatch(), np.linspace(-2, 2, 5)
    with torch.no_grad():
        actions, log_probs = outputs.sample(batch["next_obs"], batch["next_noise"])  # with running statistics
    pairs = ("obs", batch["actions"]), ("next_obs", actions)
    rows = torch.cat([torch.cat([batch[seen], own], -1)[:, 0] for seen, own in pairs]).double().numpy()
    networks = outputs.networks
    online, target = (
        np.stack([logits_by_hand(rows, views, f"critics.{i}") for i in range(2)])
        for views in (networks.views, networks.target_views)
    )
    ahead = softmax(target[:, ROWS:])
    lowest = (ahead @ support).argmin(0)
    assert set(lowest) == {0, 1}
    cost = outputs.log_alpha.exp().item() * log_probs[:, 0].double().numpy()
    total, distances = 0.0, []
    for row in range(ROWS):
        returns = batch["rewards"][row].item() + batch["discounts"][row].item() * (support - cost[row])
        wanted = projected_by_hand(ahead[lowest[row], row], returns, support)
        own = softmax(online[:, row])
        distances.append(np.abs(own @ support - wanted @ support).mean())
        total += batch["weights"][row].item() * -(wanted * np.log(own)).sum() * (row > 0) / (ROWS - 1)
    loss = algorithm.critics_loss(outputs, batch, {})
    assert loss.total.item() == pytest.approx(total, rel=1e-4)
    assert loss.priorities is not None
    np.testing.assert_allclose(loss.priorities[1:], distances[1:], rtol=1e-3)
    # The running statistics of the online critics move once.
    assert set(loss.assign) == set(algorithm.objectives(policy)[0].assigns)
    mean = networks.views["critics.1.trunk.0.input_norm.mean"]
    expected = mean + 0.01 * (torch.from_numpy(rows.mean(0)).float() - mean)
    torch.testing.assert_close(loss.assign["critics.1.trunk.0.input_norm.mean"], expected)


def test_the_xqc_actor_maximizes_the_lower_critic_mean_under_the_critics_running_statistics() -> None:
    algorithm = XQC(**SMALL)
    outputs, policy = outputs_of(algorithm)
    batch = minibatch()
    with batch_statistics(outputs.networks.others["actor"]):
        actions, log_probs = outputs.sample(batch["obs"], batch["noise"])
    logits = outputs.networks.critic_outputs(batch["obs"], actions)
    values = (logits.softmax(-1) * torch.linspace(-5, 5, 5)).sum(-1).amin(0)
    expected = (outputs.log_alpha.exp() * log_probs - values)[1:].mean()
    loss = algorithm.actor_loss(outputs, batch, {})
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert set(loss.assign) == set(algorithm.objectives(policy)[1].assigns)
    assert {name.partition(".")[0] for name in loss.assign} == {"actor"}


def test_flashsacs_actor_loss_normalizes_recorded_and_next_observations_together() -> None:
    algorithm = FlashSAC(**{**SMALL, "model": {"hiddens": [4], "critic_hiddens": [4], "residual": False}})
    outputs, _ = outputs_of(algorithm)
    batch, views = minibatch(), outputs.networks.views
    rows = torch.cat([batch["obs"], batch["next_obs"]])[:, 0].double().numpy()
    means, raw = np.split(logits_by_hand(rows, views, "actor")[:ROWS], 2, -1)
    stds, noise = np.exp(-10 + 6 * (1 + np.tanh(raw))), batch["noise"][:, 0].double().numpy()
    drawn = means + stds * noise
    log_probs = (-0.5 * (noise**2 + math.log(2 * math.pi)) - np.log(stds) + 2 * np.log(np.cosh(drawn))).sum(-1)
    actions = torch.from_numpy(np.tanh(drawn)[:, None]).float()
    logits = outputs.networks.critic_outputs(batch["obs"], actions)  # with running statistics
    values = (softmax(logits[:, :, 0].double().numpy()) @ np.linspace(-5, 5, 5)).min(0)
    expected = (outputs.log_alpha.exp().item() * log_probs - values)[1:].mean()
    loss = algorithm.actor_loss(outputs, batch, {})
    assert loss.total.item() == pytest.approx(expected, rel=1e-4)
    mean = views["actor.trunk.0.input_norm.mean"]
    moved = mean + 0.01 * (torch.from_numpy(rows.mean(0)).float() - mean)
    torch.testing.assert_close(loss.assign["actor.trunk.0.input_norm.mean"], moved)


@pytest.mark.parametrize(
    ("algorithm", "order"), [(XQC, ["critics", "actor", "alpha"]), (FlashSAC, ["actor", "alpha", "critics"])]
)
def test_flashsac_updates_the_actor_before_the_critics(algorithm: type[SAC], order: list[str]) -> None:
    made = algorithm(**SMALL)
    assert [objective.name for objective in made.objectives(made.policy(SPACES, 0))] == order


@pytest.mark.parametrize(
    "settings",
    [{"model": {"batch_norm": False}}, {"model": {"use_sde": True}}],
)
def test_flashsac_refuses_incompatible_model_settings(settings: Any, wording: Wording) -> None:
    with pytest.raises(SpecError) as raised:
        FlashSAC(**settings)
    assert str(raised.value) == wording()


def test_targets_use_the_distribution_with_the_lowest_mean_among_the_drawn_critics() -> None:
    algorithm = XQC(num_critics=3, num_target_critics=2, **SMALL)
    networks = outputs_of(algorithm)[0].networks
    logits = torch.tensor([[5.0, 0, 0], [0.0, 5, 0], [0.0, 0, 5]]).view(3, 1, 1, 3).expand(3, 2, 1, 3)
    drawn = SampleBatch({DRAWN_CRITICS: torch.tensor([[0.0, 1, 1], [1, 0, 1]]).view(2, 1, 3)})
    returns, probabilities = Categories(3, -1.0, 1.0).kept(networks, logits, drawn)
    assert returns[:, 0, 0].tolist() == [-1, 0, 1]
    assert probabilities is not None
    assert probabilities.argmax(0).flatten().tolist() == [1, 0]


@pytest.mark.parametrize(("algorithm", "kind"), [(XQC, "dense"), (FlashSAC, "dense_and_norms")])
def test_weights_keep_a_norm_of_1_and_target_networks_are_moving_averages(algorithm: type[SAC], kind: str) -> None:
    with Training("Pendulum-v1", algorithm(**SMALL), seed=1) as training:
        learner = training.running.trainee.learner
        for _ in range(2):
            named = learner.policy.parameters.named(learner.flat())
            for name, weights in named.items():
                if name.endswith(".weight") and weights.ndim == 2:
                    np.testing.assert_allclose((weights.astype(float) ** 2).sum(1), 1, rtol=1e-5)
                elif name.endswith("norm.weight") and kind == "dense_and_norms":
                    shift = named[name.replace("weight", "bias")]
                    np.testing.assert_allclose((weights**2 + shift**2).sum(), len(shift), rtol=1e-5)
            training.step()
        assert learner.sgd_steps
        targets = learner.target()
        assert targets is not None
        target = learner.policy.parameters.named(targets)["critics.0.head.weight"]
        assert (np.abs((target**2).sum(1) - 1) < 1e-3).all()
        assert (target != learner.policy.parameters.named(learner.flat())["critics.0.head.weight"]).any()


@pytest.mark.parametrize("algorithm", [XQC, FlashSAC])
def test_xqc_and_flashsac_continue_exactly_after_a_restore(algorithm: type[SAC], tmp_path: Path) -> None:
    with Training("Pendulum-v1", algorithm(**SMALL), seed=1) as training:
        for _ in range(2):
            training.step()
        training.save(tmp_path / "checkpoint")
        training.step()
        expected = training.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as restored:
        restored.step()
        np.testing.assert_array_equal(restored.running.trainee.learner.flat(), expected)


def fragment(rewards: list[list[float]], ends: list[list[bool]]) -> SampleBatch:
    found = np.array(rewards, np.float32)
    return SampleBatch(
        rewards=found,
        terminateds=np.array(ends),
        truncateds=np.zeros(found.shape, bool),
        valid=np.ones(found.shape, bool),
    )


def test_rewards_are_scaled_by_the_deviation_of_running_returns_that_reset_with_each_episode() -> None:
    measure = MeasureReturns(0.5, (-math.inf, math.inf))
    first = fragment([[1.0, 2.0], [3.0, -4.0]], [[False, False], [False, True]])
    assert measure((3, first)) is first
    measure((7, fragment([[8.0, 0.0]], [[False, False]])))  # from another worker, with running returns of its own
    measure((3, fragment([[1.0, 6.0]], [[True, False]])))
    returns = [1, 2, 3 + 0.5, -4 + 1, 8, 0, 1 + 0.5 * 3.5, 6]
    assert measure.scale == pytest.approx(np.std(returns), rel=1e-6)
    found = ScaleRewards(measure)(SampleBatch(rewards=np.array([[2.0]], np.float32), valid=np.ones((1, 1), bool)))
    np.testing.assert_allclose(found["rewards"], [[2 / np.std(returns)]], rtol=1e-6)
    resumed = MeasureReturns(0.5, (-math.inf, math.inf))
    resumed.load_state(measure.state())
    for each in (measure, resumed):
        each((3, fragment([[1.0, 1.0]], [[False, False]])))
        assert each.scale == pytest.approx(np.std([*returns, 1, 1 + 3]), rel=1e-6)


@pytest.mark.parametrize(
    ("bounds", "scale"), [((-2.0, 2.0), 50), ((-100.0, 4.0), 25), ((0.0, 4.0), 25), ((-1.0, 0.0), 10)]
)
def test_rewards_are_scaled_so_that_all_past_returns_stay_within_the_support(
    bounds: tuple[float, float], scale: float
) -> None:
    measure = MeasureReturns(0.0, bounds)
    measure((None, fragment([[-10.0, 100.0, *[0.0] * 1000]], [[False] * 1002])))
    assert measure.scale == pytest.approx(scale)


def test_minibatches_have_scaled_rewards_but_the_replay_buffer_stores_raw_ones() -> None:
    with Training("Pendulum-v1", XQC(**SMALL), seed=1) as training:
        training.step()
        learned = training.running.trainee.learner.last_batch
        operators = training.running.flow.state()["operators"]
    assert learned is not None
    measure = MeasureReturns(0.975, (-5.0, 5.0))
    measure.load_state(operators["0/MeasureReturns"]["operator"])
    stored = operators["0/StoreToReplay"]["operator"]["kept"]["ring"]["stores"]["rewards"]["values"]
    distances = np.abs(learned["rewards"].reshape(-1, 1) - stored.reshape(1, -1) / measure.scale)
    assert distances.min(1).max() < 1e-6
    assert measure.scale != pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("env", "gamma"),
    [
        ("Pendulum-v1", 0.975),
        ({"id": "Pendulum-v1", "max_episode_steps": 50}, 0.95),
        ({"id": "Pendulum-v1", "max_episode_steps": 5000}, 0.995),
        ("gymnasium.envs.classic_control:PendulumEnv", 0.995),
    ],
)
def test_the_default_gamma_follows_the_time_limit_of_the_env(env: Any, gamma: float) -> None:
    assert Training(env, XQC()).description.algorithm.config.gamma == gamma
    assert Training(env, XQC(gamma=0.5)).description.algorithm.config.gamma == 0.5


def test_the_default_gamma_of_several_policies_follows_the_time_limit_of_their_world() -> None:
    world = EnvConfig.parse({"world": "rlrun.toys:Tribes", "max_episode_steps": 100})
    policies = Policies({"a": XQC(), "b": SAC()}, WorldSamplingSettings()).in_env(world)
    assert [policies.algorithms[name].config.gamma for name in "ab"] == [0.95, 0.99]


@pytest.mark.parametrize(
    "algorithm", [SAC(exploration="repeated"), DDPG(exploration="repeated_gaussian", exploration_noise=0.5)]
)
def test_noise_durations_are_drawn_with_inverse_square_probabilities(algorithm: Any) -> None:
    behavior = algorithm.policy(SPACES, 0).behavior()
    exploration, slots, steps = behavior.exploration.inner, 3, 20_000
    exploration.inner.std = 0.5
    noise = exploration.noise(np.random.default_rng(0), steps, slots)
    heads = {"outputs": np.zeros((slots, behavior.action_space.num_outputs), np.float32)}
    starts = np.ones(slots, bool)
    taken = np.stack([exploration.explore(lambda: heads, own, starts, None, None) for own in noise])
    assert len(np.unique(taken[0])) == 6  # each env slot has its own noise
    changes = np.flatnonzero((taken[1:] != taken[:-1]).any((1, 2))) + 1
    held = np.diff([0, *changes])
    numbers = np.arange(1, 17)
    expected = numbers**-2.0 / (numbers**-2.0).sum()
    np.testing.assert_allclose(np.bincount(held, minlength=17)[1:] / len(held), expected, atol=0.015)
    assert held.max() <= 16


def test_repeated_noise_continues_after_a_restore() -> None:
    behavior, resumed = (SAC(exploration="repeated").policy(SPACES, 0).behavior() for _ in "ab")
    noise = behavior.noise_source.noise(np.random.default_rng(0), 40, 2)
    heads = {"outputs": np.zeros((2, 4), np.float32)}

    def act(policy: Any, t: int) -> Any:
        return policy.exploration.inner.explore(lambda: heads, noise[t, :, :3], np.zeros(2, bool), None, None)

    for t in range(20):
        act(behavior, t)
    resumed.load_state(behavior.state())
    for t in range(20, 40):
        np.testing.assert_array_equal(act(resumed, t), act(behavior, t))


def test_settings_that_need_continuous_actions_are_refused_with_discrete_actions(wording: Wording) -> None:
    choices = Spaces(SPACES.observation, Discrete(2))
    for settings, named in (
        ({"num_bins": 5}, "num_bins"),
        ({"model": {"batch_norm": True}}, "model.batch_norm"),
        ({"exploration": "repeated"}, "exploration"),
    ):
        with wording.raised(UsageError, named):
            ExtendedSAC(**settings).policy(choices, 0)
    outputs, _ = outputs_of(ExtendedSAC(num_bins=5, model={"hiddens": [4]}))
    assert outputs.values_of(minibatch()).shape == (2, ROWS, 1, 5)
    assert replace(outputs, returns=Categories(5, 0.0, 1.0)).returns.mean_of(torch.zeros(1, 5)).item() == 0.5
