"""SAC: an actor that climbs two critics and keeps some entropy, from a replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from rlrun.algorithm import Algorithm
from rlrun.algorithms.settings_off_policy import OffPolicyActorCriticConfig
from rlrun.config import PositiveFloat, Schedule
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.operators import LearnResult
from rlrun.functional.masked import masked_mean
from rlrun.learner.objective import Loss, Objective
from rlrun.nn.model_config import SoftModelConfig
from rlrun.off_policy import learn_from_replay, replay_of
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    import gymnasium
    from torch import Tensor

    from rlrun.policy.policy import Policy
    from rlrun.policy.soft import SoftNetworks


class SACConfig(OffPolicyActorCriticConfig):
    """Settings of SAC (Haarnoja et al., arXiv:1801.01290 and arXiv:1812.05905)."""

    model: SoftModelConfig = SoftModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """The networks of the actor and of each critic."""
    alpha_lr: Schedule = 3e-4
    """Learning rate of the temperature, the weight of the entropy."""
    initial_alpha: PositiveFloat = 1.0
    """The first temperature."""
    learn_alpha: bool = True
    """Whether the temperature is learned, so that the actor's entropy comes to target_entropy (arXiv:1812.05905,
    section 5); it stays as it is otherwise."""
    target_entropy: float | None = None
    """That entropy in nats, of actions in units of half the distance of their bounds; null for minus the number of
    continuous actions, or 0.98 of the largest entropy over a finite number of actions."""


class SAC(Algorithm[SACConfig]):
    """Put every step by, and learn critics, an actor and its temperature from minibatches of what was put by.

    Actions are a bounded Box, or Discrete (Christodoulou, arXiv:1910.07207): then every expectation over actions is a
    sum over all of them, and the same losses hold.
    """

    Config = SACConfig
    policy_family = "soft"
    has_target_network = True
    learner_metrics: ClassVar[tuple[str, ...]] = (
        "critics/loss",
        "critics/q_mean",
        "critics/td_error",
        "critics/grad_norm",
        "actor/loss",
        "actor/entropy",
        "actor/grad_norm",
        "alpha/loss",
        "alpha/alpha",
        "alpha/grad_norm",
    )

    def make_policy(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], *, seed: int
    ) -> Policy:
        """Returns an actor, its critics and its temperature."""
        from rlrun.policy.soft import SoftPolicy

        config = self.config
        policy = SoftPolicy(
            observation_space,
            action_space,
            config.model,
            normalize_observations=config.normalize_observations,
            seed=seed,
            uniform_steps=config.learning_starts,
            initial_alpha=config.initial_alpha,
        )
        asked_for = config.target_entropy
        self._target_entropy = policy.default_target_entropy if asked_for is None else asked_for
        return policy

    def objectives(self) -> list[Objective]:
        """Returns the critics' error, what the actor climbs, and what moves the temperature."""
        bound = self.config.max_grad_norm
        objectives = [
            Objective("critics", self.critics_loss, lr="critic_lr", parameters="critics.", max_grad_norm=bound),
            Objective("actor", self.actor_loss, parameters="actor.", max_grad_norm=bound),
        ]
        if self.config.learn_alpha:
            objectives.append(Objective("alpha", self.alpha_loss, lr="alpha_lr", parameters="log_alpha"))
        return objectives

    def critics_loss(self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Half the squared soft temporal difference (arXiv:1812.05905, eq. 5) over rows [S, 1], of both critics."""
        valid = batch["valid"].float()
        ahead = outputs.next_judged(batch)
        soft_values = ahead.values - outputs.log_alpha.detach().exp() * ahead.log_probs
        targets = batch["rewards"] + batch["discounts"] * soft_values
        values = outputs.values_of(batch["obs"], batch["actions"])
        errors = values - targets
        loss = masked_mean(0.5 * errors.square().sum(0) * batch["weights"], valid)
        distance = errors.detach().abs().mean(0)
        statistics = {"loss": loss, "q_mean": masked_mean(values[0], valid), "td_error": masked_mean(distance, valid)}
        return Loss(loss, statistics, priorities=distance.squeeze(-1))

    def actor_loss(self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """What the actor's entropy and the least of the critics say (arXiv:1812.05905, eq. 7), to be climbed."""
        valid = batch["valid"].float()
        present = outputs.judged_for_all(batch)
        loss = masked_mean(outputs.log_alpha.detach().exp() * present.log_probs - present.values, valid)
        return Loss(loss, {"loss": loss, "entropy": -masked_mean(present.log_probs.detach(), valid)})

    def alpha_loss(self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """What raises the temperature while the entropy is below its target (arXiv:1812.05905, eq. 18).

        As is usual, it is linear in the logarithm of the temperature.
        """
        surplus = masked_mean(-outputs.log_probs(batch), batch["valid"].float()) - self._target_entropy
        loss = (outputs.log_alpha * surplus).sum()
        return Loss(loss, {"loss": loss, "alpha": outputs.log_alpha.detach().exp().sum()})

    def learn(self, rollouts: Flow[SampleBatch], workers: WorkerSet) -> Flow[LearnResult]:
        """Steps into the replay, as many minibatches out of it as are due, new weights."""
        replay = replay_of(self.config, workers, self.seed)
        return learn_from_replay(rollouts, self.trainee, replay, self.config)
