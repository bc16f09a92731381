"""Evolution strategies (arXiv:1703.03864): no gradients, and a custom worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.plugin import (
    Algorithm,
    AlgorithmConfig,
    BehaviorPolicy,
    BroadcastWeights,
    Episode,
    Flow,
    GatherWorkers,
    Metric,
    Objective,
    Operator,
    Orders,
    Policy,
    PositiveFloat,
    PositiveInt,
    Rollout,
    Trainee,
    WorkerConfig,
    child_seed,
    defaults,
    evaluate,
    generator,
)


@defaults(lr=0.1, max_grad_norm=None, model={"hiddens": (16,)})
class ESConfig(AlgorithmConfig):
    """Settings of evolution strategies."""

    num_pairs: PositiveInt = 20
    """Perturbations in a generation; each is tried as it is and mirrored."""
    sigma: PositiveFloat = 0.1
    """Standard deviation of the perturbations."""


@dataclass(frozen=True)
class EvaluationConfig(WorkerConfig):
    """Configuration of an evaluation worker: a rollout worker's, and perturbations."""

    num_pairs: int = 0
    sigma: float = 0.0


def perturbation(
    seed: int, generation: int, pair: int, size: int
) -> NDArray[np.float32]:
    """Returns the noise of a pair. Processes compute it instead of sending it."""
    return generator(seed, "perturbation", generation, pair).standard_normal(
        size, np.float32
    )


class EvaluationWorker:
    """Runs an episode with each perturbed policy of its share."""

    def __init__(self, config: EvaluationConfig) -> None:
        self.config = config
        self.generation = config.first_fragment
        ((self.policy, behavior),) = config.behaviors.items()
        assert isinstance(behavior, BehaviorPolicy)  # what `behavior()` returns
        self.behavior = behavior

    def follow(self, orders: Orders) -> None:
        """Keeps the weights that the next generation perturbs."""
        if self.policy in orders.weights:
            self.weights = orders.weights[self.policy]

    def sample(self) -> Rollout:
        """Evaluates this worker's pairs of a generation."""
        config, weights = self.config, self.weights
        pairs = list(
            range(max(config.worker_index - 1, 0), config.num_pairs, config.num_workers)
        )
        episodes = []
        for pair in pairs:
            noise = config.sigma * perturbation(
                config.seed, self.generation, pair, len(weights.acting)
            )
            for sign in (1, -1):  # the same episode for both policies
                acting = weights.acting + np.float32(sign) * noise
                self.behavior.load(replace(weights, acting=acting))
                seed = child_seed(config.seed, "episode", self.generation, pair)
                found = evaluate({self.policy: self.behavior}, config.env, 1, seed)
                episodes.append(Episode(found.returns[0], found.lengths[0]))
        self.generation += 1
        returns = np.array([episode.episode_return for episode in episodes])
        return Rollout(
            worker_index=config.worker_index,
            fragment=self.generation - 1,
            batches={
                self.policy: {
                    "generation": self.generation - 1,
                    "pairs": np.array(pairs),
                    "returns": returns.reshape(-1, 2),
                }
            },
            env_steps=sum(episode.length for episode in episodes),
            episodes=episodes,
        )

    def state(self) -> dict[str, int]:
        """Returns the generation, which determines all other state."""
        return {"generation": self.generation}

    def place(self) -> dict[str, int]:
        """Returns the state with each generation, in case a worker is lost."""
        return self.state()

    def load_state(self, state: Mapping[str, int]) -> int:
        """Continues exactly from a generation."""
        self.generation = state["generation"]
        return 0

    def close(self) -> None:
        """Has nothing to free."""


class FollowReturns(Operator):
    """Moves parameters along perturbations times standardized returns (algorithm 1)."""

    learns = True

    def __init__(self, trainee: Trainee, config: ESConfig) -> None:
        self.trainee = trainee
        self.config = config

    def __call__(self, item: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Takes the returns that all workers found for one generation."""
        pairs, returns = (
            np.concatenate([share[name] for share in item])
            for name in ("pairs", "returns")
        )
        returns = returns[np.argsort(pairs)]  # a fixed order keeps sums reproducible
        scores = (returns - returns.mean()) / (returns.std() + 1e-8)
        ascent = np.zeros(len(self.trainee.learner.flat()), np.float32)
        for pair, (up, down) in enumerate(scores):
            noise = perturbation(
                self.trainee.seed, item[0]["generation"], pair, len(ascent)
            )
            ascent += np.float32(up - down) * noise
        gradient = np.append(
            -ascent / np.float32(returns.size * self.config.sigma), np.float32(1.0)
        )
        self.trainee.learner.apply_gradients(
            gradient, {"returns": ()}, scheduled=self.trainee.clock.scheduled()
        )
        return item


class ES(Algorithm[ESConfig]):
    """Tries perturbed policies, moves towards good ones, broadcasts the weights."""

    Config = ESConfig
    learner_metrics = (Metric("grad_norm", "", "Norm of the estimated gradient"),)
    worker_factory = "my_lab.es:EvaluationWorker"

    def worker_config(self, config: WorkerConfig) -> EvaluationConfig:
        """Returns the configuration of an evaluation worker."""
        return EvaluationConfig(
            **vars(config), num_pairs=self.config.num_pairs, sigma=self.config.sigma
        )

    def objectives(self, policy: Policy) -> list[Objective]:
        """Returns an objective without a loss: its gradient comes from the dataflow."""
        return [Objective("returns", None)]

    def learn(self, items: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Collects a generation's returns, takes a step, and broadcasts the weights."""
        gathered = items.zip_with_worker().combine(GatherWorkers(trainee))
        return gathered.for_each(FollowReturns(trainee, self.config)).for_each(
            BroadcastWeights(trainee)
        )
