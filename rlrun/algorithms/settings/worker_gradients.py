"""Settings of algorithms whose rollout workers compute the gradients."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.settings.config import PositiveInt, fixed


@fixed("gradients are computed on the workers' CPUs", num_gpus=0.0, num_learners=0)
class WorkerGradientConfig(AlgorithmConfig):
    """Settings of an algorithm whose rollout workers compute the gradients, which are applied as they arrive.

    List it last among the base classes, so that the defaults of the other bases take precedence.
    """

    learns_on_workers: ClassVar[bool] = True

    gradients_in_flight: PositiveInt = 1
    """Gradients in flight per worker: with 1 a worker waits for new weights after each gradient, as in
    arXiv:1602.01783; with 2 it continues with older ones."""

    @property
    @override
    def sgd_steps_per_env_step(self) -> float:
        return 1 / (self.fragment_length * self.num_envs_per_worker)
