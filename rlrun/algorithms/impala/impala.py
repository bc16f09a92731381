"""IMPALA: importance weighted actor-learner architecture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from rlrun.algorithms.loss_metrics import MEAN_RATIO, POLICY_GRADIENT_METRICS, value_statistics
from rlrun.algorithms.settings.on_policy import OnPolicyConfig, advantages_in_the_loss
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, StatefulOperator
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.value_estimates import VALUE_METRICS
from rlrun.engine.flow.operators.weights import MergeFilters, SendWeights
from rlrun.engine.flow.sources.rollouts import RolloutMode
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.functional.saved_numbers import load_generator
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.learner.objective import Loss
from rlrun.engine.learner.value_losses import CorrectedValues, corrected_values
from rlrun.engine.settings.config import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Schedule,
    defaults,
    fixed,
)
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


@advantages_in_the_loss
@fixed("gradients flow through whole fragments; set rollout_fragment_length instead", seq_len=16)
@defaults(lr=1e-3, train_batch_size=512, min_env_steps_per_iteration=5000, max_grad_norm=1.0, normalize_rewards=True)
class ImpalaConfig(OnPolicyConfig):
    """Settings of IMPALA (Espeholt et al., arXiv:1802.01561).

    A batch consists of complete rollout fragments.
    """

    rollout_fragment_length: PositiveInt | None = 64
    """Steps of each env in one fragment, the horizon of V-trace; null for the length at which one fragment of every
    worker fills a batch."""
    rollouts_in_flight: PositiveInt = 2
    """Fragments in flight per worker; with 1 a worker waits while its last fragment is sent."""
    broadcast_interval: PositiveInt = 1
    """Age of a worker's weights, in batches, at which the worker is sent new ones."""
    num_epochs: PositiveInt = 1
    """Epochs (passes over each batch)."""
    minibatch_size: PositiveInt | None = None
    """Steps per minibatch, in whole fragments; null for the whole batch."""
    replay_proportion: NonNegativeFloat = 0.0
    """Replay ratio: replayed fragments per new fragment, on average."""
    replay_slots: PositiveInt = 100
    """Number of recent fragments that are kept for replay."""
    vtrace_clip_rho: PositiveFloat = 1.0
    """Rho-bar of V-trace: truncation of the importance ratios that determine its fixed point."""
    vtrace_clip_c: PositiveFloat = 1.0
    """C-bar of V-trace: truncation of the importance ratios that determine its speed of contraction."""
    vf_loss_coeff: NonNegativeFloat = 0.5
    """Weight of the value loss."""
    entropy_coeff: Schedule = 0.01
    """Weight of the entropy bonus."""

    @property
    @override
    def sgd_steps_per_env_step(self) -> float:
        passes = self.num_epochs * (1 + self.replay_proportion)
        return passes / (self.minibatch_size or self.train_batch_size)


