"""Settings of algorithms without a neural network, which learn in the main process of the training run."""

from __future__ import annotations

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.settings.config import fixed


@fixed("the algorithm has no network", model={}, normalize_observations=False, precision="float32", compile=False)
@fixed("the algorithm uses no gradients", max_grad_norm=None, microbatch_size=None)
@fixed("the algorithm learns in the trial's process", num_learners=0, num_gpus=0.0)
class WithoutNetworkConfig(AlgorithmConfig):
    """Settings of algorithms without a neural network, which learn a table or nothing at all."""
