"""DreamerV3: actor and critic learned from imagined trajectories of a world model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.dreamer.model_config import DreamerModelConfig
from rlrun.algorithms.dreamer.symlog import mean_of_bins, two_hot_cross_entropy
from rlrun.algorithms.loss_metrics import ENTROPY, GRAD_NORM
from rlrun.algorithms.settings.off_policy import OffPolicyConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.minibatches import TrainOnMinibatch, UpdateTargetNetwork
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS
from rlrun.engine.flow.sources.replay_minibatches import replay_minibatches
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.functional.seeding import generator
from rlrun.engine.learner.learner import last_batch_of
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.learner.optimizers import Adam
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.settings.config import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Schedule,
    defaults,
    fixed,
)
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.dreamer.networks import DreamerNetworks
    from rlrun.engine.policy.policy import Policy


RETURN_DECAY = 0.99
"""Decay of the moving percentiles of imagined returns (arXiv:2301.04104, eq. 12)."""

PERCENTILES = (0.05, 0.95)
"""Percentiles of imagined returns whose difference scales the advantages."""


@fixed("sequences start from the latent state stored with their first step", burn_in=0)
@fixed(
    "sequences are sampled uniformly",
    sampling="uniform",
    priority_alpha=0.6,
    priority_beta=0.4,
    priority_epsilon=1e-6,
    hindsight=None,
)
class DreamerReplayConfig(SequenceReplayConfig):
    """Settings of the replay buffer of sequences for the world model."""

    length: PositiveInt = 64
    """Length of a replayed sequence, in steps."""
    stride: PositiveInt = 8
    """Steps between two possible starts of replayed sequences; the latent state is stored at these steps."""


@defaults(lr=1e-4, gamma=0.997, max_grad_norm=100.0, training_intensity=0.5, rollout_fragment_length=8, tau=0.02)
@fixed("the horizon of imagination covers several steps", n_step=1)
@fixed("the networks take and predict symlog-transformed vectors", normalize_observations=False)
@fixed("small rewards would fall into a single bin", precision="float32")
@fixed("its losses average over other steps than those that shares are weighted by", num_learners=0)
class DreamerConfig(OffPolicyConfig):
    """Settings of DreamerV3.

    The paper's replay ratio, the number of replayed steps per env step, is `training_intensity` times `minibatch_size`
    times `replay.length`: 512 by default.

    Source:
        Hafner et al., "Mastering diverse domains through world models", arXiv:2301.04104.
    """

    model: DreamerModelConfig = DreamerModelConfig()
    """Network architecture of the world model, the actor and the critic."""
    minibatch_size: PositiveInt = 16
    """Sequences per minibatch from the replay buffer."""
    replay: DreamerReplayConfig = DreamerReplayConfig()
    """Settings of the replay buffer and of the replayed sequences."""
    learning_starts: NonNegativeInt = 1024
    """Env steps that are stored before the first minibatch is sampled; their actions come from the initial actor."""
    actor_lr: Schedule = 3e-5
    """Learning rate of the actor."""
    critic_lr: Schedule = 3e-5
    """Learning rate of the critic."""
    horizon: PositiveInt = 15
    """Imagination horizon: steps imagined from each state of a minibatch."""
    lambda_: Fraction = 0.95
    """Lambda of lambda-returns over imagined steps."""
    entropy_coeff: Schedule = 3e-4
    """Weight of the actor's entropy, relative to returns scaled to a range of about 1."""
    free_nats: NonNegativeFloat = 1.0
    """Free nats: dynamics and representation losses are clipped below this KL divergence."""
    dynamics_scale: NonNegativeFloat = 1.0
    """Weight of the dynamics loss: 1 in the authors' current code, 0.5 in the paper's first version."""
    representation_scale: NonNegativeFloat = 0.1
    """Weight of the representation loss."""
    num_bins: PositiveInt = 255
    """Number of bins of the two-hot encoding of rewards and returns; must be odd. Fewer bins are faster and less
    precise."""
    tau: Fraction = 0.02
    """Polyak coefficient of the slow critic's updates."""

    @model_validator(mode="after")
    def _bin_of_zero(self) -> DreamerConfig:
        if self.num_bins % 2 == 0 or self.num_bins < 3:
            raise ValueError(
                f"num_bins must be an odd number of at least 3, so that the middle bin is 0, not {self.num_bins}"
            )
        return self

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        return path == "num_bins" or super().shapes_parameters(path)


