"""Fixtures for tests of flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.flow.clock import Clock
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.nodes import Delivered, Polled, Source
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.replay.local_replay import local_replay
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.rollout import DEFAULT_POLICY
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.rollout.worker_set import WorkerSet
from rlrun.engine.training.assemble.learner_factory import AlgorithmLearnerFactory


class Letters(Source):
    """Endless items of one letter: a0, a1, ..."""

    def __init__(self, letter: str) -> None:
        super().__init__(letter)
        self.letter = letter
        self.number = -1

    def next_item(self) -> Polled:
        self.number += 1
        return Delivered(f"{self.letter}{self.number}")

    @property
    def stateful(self) -> bool:
        return True

    def state(self) -> dict[str, Any]:
        return {"number": self.number}

    def load_state(self, state: Any) -> None:
        self.number = state["number"]


@pytest.fixture
def letters() -> Callable[[str], list[Flow[str]]]:
    """Makes an endless flow for each letter of a text; the flows save their position."""
    return lambda names: [Flow(Letters(name)) for name in names]


@pytest.fixture
def make_trainee() -> Iterator[Callable[..., tuple[Trainee, WorkerSet]]]:
    """Makes a trainee for an algorithm, with a local CartPole-v1 worker that starts on first use."""
    made: list[WorkerSet] = []

    def make(algorithm: Algorithm[Any], *, seed: int = 1) -> tuple[Trainee, WorkerSet]:
        config = algorithm.config
        factory = AlgorithmLearnerFactory(algorithm, EnvConfig(id="CartPole-v1"), seed, update_executor="eager")
        learner = factory()
        workers = WorkerSet(
            WorkerConfig(
                env=factory.env,
                num_envs=config.num_envs_per_worker,
                fragment_length=config.fragment_length,
                seed=seed,
                behaviors={DEFAULT_POLICY: learner.policy.behavior()},
                rewards={DEFAULT_POLICY: RewardSettings(config.gamma)},
            ),
            config.num_workers,
        )
        made.append(workers)
        schedules = {name: getattr(config, name) for name in config.scheduled_fields()}
        trainee = Trainee(
            name=DEFAULT_POLICY,
            model=config.model,
            seed=seed,
            fragment_length=config.fragment_length,
            learner_factory=factory,
            start_learner=lambda: learner,
            get_spaces=lambda: factory.spaces,
            workers=PolicyWorkers(workers, DEFAULT_POLICY),
            clock=Clock(schedules, workers.counts, lambda: learner),
            make_replay=partial(local_replay, workers.indices, seed),
        )
        return trainee, workers

    yield make
    for workers in made:
        workers.close()
