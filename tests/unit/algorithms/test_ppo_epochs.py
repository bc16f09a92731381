"""What PPO does between and after its epochs: recomputed advantages, separate gradient norms, and the KL penalty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import rlrun
from rlrun.algorithms.kl_penalty import AdaptKLPenalty, KLPenalty
from rlrun.engine.data.learning_rows import learning_rows
from rlrun.engine.data.sample_batch import LOGGED, SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.engine.flow.operators.recomputation import RecomputedAdvantages, state_values
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.objective import Loss
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.training.assemble.learner_factory import AlgorithmLearnerFactory
from rlrun.engine.training.training import Training
from tests.rounding import rounding_error

SMALL: dict[str, Any] = {
    "num_envs_per_worker": 3,
    "train_batch_size": 96,
    "minibatch_size": 32,
    "min_env_steps_per_iteration": 0,
    "model": {"hiddens": [8]},
    "num_epochs": 2,
    "gamma": 0.9,
    "gae_lambda": 0.8,
}
RECURRENT = {"seq_len": 8, "model": {"hiddens": [8], "core": "gru", "core_width": 4}}
OPERATORS = (ComputeAdvantages(0.9, 0.8), Standardize("advantages"))


STREAMS: dict[str, Flow[SampleBatch]] = {}
"""Streams of fragments in this file's trainings, by algorithm."""


class ShownPPO(rlrun.PPO):
    """PPO whose fragments are accessible to a test."""

    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        STREAMS["ppo"] = fragments
        return super().learn(fragments, trainee)


class ShownIPPO(rlrun.IPPO):
    """IPPO whose fragments are accessible to a test."""

    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        STREAMS["ippo"] = fragments
        return super().learn(fragments, trainee)


SHOWN: dict[str, Any] = {"ppo": ShownPPO, "ippo": ShownIPPO}


def taken(training: Training, algorithm: str = "ppo") -> tuple[Trainee, SampleBatch]:
    """The next fragment that the current policy collects."""
    trainee = training.running.trainee
    (fragment,) = STREAMS[algorithm].take(1)
    return trainee, fragment


def with_advantages(batch: SampleBatch) -> SampleBatch:
    for operator in OPERATORS:
        batch = operator(batch)
    return batch


def arranged(batch: SampleBatch) -> SampleBatch:
    return learning_rows(batch, seq_len=8 if "state" in batch else None, whole_fragments=False)


