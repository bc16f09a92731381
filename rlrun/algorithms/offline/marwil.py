"""MARWIL: behavioral cloning in which actions with better outcomes have larger weights."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.algorithms.loss_metrics import POLICY_GRADIENT_METRICS
from rlrun.algorithms.offline.advantage_weights import WeighByAdvantage
from rlrun.algorithms.settings.offline import OfflineConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.transitions import Transitions
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.data import TrainOnData
from rlrun.engine.flow.sources.data_minibatches import data_minibatches
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.learner.objective import Loss
from rlrun.engine.nn.model_config import WHO_IS_RECURRENT, ModelConfig
from rlrun.engine.settings.config import Fraction, NonNegativeFloat, PositiveFloat, Schedule, fixed

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
class MARWILModelConfig(ModelConfig):
    """Settings of MARWIL's networks: policy and value function."""


class MARWILConfig(OfflineConfig):
    """Settings of MARWIL (Wang et al., NeurIPS 2018)."""

    model: MARWILModelConfig = MARWILModelConfig()
    """Network architecture."""
    beta: NonNegativeFloat = 1.0
    """Strength of the weights exp(beta A / c) of actions with advantages A; 0 for behavioral cloning."""
    max_weight: PositiveFloat = 100.0
    """Largest weight of a recorded action."""
    advantage_norm_start: PositiveFloat | None = None
    """Initial value of the running mean square c^2 of advantages; null for the first minibatch's mean square."""
    advantage_norm_rate: Fraction = 1e-3
    """Rate at which c^2 follows the mean square of each minibatch's advantages."""
    vf_loss_coeff: NonNegativeFloat = 1.0
    """Weight of the value loss."""
    entropy_coeff: Schedule = 0.0
    """Weight of an entropy bonus."""


class MARWIL(Algorithm[MARWILConfig]):
    """Monotonic advantage re-weighted imitation learning: cloning weighted by exponentiated advantages."""

    Config = MARWILConfig
    clock_unit = "sgd_steps"
    learner_metrics = POLICY_GRADIENT_METRICS
    operator_metrics = WeighByAdvantage.declared_metrics

    @override
    def loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Weighted negative log-likelihood, value loss and entropy bonus over a minibatch of S steps."""
        valid = batch["valid"].float()
        policy_loss = -masked_mean(batch["weights"] * outputs.distribution.log_prob(batch["actions"]), valid)
        value_loss = masked_mean((outputs.values - batch["value_targets"]).square(), valid)
        entropy = masked_mean(outputs.distribution.entropy(), valid)
        return Loss(
            policy_loss + 0.5 * self.config.vf_loss_coeff * value_loss - scheduled["entropy_coeff"] * entropy,
            {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy},
        )

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Creates the stream of minibatches of recorded steps with their returns-to-go."""
        config = self.config
        scale = RewardScale(config.reward_scale, config.clip_rewards)
        view = partial(Transitions, gamma=config.gamma, n_step=None, scale=scale)
        return data_minibatches(trainee, config, view)

    @override
    def learn(self, items: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that weights the steps of each minibatch by advantages and takes an SGD step on it."""
        config = self.config
        weigh = WeighByAdvantage(
            trainee,
            beta=config.beta,
            start=config.advantage_norm_start,
            rate=config.advantage_norm_rate,
            max_weight=config.max_weight,
        )
        return items.for_each(weigh).for_each(TrainOnData(trainee))
