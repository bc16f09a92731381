"""Inner-loop adaptation of MAML, and policies as functions of their parameters (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs

Floats = NDArray[np.float32]
Views = Mapping[str, Tensor]


@dataclass(frozen=True)
class AdaptableOutputs:
    """Actor-critic as a function of its parameters, either the original or the adapted ones.

    Attributes:
        views: Original parameters theta by name.
        run: Forward pass, from parameters by name and a batch [S, L] to the actor-critic outputs.
    """

    views: Views
    run: Callable[[Views, SampleBatch], ActorCriticOutputs]


class AdaptablePolicy(ActorCriticPolicy):
    """Actor-critic policy whose losses can evaluate the network at adapted parameters."""

    @override
    def outputs(  # type: ignore[override]
        self, views: Views, batch: SampleBatch, target_views: Views | None = None
    ) -> AdaptableOutputs:
        """Actor-critic network as a function of its parameters, for the inner and outer loop of MAML."""
        return AdaptableOutputs(views, super().outputs)


def adapted(loss: Callable[[Views], Tensor], views: Views, step_size: float, *, first_order: bool) -> dict[str, Tensor]:
    """Inner update of MAML: theta' = theta - step_size * grad loss(theta).

    Args:
        loss: Inner loss as a function of parameters, a scalar [].
        views: Parameters theta by name.
        step_size: Inner step size.
        first_order: Whether to drop second derivatives in gradients with respect to theta (first-order MAML).

    Source:
        Finn et al., arXiv:1703.03400, eq. 1; section 5.2 for the first-order approximation.
    """
    with torch.enable_grad():
        total = loss(views)
    found = torch.autograd.grad(total, list(views.values()), create_graph=not first_order, allow_unused=True)
    gradients = zip(views.items(), found, strict=True)
    return {name: view if gradient is None else view - step_size * gradient for (name, view), gradient in gradients}


def surrogate(outputs: AdaptableOutputs, batch: SampleBatch) -> Callable[[Views], Tensor]:
    """Inner loss as a function of parameters: minus the importance-weighted advantage, averaged over steps.

    At the behavior parameters, its gradient is the REINFORCE gradient (arXiv:1703.03400, eq. 5).

    Args:
        outputs: Actor-critic as a function of its parameters.
        batch: Batch [S, L] with `logp` of the behavior policy and `advantages`.
    """
    valid = batch["valid"].float()

    def loss(views: Views) -> Tensor:
        logp = outputs.run(views, batch).distribution.log_prob(batch["actions"])
        gain: Tensor = masked_mean(((logp - batch["logp"]) * valid).exp() * batch["advantages"], valid)
        return -gain

    return loss


def adapted_acting(policy: AdaptablePolicy, acting: Floats, batch: SampleBatch, step_size: float) -> Floats:
    """Takes one inner gradient step of MAML on a rollout fragment, in NumPy; returns the adapted parameters [P].

    Args:
        policy: Policy that defines the network; its own parameter values are unused.
        acting: Behavior parameters of the fragment, [P].
        batch: Fragment [T, B] with `logp` and `advantages`; `obs` may be [T + 1, B, ...].
        step_size: Inner step size.
    """
    names = ("obs", "actions", "logp", "advantages", "valid")
    rows = SampleBatch({name: batch.steps()[name] for name in names}).zero_invalid().rows(1)
    columns = rows.map(lambda leaf: torch.from_numpy(np.ascontiguousarray(leaf)))
    moved: Floats = adapted_flat(policy, torch.from_numpy(acting.copy()), columns, step_size).numpy()
    return moved


def adapted_flat(policy: AdaptablePolicy, flat: Tensor, batch: SampleBatch, step_size: float) -> Tensor:
    """Flat vector of the parameters after one detached gradient step on the inner loss of a batch [rows, steps]."""
    views = {name: view.detach().requires_grad_() for name, view in policy.parameters.views(flat).items()}
    inner = surrogate(policy.outputs(views, batch), batch)
    moved = adapted(inner, views, step_size, first_order=True)
    return torch.cat([view.detach().reshape(-1) for view in moved.values()])