def oracle(values: NDArray[np.float64], batch: SampleBatch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Standardized advantages, and targets, of a batch without empty rows but with rows of final observations."""
    valid = batch["valid"]
    advantages = np.zeros(valid.shape)
    for slot in range(valid.shape[1]):
        following = 0.0
        for t in reversed(range(len(valid))):
            if valid[t, slot]:
                bootstrap = 0.0 if batch["terminateds"][t, slot] else 0.9 * values[t + 1, slot]
                following *= 0.9 * 0.8 * (not (batch["terminateds"][t, slot] or batch["truncateds"][t, slot]))
                following += batch["rewards"][t, slot] + bootstrap - values[t, slot]
                advantages[t, slot] = following
    targets = advantages + values[:-1]
    seen = advantages[valid]
    return np.where(valid, (advantages - seen.mean()) / seen.std(), 0), np.where(valid, targets, 0)


@pytest.mark.parametrize(
    ("algorithm", "env", "settings"),
    [
        ("ppo", {"id": "CartPole-v1", "max_episode_steps": 13}, {}),
        ("ppo", {"id": "CartPole-v1", "max_episode_steps": 13}, RECURRENT),
        ("ppo", "rlrun.toys:MaskedGrid", {"model": {"hiddens": [8], "views": {"prev_actions": 2}}}),
        ("ippo", "CartPole-v1", {}),
    ],
    ids=["dense", "gru", "masks and views", "normalized values"],
)
def test_recomputing_advantages_with_unchanged_parameters_gives_the_same_advantages(
    algorithm: str, env: Any, settings: dict[str, Any]
) -> None:
    made = SHOWN[algorithm](**{**SMALL, **settings})
    with Training(env, made, seed=1) as training:
        if algorithm == "ippo":
            training.step()  # before this step, there are no statistics to normalize by
        trainee, fragment = taken(training, algorithm)
        batch = with_advantages(fragment)
        again = RecomputedAdvantages(batch, OPERATORS, arranged)(trainee.learner.evaluate)
    before = arranged(batch)
    assert set(again) == {"advantages", "value_targets"}
    assert not batch["valid"].all()
    for name, column in again.items():
        np.testing.assert_allclose(column, before[name], atol=rounding_error(200, np.abs(before[name]).max()))


@pytest.mark.parametrize("settings", [{}, RECURRENT], ids=["dense", "gru"])
def test_a_later_epoch_uses_advantages_recomputed_with_the_latest_values(settings: dict[str, Any]) -> None:
    flats = []
    for recompute in (OPERATORS, ()):
        env = {"id": "CartPole-v1", "max_episode_steps": 13}
        with Training(env, ShownPPO(**{**SMALL, **settings, "lr": 0.02}), seed=1) as training:
            trainee, fragment = taken(training)
            batch = with_advantages(fragment)
            learner, scheduled = trainee.learner, trainee.clock.scheduled()
            if recompute:
                train = TrainOnBatch(
                    trainee,
                    num_epochs=2,
                    minibatch_size=32,
                    seq_len=8 if settings else None,
                    recompute=recompute,
                )
                train(batch)
                assert learner.weights_version == 1
            else:
                learner.learn(arranged(batch), num_epochs=1, minibatch_size=32, scheduled=scheduled)
                rows = batch.closed().rows(33)
                if settings:
                    rows["state"] = batch["state"][0]
                values = learner.evaluate(lone_values, rows).T
                advantages, targets = oracle(values.astype(np.float64), batch)
                second = {"advantages": advantages.astype(np.float32), "value_targets": targets.astype(np.float32)}
                learner.learn(
                    arranged(SampleBatch(batch, **second)), num_epochs=1, minibatch_size=32, scheduled=scheduled
                )
            flats.append(learner.flat())
    np.testing.assert_allclose(flats[0], flats[1], atol=rounding_error(200))


def lone_values(outputs: Any, batch: SampleBatch) -> torch.Tensor:
    values: torch.Tensor = outputs.values
    return values


def test_recomputed_advantages_treat_logged_actions_like_the_first_computation() -> None:
    with Training("CartPole-v1", ShownPPO(**SMALL), seed=1) as training:
        trainee, fragment = taken(training)
        logged = np.zeros_like(fragment["valid"])
        logged[3] = fragment["valid"][3]
        operators = (ComputeAdvantages(0.9, 0.8),)
        batch = operators[0](SampleBatch(fragment, **{LOGGED: logged}))
        again = RecomputedAdvantages(batch, operators, arranged)(trainee.learner.evaluate)
    before = arranged(batch)["advantages"]
    np.testing.assert_allclose(again["advantages"], before, atol=rounding_error(200, np.abs(before).max()))


BATCHES: list[dict[str, NDArray[Any]]] = []
RECOMPUTED = ("advantages", "value_targets", "intrinsic_advantages", "intrinsic_value_targets")


class RecordingPPO(rlrun.PPO):
    """PPO that records what `RECOMPUTED` names in each minibatch, sorted."""

    def loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, torch.Tensor]) -> Loss:
        BATCHES.append({name: np.sort(batch[name].numpy(), axis=None) for name in RECOMPUTED})
        return super().loss(outputs, batch, scheduled)


@pytest.mark.parametrize("recompute", [True, False])
def test_targets_of_all_reward_streams_change_in_the_second_epoch_only_if_they_are_recomputed(recompute: bool) -> None:
    config = {**SMALL, "minibatch_size": 96, "lr": 0.02, "curiosity": {"hiddens": [4], "features": 2}, "compile": False}
    with Training("CartPole-v1", RecordingPPO(**config, recompute_advantages=recompute), seed=1) as training:
        BATCHES.clear()
        training.step()
    first, second = BATCHES
    for name in RECOMPUTED:
        assert np.allclose(first[name], second[name], atol=1e-3) == (not recompute), name


def test_intrinsic_advantages_are_recomputed_with_the_latest_intrinsic_values() -> None:
    curiosity = {"hiddens": [4], "features": 2, "gamma": 0.7, "gae_lambda": 0.6}
    made = ShownPPO(**{**SMALL, "lr": 0.02}, curiosity=curiosity)
    operators = (ComputeAdvantages(0.9, 0.8, made.config.reward_streams), Standardize("advantages"))
    with Training("CartPole-v1", made, seed=1) as training:
        trainee, batch = taken(training)
        for operator in operators:
            batch = operator(batch)
        learner, rows = trainee.learner, arranged(batch)
        recompute = RecomputedAdvantages(batch, operators, arranged)
        for name, column in recompute(learner.evaluate).items():
            np.testing.assert_allclose(column, rows[name], atol=rounding_error(200, np.abs(rows[name]).max()))
        learner.learn(rows, num_epochs=1, minibatch_size=32, scheduled=trainee.clock.scheduled())
        again = recompute(learner.evaluate)
        latest = learner.evaluate(state_values, batch.closed().rows(33))
    assert set(again) == set(RECOMPUTED)
    batch = SampleBatch(batch, **{name: column.T for name, column in latest.items()})
    for operator in operators:
        batch = operator(batch)
    for name in RECOMPUTED:
        assert np.abs(again[name] - rows[name]).max() > 1e-3
        expected = arranged(batch)[name]
        np.testing.assert_allclose(again[name], expected, atol=rounding_error(200, np.abs(expected).max()))


@pytest.mark.parametrize("other", [{"constraint": {"column": "cost", "limit": 1.0}}])
def test_recomputed_advantages_are_refused_with_a_constraint(other: dict[str, Any], wording: Any) -> None:
    with wording.raised(SpecError, "recompute_advantages", "constraint"):
        rlrun.PPO(recompute_advantages=True, **other)


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("PPO", {}),
        ("PPO", {"model": {"hiddens": [8], "core": "lstm", "core_width": 4}}),
        ("PPO", {"curiosity": {}}),
        ("PPG", {}),
        ("IPPO", {}),
        ("GAIL", {}),
    ],
)
def test_separate_grad_norms_assign_exactly_the_value_parameters_to_the_critic(
    algorithm: str, settings: dict[str, Any]
) -> None:
    config = {**SMALL, **settings, "separate_grad_norms": True}
    if algorithm in ("PPO", "GAIL"):
        config["model"] = {**config["model"], "shared_value": False}
    made = getattr(rlrun, algorithm)(**config)
    env = EnvConfig.parse("CartPole-v1")
    policy = AlgorithmLearnerFactory(made, env, seed=0, update_executor="eager").policy()
    (objective,) = [each for each in made.objectives(policy) if each.is_main]
    start, size = objective.range_in(policy.parameters)
    own = [slot.name for slot in policy.parameters.slots if start <= slot.offset < start + size]
    runs = policy.parameters.runs_of(objective.clipped_separately, start, size)
    assert sum(length for length, _ in runs) == size
    critic, at = set(), start
    for length, matches in runs:
        critic |= {slot.name for slot in policy.parameters.slots if matches and at <= slot.offset < at + length}
        at += length
    flat = policy.parameters.gather(policy.module).requires_grad_()
    views = policy.parameters.views(flat)
    rows = SampleBatch(obs=torch.rand(2, 3, 4), episode_starts=torch.zeros(2, 3))
    if "core" in str(settings):
        rows["state"] = torch.rand(2, 2 * 2 * 4)
    outputs = policy.outputs(views, rows)
    total = outputs.values.square().sum() + sum(each.square().sum() for each in outputs.further_values.values())
    (gradient,) = torch.autograd.grad(total, flat)
    moved = {slot.name for slot in policy.parameters.slots if gradient[slot.offset : slot.offset + slot.size].any()}
    assert critic == moved & set(own)


def test_separate_grad_norms_need_separate_networks(wording: Any) -> None:
    for other in ({}, {"model": {"shared_value": True}}, {"model": {"shared_value": False, "module": "lab:Net"}}):
        with wording.raised(SpecError, "separate_grad_norms", "model.shared_value"):
            rlrun.PPO(separate_grad_norms=True, **other)


@pytest.mark.parametrize(("kl", "factor"), [(0.0, 0.5), (0.0049, 0.5), (0.0051, 1), (0.0199, 1), (0.0201, 1.5)])
def test_the_kl_penalty_coefficient_adapts_to_the_kl_of_the_update(kl: float, factor: float) -> None:
    class Learner:
        def last_statistics(self) -> dict[str, float]:
            return {"kl": kl}

    class OfIt:
        learner = Learner()

    penalty = KLPenalty(0.2)
    batch = SampleBatch(valid=np.ones((2, 3), np.bool_))
    AdaptKLPenalty(OfIt(), penalty, 0.01)(batch)  # type: ignore[arg-type]
    restored = KLPenalty(0.2)
    restored.load_state(penalty.state())
    assert restored.metrics() == {"learner/kl_penalty_coeff": pytest.approx(0.2 * factor)}
    np.testing.assert_array_equal(restored(batch)["kl_penalty_coeff"], np.full((2, 3), 0.2 * factor, np.float32))


def test_a_resumed_run_with_kl_penalty_and_recomputed_advantages_is_exact_bit_for_bit(tmp_path: Any) -> None:
    config = {**SMALL, "kl_penalty": {"coeff": 0.5}, "recompute_advantages": True, "separate_grad_norms": True}
    config["model"] = {"hiddens": [8], "shared_value": False}
    with Training("CartPole-v1", rlrun.PPO(**config), seed=1) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        first = training.step()
    with Training.restore(tmp_path / "checkpoint") as training:
        second = training.step()
    names = [name for name in first if name.startswith("learner/")]
    assert {name: first[name] for name in names} == {name: second[name] for name in names}
    assert first["learner/kl_penalty_coeff"] == 0.125
