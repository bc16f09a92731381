"""Branch of a training: a trainee and its dataflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlrun.flow.flow import Flow
    from rlrun.flow.trainee import Trainee


@dataclass(frozen=True)
class Branch:
    """One trainee's branch of a training's dataflow.

    Attributes:
        trainee: The trainee.
        flow: Its dataflow; None if it does not learn, and acts with its initial weights.
        shared: The flows upstream of its own that other trainees share.
    """

    trainee: Trainee
    flow: Flow[Any] | None
    shared: tuple[Flow[Any], ...] = ()
