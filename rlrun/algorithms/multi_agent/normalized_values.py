"""Value normalization in PPO's objectives, for MAPPO and IPPO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rlrun.algorithms.td_loss import huber
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.learner.optimizers import SGD
from rlrun.engine.settings.config import defaults

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.multi_agent.value_norm import StateValueOutputs

mappo_defaults = defaults(
    lr=5e-4, max_grad_norm=10.0, minibatch_size=1024, entropy_coeff=0.01, vf_loss_coeff=1.0, vf_clip_param=0.2
)
"""Class decorator: sets the hyperparameters that Yu et al. (arXiv:2103.01955) share over all benchmarks."""


def moments_objective() -> Objective:
    """Creates the objective that updates the value moments, before PPO's loss uses them on the same minibatch."""
    from rlrun.algorithms.multi_agent.value_norm import MOMENTS

    return Objective("moments", assigned_moments, parameters=None, optimizer=SGD(), assigns=(MOMENTS,))


def assigned_moments(parameters: Mapping[str, Tensor], batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
    """Loss function with value 0; its only effect is to update the running moments of the value targets.

    The value targets of a minibatch are [rows, steps].
    """
    from rlrun.algorithms.multi_agent.value_norm import MOMENTS, updated

    moments = updated(parameters[MOMENTS], batch["value_targets"], batch["valid"].float())
    return Loss(moments.new_zeros(()), {}, assign={MOMENTS: moments})


def normalized_value_errors(
    outputs: StateValueOutputs, batch: SampleBatch, *, bound: float | None, delta: float
) -> Tensor:
    """Clipped Huber loss of normalized values, [S, L].

    Args:
        outputs: Actor-critic outputs for the minibatch, with the value moments.
        batch: Minibatch [S, L] with behavior `values` and `value_targets`, both unnormalized.
        bound: Clip range of values around the behavior values, in normalized units; None for no clipping.
        delta: Threshold of the Huber loss.
    """
    from rlrun.algorithms.multi_agent.value_norm import normalized

    targets = normalized(batch["value_targets"], outputs.moments)
    errors = huber(outputs.values - targets, delta)
    if bound is not None:
        before = normalized(batch["values"], outputs.moments)
        moved = (outputs.values - before).clamp(-bound, bound)
        errors = errors.maximum(huber(before + moved - targets, delta))
    return errors
