"""Several learners compared with one: the same updates, the same checkpoints, the same commands."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from stub_workers import actor_pids, shifted_values

from rlrun import PPO, SAC, Training
from rlrun.algorithms import ppo
from rlrun.cli.main import cli
from rlrun.engine.data.learning_rows import sequence_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.learner.data_parallel.learner_group import LearnerGroup
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.learner.objective import Loss
from rlrun.engine.messages.errors import TrainingFailed, UsageError
from rlrun.engine.settings.schedules import values_at
from rlrun.engine.training.assemble.learner_factory import AlgorithmLearnerFactory
from tests.results import numbers
from tests.rounding import rounding_error

CONFIG = {"model": {"hiddens": [16]}, "lr": [[0, 1e-2], [1000, 1e-3]], "max_grad_norm": 0.5}
PPO_CONFIG = {
    **CONFIG,
    "train_batch_size": 64,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 32,
    "num_epochs": 2,
    "num_envs_per_worker": 4,
}


class PPOWithTarget(ppo.PPO):
    """PPO whose learner also keeps a target network and returns replay priorities."""

    has_target_network = True

    def loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]) -> Loss:
        priorities = (outputs.values - batch["value_targets"]).abs()[:, 0]
        return replace(super().loss(outputs, batch, scheduled), priorities=priorities)


def scheduled_after(env_steps: int) -> dict[str, float]:
    config = ppo.PPOConfig.parse(PPO_CONFIG)
    return values_at({name: getattr(config, name) for name in config.scheduled_fields()}, env_steps)


def made_by(**config: Any) -> AlgorithmLearnerFactory:
    algorithm = PPOWithTarget(ppo.PPOConfig.parse({**PPO_CONFIG, **config}))
    return AlgorithmLearnerFactory(algorithm, EnvConfig.parse("CartPole-v1"), seed=3, update_executor="eager")


def half_valid_batch(rows: int, seed: int = 0) -> SampleBatch:
    """Returns rows of experience, most of them valid in the first half and few in the second."""
    rng = np.random.default_rng(seed)
    chance = np.where(np.arange(rows) < rows // 2, 0.95, 0.3)
    return SampleBatch(
        obs=rng.normal(size=(rows, 1, 4)).astype(np.float32),
        actions=rng.integers(0, 2, (rows, 1)),
        logp=-np.abs(rng.normal(size=(rows, 1))).astype(np.float32),
        values=rng.normal(size=(rows, 1)).astype(np.float32),
        advantages=rng.normal(size=(rows, 1)).astype(np.float32),
        value_targets=rng.normal(size=(rows, 1)).astype(np.float32),
        valid=(rng.random(rows) < chance)[:, None],
    ).zero_invalid()


def group_of(num_learners: int, **config: Any) -> LearnerGroup:
    make = made_by(**config)
    alone: LocalLearner = make()
    return LearnerGroup(
        make,
        num_learners,
        policy=alone.policy,
        num_cpus_per_learner=0.5,
        timeout_s=60,
    )


@pytest.fixture(scope="module")
def kept() -> Iterator[list[LearnerGroup]]:
    groups: list[LearnerGroup] = []
    yield groups
    for group in groups:
        group.close()


@pytest.fixture
def pair(running_ray: None, kept: list[LearnerGroup]) -> LearnerGroup:
    """Two learners at the start of a run."""
    if not kept:
        kept.append(group_of(2))
    (group,), start = kept, made_by()()
    group.load_flat(start.flat())
    group.load_target(start.flat())
    group.load_optimizer_state(start.optimizer_state())
    group.load_state(start.state())
    group.take_statistics()
    return group


def replicas(group: LearnerGroup, method: str) -> list[Any]:
    return group._call_all(method)


def test_one_step_of_two_learners_equals_one_step_of_a_single_learner(pair: LearnerGroup) -> None:
    alone = made_by()()
    for learner in (alone, pair):
        learner.learn(half_valid_batch(40), num_epochs=1, minibatch_size=40, scheduled=scheduled_after(0))
    assert pair.sgd_steps == alone.sgd_steps == 1
    np.testing.assert_allclose(pair.flat(), alone.flat(), atol=1e-6)
    assert pair.last_statistics() == pytest.approx(alone.last_statistics(), abs=rounding_error(40))
    assert pair.take_statistics() == pytest.approx(alone.take_statistics(), abs=rounding_error(40))


def test_two_learners_match_a_single_one_over_many_minibatches_and_stay_bitwise_equal(pair: LearnerGroup) -> None:
    alone = made_by()()
    for seed in range(3):
        for learner in (alone, pair):
            learner.learn(
                half_valid_batch(60, seed), num_epochs=3, minibatch_size=24, scheduled=scheduled_after(300 * seed)
            )
    assert (pair.sgd_steps, pair.weights_version) == (alone.sgd_steps, alone.weights_version) == (27, 3)
    np.testing.assert_allclose(pair.flat(), alone.flat(), atol=rounding_error(24 + 27))
    first, second = replicas(pair, "flat")
    assert first.tobytes() == second.tobytes()
    first, second = replicas(pair, "optimizer_state")
    assert {name: part.tobytes() for name, part in first.items()} == {n: part.tobytes() for n, part in second.items()}
    first, second = replicas(pair, "take_statistics")
    assert first == second


def test_two_learners_take_halves_of_each_minibatch_and_return_priorities_in_order(pair: LearnerGroup) -> None:
    alone = made_by()()
    for number in (1, 3):
        rows = half_valid_batch(24, seed=number)
        expected, found = (
            learner.step(rows, scheduled=scheduled_after(0), minibatches=number) for learner in (alone, pair)
        )
        assert len(found) == len(expected) == (24 if number == 1 else 0)
        np.testing.assert_allclose(found, expected, atol=rounding_error(4 + 16))
    assert (pair.sgd_steps, pair.weights_version) == (alone.sgd_steps, alone.weights_version) == (4, 4)
    np.testing.assert_allclose(pair.flat(), alone.flat(), atol=rounding_error(24 + 4))
    first, second = replicas(pair, "flat")
    assert first.tobytes() == second.tobytes()
    assert pair.take_statistics() == pytest.approx(alone.take_statistics(), abs=rounding_error(24 + 4))
    with pytest.raises(UsageError, match="2 learners cannot divide a minibatch of 3 rows"):
        pair.step(half_valid_batch(9), scheduled=scheduled_after(0), minibatches=3)


@pytest.mark.regress
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_restored_off_policy_run_with_two_learners_matches_a_run_with_one_learner(
    num_workers: int, running_ray: None, tmp_path: Path
) -> None:
    env = {"id": "Pendulum-v1", "max_episode_steps": 25}
    config = {
        "model": {"hiddens": [16]},
        "minibatch_size": 8,
        "learning_starts": 60,
        "replay": {"sampling": "prioritized"},
        "min_env_steps_per_iteration": 40,
        "num_workers": num_workers,
    }
    with Training(env, SAC(**config), seed=4) as local:
        expected = [numbers(local.step()) for _ in range(4)]
    with Training(env, SAC(**config, num_learners=2), seed=4) as remote:
        found = [numbers(remote.step()) for _ in range(2)]
        remote.save(tmp_path / "checkpoint")
    with Training.restore(tmp_path / "checkpoint") as restored:
        found += [numbers(restored.step()) for _ in range(2)]
    for own, other in zip(found, expected, strict=True):
        assert own.keys() == other.keys()
        for name, value in own.items():
            assert value is None or value == pytest.approx(other[name], rel=1e-3, abs=1e-3), name


def test_two_learners_split_minibatches_of_sequences(running_ray: None) -> None:
    config = {"model": {"hiddens": [8], "core": "gru", "core_width": 4}, "seq_len": 4}
    rng, steps = np.random.default_rng(0), half_valid_batch(60)
    fragment = steps.map(lambda leaf: leaf.reshape(10, 6, *leaf.shape[2:]))
    fragment["episode_starts"] = rng.random((10, 6)) < 0.2
    fragment["state"] = rng.normal(size=(10, 6, 8)).astype(np.float32)
    pair, alone = group_of(2, **config), made_by(**config)()
    try:
        for learner in (alone, pair):
            rows = sequence_rows(fragment, 4)
            learner.learn(rows, num_epochs=2, minibatch_size=16, scheduled=scheduled_after(0))
        assert pair.sgd_steps == alone.sgd_steps == 2 * 5  # 18 rows, 4 in a minibatch
        np.testing.assert_allclose(pair.flat(), alone.flat(), atol=rounding_error(16 + 10))
    finally:
        pair.close()


def test_two_learners_agree_on_when_a_statistic_stops_the_update_epochs(pair: LearnerGroup) -> None:
    alone, free = made_by()(), made_by()()
    free.learn(half_valid_batch(60), num_epochs=4, minibatch_size=24, scheduled=scheduled_after(0))
    bound = free.take_statistics()["kl"] / 2
    for seed in range(3):
        for learner in (alone, pair):
            learner.learn(
                half_valid_batch(60, seed),
                num_epochs=6,
                minibatch_size=24,
                scheduled=scheduled_after(0),
                stop=("kl", bound),
            )
    assert pair.sgd_steps == alone.sgd_steps < 3 * 18
    assert [state["sgd_steps"] for state in replicas(pair, "state")] == [alone.sgd_steps] * 2


def test_a_two_learner_checkpoint_resumes_exactly_on_two_learners_and_approximately_on_one(pair: LearnerGroup) -> None:
    pair.learn(half_valid_batch(60), num_epochs=2, minibatch_size=24, scheduled=scheduled_after(0))
    pair.update_target()
    scheduled = {**scheduled_after(0), "lr": 5e-3}
    saved = pair.flat(), pair.optimizer_state(), pair.state(), pair.target()
    pair.learn(half_valid_batch(60, 1), num_epochs=2, minibatch_size=24, scheduled=scheduled)
    expected, one = pair.flat(), made_by()()
    for learner in (pair, one):
        learner.load_flat(saved[0])
        learner.load_optimizer_state(saved[1])
        learner.load_state(saved[2])
        learner.load_target(saved[3])
        learner.learn(half_valid_batch(60, 1), num_epochs=2, minibatch_size=24, scheduled=scheduled)
        assert (learner.sgd_steps, learner.weights_version) == (12, 2)
    np.testing.assert_array_equal(pair.flat(), expected)
    np.testing.assert_allclose(one.flat(), expected, atol=rounding_error(24 + 12))
    np.testing.assert_array_equal(one.target(), pair.target())


def test_two_learners_each_compute_target_outputs_for_their_own_columns(pair: LearnerGroup) -> None:
    alone = made_by()()
    obs = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
    for columns in (3, 1):
        batch = SampleBatch(obs=obs[:, :columns], valid=np.ones((5, columns), bool))
        found = pair.target_outputs(batch)
        assert found.shape == (5, columns, 2)
        np.testing.assert_allclose(found, alone.target_outputs(batch), atol=rounding_error(4 + 16))


def test_remote_learners_evaluate_a_function_like_a_local_learner(pair: LearnerGroup) -> None:
    alone = made_by()()
    batch = SampleBatch(half_valid_batch(6), shift=np.arange(6, dtype=np.float32).reshape(6, 1))
    found, expected = (learner.evaluate(shifted_values, batch)["values"] for learner in (pair, alone))
    np.testing.assert_allclose(found, expected, atol=rounding_error(4 + 16))
    assert found[-1, 0] - found[0, 0] > 3
    with pytest.raises(ValueError, match="must be a module-level function"):
        pair.evaluate(lambda outputs, batch: outputs.values, batch)


def test_a_part_of_the_target_network_can_be_updated_alone_in_both_learners(pair: LearnerGroup) -> None:
    pair.load_target(np.zeros_like(pair.flat()))
    pair.update_target(0.5, prefix="value_")
    start, size = pair.policy.parameters.range_under("value_")
    for target in replicas(pair, "target"):
        np.testing.assert_allclose(
            target[start : start + size], 0.5 * pair.flat()[start : start + size], rtol=rounding_error(1)
        )
        assert np.count_nonzero(target) == np.count_nonzero(target[start : start + size]) > 0


def test_gradients_from_a_worker_update_both_learners(pair: LearnerGroup) -> None:
    alone, worker = made_by()(), made_by()()
    gradients = worker.gradients(half_valid_batch(40), scheduled=scheduled_after(0))
    for learner in (alone, pair):
        learner.apply_gradients(gradients, worker.statistics_of_gradients, scheduled=scheduled_after(0))
    first, second = replicas(pair, "flat")
    np.testing.assert_array_equal(first, alone.flat())
    np.testing.assert_array_equal(second, alone.flat())
    assert pair.sgd_steps == 1
    assert pair.is_finite()


def test_a_learner_in_a_ray_actor_equals_a_local_learner_bit_for_bit(running_ray: None, tmp_path: Path) -> None:
    config = {**PPO_CONFIG, "normalize_observations": True, "recompute_advantages": True, "lr": {"adaptive_kl": 1e-3}}
    with Training("CartPole-v1", PPO(**config), seed=4) as local:
        expected = [numbers(local.step()) for _ in range(4)]
    with Training("CartPole-v1", PPO(**{**config, "num_learners": 1}), seed=4) as remote:
        assert [numbers(remote.step()) for _ in range(2)] == expected[:2]
        action = remote.act(np.zeros(4, np.float32))
        remote.save(tmp_path / "checkpoint")
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert restored.act(np.zeros(4, np.float32)) == action
        assert [numbers(restored.step()) for _ in range(2)] == expected[2:]


@pytest.mark.regress
def test_remote_learners_report_that_they_compile_the_update(running_ray: None) -> None:
    announced: list[str] = []
    with Training("CartPole-v1", PPO(**PPO_CONFIG, num_learners=1), announce=announced.append) as training:
        training.update_executor = "compiled"
        training.start()
    assert ["compiles the update" in text for text in announced] == [True]


@pytest.mark.chaos
def test_a_trial_whose_learner_dies_fails_with_the_learners_index(running_ray: None) -> None:
    before = set(actor_pids())
    with Training("CartPole-v1", PPO(**PPO_CONFIG, num_learners=2, worker_timeout_s=60), seed=1) as training:
        training.step()
        os.kill(max(set(actor_pids()) - before), signal.SIGKILL)
        with pytest.raises(
            TrainingFailed,
            match=r"^learner [01] died .*, and the others cannot continue without it; set failure\.max_re",
        ):
            training.step()


def test_train_runs_two_learners_on_ray(tmp_path: Path) -> None:
    spec = tmp_path / "pole.yaml"
    spec.write_text(
        json.dumps(
            {
                "pole": {
                    "algorithm": "ppo",
                    "env": "CartPole-v1",
                    "stop": {"iteration": 3},
                    "config": {**PPO_CONFIG, "num_learners": 2},
                    "checkpoint": {"at_end": True},
                    "evaluation": {"every": 3, "episodes": 2},
                }
            }
        )
    )
    done = CliRunner().invoke(cli, ["train", "-f", str(spec), "--runs-dir", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.stderr
    (trial,) = json.loads(done.stdout)["trials"]
    assert trial["status"] == "TERMINATED"
    assert trial["last_result"]["sgd_steps"] == 12
    assert json.loads((tmp_path / "pole/run.json").read_text())["executor"] == "ray"
