"""Policies that losses evaluate at adapted parameters, for meta-learning (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.data.sample_batch import SampleBatch
from rlrun.functional.masked import masked_mean
from rlrun.policy.actor_critic import ActorCriticPolicy
from rlrun.policy.actor_critic_outputs import ActorCriticOutputs

Floats = NDArray[np.float32]
Views = Mapping[str, Tensor]


@dataclass(frozen=True)
class AdaptableOutputs:
    """Actor-critic as a function of parameters, its own or adapted ones.

    Attributes:
        views: The policy's parameters by name.
        run: From parameters by name and rows [S, L] to the network's outputs.
    """

    views: Views
    run: Callable[[Views, SampleBatch], ActorCriticOutputs]


class AdaptablePolicy(ActorCriticPolicy):
    """Actor-critic whose losses evaluate it at any parameters."""

    @override
    def outputs(  # type: ignore[override]
        self, views: Views, batch: SampleBatch, target_views: Views | None = None
    ) -> AdaptableOutputs:
        """Returns the network as a function of parameters."""
        return AdaptableOutputs(views, super().outputs)


def adapted(loss: Callable[[Views], Tensor], views: Views, step_size: float, *, first_order: bool) -> dict[str, Tensor]:
    """Inner update of MAML: theta' = theta - step_size * grad loss(theta).

    Args:
        loss: The loss at parameters, [].
        views: theta, by name.
        step_size: How far the step goes.
        first_order: Whether gradients take theta' - theta for a constant, which leaves out second derivatives.

    Source:
        Finn et al., arXiv:1703.03400, eq. 1; section 5.2 for the first-order approximation.
    """
    with torch.enable_grad():
        total = loss(views)
    found = torch.autograd.grad(total, list(views.values()), create_graph=not first_order, allow_unused=True)
    gradients = zip(views.items(), found, strict=True)
    return {name: view if gradient is None else view - step_size * gradient for (name, view), gradient in gradients}


def surrogate(outputs: AdaptableOutputs, batch: SampleBatch) -> Callable[[Views], Tensor]:
    """Inner loss of rows as a function of parameters: minus the probability ratio times the advantage.

    At the parameters that acted its gradient is that of REINFORCE (arXiv:1703.03400, eq. 5).

    Args:
        outputs: The policy.
        batch: Columns [S, L], `logp` and `advantages` among them.
    """
    valid = batch["valid"].float()

    def loss(views: Views) -> Tensor:
        logp = outputs.run(views, batch).distribution.log_prob(batch["actions"])
        gain: Tensor = masked_mean(((logp - batch["logp"]) * valid).exp() * batch["advantages"], valid)
        return -gain

    return loss


def adapted_acting(policy: AdaptablePolicy, acting: Floats, batch: SampleBatch, step_size: float) -> Floats:
    """Returns parameters [P] after one inner step on a fragment [T, B].

    Args:
        policy: The policy, of which only the form of the network is used.
        acting: The parameters that acted, [P].
        batch: Columns [T, B], `logp` and `advantages` among them; `obs` may have a closing row.
        step_size: How far the step goes.
    """
    names = ("obs", "actions", "logp", "advantages", "valid")
    rows = SampleBatch({name: batch.steps()[name] for name in names}).zero_invalid().rows(1)
    columns = rows.map(lambda leaf: torch.from_numpy(np.ascontiguousarray(leaf)))
    moved: Floats = adapted_flat(policy, torch.from_numpy(acting.copy()), columns, step_size).numpy()
    return moved


def adapted_flat(policy: AdaptablePolicy, flat: Tensor, batch: SampleBatch, step_size: float) -> Tensor:
    """Returns a flat vector [P] after one step along the inner loss of rows [S, L]."""
    views = {name: view.detach().requires_grad_() for name, view in policy.parameters.views(flat).items()}
    inner = surrogate(policy.outputs(views, batch), batch)
    moved = adapted(inner, views, step_size, first_order=True)
    return torch.cat([view.detach().reshape(-1) for view in moved.values()])
