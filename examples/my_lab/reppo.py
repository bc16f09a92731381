"""Relative entropy pathwise policy optimization: on-policy, with a Q function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.plugin import (
    SAC,
    BroadcastWeights,
    ConcatBatches,
    Flow,
    Fraction,
    Loss,
    Metric,
    Objective,
    Operator,
    PositiveFloat,
    PositiveInt,
    SACConfig,
    SampleBatch,
    StatefulOperator,
    Trainee,
    TrainOnBatch,
    cross_entropy,
    defaults,
    fixed,
    generator,
    masked_mean,
)

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.plugin import (
        CriticsModelConfig,
        NetworkSpec,
        ObservationTree,
        Policy,
        SoftNetworks,
        Spaces,
        SquashedNetworks,
    )

Floats = NDArray[np.float32]


@defaults(
    lr=3e-4,
    critic_lr=3e-4,
    max_grad_norm=0.5,
    rollout_fragment_length=128,
    num_envs_per_worker=8,
)
@defaults(minibatch_size=128, initial_alpha=0.01, model={"activation": "silu"})
@fixed(
    "each batch is learned from immediately, without a replay buffer",
    replay={},
    learning_starts=0,
    n_step=1,
)
@fixed("num_epochs sets how often each step is used", training_intensity=1.0)
@fixed(
    "the target network is the policy before the update",
    tau=1.0,
    target_update_interval=1,
)
@fixed(
    "there is one critic",
    num_critics=1,
    num_target_critics=None,
    actor_objective="first",
    policy_delay=1,
)
@fixed(
    "targets are computed from unnormalized observations",
    normalize_observations=False,
)
class REPPOConfig(SACConfig):
    """Settings of REPPO (Voelcker et al., arXiv:2507.11019)."""

    train_batch_size: PositiveInt = 1024
    """Env steps in a batch."""
    num_epochs: PositiveInt = 8
    """Passes over each batch."""
    td_lambda: Fraction = 0.95
    """Weight between one-step (0) and Monte Carlo (1) targets of the critic."""
    num_bins: PositiveInt = 151
    """Bins of the critic's distribution, evenly spaced."""
    v_min: float = -10.0
    """Center of the lowest bin."""
    v_max: float = 10.0
    """Center of the highest bin."""
    kl_target: PositiveFloat = 0.1
    """Bound of the KL divergence of an update, in each observation."""
    initial_beta: PositiveFloat = 0.01
    """First weight of the KL divergence where it exceeds its bound."""

    @property
    @override
    def sgd_steps_per_env_step(self) -> float:
        return self.num_epochs / self.minibatch_size

    @property
    def bin_width(self) -> float:
        """Distance of the bins."""
        return (self.v_max - self.v_min) / (self.num_bins - 1)


def bins(logits: Tensor, config: REPPOConfig) -> Tensor:
    """Centers of the bins, [K], next to logits [..., K]."""
    ranks = logits.new_ones(config.num_bins).cumsum(-1) - 1
    return config.v_min + ranks * config.bin_width


def expected(logits: Tensor, config: REPPOConfig) -> Tensor:
    """Values [...] of a critic's logits [..., K]."""
    return (logits.softmax(-1) * bins(logits, config)).sum(-1)


def smoothed(values: Tensor, logits: Tensor, config: REPPOConfig) -> Tensor:
    """Bins' probabilities [..., K]: normal around values, 0.75 bins wide (HL-Gauss).

    Source:
        Farebrother et al., "Stop Regressing", arXiv:2403.03950, section 3.1.
    """
    width, centers = config.bin_width, bins(logits, config)
    values = values.clamp(config.v_min, config.v_max).unsqueeze(-1)
    scale = math.sqrt(2) * 0.75 * width
    mass = ((centers + width / 2 - values) / scale).erf() - (
        (centers - width / 2 - values) / scale
    ).erf()
    return mass / mass.sum(-1, keepdim=True)


def soft_values(
    outputs: SquashedNetworks, batch: SampleBatch, config: REPPOConfig
) -> Any:
    """Values of drawn actions, and alpha times their log-probabilities, [S, L] each."""
    actions, log_probs = outputs.sample(batch["obs"], batch["noise"])
    values = expected(outputs.networks.critic_outputs(batch["obs"], actions)[0], config)
    return {"values": values, "costs": outputs.log_alpha.exp() * log_probs}


