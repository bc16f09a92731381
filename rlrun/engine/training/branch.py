"""Policy in training, with the part of the dataflow that trains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlrun.engine.flow.flow import Flow
    from rlrun.engine.flow.trainee import Trainee


@dataclass(frozen=True)
class Branch:
    """Policy in training, with the part of the dataflow that trains it.

    Attributes:
        trainee: The policy in training.
        flow: Dataflow of the policy; None if it does not learn and acts with its initial weights.
        shared: Flows from which the dataflows of this policy and of other policies take their items.
    """

    trainee: Trainee
    flow: Flow[Any] | None
    shared: tuple[Flow[Any], ...] = ()
