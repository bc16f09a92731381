"""ArCHer: actor-critic for dialogue agents with two time scales, utterances and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from rlrun.algorithms.archer.operators import CopyActorToCritics, FindUtterances, UtteranceAdvantages
from rlrun.algorithms.archer.settings import ACTOR, CRITICS, ArcherConfig
from rlrun.algorithms.loss_metrics import ENTROPY, GRAD_NORM, KL, MEAN_RATIO, TD_METRICS, td_statistics
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet, Indices
from rlrun.engine.datasets.transitions import Sequences
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.minibatches import TrainOnMinibatch, UpdateTargetNetwork
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.recipes.data_updates import minibatches_with_data
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS
from rlrun.engine.flow.sources.replay_minibatches import replay_minibatches
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.archer.policy import ArcherOutputs
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.replay.replay import Replay


class Archer(Algorithm[ArcherConfig]):
    """ArCHer: actor-critic for dialogues; critics learn the values of utterances from a replay buffer.

    An on-policy actor chooses the tokens; its advantages are computed from the critics' values.

    Source:
        Zhou et al., "ArCHer: Training language model agents via hierarchical multi-turn RL", arXiv:2402.19446.
    """

    Config: ClassVar[type[ArcherConfig]] = ArcherConfig
    acts_in = ("Discrete",)
    policy_family = "rlrun.algorithms.archer.policy:ArcherPolicy"
    has_target_network = True
    learns_in_worlds = False
    learner_metrics = (
        Metric("policy_loss", "", "Loss of the actor"),
        ENTROPY,
        KL,
        GRAD_NORM,
        *(metric.below("critics/") for metric in TD_METRICS),
        Metric("critics/value_error", "", "Mean absolute error of V against the target critics' Q", mode="min"),
        MEAN_RATIO.below("critics/"),
    )
    operator_metrics = REPLAY_METRICS

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives of the learner: the critics, which learn from the replay buffer, and the actor."""
        bound = self.config.max_grad_norm
        return [
            Objective("critics", self.critics_loss, lr="critic_lr", parameters=CRITICS, max_grad_norm=bound),
            Objective("actor", self.loss, parameters=ACTOR, max_grad_norm=bound, is_main=True),
        ]

    def critics_loss(self, outputs: ArcherOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Squared errors of two pairs of Q and V functions, over the utterances in S sequences of L tokens.

        The target of Q is r + gamma V'(s') of the same pair. The target of V is the mean of Q'(s, u) over the current
        actor's utterances: the last choice of an utterance is replaced by the mean over all tokens, and the tokens
        before it are as replayed, weighted by min(1, pi / mu), where pi is their probability under the current actor,
        and mu their probability under the actor that sampled them. V is then the value of a policy between the current
        and the replayed one, as with V-trace's truncation (arXiv:1802.01561, eq. 3). V does not learn from data sets,
        whose mu is unknown.
        """
        ends, starts = batch["utterance_ends"].float(), batch["utterance_starts"]
        own, target = outputs.utterance_values(), outputs.target_utterance_values()
        length = ends.shape[1]
        at = batch["utterance_decisions"].expand(2, -1, -1)
        said = batch["actions"].expand(2, -1, -1).unsqueeze(-1)
        q = own.q.gather(-1, said).squeeze(-1).gather(-1, at)
        target_q = (outputs.distribution.log_probs.detach().exp() * target.q).sum(-1).gather(-1, at)
        q_errors = q - (batch["utterance_rewards"] + batch["utterance_discounts"] * target.v[:, :, 1:])
        v_errors = own.v[:, :, :length].gather(-1, starts.expand_as(q)) - target_q
        ratios = self.ratios(outputs, batch) * batch["weights"]
        errors = q_errors.square() + ratios * v_errors.square()
        loss = masked_mean(errors.sum(0), ends)
        return Loss(
            loss,
            {
                **td_statistics(loss, q[0], q_errors[0].abs(), ends),
                "value_error": masked_mean(v_errors[0].abs(), ends),
                "mean_ratio": masked_mean(ratios, ends),
            },
        )

    def ratios(self, outputs: ArcherOutputs, batch: SampleBatch) -> Tensor:
        """Truncated importance ratio of each utterance, at its last token, [rows, steps].

        The ratio is min(1, pi / mu), where pi and mu are the probabilities of the tokens before the utterance's last
        choice, under the current actor and under the actor that sampled them.
        """
        now = outputs.distribution.log_prob(batch["actions"]).detach()
        tokens = (now - batch["logp"]) * batch["valid"].float()
        before = tokens.cumsum(1) - tokens
        firsts, lasts = (before.gather(1, batch[f"utterance_{name}"]) for name in ("starts", "decisions"))
        ratios: Tensor = (lasts - firsts).clamp(max=0.0).exp()
        return ratios

    @override
    def loss(self, outputs: ArcherOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Clipped surrogate loss with advantages of utterances, minus an entropy bonus, over S sequences of L tokens.

        The surrogate of a step is the sum over all tokens of min(pi A, clip(pi) A), where A is a token's advantage and
        pi its probability. Clipping keeps pi between 1 - `clip_param` and 1 + `clip_param` times the token's
        probability when the batch was collected (arXiv:1707.06347, eq. 7, as a mean over actions). The first gradient
        on a batch is the REINFORCE gradient; clipping bounds the following ones.
        """
        valid, advantages, before = batch["valid"].float(), batch["advantages"], batch["probabilities"]
        now, clip = outputs.distribution, self.config.clip_param
        probabilities = now.log_probs.exp()
        clipped = probabilities.clamp(before * (1 - clip), before * (1 + clip))
        policy_loss = -masked_mean((probabilities * advantages).minimum(clipped * advantages).sum(-1), valid)
        kl = (before.xlogy(before) - before * now.log_probs).sum(-1)
        entropy = masked_mean(now.entropy(), valid)
        return Loss(
            policy_loss - scheduled["entropy_coeff"] * entropy,
            {"policy_loss": policy_loss, "entropy": entropy, "kl": masked_mean(kl, valid)},
        )

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow: critics learn from a replay buffer, and the actor learns from the newest rollouts."""
        config = self.config
        # The replay's discounts only mark the ends of episodes, because gamma applies per utterance.
        replay = trainee.make_replay(config.replay, n_step=1, gamma=1.0, sequences=True)
        begun = fragments.for_each(CopyActorToCritics(trainee))
        stored: Flow[Any] = begun.zip_with_worker().for_each(StoreToReplay(replay))
        return (
            stored.followed_by(self.critics_updates(replay, trainee))
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(UtteranceAdvantages(trainee, config.utterance_end))
            .for_each(
                TrainOnBatch(
                    trainee,
                    num_epochs=config.actor_epochs,
                    minibatch_size=config.actor_minibatch_size,
                    seq_len=config.steps_in_row,
                    objectives=("actor",),
                )
            )
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )

    def critics_updates(self, replay: Replay, trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that trains the critics on `training_intensity` minibatches per collected token."""
        config = self.config
        if config.input:
            minibatches = minibatches_with_data(replay, trainee, config, partial(self.recorded, trainee))
        else:
            minibatches = replay_minibatches(
                replay,
                trainee,
                minibatch_size=config.minibatch_size,
                training_intensity=config.training_intensity,
                learning_starts=config.learning_starts,
            )
        return (
            minibatches.for_each(FindUtterances(config.gamma, config.utterance_end))
            .for_each(TrainOnMinibatch(trainee, objectives=("critics",)))
            .for_each(UpdateTargetNetwork(trainee, 1, config.tau, CRITICS))
        )

    def recorded(self, trainee: Trainee, data: DataSet) -> RecordedDialogues:
        """Wraps a data set as token sequences with the same columns as sequences of the replay buffer."""
        width = trainee.policy.behavior().network.state_size
        return RecordedDialogues(data, length=self.config.replay.length, state_size=width)


