"""Behavior cloning: an algorithm with a custom source that collects no experience."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlrun.plugin import (
    Algorithm,
    AlgorithmConfig,
    Flow,
    Loss,
    Metric,
    PositiveInt,
    SampleBatch,
    StatefulSource,
    Trainee,
    TrainOnMinibatch,
    defaults,
    fixed,
    from_items,
    generator,
    load_demonstrations,
    masked_mean,
)


@defaults(lr=3e-3, model={"hiddens": (32, 32)}, min_env_steps_per_iteration=250)
@fixed(
    "the algorithm does not step an env",
    num_workers=0,
    num_envs_per_worker=1,
    rollout_fragment_length=1,
)
@fixed(
    "minibatches are processed in one process",
    num_learners=0,
)
@fixed(
    "there are no rewards to learn from",
    normalize_rewards=False,
    reward_scale=1.0,
    clip_rewards=None,
)
@fixed("observations are used unnormalized", normalize_observations=False)
class CloningConfig(AlgorithmConfig):
    """Settings; `min_env_steps_per_iteration` counts minibatches."""

    demonstrations: str = "demonstrations.npz"
    """File from `rlrun demonstrate`, in the current directory or next to the spec."""
    minibatch_size: PositiveInt = 256
    """Steps in a minibatch."""


class Minibatches(StatefulSource[SampleBatch]):
    """Delivers minibatches of demonstrations, shuffled anew in each pass over the file.

    Args:
        path: The file.
        size: Steps in a minibatch; a pass drops the steps that fill no minibatch.
        seed: Seed of the orders.
    """

    def __init__(self, path: str, size: int, seed: int) -> None:
        self.path = path
        self.size = size
        self.seed = seed
        self.number = 0
        self._steps: SampleBatch | None = None

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"path": self.path, "size": self.size}

    def __next__(self) -> SampleBatch:
        """Returns the next minibatch, rows [S, 1]; the first call reads the file."""
        if self._steps is None:
            self._steps = self._read()
        num_steps = len(self._steps["valid"])
        number_of_pass, place = divmod(self.number, max(num_steps // self.size, 1))
        order = generator(self.seed, "pass", number_of_pass).permutation(num_steps)
        chosen = order[place * self.size : (place + 1) * self.size]
        self.number += 1
        return SampleBatch(self._steps.map(lambda leaf: leaf[chosen]), indices=chosen)

    def state(self) -> dict[str, Any]:
        """Returns the number of minibatches so far, which determines all else."""
        return {"number": self.number}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continues after these minibatches."""
        self.number = state["number"]

    def _read(self) -> SampleBatch:
        found = load_demonstrations(self.path)
        valid = found.columns["valid"]
        actions = found.columns["actions"][valid] - found.about.get("first_action", 0)
        obs = found.observations[""][valid].astype(np.float32)
        return SampleBatch(
            obs=obs[:, None],
            actions=actions[:, None],
            valid=np.ones((len(obs), 1), np.bool_),
        )


class Cloning(Algorithm[CloningConfig]):
    """Imitates demonstrations by maximizing the likelihood of their actions."""

    Config = CloningConfig
    clock_unit = "sgd_steps"
    learner_metrics = (
        Metric(
            "loss", "nats", "Negative mean log-likelihood of the demonstrated actions"
        ),
        Metric("grad_norm", "", "Norm of the gradient before clipping"),
    )
    operator_metrics = TrainOnMinibatch.declared_metrics

    def collect(self, trainee: Trainee) -> Flow[SampleBatch]:
        """Returns minibatches of the file instead of experience."""
        config = self.config
        return from_items(
            Minibatches(config.demonstrations, config.minibatch_size, trainee.seed)
        )

    def loss(
        self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]
    ) -> Loss:
        """Returns the negative log-likelihood of the actions over rows [S, 1]."""
        loss = -masked_mean(
            outputs.distribution.log_prob(batch["actions"]), batch["valid"].float()
        )
        return Loss(loss, {"loss": loss})

    def learn(self, items: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Trains on each minibatch; no workers need the weights."""
        return items.for_each(TrainOnMinibatch(trainee))
