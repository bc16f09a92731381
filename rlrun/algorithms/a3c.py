"""Asynchronous advantage actor-critic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlrun.algorithms.a2c import A2C, A2CConfig
from rlrun.algorithms.settings_worker_gradients import WorkerGradientConfig
from rlrun.config import PositiveInt, defaults
from rlrun.flow.flow import Flow
from rlrun.flow.gradients import ApplyGradients, parallel_gradients
from rlrun.flow.operators import ComputeAdvantages, LearnResult, MergeFilters, SendWeights, Standardize
from rlrun.rollout.worker_set import WorkerSet


@defaults(entropy_coeff=0.01)
class A3CConfig(A2CConfig, WorkerGradientConfig):
    """Settings of A3C (Mnih et al., arXiv:1602.01783).

    The optimizer is Adam with one state for all workers, where the paper shares RMSProp's (section 4, "optimization").
    The weight of the entropy bonus (section 4's beta) is the paper's for Atari.
    """

    train_batch_size: PositiveInt = 80
    """Env steps in one fragment of every worker together, if rollout_fragment_length does not say how long fragments
    are. Each worker's own fragment makes one gradient."""


class A3C(A2C):
    """Workers compute gradients of their own fragments; each is applied as it arrives, and answered by new weights.

    With no worker but the local one it is A2C. `gradient_share/worker_<index>` is the part of an iteration's gradients
    that a worker delivered; `policy_lag_mean` counts gradients by which the parameters had moved on meanwhile.
    """

    Config = A3CConfig
    config: A3CConfig

    def collect(self, workers: WorkerSet) -> Flow[Any]:
        """Gradients of the workers' fragments, as they are ready."""
        config = self.config
        operators: list[Callable[[Any], Any]] = [ComputeAdvantages(config.gamma, config.gae_lambda)]
        if config.standardize_advantages:
            operators.append(Standardize("advantages"))
        return parallel_gradients(workers, self.remote_learner(), *operators, in_flight=config.gradients_in_flight)

    def learn(self, rollouts: Flow[Any], workers: WorkerSet) -> Flow[LearnResult]:
        """One step of SGD along each gradient, new weights to whoever has delivered it."""
        self._gradients = ApplyGradients(self.trainee)
        return (
            rollouts.zip_with_worker()
            .for_each(self._gradients)
            .for_each(MergeFilters(self.trainee))
            .zip_with_worker()
            .for_each(SendWeights(self.trainee, learning=True))
        )

    def own_metrics(self) -> Mapping[str, float]:
        """Returns every worker's share of the gradients."""
        return self._gradients.take_shares()
