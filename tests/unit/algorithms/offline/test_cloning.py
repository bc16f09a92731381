"""BC and MARWIL maximize the likelihood of the data's actions, with equal weights or by advantage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Space

from rlrun.algorithms.offline.advantage_weights import WeighByAdvantage, values_of
from rlrun.algorithms.offline.bc import BC
from rlrun.algorithms.offline.marwil import MARWIL
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.transitions import Sequences, Transitions
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs
from rlrun.engine.policy.stochastic_actor import StochasticActorOutputs
from rlrun.engine.training.training import Training

SMALL: dict[str, Any] = {
    "model": {"hiddens": [8]},
    "minibatch_size": 32,
    "sgd_steps_per_iteration": 40,
    "lr": 0.02,
    "compile": False,
}
NONE = {"entropy_coeff": torch.zeros(())}


def write(folder: Path, observation: Space[Any], action: Space[Any], **columns: Any) -> str:
    """A set of one truncated episode with given `obs` and `actions`."""
    steps = len(columns["rewards"])
    ends = np.arange(steps) == steps - 1
    with SetWriter(folder, observation, action) as writer:
        writer.add_episode({"terminateds": ends & False, "truncateds": ends, **columns})
    return str(folder)


def cue(rng: np.random.Generator, steps: int) -> tuple[Any, Any]:
    """Observations whose sign determines the actions."""
    obs = rng.choice([-1.0, 1.0], (steps + 1, 1)).astype(np.float32)
    return obs, (obs[:-1, 0] > 0).astype(np.int64)


def distribution_and_rows(valid: list[bool]) -> tuple[Any, SampleBatch]:
    """Distributions of two actions with probabilities 3/4 and 1/4, and rows in which 0, 1 and 0 were taken."""
    outputs = torch.log(torch.tensor([[[0.75, 0.25]]])).expand(3, 1, 2)
    batch = SampleBatch(actions=torch.tensor([[0], [1], [0]]), valid=torch.tensor(valid)[:, None])
    return DiscreteActions(Discrete(2)).distribution(outputs), batch


def test_the_loss_is_the_mean_negative_log_likelihood_of_valid_steps() -> None:
    distribution, batch = distribution_and_rows([True, True, False])
    loss = BC().loss(StochasticActorOutputs(distribution), batch, NONE)
    assert float(loss.total) == pytest.approx(-(np.log(0.75) + np.log(0.25)) / 2)


def test_the_marwil_loss_with_beta_0_equals_the_cloning_loss() -> None:
    distribution, batch = distribution_and_rows([True, True, True])
    weigh = WeighByAdvantage(None, beta=0.0, start=None, rate=1e-8, max_weight=100.0)  # type: ignore[arg-type]
    batch["weights"] = torch.as_tensor(weigh.weights(np.array([[5.0], [-70.0], [0.0]], np.float32)))
    batch["value_targets"] = torch.zeros(3, 1)
    loss = MARWIL().loss(ActorCriticOutputs(distribution, torch.zeros(3, 1)), batch, NONE)
    assert float(loss.total) == float(BC().loss(StochasticActorOutputs(distribution), batch, NONE).total)


def test_the_value_loss_is_half_the_mean_squared_error() -> None:
    distribution, batch = distribution_and_rows([True, True, False])
    batch |= {"weights": torch.zeros(3, 1), "value_targets": torch.tensor([[1.0], [3.0], [9.0]])}
    loss = MARWIL(vf_loss_coeff=2.0).loss(ActorCriticOutputs(distribution, torch.zeros(3, 1)), SampleBatch(batch), NONE)
    assert float(loss.total) == pytest.approx(5.0)


def test_weights_are_exponentials_of_the_advantages_divided_by_their_running_norm() -> None:
    advantages = np.array([[10.0], [-30.0]], np.float32)
    constant = WeighByAdvantage(None, beta=2.0, start=100.0, rate=0.0, max_weight=100.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(constant.weights(advantages), np.exp([[2.0], [-6.0]]), rtol=1e-6)
    half = WeighByAdvantage(None, beta=1.0, start=100.0, rate=0.5, max_weight=100.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(half.weights(advantages), np.exp(advantages / np.sqrt(300)), rtol=1e-6)
    assert half.mean_square == 300  # halfway from 100 to the mean of 100 and 900


def test_the_norm_is_initialized_from_the_first_minibatch_and_then_updated_at_the_given_rate() -> None:
    weigh = WeighByAdvantage(None, beta=1.0, start=None, rate=0.5, max_weight=100.0)  # type: ignore[arg-type]
    first, second = np.array([[300.0], [-900.0]], np.float32), np.array([[100.0], [100.0]], np.float32)
    np.testing.assert_allclose(weigh.weights(first), np.exp(first / np.sqrt(450_000)), rtol=1e-6)
    resumed = WeighByAdvantage(None, beta=1.0, start=None, rate=0.5, max_weight=100.0)  # type: ignore[arg-type]
    resumed.load_state(weigh.state())
    np.testing.assert_allclose(resumed.weights(second), np.exp(second / np.sqrt(230_000)), rtol=1e-6)


def test_weights_are_bounded_however_large_the_advantages_are() -> None:
    weigh = WeighByAdvantage(None, beta=1.0, start=1.0, rate=0.0, max_weight=20.0)  # type: ignore[arg-type]
    weights = weigh.weights(np.array([[1e6], [3.0], [2.0], [-1e6]], np.float32))
    np.testing.assert_allclose(weights[:, 0], [20.0, 20.0, np.exp(2.0), 0.0], rtol=1e-6)
    assert weigh.metrics()["clipped"] == 0.5


def test_a_truncated_return_bootstraps_from_the_value_of_its_final_observation(tmp_path: Path) -> None:
    obs, actions = cue(np.random.default_rng(0), 3)
    data = write(tmp_path / "data", Box(-1, 1, (1,)), Discrete(2), obs=obs, actions=actions, rewards=np.ones(3))
    with Training(None, MARWIL(input=data, gamma=0.5, **SMALL)) as training:
        trainee = training.running.trainee
        batch = Transitions(DataSet(Path(data)), gamma=0.5, n_step=None).gather(np.arange(3))
        found = WeighByAdvantage(trainee, beta=1.0, start=4.0, rate=0.0, max_weight=100.0)(batch)
        values = trainee.learner.evaluate(values_of, SampleBatch(obs=obs[:, None], valid=np.ones((4, 1), np.bool_)))
    targets = np.array([1.75, 1.5, 1.0]) + np.array([0.125, 0.25, 0.5]) * values[3, 0]
    np.testing.assert_allclose(found["value_targets"][:, 0], targets, rtol=1e-6)
    np.testing.assert_allclose(found["weights"][:, 0], np.exp((targets - values[:3, 0]) / 2), rtol=1e-5)


def test_marwil_prefers_rare_but_rewarded_actions_that_bc_ignores(tmp_path: Path) -> None:
    actions = np.arange(40) % 4 == 0  # a quarter of the actions are rewarded
    with SetWriter(tmp_path / "data", Box(-1, 1, (1,)), Discrete(2)) as writer:
        for action in actions:
            own = {"actions": np.array([int(action)]), "rewards": np.array([900.0 * action])}
            flags = {"terminateds": np.ones(1, np.bool_), "truncateds": np.zeros(1, np.bool_)}
            writer.add_episode({"obs": np.zeros((2, 1), np.float32), **own, **flags})
    data, chosen = str(tmp_path / "data"), {}
    for algorithm in (BC(input=data, **SMALL), MARWIL(input=data, **SMALL)):
        with Training(None, algorithm) as training:
            training.step()
            training.step()
            chosen[algorithm.name()] = training.act(np.zeros(1, np.float32))
    assert chosen == {"bc": 0, "marwil": 1}


@pytest.mark.parametrize("algorithm", [BC, MARWIL])
def test_mixed_discrete_and_continuous_actions_are_cloned_under_an_action_mask(tmp_path: Path, algorithm: Any) -> None:
    rng = np.random.default_rng(0)
    obs, chosen = cue(rng, 60)
    mask = np.ones((61, 3), np.int8)
    mask[:, 2] = 0
    space = Dict(seen=Box(-1, 1, (1,)), action_mask=MultiBinary(3))
    action = Dict(key=Discrete(3), force=Box(-3, 3, (1,)))
    data = write(
        tmp_path / "data",
        space,
        action,
        obs={"seen": obs, "action_mask": mask},
        actions={"key": chosen, "force": (3 * obs[:-1]).astype(np.float32)},
        rewards=np.zeros(60),
    )
    with Training(None, algorithm(input=data, **SMALL)) as training:
        for _ in range(3):
            training.step()
        acts = [
            training.act({"seen": np.array([sign], np.float32), "action_mask": np.array([1, 1, 0], np.int8)})
            for sign in (-1, 1)
        ]
    assert [int(act["key"]) for act in acts] == [0, 1]
    np.testing.assert_allclose([act["force"][0] for act in acts], [-3, 3], atol=0.3)


def test_a_recurrent_policy_clones_actions_that_require_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with SetWriter(tmp_path / "data", Box(-1, 1, (1,)), Discrete(2)) as writer:
        for _ in range(20):
            sign = rng.choice([-1.0, 1.0])
            obs = np.array([[sign], [0], [0], [0]], np.float32)  # the sign is seen in the first step only
            flags = {"terminateds": np.array([False, False, True]), "truncateds": np.zeros(3, np.bool_)}
            writer.add_episode({"obs": obs, "actions": np.full(3, int(sign > 0)), "rewards": np.zeros(3), **flags})
    settings = {**SMALL, "model": {"core": "gru", "core_width": 8, "hiddens": []}, "minibatch_size": 16}
    with Training(None, BC(input=str(tmp_path / "data"), seq_len=3, **settings)) as training:
        training.step()
        training.step()
        for sign in (-1, 1):
            seen = [sign, 0, 0]
            acts = [training.act(np.array([x], np.float32), episode_start=t == 0) for t, x in enumerate(seen)]
            assert acts == [int(sign > 0)] * 3


def test_a_sequence_that_starts_mid_episode_starts_from_the_recurrent_state_reached_by_acting(tmp_path: Path) -> None:
    obs, actions = cue(np.random.default_rng(0), 50)  # two sequences of the default length
    data = write(tmp_path / "data", Box(-1, 1, (1,)), Discrete(2), obs=obs, actions=actions, rewards=np.zeros(50))
    cloning = BC(input=data, **{**SMALL, "model": {"core": "gru", "core_width": 8, "hiddens": []}})
    with Training(None, cloning) as training:
        views = (cloning.view(DataSet(Path(data))), Sequences(DataSet(Path(data)), length=50))
        halves, whole = (view.gather(np.arange(len(view))) for view in views)
        cut, acted = (training.running.trainee.learner.evaluate(log_probs_of, rows) for rows in (halves, whole))
    assert len(halves["valid"]) == 2
    np.testing.assert_allclose(cut[halves["valid"]], acted[whole["valid"]], atol=1e-6)


def log_probs_of(outputs: StochasticActorOutputs, batch: SampleBatch) -> torch.Tensor:
    return outputs.distribution.log_prob(batch["actions"])


def test_marwil_refuses_recurrent_networks(wording) -> None:
    with wording.raised(SpecError):
        MARWIL(model={"core": "gru"})


@pytest.mark.parametrize("core", [None, "gru"])
def test_a_policy_that_sees_two_observations_clones_actions_that_depend_on_the_previous_one(
    tmp_path: Path, core: str | None
) -> None:
    rng = np.random.default_rng(0)
    with SetWriter(tmp_path / "data", Box(-1, 1, (1,)), Discrete(2)) as writer:
        for _ in range(20):
            obs = rng.choice([-1.0, 1.0], (6, 1)).astype(np.float32)
            before = np.append([False], obs[:4, 0] > 0)  # nothing comes before the first step
            flags = {"terminateds": np.arange(5) == 4, "truncateds": np.zeros(5, np.bool_)}
            writer.add_episode({"obs": obs, "actions": before.astype(np.int64), "rewards": np.zeros(5), **flags})
    model = {"views": {"obs": 2, "prev_actions": 1}, "core": core, "core_width": 8, "hiddens": [8]}
    learns = BC(input=str(tmp_path / "data"), **{**SMALL, "model": model}, seq_len=2, normalize_observations=True)
    with Training(None, learns) as training:
        training.step()
        training.step()
        signs = [1, -1, -1, 1, 1]
        acts = [training.act(np.array([x], np.float32), episode_start=t == 0) for t, x in enumerate(signs)]
    assert acts == [0, 1, 0, 0, 1]
