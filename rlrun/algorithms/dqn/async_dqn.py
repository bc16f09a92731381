"""Asynchronous n-step Q-learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.dqn.q_settings import QSettings
from rlrun.algorithms.loss_metrics import td_statistics
from rlrun.algorithms.settings.worker_gradients import WorkerGradientConfig
from rlrun.algorithms.td_loss import HUBER_METRICS, HuberSettings, huber, huber_excess
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.gradients import ApplyGradients, ComputeGradients
from rlrun.engine.flow.operators.minibatches import UpdateTargetNetwork
from rlrun.engine.flow.operators.weights import MergeFilters, SendWeights
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.nn.model_config import QModelConfig
from rlrun.engine.policy.exploration.epsilons import FinalEpsilons
from rlrun.engine.settings.config import (
    Fraction,
    ImportPath,
    PositiveInt,
    Schedule,
    defaults,
    fixed,
)

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.dqn.networks import QNetworks


@defaults(
    lr=1e-3,
    num_envs_per_worker=1,
    max_grad_norm=10.0,
)
@fixed("workers learn from unnormalized observations", normalize_observations=False)
class AsyncDQNConfig(HuberSettings, WorkerGradientConfig):
    """Settings of asynchronous n-step Q-learning (Mnih et al., arXiv:1602.01783, algorithm S2).

    The optimizer is Adam with one state shared by all workers; the paper shares the state of RMSProp (section 4,
    "optimization"). The paper's workers have one env each.
    """

    refused: ClassVar[Mapping[str, str]] = {
        "train_batch_size": "each fragment yields one gradient; set rollout_fragment_length"
    }

    model: QModelConfig = QModelConfig(activation="relu", orthogonal_init=False)
    """Network architecture."""
    rollout_fragment_length: PositiveInt | None = 5
    """Steps of each env in one fragment; all n-step returns end with the fragment (the paper's t_max, 5). null for
    1."""
    target_update_interval: PositiveInt = 1000
    """Number of gradients between updates of the shared target network. The paper's 40,000 frames are 2000 fragments of
    5 steps of 4 frames."""
    exploration: Literal["epsilon_greedy"] | ImportPath = "epsilon_greedy"
    """Exploration in training: epsilon-greedy, or a custom exploration `package.module:Class`."""
    epsilon: Schedule = ((0, 1.0), (20_000, 0.0))
    """Annealing of epsilon-greedy exploration, as a schedule from 1 (epsilon 1 in all env slots) to 0 (the final
    epsilon of each slot). The paper anneals over 4 million frames."""
    final_epsilons: tuple[Fraction, ...] = (0.1, 0.01, 0.5)
    """Final epsilons of the env slots (arXiv:1602.01783, section 5.1)."""
    final_epsilon_shares: tuple[Fraction, ...] = (0.4, 0.3, 0.3)
    """Fraction of all workers' env slots with each of the final epsilons (probabilities in section 5.1); the fractions
    sum to 1."""

    @model_validator(mode="after")
    def _check_epsilons(self) -> AsyncDQNConfig:
        if len(self.final_epsilons) != len(self.final_epsilon_shares) or abs(sum(self.final_epsilon_shares) - 1) > 1e-6:
            raise ValueError(
                "final_epsilon_shares must have one share for each entry of final_epsilons, and the shares must sum to "
                "1"
            )
        return self

    @property
    def q(self) -> QSettings:
        """Settings of the Q policy, with a different final epsilon for each parallel env."""
        return QSettings(
            exploration=self.exploration,
            epsilon_spread=FinalEpsilons(self.final_epsilons, self.final_epsilon_shares),
        )


class AsyncDQN(Algorithm[AsyncDQNConfig]):
    """Asynchronous n-step Q-learning: workers compute gradients, which are applied as they arrive (arXiv:1602.01783).

    The metric `gradient_share/worker_<index>` is the fraction of an iteration's gradients that a worker delivered;
    `policy_lag_mean` is the mean number of updates between the computation of a gradient and its application.
    """

    Config = AsyncDQNConfig
    acts_in = ("Discrete",)
    policy_family = "rlrun.algorithms.dqn.policy:QPolicy"
    has_target_network = True
    learner_metrics = HUBER_METRICS
    operator_metrics = ApplyGradients.declared_metrics

    @override
    def loss(self, outputs: QNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Squared or Huber loss of Q values against n-step returns, in rows of T + 1 steps (arXiv:1602.01783, alg. S2).

        An n-step return sums rewards up to the end of the rollout fragment or episode. Unless the episode has
        terminated, the return bootstraps there with the maximum of the target network's values.
        """
        from rlrun.engine.functional.vtrace import vtrace

        valid = batch["valid"].float()
        values = outputs.values(batch["obs"]).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
        target_values = outputs.target_values(batch["obs"])
        # An episode's final observation may allow no action; the selected action's value is still finite then.
        greedy = outputs.allowed_argmax(target_values, batch["obs"])
        best = target_values.gather(-1, greedy.unsqueeze(-1)).squeeze(-1)
        # With ratios of 1, V-trace is the n-step return (arXiv:1802.01561, remark 1).
        targets, _ = vtrace(
            best.new_zeros(best.shape),
            best,
            batch["rewards"],
            batch["terminateds"],
            batch["valid"],
            gamma=self.config.gamma,
        )
        errors, bound = values - targets, self.config.huber
        loss, distances = masked_mean(huber(errors, bound), valid), errors.abs()
        return Loss(loss, td_statistics(loss, values, distances, valid) | huber_excess(distances, valid, bound))

    @override
    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """Operators that run on workers: compute the gradient of each rollout under the weights that collected it."""
        return (ComputeGradients(trainee.learner_factory, whole_fragments=True),)

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Creates the stream of gradients, which yields each gradient as soon as a worker has computed it."""
        in_flight = self.config.gradients_in_flight
        return trainee.workers.rollouts(*self.on_worker(trainee), mode="async", in_flight=in_flight)

    @override
    def learn(self, gradients: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that applies each gradient and periodically updates the target network.

        The worker that computed a gradient then receives the weights of both networks.
        """
        return (
            gradients.zip_with_worker()
            .for_each(ApplyGradients(trainee))
            .for_each(UpdateTargetNetwork(trainee, self.config.target_update_interval))
            .for_each(MergeFilters(trainee))
            .zip_with_worker()
            .for_each(SendWeights(trainee))
        )
