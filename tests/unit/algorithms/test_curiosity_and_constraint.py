"""Curiosity and constraints of on-policy algorithms: bit-exact resumes, refusals, and what they reach."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import rlrun
from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.vtrace import vtrace
from rlrun.engine.messages.errors import SpecError, UsageError
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.assemble.reward_streams import novelty_loss
from rlrun.engine.training.training import Training
from rlrun.experiments.spec.load import load_experiments
from rlrun.toys.tabular_mdps import TwoLanes
from tests.results import numbers

linprog = pytest.importorskip("scipy.optimize").linprog

LANES = {"id": "rlrun.toys:TwoLanes", "columns": ["cost"]}
SMALL = {
    "num_envs_per_worker": 4,
    "train_batch_size": 128,
    "model": {"hiddens": [8]},
    "min_env_steps_per_iteration": 200,
}
CURIOUS = {"hiddens": [8], "features": 4}
BOUND = {"column": "cost", "limit": 0.5}
CASES: dict[str, tuple[type[Algorithm[Any]], dict[str, Any]]] = {
    "ppo rnd": (rlrun.PPO, {"num_epochs": 2, "curiosity": CURIOUS}),
    "ppo icm, bounded": (rlrun.PPO, {"num_epochs": 2, "curiosity": {**CURIOUS, "kind": "icm"}, "constraint": BOUND}),
    "ppo rnd, recurrent and bounded": (
        rlrun.PPO,
        {
            "num_epochs": 2,
            "curiosity": CURIOUS,
            "constraint": BOUND,
            "model": {"hiddens": [8], "core": "gru", "core_width": 8},
        },
    ),
    "ppo icm, behind views": (
        rlrun.PPO,
        {
            "num_epochs": 2,
            "curiosity": {**CURIOUS, "kind": "icm"},
            "model": {"hiddens": [8], "views": {"prev_actions": 1, "prev_rewards": 1, "obs": 2}},
        },
    ),
    "a2c re3": (rlrun.A2C, {"train_batch_size": 80, "curiosity": {**CURIOUS, "kind": "re3"}}),
    "a2c bounded": (rlrun.A2C, {"train_batch_size": 80, "constraint": BOUND}),
    "pg bounded": (rlrun.PG, {"train_batch_size": 80, "constraint": BOUND}),
    "pg bounded, without a baseline": (
        rlrun.PG,
        {"train_batch_size": 80, "use_baseline": False, "constraint": BOUND},
    ),
}

# Workers may have acted with older weights than a resumed run gives them, so these algorithms do not resume exactly.
ASYNCHRONOUS: dict[str, tuple[type[Algorithm[Any]], dict[str, Any]]] = {
    "impala rnd": (rlrun.Impala, {"train_batch_size": 80, "curiosity": {**CURIOUS, "learn_every": 1}}),
    "impala re3, old fragments again": (
        rlrun.Impala,
        {"train_batch_size": 80, "replay_proportion": 0.5, "curiosity": {**CURIOUS, "kind": "re3"}},
    ),
    "appo icm, recurrent": (
        rlrun.APPO,
        {
            "train_batch_size": 100,
            "rollout_fragment_length": 25,
            "num_epochs": 2,
            "curiosity": {**CURIOUS, "kind": "icm"},
            "model": {"hiddens": [8], "core": "gru", "core_width": 8},
        },
    ),
}


def training_in_lanes(name: str) -> Training:
    family, settings = {**CASES, **ASYNCHRONOUS}[name]
    return Training(LANES, family(**{**SMALL, **settings}), seed=100)


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_matches_an_uninterrupted_run_bit_for_bit(name: str, tmp_path: Path) -> None:
    with training_in_lanes(name) as one:
        one.step()
        checkpoint = one.save(tmp_path / "checkpoint")
        expected = numbers(one.step())
        weights = one.running.trainee.learner.flat()
    with Training.restore(checkpoint) as other:
        assert numbers(other.step()) == expected
        np.testing.assert_array_equal(other.running.trainee.learner.flat(), weights)
    assert expected["episode_columns/cost_mean"] > 0
    assert ("intrinsic_reward_mean" in expected) == ("curiosity" in CASES[name][1])
    assert ("lagrange_multiplier" in expected) == ("constraint" in CASES[name][1])


def state_of_curiosity(training: Training) -> Any:
    (state,) = (own for path, own in training.running.flow.state()["operators"].items() if "IntrinsicRewards" in path)
    return state


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_asynchronous_learning_is_repeatable_and_resuming_restores_the_reward_statistics(
    name: str, tmp_path: Path
) -> None:
    with training_in_lanes(name) as one, training_in_lanes(name) as same:
        results = [numbers(one.step()) for _ in range(2)]
        assert [numbers(same.step()) for _ in range(2)] == results
        checkpoint = one.save(tmp_path / "checkpoint")
        saved = state_of_curiosity(one)
    assert results[-1]["intrinsic_reward_mean"] > 0 < results[-1]["learner/intrinsic_value_loss"]
    with Training.restore(checkpoint) as other:
        np.testing.assert_equal(state_of_curiosity(other), saved)
        assert np.isfinite(other.step()["learner/intrinsic_value_loss"])


def test_training_does_not_change_the_random_network() -> None:
    with training_in_lanes("ppo rnd") as training:
        learner = training.running.trainee.learner
        before = learner.flat()
        training.step()
        moved = learner.flat() != before
        table = learner.policy.parameters
        for prefix, moves in (("fixed.", False), ("learned.predictor.", True), ("actor_critic.", True)):
            start, size = table.range_under(prefix)
            assert moved[start : start + size].any() == moves, prefix


def test_nothing_is_learned_from_rows_without_a_step() -> None:
    with training_in_lanes("ppo rnd") as training:
        policy = training.running.trainee.learner.policy
        views = policy.parameters.views(policy.parameters.gather(policy.module))
        rows = SampleBatch(
            curiosity_next_obs=torch.randn(4, 1, 7),
            actions=torch.zeros(4, 1, dtype=torch.int64),
            valid=torch.tensor([[True], [False], [True], [False]]),
        )
        losses = policy.outputs(views, rows).novelty_losses()
        found = novelty_loss(policy.outputs(views, rows), rows, {}).total
        torch.testing.assert_close(found, losses[[0, 2]].mean())


@pytest.mark.parametrize("name", ["pg", "a3c", "ddppo", "mappo", "ippo"])
def test_algorithms_without_curiosity_refuse_it_and_name_those_that_support_it(name: str, wording) -> None:
    algorithm: type[Algorithm[Any]] = algorithm_class(name)
    with wording.raised(SpecError):
        algorithm.Config.parse({"curiosity": {}})


def test_curiosity_refuses_a_discount_of_1(wording) -> None:
    config: type[AlgorithmConfig] = algorithm_class("ppo").Config
    with wording.raised(SpecError, "curiosity.gamma"):
        config.parse({"curiosity": {"gamma": 1}})
    assert config.parse({"curiosity": {"gamma": 0.9999}}).curiosity.gamma == 0.9999


@pytest.mark.parametrize("name", ["impala", "appo", "a3c", "ddppo", "mappo", "ippo"])
def test_algorithms_without_constraints_refuse_them_and_name_those_that_support_them(name: str, wording) -> None:
    algorithm: type[Algorithm[Any]] = algorithm_class(name)
    with wording.raised(SpecError):
        algorithm.Config.parse({"constraint": BOUND})


def test_impalas_loss_combines_extrinsic_and_intrinsic_advantages_and_value_errors() -> None:
    draws = np.random.default_rng(0)
    rows = {name: torch.tensor(draws.normal(size=(2, 4)), dtype=torch.float32) for name in ("rewards", "paid")}
    values, own = (torch.tensor(draws.normal(size=(2, 4)), dtype=torch.float32) for _ in range(2))
    valid = torch.tensor([[True, True, True, False]] * 2)
    ends = torch.zeros(2, 4, dtype=torch.bool)
    ends[0, 2] = True
    log_ratios = torch.tensor(draws.normal(size=(2, 4)) / 9, dtype=torch.float32) * valid
    batch = SampleBatch(rewards=rows["rewards"], intrinsic_rewards=rows["paid"], terminateds=ends, valid=valid)
    curiosity = {"extrinsic_coeff": 3.0, "intrinsic_coeff": 0.5, "gamma": 0.9, "gae_lambda": 0.7}
    algorithm = algorithm_class("impala")
    curious = algorithm(algorithm.Config.parse({"gamma": 0.8, "vf_loss_coeff": 0.25, "curiosity": curiosity}))
    outputs = SimpleNamespace(values=values, further_values={"intrinsic": own})
    found = curious.corrected_values(outputs, batch, log_ratios)
    targets, advantages = vtrace(log_ratios, values, rows["rewards"], ends, valid, gamma=0.8)
    going_on = torch.zeros_like(ends)
    own_targets, own_advantages = vtrace(log_ratios, own, rows["paid"], going_on, valid, gamma=0.9, lambda_=0.7)
    torch.testing.assert_close(found.advantages, 3.0 * advantages + 0.5 * own_advantages)
    errors = (values - targets)[valid].square().mean() + (own - own_targets)[valid].square().mean()
    torch.testing.assert_close(found.loss, 0.25 * errors)


@pytest.fixture
def lab_algorithm(monkeypatch: pytest.MonkeyPatch) -> type[Algorithm[Any]]:
    """The custom on-policy algorithm from examples/."""
    path = Path(__file__).parents[3] / "examples" / "my_lab" / "awr.py"
    spec = spec_from_file_location("awr_of_the_lab", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # the settings look up type names there
    spec.loader.exec_module(module)
    found: type[Algorithm[Any]] = module.AWR
    return found


def test_a_custom_algorithm_supports_curiosity_and_a_constraint(lab_algorithm: type[Algorithm[Any]]) -> None:
    settings = {**SMALL, "num_epochs": 2, "minibatch_size": 64, "curiosity": CURIOUS, "constraint": BOUND}
    training = Training(EnvConfig.parse(LANES), lab_algorithm(lab_algorithm.Config.parse(settings)), seed=1)
    result = training.step()
    training.close()
    streams = ("intrinsic_reward_mean", "learner/intrinsic_value_loss", "learner/cost_value_loss")
    assert min(result[name] for name in streams) > 0 <= result["lagrange_multiplier"]


class NoBatches(PPO):
    """Learns from fragments as they come."""

    def learn(self, fragments: Flow[Any], trainee: Trainee) -> Flow[Any]:
        return fragments


def test_a_constraint_is_refused_for_an_algorithm_whose_plan_has_no_batches(wording) -> None:
    algorithm = NoBatches(PPOConfig.parse({"constraint": BOUND}))
    with wording.raised(UsageError, "ConcatBatches", "NoBatches"):
        Training(EnvConfig.parse(LANES), algorithm, seed=1).step()


def test_a_constraint_on_a_column_not_declared_by_the_env_is_refused(tmp_path: Path, wording) -> None:
    with (
        wording.raised(UsageError, "cost"),
        rlrun.Training(LANES["id"], rlrun.PPO(**SMALL, constraint=BOUND)) as training,
    ):
        training.step()
    spec = tmp_path / "bounded.yaml"
    spec.write_text(
        "bounded: {algorithm: ppo, env: CartPole-v1, stop: {env_steps: 10}, "
        "config: {constraint: {column: cost, limit: 1}}}"
    )
    with pytest.raises(SpecError, match=r"env\.columns.*must include 'cost'"):
        load_experiments([spec])


def test_custom_networks_are_refused_with_a_constraint() -> None:
    config = {"constraint": BOUND, "model": {"module": "torch.nn:Linear"}}
    with pytest.raises(UsageError, match=r"model\.module"), rlrun.Training(LANES, rlrun.PPO(**config)) as training:
        training.step()


def test_the_config_knows_which_settings_change_parameter_shapes() -> None:
    shapes = algorithm_class("ppo").Config.shapes_parameters
    assert shapes("curiosity.features")
    assert shapes("constraint")
    assert not shapes("curiosity.intrinsic_coeff")
    assert not shapes("constraint.limit")


def best_return(limit: float, road: TwoLanes) -> float:
    """Returns the best return on a road with bounded cost, by a linear program.

    Its variables are the frequencies of actions in each state and step; they flow from step to step.
    """
    cells, length = road.num_cells, road.episode_len
    keys = [(t, c, lane, a) for t in range(length) for c in range(cells) for lane in (0, 1) for a in (0, 1)]
    flow, begins = np.zeros((length, cells, 2, len(keys))), np.zeros((length, cells, 2))
    begins[0, 0, 0] = 1.0
    outcomes = [road.outcome(cell, lane, action) for _, cell, lane, action in keys]
    for i, ((t, cell, lane, _), (next_cell, next_lane, _, _)) in enumerate(zip(keys, outcomes, strict=True)):
        flow[t, cell, lane, i] += 1
        if t + 1 < length:
            flow[t + 1, next_cell, next_lane, i] -= 1
    rewards, costs = (np.array([outcome[k] for outcome in outcomes]) for k in (2, 3))
    solved = linprog(-rewards, [costs], [limit], flow.reshape(-1, len(keys)), begins.ravel())
    return float(-solved.fun)


def test_the_linear_program_gives_the_best_return_of_the_two_lanes_env_for_each_limit() -> None:
    found = {limit: best_return(limit, TwoLanes()) for limit in (0.0, 1.0, 1.4, 1.5, 100.0)}
    assert found == pytest.approx({0.0: 10.0, 1.0: 15.0, 1.4: 17.0, 1.5: 17.1, 100.0: 20.0})


def test_ppo_under_a_constraint_meets_the_cost_limit_and_nearly_reaches_the_best_return() -> None:
    limit = 0.6
    config = {
        "train_batch_size": 400,
        "minibatch_size": 100,
        "num_epochs": 4,
        "lr": 2e-3,
        "entropy_coeff": 0.01,
        "min_env_steps_per_iteration": 4000,
        "constraint": {"column": "cost", "limit": limit, "multiplier_lr": 0.3},
    }
    with rlrun.Training({**LANES, "kwargs": {"episode_len": 4}}, rlrun.PPO(**config), seed=100) as training:
        while training.step()["env_steps"] < 12_000:
            pass
        found = training.evaluate(500, actions="sampled")
    assert found.mean >= 0.9 * best_return(limit, TwoLanes(episode_len=4))
    assert found.column_means["episode_columns/cost_mean"] == pytest.approx(limit, rel=0.05)
