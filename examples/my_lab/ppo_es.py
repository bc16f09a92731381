"""Two methods in one dataflow: PPO trains each member of an evolution strategy."""

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
    """Standard deviation of a member's first perturbation of the center."""


class Evolve(StatefulOperator):
    """Begins a member after each batch; moves the center to their weighted mean."""

    def __init__(self, trainee: Trainee, config: PPOESConfig) -> None:
        self.trainee, self.config = trainee, config
        self.members: list[Any] = []
        self.returns: list[float] = []
        self.center, self.begun = np.zeros(0, np.float32), 0

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Records the member that PPO trained on a batch, and begins the next one."""
        learner, ends = self.trainee.learner, item["terminateds"] | item["truncateds"]
        self.members.append(learner.flat())
        self.returns.append(float(item["rewards"].sum() / max(ends.sum(), 1)))
        if len(self.members) == self.config.population_size or self.begun == 0:
            weights = np.argsort(np.argsort(self.returns)) + 1.0
            self.center = (weights / weights.sum() @ np.stack(self.members)).astype(
                np.float32
            )
            self.members, self.returns = [], []
        self.begun += 1
        noise = generator(self.trainee.seed, "member", self.begun).standard_normal(
            len(self.center), np.float32
        )
        learner.load_flat(self.center + np.float32(self.config.sigma) * noise)
        return item

    def state(self) -> dict[str, Any]:
        """Returns the generation so far."""
        return {
            "members": [*self.members],
            "returns": [*self.returns],
            "center": self.center,
            "begun": self.begun,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores a generation."""
        self.members, self.returns = state["members"], state["returns"]
        self.center, self.begun = state["center"], state["begun"]


class PPOES(PPO):
    """PPO-ES (Liang et al., arXiv:1712.09381), which extends PPO's dataflow."""

    Config = PPOESConfig
    config: PPOESConfig

    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """PPO's dataflow with an evolution step between SGD and the broadcast."""
        evolve = Evolve(trainee, self.config)
        found = super().learn(fragments, trainee).with_step_after(TrainOnBatch, evolve)
        assert found is not None
        return found
