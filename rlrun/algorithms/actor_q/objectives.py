"""Objectives of actor-critics with Q functions: the losses of critics and actor, with the parameters they train."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from rlrun.algorithms.loss_metrics import td_statistics
from rlrun.engine.functional.sequence_rows import row_priorities
from rlrun.engine.learner.objective import Loss, LossFunction, Objective

if TYPE_CHECKING:
    from torch import Tensor


def critics_and_actor(
    critics_loss: LossFunction, actor_loss: LossFunction, *, policy_delay: int, max_grad_norm: float | None
) -> list[Objective]:
    """Creates two objectives (a loss and the parameters it trains): first the critics', then the actor's.

    Args:
        critics_loss: Loss of the critics, whose parameter names begin with `critics.`.
        actor_loss: Loss of the actor, whose parameter names begin with `actor.`.
        policy_delay: Number of critic updates per update of the actor.
        max_grad_norm: Clipping threshold of the gradient norm; None for no clipping.
    """
    return [
        Objective("critics", critics_loss, lr="critic_lr", parameters="critics.", max_grad_norm=max_grad_norm),
        Objective("actor", actor_loss, parameters="actor.", every=policy_delay, max_grad_norm=max_grad_norm),
    ]


def loss_of_critics(
    loss: Tensor,
    values: Tensor,
    errors: Tensor,
    valid: Tensor,
    statistics: Mapping[str, Tensor] = MappingProxyType({}),
) -> Loss:
    """Returns the loss of C critics, together with statistics of the TD errors and new replay priorities.

    Args:
        loss: Scalar loss, [].
        values: Values of the actions taken, [C, S, L].
        errors: TD errors, [C, S, L].
        valid: Mask of the valid steps, [S, L].
        statistics: Additional statistics by name, each a scalar.
    """
    distance = errors.detach().abs().mean(0)
    own = td_statistics(loss, values[0], distance, valid)
    return Loss(loss, {**own, **statistics}, priorities=row_priorities(distance, valid))
