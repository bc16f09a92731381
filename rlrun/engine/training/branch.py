"""Branch of a training: a trainee and its dataflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlrun.engine.flow.flow import Flow
    from rlrun.engine.flow.trainee import Trainee


@dataclass(frozen=True)
class Branch:
    """Branch of a training's dataflow that belongs to one trainee.

    Attributes:
        trainee: The trainee.
        flow: Dataflow of the trainee; None for a trainee that does not learn and acts with initial weights.
        shared: Upstream flows that are shared with other trainees.
    """

    trainee: Trainee
    flow: Flow[Any] | None
    shared: tuple[Flow[Any], ...] = ()