class Impala(Algorithm[ImpalaConfig]):
    """Importance-weighted actor-learner architecture: asynchronous collection with V-trace (arXiv:1802.01561)."""

    Config = ImpalaConfig
    policy_family = "rlrun.engine.policy.actor_critic:ActorCriticPolicy"
    learner_metrics: ClassVar[tuple[Metric, ...]] = (*POLICY_GRADIENT_METRICS, MEAN_RATIO, *VALUE_METRICS)
    collect_settings: ClassVar[tuple[str, ...]] = ("rollouts_in_flight",)

    @override
    def loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """V-trace policy gradient, value loss and entropy bonus over S rows of T + 1 steps (arXiv:1802.01561)."""
        valid = batch["valid"].float()
        logp = outputs.distribution.log_prob(batch["actions"]) * valid
        log_ratios = logp.detach() - batch["logp"] * valid
        values = self.corrected_values(outputs, batch, log_ratios)
        policy_loss = -masked_mean(logp * values.advantages, valid)
        entropy = masked_mean(outputs.distribution.entropy(), valid)
        return Loss(
            total=policy_loss + values.loss - scheduled["entropy_coeff"] * entropy,
            statistics={
                "policy_loss": policy_loss,
                "entropy": entropy,
                "mean_ratio": masked_mean(log_ratios.exp(), valid),
                **values.losses,
                **value_statistics(outputs.values, values.targets, valid),
            },
        )

    def corrected_values(
        self, outputs: ActorCriticOutputs, batch: SampleBatch, log_ratios: Tensor, lambda_: float = 1.0
    ) -> CorrectedValues:
        """Computes V-trace advantages and value losses over S sequences of T + 1 steps.

        Args:
            outputs: Actor-critic outputs for the sequences.
            batch: Columns [S, T + 1].
            log_ratios: Log importance ratios of the current to the behavior policy, [S, T + 1].
            lambda_: Factor that multiplies the trace coefficients of the env's rewards; additional reward streams have
                separate factors.
        """
        config = self.config
        return corrected_values(
            outputs,
            batch,
            log_ratios,
            config.reward_streams.all(config.gamma, lambda_),
            clip_rho=config.vtrace_clip_rho,
            clip_c=config.vtrace_clip_c,
            vf_loss_coeff=config.vf_loss_coeff,
        )

    @property
    @override
    def mode(self) -> RolloutMode:
        return "async"

    @override
    def collect(self, trainee: Trainee) -> Flow[SampleBatch]:
        """Creates the stream of rollout fragments as workers finish them."""
        return trainee.workers.rollouts(mode=self.mode, in_flight=self.config.rollouts_in_flight)

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that takes SGD steps on batches of rollout fragments from asynchronous workers.

        A worker that delivers a fragment gets new weights if its own are at least `broadcast_interval` updates old.
        """
        batches = self.batches(fragments, trainee)
        return batches.for_each(self.train_on_batch(trainee)).for_each(MergeFilters(trainee))

    def batches(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[SampleBatch]:
        """Stream of training batches, which consist of new and replayed rollout fragments.

        A worker that delivers a fragment gets new weights if its own are at least `broadcast_interval` updates old.
        """
        config = self.config
        fragments = fragments.zip_with_worker().for_each(SendWeights(trainee, config.broadcast_interval))
        if config.replay_proportion:
            seed = child_seed(trainee.seed, "recent fragments")
            fragments = fragments.combine(ReplayRecent(config.replay_proportion, config.replay_slots, seed))
        return fragments.combine(ConcatBatches(config.train_batch_size))

    def train_on_batch(self, trainee: Trainee) -> TrainOnBatch:
        """Creates the operator that takes SGD steps on a batch; each training row is a whole rollout fragment."""
        config = self.config
        return TrainOnBatch(
            trainee, num_epochs=config.num_epochs, minibatch_size=config.minibatch_size, whole_fragments=True
        )


class ReplayRecent(StatefulOperator):
    """Emits each new rollout fragment, followed by samples from the most recent ones at a fixed replay ratio.

    Source:
        The mixed batches of IMPALA with replay (Espeholt et al., arXiv:1802.01561, section 5.2.2 and appendix E).

    Args:
        proportion: Replay ratio: replayed fragments per new fragment, on average.
        slots: Number of recent fragments kept for replay.
        seed: Seed for sampling.
    """

    def __init__(self, proportion: float, slots: int, seed: int) -> None:
        self.proportion = proportion
        self.slots = slots
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._recent: list[SampleBatch] = []
        self._owed = 0.0

    @override
    def settings(self) -> dict[str, Any]:
        return {"proportion": self.proportion, "slots": self.slots}

    @override
    def __call__(self, item: SampleBatch) -> Iterable[SampleBatch]:
        self._recent = [*self._recent, item][-self.slots :]
        self._owed += self.proportion
        repeated = []
        while self._owed >= 1:
            repeated.append(self._recent[self._generator.integers(len(self._recent))])
            self._owed -= 1
        return [item, *repeated]

    @override
    def state(self) -> dict[str, Any]:
        return {
            "recent": [dict(batch) for batch in self._recent],
            "owed": self._owed,
            "generator": dict(self._generator.bit_generator.state),
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._recent = [SampleBatch(batch) for batch in state["recent"]]
        self._owed = float(state["owed"])
        load_generator(self._generator, state["generator"])
