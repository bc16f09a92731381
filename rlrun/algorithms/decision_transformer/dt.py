"""DT: Decision Transformer, offline reinforcement learning as return-conditioned prediction of actions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.decision_transformer.episode_window import Windows
from rlrun.algorithms.loss_metrics import GRAD_NORM
from rlrun.algorithms.settings.offline import OfflineConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.operators.data import TrainOnData
from rlrun.engine.flow.sources.data_minibatches import data_minibatches
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.nn.model_config import WHO_HAS_PRIVILEGES, WHO_IS_RECURRENT, ModelConfig
from rlrun.engine.nn.observation_leaves import dense_inputs
from rlrun.engine.settings.config import PositiveFloat, PositiveInt, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.stochastic_actor import StochasticActorOutputs


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@fixed("the transformer's layers are set by embedding, num_layers and num_heads", hiddens=(64, 64), module=None)
@fixed("the transformer already sees the last context_length steps", views={})
@fixed("the policy has no value network", shared_value=False)
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class DTModelConfig(ModelConfig):
    """Settings for encoding observations as inputs of a Decision Transformer."""


@defaults(lr=1e-4, minibatch_size=64, max_grad_norm=0.25)
@fixed("returns to go are undiscounted sums of the data's rewards", gamma=1.0, reward_scale=1.0, clip_rewards=None)
class DTConfig(OfflineConfig):
    """Settings of Decision Transformer; the defaults are close to the paper's for Gym (arXiv:2106.01345, table 9)."""

    model: DTModelConfig = DTModelConfig()
    """Settings for encoding observations as inputs of the transformer."""
    target_return: float = 0.0
    """Desired return at the start of each episode, from which each reward is then subtracted."""
    return_scale: PositiveFloat = 1000.0
    """Divisor of returns as inputs of the transformer."""
    context_length: PositiveInt = 20
    """Number K of an episode's most recent steps that the transformer sees."""
    embedding: PositiveInt = 128
    """Number of features of a token."""
    num_layers: PositiveInt = 3
    """Number of transformer blocks."""
    num_heads: PositiveInt = 1
    """Number of attention heads per block."""
    max_steps: PositiveInt = 1000
    """Number of time step embeddings; later steps of an episode share the last one."""

    @model_validator(mode="after")
    def _heads_share_the_features(self) -> DTConfig:
        if self.embedding % self.num_heads:
            raise ValueError(f"embedding ({self.embedding}) must be a multiple of num_heads ({self.num_heads})")
        return self

    @property
    @override
    def learns_values(self) -> bool:
        return False

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        return path in ("embedding", "num_layers", "max_steps") or super().shapes_parameters(path)


class DT(Algorithm[DTConfig]):
    """Decision Transformer: a transformer predicts the data's actions from returns-to-go, states and past actions.

    Source:
        Chen et al., "Decision Transformer: reinforcement learning via sequence modeling", arXiv:2106.01345.
    """

    Config = DTConfig
    acts_in = ("Discrete", "Box")
    policy_family = "rlrun.algorithms.decision_transformer.policy:DTPolicy"
    clock_unit = "sgd_steps"
    learns_in_worlds = False
    learner_metrics = (Metric("log_prob", "nats", "Mean log-probability of the data's actions", mode="max"), GRAD_NORM)

    @override
    def loss(self, outputs: StochasticActorOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Negative log-likelihood of the data's actions over the valid steps of windows [rows, K]."""
        log_prob = masked_mean(outputs.distribution.log_prob(batch["actions"]), batch["valid"].float())
        return Loss(-log_prob, {"log_prob": log_prob})

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Creates the stream of minibatches of windows (K consecutive steps of a recorded episode)."""
        return data_minibatches(trainee, self.config, partial(Windows, length=self.config.context_length))

    @override
    def learn(self, items: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that encodes the observations of each minibatch and takes an SGD step on it."""
        return items.for_each(EncodeObservations(trainee)).for_each(TrainOnData(trainee))


class EncodeObservations(Operator):
    """Replaces observations [rows, K, ...] with their features [rows, K, num_features]."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the minibatch with features."""
        shape = item["valid"].shape
        rows = SampleBatch(obs=item["obs"]).map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]))["obs"]
        return SampleBatch(item, obs=dense_inputs(self.trainee.policy.leaves, rows).reshape(*shape, -1))
