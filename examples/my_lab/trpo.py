"""An algorithm whose step is no gradient descent: trust region policy optimization, all of it in this file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from rlrun.algorithm import Algorithm
from rlrun.algorithms.settings.on_policy import OnPolicyConfig
from rlrun.config import Fraction, PositiveFloat, PositiveInt, defaults, fixed
from rlrun.data.learning_rows import learning_rows
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow, Operator
from rlrun.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.flow.operators.batches import ConcatBatches
from rlrun.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.flow.trainee import Trainee
from rlrun.functional.masked import masked_mean
from rlrun.learner.objective import Loss, Objective
from rlrun.metric import Metric
from rlrun.nn.model_config import FeedForwardModelConfig
from rlrun.policy.policy import Policy

VALUE = "value_"
"""Prefix of the value network's parameters; all others are the policy's."""


@fixed("the values are fitted by themselves, in layers of their own", shared_value=False, module=None)
class TRPOModelConfig(FeedForwardModelConfig):
    """Networks of the policy and of the values, without common layers."""


@defaults(lr=1e-3)
@fixed("a step is of a whole batch in one process", num_learners=0, num_parameter_servers=0, microbatch_size=None)
@fixed("a value net is fitted to the env's rewards alone", curiosity=None, constraint=None)
class TRPOConfig(OnPolicyConfig):
    """Settings of TRPO; `lr` and `max_grad_norm` are those of the values."""

    model: TRPOModelConfig = TRPOModelConfig()
    """The networks."""
    gae_lambda: Fraction = 0.95
    """Weight between one-step (0) and Monte Carlo (1) advantages."""
    max_kl: PositiveFloat = 0.01
    """Bound of the mean KL divergence of the policy before a step from the one after it."""
    cg_steps: PositiveInt = 10
    """Steps of the conjugate gradient method."""
    damping: PositiveFloat = 0.1
    """Multiple of the identity that is added to the Fisher matrix."""
    line_search_steps: PositiveInt = 10
    """Lengths that are tried for a step; it is left out if none will do."""
    shrink: Fraction = 0.8
    """Ratio of a tried length to the one before it."""
    value_epochs: PositiveInt = 10
    """Passes over a batch in which the values are fitted."""
    minibatch_size: PositiveInt = 128
    """Env steps in a minibatch of these passes."""

    @property
    def sgd_steps_per_env_step(self) -> float:
        """Minibatches per env step."""
        return self.value_epochs / self.minibatch_size


class TrustRegionStep(Operator):
    """Moves the policy once by the whole batch, then fits the values in epochs of minibatches.

    Args:
        trainee: Whose learner has the objectives `policy` and `values`.
        config: The settings.
    """

    learns = True

    def __init__(self, trainee: Trainee, config: TRPOConfig) -> None:
        self.trainee = trainee
        self.config = config

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"max_kl": self.config.max_kl, "value_epochs": self.config.value_epochs}

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Learns from a batch [T, B], and returns it as it is."""
        learner, scheduled = self.trainee.learner, self.trainee.clock.scheduled()
        self.trainee.lag.add(learner.weights_version, item["weights_version"][item["valid"]])
        columns = SampleBatch({name: column for name, column in item.items() if name != "weights_version"})
        rows = learning_rows(columns, seq_len=None, whole_fragments=False)
        learner.step(rows, scheduled=scheduled, objectives=("policy",))
        learner.learn(
            rows,
            num_epochs=self.config.value_epochs,
            minibatch_size=self.config.minibatch_size,
            scheduled=scheduled,
            objectives=("values",),
        )
        return item