def lambda_targets(
    batch: SampleBatch, values: Floats, costs: Floats, gamma: float, td_lambda: float
) -> Floats:
    """Soft TD(lambda) targets of Q values, [T, B] (section 3.2).

    Args:
        batch: Fragments [T, B].
        values: Q values of the policy's actions in all observations, [T + 1, B].
        costs: Alpha times the log-probabilities of these actions, [T + 1, B].
        gamma: Discount factor.
        td_lambda: Weight of the later targets.
    """
    targets: Floats = np.zeros_like(batch["rewards"])
    ahead = values[-1]
    for t in reversed(range(len(targets))):
        following = (1 - td_lambda) * values[t + 1] + td_lambda * ahead - costs[t + 1]
        targets[t] = batch["rewards"][t] + gamma * np.where(
            batch["terminateds"][t], 0.0, following
        )
        # The row after an episode's end holds the final observation and no step.
        ahead = np.where(batch["valid"][t], targets[t], values[t])
    return targets


class SoftTargets(StatefulOperator):
    """Adds `value_targets` [T, B], from the networks that collected the fragment.

    Args:
        trainee: The trainee whose networks are used.
        config: Settings.
    """

    def __init__(self, trainee: Trainee, config: REPPOConfig) -> None:
        self.trainee = trainee
        self.config = config
        self.number = 0

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment with the additional column."""
        shape = (len(item["obs"]), *item["actions"].shape[1:])
        drawn = generator(self.trainee.seed, "targets", self.number).standard_normal(
            shape, np.float32
        )
        self.number += 1
        found = self.trainee.learner.evaluate(
            partial(soft_values, config=self.config),
            SampleBatch(obs=item["obs"], noise=drawn),
        )
        targets = lambda_targets(
            item,
            found["values"],
            found["costs"],
            self.config.gamma,
            self.config.td_lambda,
        )
        return SampleBatch(item, value_targets=targets)

    def state(self) -> dict[str, Any]:
        """Returns the number of fragments so far, which determines the noise."""
        return {"number": self.number}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continues after these fragments."""
        self.number = state["number"]


class KeepPolicy(Operator):
    """Copies the actor to its target network, the policy before the update."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch as it is."""
        self.trainee.learner.update_target(prefix="actor.")
        return item


