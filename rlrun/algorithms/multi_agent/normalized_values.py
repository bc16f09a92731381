"""PPO's objectives with values that are normalised by the running moments of their targets, of MAPPO and IPPO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rlrun.config import defaults
from rlrun.data.sample_batch import SampleBatch
from rlrun.learner.objective import Loss, Objective
from rlrun.learner.optimizers import SGD

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.multi_agent.state_value_outputs import StateValueOutputs

mappo_defaults = defaults(
    lr=5e-4, max_grad_norm=10.0, minibatch_size=1024, entropy_coeff=0.01, vf_loss_coeff=1.0, vf_clip_param=0.2
)
"""Decorates settings with the defaults of Yu et al., arXiv:2103.01955, where they are the same in all its worlds."""


def objectives_with_moments(loss: Callable[..., Loss], max_grad_norm: float | None) -> list[Objective]:
    """Returns the objective that updates the moments, and a loss of values normalised by them.

    Args:
        loss: PPO's loss; the moments that it sees count the targets of its own rows.
        max_grad_norm: Bound of its gradient's norm; None for none.
    """
    from rlrun.algorithms.multi_agent.value_norm import MOMENTS, NETWORKS

    return [
        Objective("moments", assigned_moments, parameters=None, optimizer=SGD(), assigns=(MOMENTS,)),
        Objective("loss", loss, parameters=NETWORKS, max_grad_norm=max_grad_norm, is_main=True),
    ]


def assigned_moments(parameters: Mapping[str, Tensor], batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
    """Assigns the running moments of value targets, those of the rows [S, L] among them; nothing is minimised."""
    from rlrun.algorithms.multi_agent.value_norm import MOMENTS, updated

    moments = updated(parameters[MOMENTS], batch["value_targets"], batch["valid"].float())
    return Loss(moments.new_zeros(()), {}, assign={MOMENTS: moments})


def normalized_value_errors(
    outputs: StateValueOutputs, batch: SampleBatch, *, bound: float | None, delta: float
) -> Tensor:
    """Returns the Huber loss of the normalised values, [S, L].

    Args:
        outputs: The networks on rows [S, L].
        batch: The rows, with `values` as they were collected and `value_targets`.
        bound: Clip range of a value's change since it was collected; None for none.
        delta: Error from which the loss grows linearly.
    """
    from rlrun.algorithms.multi_agent.value_norm import normalized

    targets = normalized(batch["value_targets"], outputs.moments)
    errors = huber(outputs.values - targets, delta)
    if bound is not None:
        before = normalized(batch["values"], outputs.moments)
        moved = (outputs.values - before).clamp(-bound, bound)
        errors = errors.maximum(huber(before + moved - targets, delta))
    return errors


def huber(errors: Tensor, delta: float) -> Tensor:
    """Huber loss: half the square of errors up to delta, linear beyond (Huber 1964), [...]."""
    within = errors.abs().clamp(max=delta)
    return within * (errors.abs() - 0.5 * within)