class RecordedDialogues:
    """Sequences of tokens from a data set, with the columns of `SequenceReplay.sample`.

    Each episode is split into sequences from its start. The recurrent state before a sequence is unknown and set to
    zero, so `length` should cover a whole dialogue. The column `weights` is 0, since the probabilities of the recorded
    tokens are unknown.

    Args:
        data: The data set.
        length: L, number of tokens in a sequence.
        state_size: Size of a recurrent state.
    """

    def __init__(self, data: DataSet, *, length: int, state_size: int) -> None:
        self._sequences = Sequences(data, length=length)
        self._state_size = state_size

    def __len__(self) -> int:
        return len(self._sequences)

    def gather(self, items: Indices) -> SampleBatch:
        """Reads the sequences with given indices [rows], including the observations after their last steps."""
        rows, steps, is_step = self._sequences.located(items)
        number, length = rows.shape
        seen = np.concatenate([np.where(is_step, rows, rows + 1), rows[:, -1:] + 1], 1)
        batch = self._sequences.read(rows, ("actions", "rewards", "terminateds"))
        own = SampleBatch(
            actions=batch["actions"],
            rewards=batch["rewards"].astype(np.float32),
            discounts=1 - batch["terminateds"].astype(np.float32),
            logp=np.zeros((number, length), np.float32),
            valid=is_step,
        ).zero_invalid()
        return SampleBatch(
            own,
            obs=self._sequences.read(seen, ("obs",))["obs"],
            episode_starts=np.pad(steps == 0, ((0, 0), (0, 1))),
            state=np.zeros((number, self._state_size), np.float32),
            steps=is_step.astype(np.int64),
            weights=np.zeros((number, 1), np.float32),
            indices=items,
        )