class REPPO(SAC):
    """On-policy maximum-entropy actor-critic with a KL bound (arXiv:2507.11019).

    The paper's auxiliary loss, which predicts features of the next step, is left out.
    """

    Config = REPPOConfig
    config: REPPOConfig
    acts_in = ("bounded Box",)
    learns_in_worlds = False
    learner_metrics = (
        Metric(
            "critics/loss",
            "nats",
            "Cross-entropy of the critic's bins to those of the targets",
            mode="min",
        ),
        Metric("critics/value", "", "Mean value of the recorded actions"),
        Metric(
            "critics/grad_norm",
            "",
            "Norm of the critic's gradient before it is clipped",
        ),
        Metric("actor/loss", "", "Loss of the actor"),
        Metric("actor/entropy", "nats", "Mean entropy of the policy, estimated"),
        Metric(
            "actor/kl",
            "nats",
            "Mean KL divergence of the policy before the update from the present one",
        ),
        Metric(
            "actor/bounded",
            "",
            "Share of the observations in which the KL divergence exceeds its bound",
        ),
        Metric(
            "actor/grad_norm", "", "Norm of the actor's gradient before it is clipped"
        ),
        Metric("alpha/alpha", "", "Weight of the entropy"),
        Metric("alpha/grad_norm", "", "Norm of its gradient"),
        Metric(
            "beta/beta", "", "Weight of the KL divergence where it exceeds its bound"
        ),
        Metric("beta/grad_norm", "", "Norm of its gradient"),
    )

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """SAC's policy, with a categorical critic and one more learned scalar."""
        from rlrun.plugin import SoftPolicy

        scalars = {"log_beta": math.log(self.config.initial_beta)}
        return SoftPolicy(
            spaces, self.config, seed, critic=self.critic, scalars=scalars
        )

    def critic(
        self,
        leaves: ObservationTree,
        model: CriticsModelConfig,
        num_values: int,
        action_size: int,
    ) -> NetworkSpec:
        """Spec of the critic."""
        from rlrun.plugin import critic_spec

        return critic_spec(
            leaves, model, num_values * self.config.num_bins, action_size
        )

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """The critic, the actor, and the weights of entropy and KL divergence."""
        bound = self.config.max_grad_norm
        return [
            Objective(
                "critics",
                self.critics_loss,
                lr="critic_lr",
                parameters="critics.",
                max_grad_norm=bound,
            ),
            Objective(
                "actor", self.actor_loss, parameters="actor.", max_grad_norm=bound
            ),
            Objective(
                "alpha",
                self.alpha_loss,
                lr="alpha_lr",
                parameters="log_alpha",
                needs=("actor",),
            ),
            Objective(
                "beta",
                self.beta_loss,
                lr="alpha_lr",
                parameters="log_beta",
                needs=("actor",),
            ),
        ]

    @override
    def critics_loss(
        self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]
    ) -> Loss:
        """Cross-entropy to the targets' bins, over rows [S, L]."""
        valid = batch["valid"].float()
        logits = outputs.values_of(batch)[0]
        loss = masked_mean(
            cross_entropy(
                logits, smoothed(batch["value_targets"], logits, self.config)
            ),
            valid,
        )
        return Loss(
            loss,
            {
                "loss": loss,
                "value": masked_mean(expected(logits.detach(), self.config), valid),
            },
        )

    @override
    def actor_loss(
        self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]
    ) -> Loss:
        """Loss alpha log pi - Q of a drawn action, or beta KL above the KL bound."""
        from rlrun.plugin import SquashedGaussian

        valid, networks = batch["valid"].float(), outputs.networks
        present = SquashedGaussian(networks.actor_outputs(batch["obs"]))
        before = SquashedGaussian(networks.target_actor_outputs(batch["obs"]).detach())
        actions, log_probs = present.sample_and_log_prob(batch["noise"])
        values = expected(
            networks.critic_outputs(batch["obs"], actions)[0], self.config
        )
        kl = before.kl(present)
        alpha, beta = (
            outputs.scalar(name).exp().detach() for name in ("log_alpha", "log_beta")
        )
        is_near = (kl < self.config.kl_target).float()
        loss = masked_mean(
            is_near * (alpha * log_probs - values) + (1 - is_near) * beta * kl, valid
        )
        statistics = {
            "loss": loss,
            "entropy": -masked_mean(log_probs, valid),
            "kl": masked_mean(kl, valid),
        }
        statistics["bounded"] = masked_mean(1 - is_near, valid)
        return Loss(loss, statistics, carry={"log_probs": log_probs, "kl": kl})

    @override
    def alpha_loss(
        self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]
    ) -> Loss:
        """Alpha grows while the entropy is below half the usual target, -D / 2."""
        asked = self.config.target_entropy
        target = outputs.default_target_entropy / 2 if asked is None else asked
        alpha = outputs.log_alpha.exp().sum()
        surplus = (
            masked_mean(-batch["actor/log_probs"], batch["valid"].float()) - target
        )
        return Loss(alpha * surplus, {"alpha": alpha.detach()})

    def beta_loss(
        self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]
    ) -> Loss:
        """Beta grows while the mean KL divergence is above its bound."""
        beta = outputs.scalar("log_beta").exp().sum()
        room = self.config.kl_target - masked_mean(
            batch["actor/kl"], batch["valid"].float()
        )
        return Loss(beta * room, {"beta": beta.detach()})

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Computes targets once, then trains for some epochs near the old policy."""
        config = self.config
        return (
            fragments.for_each(SoftTargets(trainee, config))
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(KeepPolicy(trainee))
            .for_each(
                TrainOnBatch(
                    trainee,
                    num_epochs=config.num_epochs,
                    minibatch_size=config.minibatch_size,
                )
            )
            .for_each(BroadcastWeights(trainee))
        )