class Dreamer(Algorithm[DreamerConfig]):
    """DreamerV3: world model learned from replayed sequences, actor-critic from its imagination (arXiv:2301.04104).

    Imagined steps are not counted as env steps.
    """

    Config = DreamerConfig
    acts_in = ("bounded Box", "Discrete")
    policy_family = "rlrun.algorithms.dreamer.policy:DreamerPolicy"
    has_target_network = True
    learner_metrics = (
        Metric("world_model/loss", "", "Loss of the world model, the weighted sum of the losses below", mode="min"),
        Metric(
            "world_model/reconstruction",
            "",
            "Squared error of decoded observations, summed over their elements",
            mode="min",
        ),
        Metric("world_model/reward_loss", "nats", "Cross-entropy of the rewards' two-hot distributions", mode="min"),
        Metric("world_model/reward_error", "", "Mean absolute error of predicted rewards", mode="min"),
        Metric(
            "world_model/continue_loss", "nats", "Cross-entropy of predicting whether the episode continues", mode="min"
        ),
        Metric("world_model/kl", "nats", "Mean KL divergence of the prior from the posterior"),
        GRAD_NORM.below("world_model/"),
        Metric("actor/loss", "", "Loss of the actor"),
        ENTROPY.below("actor/"),
        Metric("actor/imagined_return", "", "Mean lambda-return of imagined states"),
        Metric("actor/imagined_reward", "", "Mean reward of imagined steps"),
        Metric("actor/value_mean", "", "Mean value of imagined states"),
        Metric("actor/return_range", "", "Moving range of imagined returns, from the 5th to the 95th percentile"),
        GRAD_NORM.below("actor/"),
        Metric(
            "critic/loss",
            "nats",
            "Cross-entropy of the critic to imagined returns and to the slow critic",
            mode="min",
        ),
        GRAD_NORM.below("critic/"),
    )
    operator_metrics = REPLAY_METRICS

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives of the learner, in this order: world model, actor and critic.

        Actor and critic learn from imagined trajectories.

        The optimizer is Adam with gradient norm clipping, as in the first version of arXiv:2301.04104.
        """
        bound, optimizer = self.config.max_grad_norm, Adam(1e-8)
        return [
            Objective(
                "world_model",
                self.world_model_loss,
                parameters="world_model.",
                max_grad_norm=bound,
                optimizer=optimizer,
            ),
            Objective(
                "actor",
                self.actor_loss,
                lr="actor_lr",
                parameters="actor.",
                max_grad_norm=bound,
                optimizer=optimizer,
                needs=("world_model",),
                assigns=("return_range",),
            ),
            Objective(
                "critic",
                self.critic_loss,
                lr="critic_lr",
                parameters="critic.",
                max_grad_norm=bound,
                optimizer=optimizer,
                needs=("actor",),
            ),
        ]

    def world_model_loss(self, outputs: DreamerNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Prediction, dynamics and representation losses over S sequences of L + 1 states (arXiv:2301.04104, eqs. 2-5).

        The loss passes on the states' `features` [S, L + 1, F] and the mask `alive` [S, L + 1] of non-terminal states,
        from which imagination starts.
        """
        config = self.config
        rows = outputs.rows(batch)
        states, posterior = outputs.observe(batch, rows)
        features = states.features
        reconstruction = masked_mean(outputs.reconstruction_errors(features, batch["obs"]), rows.counts)
        bins = outputs.reward_logits(features)
        reward_loss = masked_mean(two_hot_cross_entropy(bins, rows.rewards, outputs.bins), rows.is_behind)
        going_on = outputs.continue_logits(features)
        # softplus(x) - x y is the cross-entropy of a logit x and a probability y.
        surprise = going_on.clamp(min=0) - going_on * rows.continues + (-going_on.abs()).exp().log1p()
        continue_loss = masked_mean(surprise, rows.is_behind)
        prior = outputs.model.prior(states.recurrent)
        scales = config.dynamics_scale, config.representation_scale
        balanced = masked_mean(balanced_kl(posterior, prior, scales, config.free_nats), rows.counts)
        loss = reconstruction + reward_loss + continue_loss + balanced
        errors = (mean_of_bins(bins.detach().softmax(-1), outputs.bins) - rows.rewards).abs()
        statistics = {
            "loss": loss,
            "reconstruction": reconstruction,
            "reward_loss": reward_loss,
            "reward_error": masked_mean(errors, rows.is_behind),
            "continue_loss": continue_loss,
            "kl": masked_mean(kl(posterior, prior).detach(), rows.counts),
        }
        return Loss(loss, statistics, carry={"features": features, "alive": rows.counts * rows.continues})

    def actor_loss(self, outputs: DreamerNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Policy gradient over imagined steps, with returns scaled by their range (arXiv:2301.04104, eqs. 11 and 12).

        For N trajectories of H steps, the loss passes on the imagined states' `features` [N, H, F], lambda-returns [N,
        H] and weights [N, H] to the critic loss.
        """
        config, horizon = self.config, self.config.horizon
        alive = batch["world_model/alive"].flatten(0, 1)
        imagined = outputs.imagine(
            batch["world_model/features"].flatten(0, 1),
            batch["imagined_noise"].flatten(0, 1),
            batch["action_noise"].flatten(0, 1),
        )
        values = outputs.values(imagined.features).detach()
        discounts = config.gamma * imagined.continues
        returns = lambda_returns(imagined.rewards, discounts, values, config.lambda_)
        # Cumulative discounts from the predicted probabilities of continuation; the first state's weight is 1.
        weights = alive.unsqueeze(1) * shifted(discounts).cumprod(1)
        present = outputs.model.views["return_range"]
        latest = percentiles(returns, alive, PERCENTILES)
        moved = RETURN_DECAY * present + (1 - RETURN_DECAY) * latest
        scale = (moved[1] - moved[0]).clamp(min=1.0)
        advantages = (returns - values[:, :horizon]) / scale
        begun = imagined.features[:, :horizon].contiguous()
        described = outputs.actor_outputs(begun)
        entropy = outputs.actions.entropy(described)
        gains = outputs.actions.log_prob(described, imagined.actions) * advantages
        number = alive.sum().clamp(min=1.0) * horizon
        loss = -(weights * (gains + scheduled["entropy_coeff"] * entropy)).sum() / number
        counted = alive.unsqueeze(1).expand_as(returns)
        statistics = {
            "loss": loss,
            "entropy": masked_mean(entropy.detach(), counted),
            "imagined_return": masked_mean(returns, counted),
            "imagined_reward": masked_mean(imagined.rewards, counted),
            "value_mean": masked_mean(values[:, :horizon], counted),
            "return_range": moved[1] - moved[0],
        }
        carry = {"features": begun, "returns": returns, "weights": weights / number}
        return Loss(loss, statistics, carry=carry, assign={"return_range": moved})

    def critic_loss(self, outputs: DreamerNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Critic loss: cross-entropy to imagined returns and to the slow critic (arXiv:2301.04104, eq. 10)."""
        features, weights = batch["actor/features"], batch["actor/weights"]
        logits, bins = outputs.value_logits(features), outputs.bins
        of_returns = two_hot_cross_entropy(logits, batch["actor/returns"], bins)
        of_slow_values = two_hot_cross_entropy(logits, outputs.slow_values(features), bins)
        loss = (weights * (of_returns + of_slow_values)).sum()
        return Loss(loss, {"loss": loss})

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores rollouts in the replay buffer and trains on minibatches sampled from it.

        The dataflow trains on `training_intensity` minibatches per env step, and broadcasts the weights to the workers.
        """
        config = self.config
        # Imagination applies gamma; the replay's discounts only mark the ends of episodes, even if gamma is 0.
        replay = trainee.make_replay(config.replay, n_step=1, gamma=1.0, sequences=True)
        updates = (
            replay_minibatches(
                replay,
                trainee,
                minibatch_size=config.minibatch_size,
                training_intensity=config.training_intensity,
                learning_starts=config.learning_starts,
            )
            .for_each(TrainOnMinibatch(trainee))
            .for_each(UpdateTargetNetwork(trainee, config.target_update_interval, config.tau))
        )
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(updates)
            .for_each(BroadcastWeights(trainee))
        )

    @override
    def picture(self, trainee: Trainee) -> str | None:
        """SVG of the last minibatch's first sequence: observations, reconstructions and open-loop predictions."""
        from rlrun.algorithms.dreamer.pictures import observed_and_imagined, picture_of

        learner = trainee.learner
        batch = last_batch_of(learner)
        if batch is None:
            return None
        row = batch.map(lambda leaf: leaf[:1])
        noise = generator(trainee.seed, "picture").random((1, row["valid"].shape[1] + 1, self.latents), np.float32)
        return picture_of(learner.evaluate(observed_and_imagined, SampleBatch(row, latent_noise=noise)))

    @property
    def latents(self) -> int:
        """Number of categorical latents, K."""
        return self.config.model.widths.latents


