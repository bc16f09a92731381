"""BC: behavioral cloning, maximum likelihood of recorded actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.algorithms.loss_metrics import ENTROPY, GRAD_NORM
from rlrun.algorithms.settings.offline import OfflineConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.transitions import DataView, Sequences, Steps
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.data import TrainOnData
from rlrun.engine.flow.sources.data_minibatches import data_minibatches
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.settings.config import NonNegativeInt, PositiveInt, Schedule, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.stochastic_actor import StochasticActorOutputs


@fixed("the policy has no value network", shared_value=False)
@fixed("the policy has no critic", critic_sees=None)
class BCModelConfig(ModelConfig):
    """Network settings for a policy trained by behavioral cloning."""


@fixed("bc ignores rewards", gamma=0.0, reward_scale=1.0, clip_rewards=None)
class BCConfig(OfflineConfig):
    """Settings of behavioral cloning (Pomerleau, "Efficient Training of Artificial Neural Networks", 1991)."""

    model: BCModelConfig = BCModelConfig()
    """Network architecture."""
    seq_len: PositiveInt = 32
    """Steps in a sequence of a recurrent network; episodes are cut into sequences from their starts."""
    burn_in: NonNegativeInt = 32
    """Number of steps before a sequence that only update the recurrent state. With 0, each sequence starts from a zero
    state, which is correct if no sequence starts in mid-episode: set it to 0 if `seq_len` covers the longest
    episode."""
    entropy_coeff: Schedule = 0.0
    """Weight of an entropy bonus."""

    @property
    @override
    def learns_values(self) -> bool:
        return False


class BC(Algorithm[BCConfig]):
    """Behavioral cloning: the policy maximizes the likelihood of the recorded actions."""

    Config = BCConfig
    policy_family = "rlrun.engine.policy.stochastic_actor:StochasticActorPolicy"
    clock_unit = "sgd_steps"
    learner_metrics = (
        Metric("log_prob", "nats", "Mean log-probability of the data's actions", mode="max"),
        ENTROPY,
        GRAD_NORM,
    )

    @override
    def loss(self, outputs: StochasticActorOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Negative log-likelihood of the recorded actions, minus the entropy bonus, over S sequences of L steps."""
        valid = batch["valid"].float()
        log_prob = masked_mean(outputs.distribution.log_prob(batch["actions"]), valid)
        entropy = masked_mean(outputs.distribution.entropy(), valid)
        return Loss(-log_prob - scheduled["entropy_coeff"] * entropy, {"log_prob": log_prob, "entropy": entropy})

    def view(self, data: DataSet) -> DataView:
        """Presents a data set as single steps or, for a recurrent network, as sequences of steps."""
        config = self.config
        if config.model.core is None:
            return Steps(data)
        return Sequences(data, length=config.seq_len, burn_in=config.burn_in)

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Creates the stream of minibatches of recorded steps."""
        return data_minibatches(trainee, self.config, self.view)

    @override
    def learn(self, items: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that takes an SGD step on each minibatch."""
        return items.for_each(TrainOnData(trainee))
