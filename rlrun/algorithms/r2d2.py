"""R2D2: Q-learning with memory, from a replay of sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from rlrun.algorithm import Algorithm
from rlrun.algorithms.settings_off_policy import OffPolicyConfig
from rlrun.config import PositiveInt, Schedule, defaults
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.operators import LearnResult
from rlrun.functional.masked import masked_mean
from rlrun.functional.seeding import child_seed
from rlrun.functional.value_rescaling import rescaled, unrescaled
from rlrun.learner.objective import Loss
from rlrun.nn.recurrent_model import RecurrentModelConfig
from rlrun.off_policy import learn_from_replay
from rlrun.replay.sequences import SequenceReplay, SequenceReplayConfig
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.policy.recurrent_q import RecurrentQNetworks

MAX_SHARE = 0.9
"""What a sequence's largest error counts in its priority; the rest is the mean's (paper, section 2.3)."""


@defaults(lr=5e-4, training_intensity=0.025, n_step=3, target_update_interval=100)
class R2D2Config(OffPolicyConfig):
    """Settings of R2D2.

    Source:
        Kapturowski et al., "Recurrent experience replay in distributed reinforcement learning", ICLR 2019.
    """

    model: RecurrentModelConfig = RecurrentModelConfig(hiddens=(64,), activation="relu", orthogonal_init=False)
    """The network."""
    minibatch_size: PositiveInt = 32
    """Sequences in a minibatch that is sampled from the replay buffer."""
    replay: SequenceReplayConfig = SequenceReplayConfig()
    """The replay buffer, and the sequences that are sampled from it."""
    epsilon: Schedule = ((0, 1.0), (10_000, 0.05))
    """Probability of an action that is drawn uniformly."""


class R2D2(Algorithm[R2D2Config]):
    """Put every fragment by with what the policy remembered, and learn from sequences of what was put by."""

    Config = R2D2Config
    policy_family = "recurrent_q"
    has_target_network = True
    learner_metrics: ClassVar[tuple[str, ...]] = ("loss", "q_mean", "td_error", "grad_norm")

    def loss(self, outputs: RecurrentQNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Squared temporal difference of rescaled values over rows [S, L] (paper, sections 2.1 and 2.3).

        The network says which action is best in the observation behind a step, the target network what it is worth.
        Both have run over the whole sequence up to there, with what they remember of it.
        """
        valid = batch["valid"].float()
        length = valid.shape[1]
        values, target_values = outputs.unrolled(batch, self.config.replay.burn_in)
        own = values[:, :length].gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
        best = values.detach().argmax(-1, keepdim=True)
        worth = unrescaled(target_values.gather(-1, best).squeeze(-1))
        behind = batch["steps"] + batch["steps"].new_ones(length).cumsum(0) - 1
        targets = rescaled(batch["rewards"] + batch["discounts"] * worth.gather(1, behind))
        errors = own - targets
        distance = errors.abs() * valid
        loss = masked_mean(0.5 * errors.square() * batch["weights"], valid)
        statistics = {
            "loss": loss,
            "q_mean": masked_mean(unrescaled(own), valid),
            "td_error": masked_mean(distance, valid),
        }
        mean = distance.sum(1) / valid.sum(1).clamp(min=1.0)
        return Loss(loss, statistics, priorities=MAX_SHARE * distance.amax(1) + (1 - MAX_SHARE) * mean)

    def learn(self, rollouts: Flow[SampleBatch], workers: WorkerSet) -> Flow[LearnResult]:
        """Fragments into the replay, as many minibatches of sequences out of it as are due, new weights."""
        replay = self.sequence_replay(self.config.replay, len(workers.indices))
        return learn_from_replay(rollouts, self.trainee, replay, self.config)

    def sequence_replay(self, config: SequenceReplayConfig, num_lanes: int) -> SequenceReplay:
        """Returns an empty replay for the fragments of so many workers."""
        return SequenceReplay(
            config,
            num_lanes=num_lanes,
            n_step=self.config.n_step,
            gamma=self.config.gamma,
            seed=child_seed(self.seed, "replay"),
        )
