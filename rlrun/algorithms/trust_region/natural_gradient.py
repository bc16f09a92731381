"""Natural gradient step of a policy, with a backtracking line search (torch).

A learner traces the step once and then runs the compiled code, so the step must not branch on tensor values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rlrun.algorithms.trust_region.settings import TRPOConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.policy.policy import Policy


class Measured(NamedTuple):
    """Surrogate objective of a policy, and mean KL divergence from the old policy, each a scalar."""

    surrogate: Tensor
    kl: Tensor


class TakenStep(NamedTuple):
    """Result of the line search: fraction of the full step, surrogate improvement and KL divergence, each a scalar."""

    length: Tensor
    improvement: Tensor
    kl: Tensor


@dataclass(frozen=True)
class NaturalGradientStep:
    """Loss function that computes one natural gradient step of the policy, and returns the new parameters.

    The learner assigns these parameters instead of following a gradient.

    Attributes:
        policy: Policy whose outputs include the action `distribution`.
        moved: Names of the parameters that the step changes: the policy's, not the value network's.
        config: Settings.

    Source:
        Schulman et al., arXiv:1502.05477, section 6 and appendix C.
    """

    policy: Policy
    moved: tuple[str, ...]
    config: TRPOConfig

    def __call__(self, parameters: Mapping[str, Tensor], batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """The step on rows [S, L], as assigned parameters."""
        config, valid = self.config, batch["valid"].float()
        old = torch.cat([parameters[name].detach().reshape(-1) for name in self.moved])
        with torch.no_grad():
            before = self.policy.outputs(parameters, batch).distribution
            old_logp = before.log_prob(batch["actions"])

        def measured(flat: Tensor) -> Measured:
            """Surrogate objective (eq. 14) and KL divergence of a policy with flat parameters [N]."""
            after = self.policy.outputs({**parameters, **self.named(flat)}, batch).distribution
            # Masked before the exponential: the ratio of an empty step may be infinite, and 0 times infinity is NaN.
            ratio = ((after.log_prob(batch["actions"]) - old_logp) * valid).exp()
            return Measured(masked_mean(ratio * batch["advantages"], valid), masked_mean(before.kl(after), valid))

        point = old.clone().requires_grad_()
        surrogate, kl = measured(point)
        (gradient,) = torch.autograd.grad(surrogate, point, retain_graph=True)
        product = fisher_product(kl, point, config.damping)
        direction = conjugate_gradient(product, gradient, config.cg_steps)
        whole = scaled_to(config.max_kl, direction, product(direction))
        with torch.no_grad():
            taken = self.taken(measured, old, whole, surrogate.detach())
            # If no step is taken, the parameters stay as they are: a length of 0 times an infinite step would be NaN.
            new = torch.where(taken.length > 0, old + taken.length * whole, old)
        statistics = {"improvement": taken.improvement, "kl": taken.kl, "step_length": taken.length}
        entropy = masked_mean(before.entropy(), valid)
        return Loss(-taken.improvement, {**statistics, "entropy": entropy}, assign=self.named(new))

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Splits a flat parameter vector into the policy's parameters by name."""
        shapes = [self.policy.parameters.slot(name).shape for name in self.moved]
        parts = torch.split(flat, [torch.Size(shape).numel() for shape in shapes])
        return {name: part.view(shape) for name, part, shape in zip(self.moved, parts, shapes, strict=True)}

    def taken(self, measured: Callable[[Tensor], Measured], old: Tensor, whole: Tensor, surrogate: Tensor) -> TakenStep:
        """Line search: tries fractions of a step; returns the largest that improves the surrogate within the KL bound.

        Without a line search, the full step is taken.

        Args:
            measured: Function that returns surrogate objective and KL divergence at flat parameters.
            old: Parameters before the step, [N].
            whole: The full step, [N].
            surrogate: Surrogate objective before the step, [].
        """
        if not self.config.line_search_steps:
            found = measured(old + whole)
            return TakenStep(torch.ones_like(surrogate), found.surrogate - surrogate, found.kl)
        nothing = torch.zeros_like(surrogate)
        best = TakenStep(nothing, nothing, nothing)
        for number in reversed(range(self.config.line_search_steps)):
            length = torch.full_like(surrogate, self.config.shrink**number)
            value, kl = measured(old + length * whole)
            is_good = (value > surrogate) & (kl <= self.config.max_kl)
            tried = TakenStep(length, value - surrogate, kl)
            best = TakenStep(*(torch.where(is_good, new, known) for new, known in zip(tried, best, strict=True)))
        return best


def fisher_product(kl: Tensor, point: Tensor, damping: float) -> Callable[[Tensor], Tensor]:
    """Creates the function v -> (F + damping I) v for vectors [N], without forming the Fisher matrix F.

    F is the Hessian of the mean KL divergence from the old policy, at the old parameters (arXiv:1502.05477, appendix
    C.1).

    Args:
        kl: Mean KL divergence from the old policy, a scalar computed from `point`.
        point: The old parameters, which require gradients, [N].
        damping: Multiple of the identity that is added to F.
    """
    (slope,) = torch.autograd.grad(kl, point, create_graph=True)

    def product(vector: Tensor) -> Tensor:
        (found,) = torch.autograd.grad(slope, point, vector, retain_graph=True)
        return found + damping * vector

    return product


def scaled_to(max_kl: float, direction: Tensor, product: Tensor) -> Tensor:
    """Scales a direction x so that the quadratic model of the KL divergence, x^T F x / 2, equals `max_kl`.

    Args:
        max_kl: Target KL divergence.
        direction: Direction x, [N].
        product: Product F x of the Fisher matrix and the direction, [N].

    Returns:
        The step [N]; zeros if x^T F x is not above 0.
    """
    curvature = (direction * product).sum()
    return torch.where(curvature > 0, direction * (2 * max_kl / curvature).sqrt(), torch.zeros_like(direction))


def conjugate_gradient(product: Callable[[Tensor], Tensor], target: Tensor, steps: int) -> Tensor:
    """Solves A x = b for a symmetric positive definite A, from x = 0.

    Args:
        product: Function that multiplies a vector [N] by A.
        target: Right-hand side b, [N].
        steps: Number of iterations; N iterations give the exact solution up to rounding.

    Returns:
        The approximate solution x, [N]. Once the residual is 0, or rounding makes p^T A p <= 0 for the
        search direction p, x no longer changes.

    Source:
        Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems", 1952, eqs. 3:1.
    """
    found = torch.zeros_like(target)
    residual = direction = target
    square = (residual * residual).sum()
    for _ in range(steps):
        along = product(direction)
        curvature = (direction * along).sum()
        size = torch.where(curvature > 0, square / curvature, torch.zeros_like(square))
        found = found + size * direction
        residual = residual - size * along
        smaller = (residual * residual).sum()
        ratio = torch.where(square > 0, smaller / square, torch.zeros_like(square))
        direction, square = residual + ratio * direction, smaller
    return found
