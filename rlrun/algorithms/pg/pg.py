"""REINFORCE, with or without a value baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.loss_metrics import POLICY_GRADIENT_METRICS
from rlrun.algorithms.pg.complete_episodes import CompleteEpisodes, JoinEpisodes
from rlrun.algorithms.settings.on_policy import WHO_HAS_CURIOSITY, OnPolicyConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.advantages import Standardize
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.value_estimates import MeasureValues
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.objective import Loss
from rlrun.engine.learner.policy_gradient import policy_gradient_loss
from rlrun.engine.settings.config import NonNegativeFloat, PositiveInt, Schedule, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@defaults(lr=2e-3, rollout_fragment_length=32, min_env_steps_per_iteration=2000)
class PGConfig(OnPolicyConfig):
    """Settings of REINFORCE (Williams 1992, "Simple statistical gradient-following algorithms")."""

    train_batch_size: PositiveInt = 1000
    """Steps of completed episodes per batch, over all workers and envs."""
    use_baseline: bool = True
    """Whether a value baseline is subtracted from returns."""
    standardize_advantages: bool = True
    """Whether advantages are standardized (mean 0, standard deviation 1) over a batch."""
    vf_loss_coeff: NonNegativeFloat = 0.5
    """Weight of the baseline's value loss (squared error); unused without a baseline."""
    entropy_coeff: Schedule = 0.0
    """Weight of the entropy bonus."""

    @property
    @override
    def learns_values(self) -> bool:
        """Whether a value network is learned, which is the case if the settings use a baseline."""
        return self.use_baseline


class PG(Algorithm[PGConfig]):
    """REINFORCE: Monte Carlo policy gradient over whole episodes, with an optional value baseline.

    Early steps of long episodes may have been collected with older weights. The metric `policy_lag_mean` ignores this,
    since workers send episodes only when they end.
    """

    Config: ClassVar[type[PGConfig]] = PGConfig
    policy_family = "rlrun.engine.policy.actor_critic:ActorCriticPolicy"
    learner_metrics: ClassVar[tuple[Metric, ...]] = POLICY_GRADIENT_METRICS

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return MeasureValues.declared_metrics

    @override
    def loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Policy-gradient loss over S sequences of L steps: score function times return (Williams 1992, eq. 4)."""
        value_weight = self.config.vf_loss_coeff if self.config.use_baseline else 0.0
        return policy_gradient_loss(
            outputs, batch, vf_loss_coeff=value_weight, entropy_coeff=scheduled["entropy_coeff"]
        )

    @override
    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """Operators that run on workers: assembly of complete episodes from rollout fragments."""
        config = self.config
        return (CompleteEpisodes(config.gamma, config.use_baseline, config.reward_streams),)

    @override
    def learn(self, episodes: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that takes one SGD step on each batch of exactly `train_batch_size` steps."""
        config = self.config
        batches = episodes.combine(ConcatBatches(config.train_batch_size, exact=True)).for_each(MeasureValues())
        if config.standardize_advantages:
            batches = batches.for_each(Standardize("advantages"))
        if config.steps_in_row is not None:
            batches = batches.for_each(JoinEpisodes())
        return (
            batches.for_each(TrainOnBatch(trainee, seq_len=config.steps_in_row))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
