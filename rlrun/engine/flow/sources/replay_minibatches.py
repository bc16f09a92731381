"""Source of minibatches from a replay buffer, sampled at a fixed ratio to the number of env steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.nodes import Delivered, Pending, Polled, Source
from rlrun.engine.flow.operators.replay import NormalizeObservations
from rlrun.engine.replay.replay import NOTHING_AWAITED, Replay, ReplayRatio

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee

WITHOUT_STEPS = Pending(reasons=("the replay buffer needs more steps",))


def replay_minibatches(
    replay: Replay,
    trainee: Trainee,
    *,
    minibatch_size: int,
    training_intensity: float,
    learning_starts: int,
    normalize_observations: bool = False,
    at_most: int = 1,
    unread: bool = False,
) -> Flow[SampleBatch]:
    """Creates a flow of minibatches from a replay buffer, `training_intensity` of them per stored step.

    Args:
        replay: The replay buffer.
        trainee: The policy in training, whose step counts determine the values of the replay buffer's schedules.
        minibatch_size: Rows in each minibatch.
        training_intensity: Minibatches per step stored after `learning_starts`.
        learning_starts: Number of steps stored before the first minibatch.
        normalize_observations: Whether observations, stored raw, are normalized by their running mean and variance.
        at_most: Maximum number of minibatches in an item, whose rows are concatenated.
        unread: Whether items are passed unread to the learner, which may then draw and read the rows itself.
    """
    ratio = ReplayRatio(training_intensity, learning_starts)
    is_unread = unread and not normalize_observations
    source = ReplayMinibatches(replay, trainee, minibatch_size, ratio, at_most, unread=is_unread)
    minibatches: Flow[SampleBatch] = Flow(source)
    return minibatches.for_each(NormalizeObservations(trainee)) if normalize_observations else minibatches


class ReplayMinibatches(Source):
    """Source of a dataflow that samples minibatches from a replay buffer, at a fixed ratio to the stored steps.

    Args:
        replay: The replay buffer.
        trainee: The policy in training.
        minibatch_size: Rows in each minibatch.
        ratio: Replay ratio that limits the number of minibatches.
        at_most: Maximum number of minibatches in an item.
        unread: Whether items are passed unread to the learner, which may then draw and read the rows itself.
    """

    def __init__(
        self,
        replay: Replay,
        trainee: Trainee,
        minibatch_size: int,
        ratio: ReplayRatio,
        at_most: int,
        *,
        unread: bool = False,
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
        self.counts = trainee.clock.counts
        self.minibatch_size = minibatch_size
        self.ratio = ratio
        self._at_most, self._unread = at_most, unread

    @override
    def next_item(self) -> Polled:
        """Returns the next minibatches if enough steps have been stored, else the conditions to wait for."""
        steps, ratio = self.counts.env_steps, self.ratio
        minibatch = self.replay.sample(self.minibatch_size, steps, ratio, self._at_most, unread=self._unread)
        if minibatch is not None:
            return Delivered(minibatch)
        awaited = self.replay.awaited()
        return WITHOUT_STEPS if awaited is NOTHING_AWAITED else Pending(*awaited, reasons=WITHOUT_STEPS.reasons)
