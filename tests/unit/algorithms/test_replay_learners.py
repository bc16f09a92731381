"""Two data-parallel learners on the minibatches of a replay buffer: the same updates as one learner, up to rounding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from rlrun import Training
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.nn.dense_net import BATCH_NORM_EPSILON
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.assemble.learner_factory import AlgorithmLearnerFactory
from tests.rounding import rounding_error
from tests.sum_of_two import SumOfTwo

SMALL = {"minibatch_size": 8, "learning_starts": 60, "training_intensity": 0.5, "min_env_steps_per_iteration": 0}
PRIORITIZED = {"replay": {"sampling": "prioritized"}}
BOX, DISCRETE = "Pendulum-v1", "CartPole-v1"


class Family(NamedTuple):
    """An algorithm with settings for which its learners differ from those of similar algorithms."""

    algorithm: str
    env: Any
    config: Mapping[str, Any]
    executor: UpdateExecutor = "c"
    amplified: float = 1.0


NORMALIZED = BATCH_NORM_EPSILON**-0.5
"""How much batch normalization may amplify the rounding of a feature that hardly varies within a minibatch."""


def hidden(**model: Any) -> dict[str, Any]:
    return {"model": {"hiddens": [16], **model}}


IN_CI = {
    "rainbow": Family(
        "dqn",
        DISCRETE,
        {**PRIORITIZED, "noisy": True, "dueling": True, "distribution": "c51", "n_step": 3},
    ),
    "r2d2": Family("r2d2", DISCRETE, {**hidden(core="gru", core_width=8), "replay": {"length": 6, "burn_in": 2}}),
    "redq": Family("redq", BOX, {**hidden(), **PRIORITIZED, "num_critics": 3}, "eager"),
    "flashsac": Family("flashsac", BOX, hidden(critic_hiddens=[8]), "c", NORMALIZED),
}
"""A pairwise sample of transitions and sequences, priorities, random columns, projections and executors."""

FURTHER = {
    "dqn": Family("dqn", DISCRETE, hidden()),
    "munchausen": Family("dqn", DISCRETE, {**hidden(), "munchausen": {}}),
    "quantile": Family("dqn", DISCRETE, {**hidden(), "distribution": "quantile"}, "eager"),
    "iqn": Family("iqn", DISCRETE, {**hidden(), **PRIORITIZED}),
    "ddpg": Family("ddpg", BOX, hidden(), "eager"),
    "td3": Family("td3", BOX, {**hidden(), **PRIORITIZED}),
    "td3 with lstm": Family("td3", BOX, {**hidden(core="lstm", core_width=8), "replay": {"length": 6}}),
    "sac": Family("sac", BOX, {**hidden(), **PRIORITIZED}),
    "sac of choices": Family("sac", DISCRETE, hidden(), "eager"),
    "sac with gru": Family("sac", BOX, {**hidden(core="gru", core_width=8), "replay": {"length": 6}}),
    "tqc": Family("tqc", BOX, hidden()),
    "droq": Family("droq", BOX, hidden()),
    "crossq": Family("crossq", BOX, hidden(critic_hiddens=[16]), "eager", NORMALIZED),
    "simba": Family("simba", BOX, hidden(critic_hiddens=[16]), "eager"),
    "xqc": Family("xqc", BOX, {**hidden(critic_hiddens=[16]), **PRIORITIZED}, "c", NORMALIZED),
    "qtopt": Family("qtopt", BOX, {**hidden(), "cem_samples": 8, "cem_elites": 2}),
    "vdn": Family("vdn", EnvConfig(world="rlrun.toys:TwoStepGame"), {**hidden(), **PRIORITIZED}),
    "slateq": Family("slateq", "rlrun.toys:InterestEvolution", hidden()),
    "alphazero": Family(
        "alphazero", EnvConfig(world="rlrun.toys:TicTacToe"), {**hidden(), "simulations": 2, "num_envs_per_worker": 4}
    ),
    "dagger": Family("dagger", DISCRETE, {**hidden(), "expert": "rlrun.toys:balance_pole"}),
    "qmix": Family("qmix", EnvConfig(world="rlrun.toys:TwoStepGame"), hidden(core="gru", core_width=8)),
}


class Step(NamedTuple):
    """Arguments of one call of `Learner.step`."""

    batch: SampleBatch
    scheduled: dict[str, float]
    minibatches: int


def steps_of(training: Training, monkeypatch: pytest.MonkeyPatch, number: int) -> list[Step]:
    """Trains until a number of minibatches have been drawn; returns what the learner was given."""
    given: list[Step] = []
    own = LocalLearner.step

    def recorded(learner: LocalLearner, batch: SampleBatch, **settings: Any) -> Any:
        given.append(Step(batch.map(np.copy), dict(settings["scheduled"]), settings["minibatches"]))
        return own(learner, batch, **settings)

    with monkeypatch.context() as patched:
        patched.setattr(LocalLearner, "step", recorded)
        while len(given) < number:
            training.step()
    return given[:number]


class Learned(NamedTuple):
    """State and reports of a learner after some steps: arrays by name, counters, statistics and new priorities."""

    held: dict[str, np.ndarray]
    state: dict[str, Any]
    statistics: dict[str, float]
    priorities: list[np.ndarray]


def learned(learner: LocalLearner, steps: list[Step]) -> Learned:
    """Takes the steps, and moves the target network after each."""
    priorities = []
    for step in steps:
        priorities.append(learner.step(step.batch, scheduled=step.scheduled, minibatches=step.minibatches))
        learner.update_target(0.5)
    target, optimizers = learner.target(), learner.optimizer_state()
    moments = {name: np.sqrt(part) if name.endswith("/second") else part for name, part in optimizers.items()}
    held = {"parameters": learner.flat(), **({} if target is None else {"target": target}), **moments}
    return Learned(held, learner.state(), learner.take_statistics(), priorities)


@pytest.mark.parametrize(
    "family",
    [
        *(pytest.param(family, id=name) for name, family in IN_CI.items()),
        *(pytest.param(family, id=name, marks=pytest.mark.regress) for name, family in FURTHER.items()),
    ],
)
def test_two_learners_on_half_minibatches_match_one_learner_on_whole_minibatches(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = algorithm_class(family.algorithm)
    with Training(family.env, algorithm(algorithm.Config.parse({**SMALL, **family.config})), seed=3) as training:
        training.update_executor = "eager"  # C kernels read minibatches themselves, which `steps_of` would not see
        steps = steps_of(training, monkeypatch, 6)
        factory = training.running.trainee.learner_factory
        assert isinstance(factory, AlgorithmLearnerFactory)
    make = replace(factory, update_executor=family.executor)
    alone, sums = learned(make(), steps), SumOfTwo()
    pair = [make(all_reduce=sums.of(rank), share=(rank, 2)) for rank in range(2)]
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda learner: learned(learner, steps), pair)

    tolerance = rounding_error((6 + 2 * 8 + 2 * 16) * family.amplified)
    assert alone.held.keys() == first.held.keys() == second.held.keys()
    for name, expected in alone.held.items():
        np.testing.assert_array_equal(first.held[name], second.held[name])
        size = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(first.held[name], expected, rtol=0, atol=tolerance * size, err_msg=name)
    assert first.statistics == second.statistics == pytest.approx(alone.statistics, rel=tolerance, abs=tolerance)
    for expected, *halves in zip(alone.priorities, first.priorities, second.priorities, strict=True):
        np.testing.assert_allclose(np.concatenate(halves), expected, rtol=tolerance, atol=tolerance)
    assert json.dumps(first.state, default=str) == json.dumps(alone.state, default=str)