def kl(first: Tensor, second: Tensor) -> Tensor:
    """KL divergence [...] of categorical distributions [..., K, C], summed over the K variables."""
    return (first * (first.log() - second.log())).sum(-1).sum(-1)


def balanced_kl(posterior: Tensor, prior: Tensor, scales: tuple[float, float], free_nats: float) -> Tensor:
    """KL-balanced dynamics and representation loss with free nats.

    Args:
        posterior: Latent categorical distributions given the observations, [..., K, C].
        prior: Latent categorical distributions given only the recurrent state, [..., K, C].
        scales: Weights of the dynamics and of the representation loss.
        free_nats: Lower bound of each divergence, below which it has no gradient.

    Returns:
        Loss in nats, [...].

    Source:
        Hafner et al., arXiv:2301.04104, eq. 3.
    """
    dynamics = kl(posterior.detach(), prior).clamp(min=free_nats)
    representation = kl(posterior, prior.detach()).clamp(min=free_nats)
    return scales[0] * dynamics + scales[1] * representation


def shifted(discounts: Tensor) -> Tensor:
    """Discount before each state of N imagined trajectories: discounts [N, H] shifted by one step, starting with 1."""
    import torch

    return torch.cat([torch.ones_like(discounts[:, :1]), discounts[:, :-1]], 1)


