"""What one policy of a training is: a trainee and its dataflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlrun.flow.flow import Flow
    from rlrun.flow.trainee import Trainee


@dataclass(frozen=True)
class Branch:
    """A trainee and the dataflow that it learns by.

    Attributes:
        trainee: What is trained.
        flow: How it learns; None if it does not, and acts with the weights that it began with.
        shared: The flows upstream of its own that other trainees share.
    """

    trainee: Trainee
    flow: Flow[Any] | None
    shared: tuple[Flow[Any], ...] = ()