class TRPO(Algorithm[TRPOConfig]):
    """Trust region policy optimization: a natural gradient within a bound of the KL divergence (arXiv:1502.05477)."""

    Config = TRPOConfig
    learner_metrics = (
        Metric("improvement", "", "Rise of the surrogate objective by the step"),
        Metric("kl", "nats", "Mean KL divergence of the policy before the step from the one after it"),
        Metric("step_length", "", "Part of the full step that was taken"),
        Metric("entropy", "nats", "Mean entropy of the action distribution before the step"),
        Metric("value_loss", "", "Mean squared error of the values"),
        Metric("grad_norm", "", "Norm of the values' gradient before it is clipped"),
    )

    def objectives(self, policy: Policy) -> list[Objective]:
        """The policy's step, which assigns its parameters, and the values' loss, which is descended."""
        moved = tuple(slot.name for slot in policy.parameters.slots if not slot.name.startswith(VALUE))
        step = partial(self.policy_step, policy, moved)
        bound = self.config.max_grad_norm
        return [
            Objective("policy", step, parameters=None, assigns=moved, is_main=True),
            Objective("values", self.value_loss, parameters=VALUE, max_grad_norm=bound, is_main=True),
        ]

    def value_loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]) -> Loss:
        """Mean squared error of the values over rows [S, L]."""
        loss = masked_mean((outputs.values - batch["value_targets"]).square(), batch["valid"].float())
        return Loss(loss, {"value_loss": loss})

    def policy_step(
        self,
        policy: Policy,
        moved: tuple[str, ...],
        parameters: Mapping[str, torch.Tensor],
        batch: SampleBatch,
        scheduled: Mapping[str, Any],
    ) -> Loss:
        """New values of the policy's parameters (section 6 and appendix C), without Python's `if`, to be compiled."""
        config, valid = self.config, batch["valid"].float()
        shapes = [parameters[name].shape for name in moved]
        before = torch.cat([parameters[name].detach().reshape(-1) for name in moved])

        def named(flat: torch.Tensor) -> dict[str, torch.Tensor]:
            parts = torch.split(flat, [shape.numel() for shape in shapes])
            return {name: part.view(shape) for name, part, shape in zip(moved, parts, shapes, strict=True)}

        def measured(flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            """Surrogate objective (eq. 14) and mean KL divergence from the old policy, each []."""
            new = policy.outputs({**parameters, **named(flat)}, batch).distribution
            log_ratio = (new.log_prob(batch["actions"]) - old_logp) * valid
            return masked_mean(log_ratio.exp() * batch["advantages"], valid), masked_mean(old.kl(new), valid)

        with torch.no_grad():
            old = policy.outputs(parameters, batch).distribution
            old_logp = old.log_prob(batch["actions"])
        point = before.requires_grad_()
        surrogate, kl = measured(point)
        (gradient,) = torch.autograd.grad(surrogate, point, retain_graph=True)
        (slope,) = torch.autograd.grad(kl, point, create_graph=True)

        def fisher(vector: torch.Tensor) -> torch.Tensor:
            (product,) = torch.autograd.grad(slope, point, vector, retain_graph=True)
            return product + config.damping * vector

        direction = conjugate_gradients(fisher, gradient, config.cg_steps)
        curvature = (direction * fisher(direction)).sum().clamp(min=1e-12)
        full_step = direction * (2 * config.max_kl / curvature).sqrt()
        with torch.no_grad():
            length, improvement, kl = self._longest(measured, before.detach(), full_step, surrogate.detach())
            found = named(before.detach() + length * full_step)
        entropy = masked_mean(old.entropy(), valid)
        statistics = {"improvement": improvement, "kl": kl, "step_length": length, "entropy": entropy}
        return Loss(-improvement, statistics, assign=found)

    def _longest(
        self,
        measured: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
        before: torch.Tensor,
        full_step: torch.Tensor,
        surrogate: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Longest tried part of a step that improves the surrogate within the bound, 0 if none; with what it gives."""
        chosen = [torch.zeros_like(surrogate)] * 3
        for number in reversed(range(self.config.line_search_steps)):
            length = torch.full_like(surrogate, self.config.shrink**number)
            value, kl = measured(before + length * full_step)
            is_good = (value > surrogate) & (kl <= self.config.max_kl)
            found = (length, value - surrogate, kl)
            chosen = [torch.where(is_good, new, old) for new, old in zip(found, chosen, strict=True)]
        length, improvement, kl = chosen
        return length, improvement, kl

    def learn(self, items: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """PPO's dataflow with a step of our own."""
        config = self.config
        return (
            items.for_each(ComputeAdvantages(config.gamma, config.gae_lambda))
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(Standardize("advantages"))
            .for_each(TrustRegionStep(trainee, config))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


def conjugate_gradients(
    product: Callable[[torch.Tensor], torch.Tensor], target: torch.Tensor, steps: int
) -> torch.Tensor:
    """Solves A x = b for a positive definite A (Hestenes and Stiefel 1952), from x = 0.

    Args:
        product: Product of A with a vector, [N].
        target: b, [N].
        steps: Number of steps; N are exact but for rounding.
    """
    found = torch.zeros_like(target)
    residual = direction = target
    square = (residual * residual).sum()
    for _ in range(steps):
        along = product(direction)
        # Once the residual is 0, nothing moves any more.
        size = square / (direction * along).sum().clamp(min=1e-30)
        found = found + size * direction
        residual = residual - size * along
        smaller = (residual * residual).sum()
        direction = residual + smaller / square.clamp(min=1e-30) * direction
        square = smaller
    return found
