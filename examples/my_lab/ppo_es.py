"""Two methods in one dataflow: PPO trains the members of an evolution strategy's generations, one after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlrun.plugin import (
    PPO,
    Flow,
    PositiveFloat,
    PositiveInt,
    PPOConfig,
    SampleBatch,
    StatefulOperator,
    Trainee,
    TrainOnBatch,
    generator,
)


class PPOESConfig(PPOConfig):
    """Settings of PPO-ES."""

    population_size: PositiveInt = 4
    """Members of a generation."""
    sigma: PositiveFloat = 0.01
    """Standard deviation of the perturbation of the center with which a member begins."""


class Evolve(StatefulOperator):
    """Begins a member after each batch, and moves the center to the trained members' mean, weighted by their ranks."""

    def __init__(self, trainee: Trainee, config: PPOESConfig) -> None:
        self.trainee, self.config = trainee, config
        self.members: list[Any] = []
        self.returns: list[float] = []
        self.center, self.begun = np.zeros(0, np.float32), 0

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Takes note of the member that PPO has trained on a batch, and begins the next one."""
        learner, ends = self.trainee.learner, item["terminateds"] | item["truncateds"]
        self.members.append(learner.flat())
        self.returns.append(float(item["rewards"].sum() / max(ends.sum(), 1)))
        if len(self.members) == self.config.population_size or self.begun == 0:
            weights = np.argsort(np.argsort(self.returns)) + 1.0
            self.center = (weights / weights.sum() @ np.stack(self.members)).astype(np.float32)
            self.members, self.returns = [], []
        self.begun += 1
        noise = generator(self.trainee.seed, "member", self.begun).standard_normal(len(self.center), np.float32)
        learner.load_flat(self.center + np.float32(self.config.sigma) * noise)
        return item

    def state(self) -> dict[str, Any]:
        """Returns the generation so far."""
        return {"members": [*self.members], "returns": [*self.returns], "center": self.center, "begun": self.begun}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with a generation."""
        self.members, self.returns = state["members"], state["returns"]
        self.center, self.begun = state["center"], state["begun"]


class PPOES(PPO):
    """PPO-ES (Liang et al., arXiv:1712.09381): neither PPO nor its dataflow is written again."""

    Config = PPOESConfig
    config: PPOESConfig

    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """PPO's dataflow with an evolution step after SGD, before the weights are sent."""
        found = super().learn(fragments, trainee).with_step_after(TrainOnBatch, Evolve(trainee, self.config))
        assert found is not None
        return found
