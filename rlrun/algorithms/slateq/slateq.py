"""SlateQ: Q-learning of slates, from the values of their items and a model of the user's choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.algorithms.loss_metrics import GRAD_NORM, td_statistics
from rlrun.algorithms.slateq.acting import CLICKED
from rlrun.algorithms.slateq.settings import SlateQConfig
from rlrun.algorithms.td_loss import HUBER_METRICS, huber, huber_excess
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS, replay_updates
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.slateq.policy import SlateNetworks
    from rlrun.engine.policy.policy import Policy


class SlateQ(Algorithm[SlateQConfig]):
    """Q-learning for slates; a slate's value is the mean value of its items, weighted by their click probabilities."""

    Config = SlateQConfig
    acts_in = ("MultiDiscrete",)
    policy_family = "rlrun.algorithms.slateq.policy:SlateQPolicy"
    has_target_network = True
    learns_in_worlds = False
    learner_metrics = (
        *(metric.below("critics/") for metric in HUBER_METRICS),
        Metric("choice/loss", "nats", "Mean negative log-probability of clicks under the choice model", mode="min"),
        GRAD_NORM.below("choice/"),
    )
    operator_metrics = REPLAY_METRICS

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        bound = self.config.max_grad_norm
        return [
            Objective("critics", self.loss, parameters="critics.", max_grad_norm=bound),
            Objective("choice", self.choice_loss, lr="choice_lr", parameters="choice.", max_grad_norm=bound),
        ]

    @override
    def loss(self, outputs: SlateNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Loss of the TD errors for the clicked item of the slate, or for no click, over a minibatch of S steps.

        The next slate is the best one among the next observation's candidates.
        """
        import torch

        bound, valid = self.config.huber, batch["valid"].float()
        of_items = outputs.item_values(batch["obs"])
        shown = of_items.gather(-1, batch["actions"].squeeze(1))
        values = torch.cat([shown, of_items[:, -1:]], -1).gather(-1, batch["next_obs"][CLICKED])
        following = outputs.target_slate_values(batch["next_obs"]).unsqueeze(-1)
        errors = values - (batch["rewards"] + batch["discounts"] * following)
        loss = masked_mean(huber(errors, bound) * batch["weights"], valid)
        distances = errors.detach().abs()
        statistics = td_statistics(loss, values, distances, valid) | huber_excess(distances, valid, bound)
        return Loss(loss, statistics, priorities=distances.squeeze(-1))

    def choice_loss(self, outputs: SlateNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Negative log-likelihood of the user's choice (an item of the slate, or none), over a minibatch of S steps."""
        import torch

        logits = outputs.logits(batch["obs"]).gather(-1, batch["actions"].squeeze(1))
        outcomes = torch.cat([logits, logits[:, :1] * 0], -1)
        log_probs = outcomes.log_softmax(-1).gather(-1, batch["next_obs"][CLICKED])
        loss = -masked_mean(log_probs * batch["weights"], batch["valid"].float())
        return Loss(loss, {"loss": loss})

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores rollouts in the replay buffer and trains on minibatches sampled from it.

        The dataflow trains on `training_intensity` minibatches per env step, and broadcasts the weights to the workers.
        """
        config = self.config
        replay = trainee.make_replay(config.replay, n_step=config.n_step, gamma=config.gamma)
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(replay_updates(replay, trainee, config))
            .for_each(BroadcastWeights(trainee))
        )