def percentiles(returns: Tensor, alive: Tensor, fractions: tuple[float, ...]) -> Tensor:
    """Percentiles of imagined returns over valid trajectories, with linear interpolation.

    Args:
        returns: Imagined returns, [N, H].
        alive: Mask of the valid trajectories, [N].
        fractions: Percentiles as fractions in [0, 1].
    """
    import torch

    counted = alive.unsqueeze(1).expand_as(returns) > 0
    # Masked returns are sorted to the end and never looked up.
    ordered = returns.masked_fill(~counted, torch.inf).flatten().sort().values
    last = (counted.sum() - 1).clamp(min=0)
    places = torch.stack([fraction * last for fraction in fractions])  # on the device of `last`
    low = places.floor().long()
    high = (low + 1).minimum(last)
    lower, upper = ordered[low], ordered[high]
    return lower + (places - low) * (upper - lower)


def lambda_returns(rewards: Tensor, discounts: Tensor, values: Tensor, lambda_: float) -> Tensor:
    """Computes lambda-returns of the states of trajectories, without gradient.

    R[H] = values[H],  R[t] = rewards[t] + discounts[t] * ((1 - lambda) * values[t + 1] + lambda * R[t + 1])

    Args:
        rewards: Rewards of the steps from state t to state t + 1, [N, H].
        discounts: Discounts after the steps: gamma times the probability of continuation, [N, H].
        values: Values of the states, [N, H + 1].
        lambda_: Weight of longer returns.

    Returns:
        R[0] to R[H - 1], [N, H].

    Source:
        Hafner et al., arXiv:2301.04104, eq. 7.
    """
    import torch

    found: list[Tensor] = []
    behind = values[:, -1]
    ahead = rewards + discounts * (1 - lambda_) * values[:, 1:]
    for t in reversed(range(rewards.shape[1])):
        behind = ahead[:, t] + discounts[:, t] * lambda_ * behind
        found.append(behind)
    return torch.stack(found[::-1], 1)
