"""Source of minibatches from a replay buffer, sampled at a fixed ratio to the number of env steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.nodes import Delivered, Pending, Polled, Source
from rlrun.engine.flow.operators.replay import NormalizeObservations
from rlrun.engine.replay.replay import Replay, ReplayRatio

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee


def replay_minibatches(
    replay: Replay,
    trainee: Trainee,
    *,
    minibatch_size: int,
    training_intensity: float,
    learning_starts: int,
    normalize_observations: bool = False,
    at_most: Callable[[], int] = lambda: 1,
) -> Flow[SampleBatch]:
    """Creates a flow of minibatches from a replay buffer, `training_intensity` of them per step that is stored.

    Args:
        replay: The replay buffer.
        trainee: The policy in training, by whose step counts the replay buffer's schedules are evaluated.
        minibatch_size: Rows in each minibatch.
        training_intensity: Minibatches per step stored after `learning_starts`.
        learning_starts: Number of steps stored before the first minibatch.
        normalize_observations: Whether observations, stored raw, are normalized by their running mean and variance.
        at_most: Function that returns how many minibatches, one after another in its rows, the next item may hold.
    """
    ratio = ReplayRatio(training_intensity, learning_starts)
    minibatches: Flow[SampleBatch] = Flow(ReplayMinibatches(replay, trainee, minibatch_size, ratio, at_most))
    return minibatches.for_each(NormalizeObservations(trainee)) if normalize_observations else minibatches


class ReplayMinibatches(Source):
    """Source of a dataflow that samples minibatches from a replay buffer, at a fixed ratio to the stored steps."""

    def __init__(
        self, replay: Replay, trainee: Trainee, minibatch_size: int, ratio: ReplayRatio, at_most: Callable[[], int]
    ) -> None:
        super().__init__(
            "replay_minibatches",
            {
                "minibatch_size": minibatch_size,
                "training_intensity": ratio.training_intensity,
                "learning_starts": ratio.learning_starts,
            },
        )
        self.replay = replay
        self.clock = trainee.clock
        self.minibatch_size = minibatch_size
        self.ratio = ratio
        self.at_most = at_most

    @override
    def next_item(self) -> Polled:
        """Returns the next minibatches if enough steps have been stored, else the conditions to wait for."""
        minibatch = self.replay.sample(self.minibatch_size, self.clock.steps, self.ratio, self.at_most())
        if minibatch is None:
            return Pending(*self.replay.awaited(), reasons=("the replay buffer needs more steps",))
        return Delivered(minibatch)
