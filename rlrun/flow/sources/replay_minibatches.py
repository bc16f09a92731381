"""Source of minibatches, sampled from a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.nodes import Delivered, Pending, Polled, Source
from rlrun.flow.operators.replay import NormalizeObservations
from rlrun.replay.replay import ReplayRatio

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee
    from rlrun.replay.replay import Replay


def replay_minibatches(
    replay: Replay,
    trainee: Trainee,
    *,
    minibatch_size: int,
    training_intensity: float,
    learning_starts: int,
    normalize_observations: bool = False,
) -> Flow[SampleBatch]:
    """Stream of minibatches of a replay, exactly `training_intensity` for each stored step on average.

    Args:
        replay: The replay.
        trainee: The trainee, whose clock the replay's schedules follow.
        minibatch_size: Rows in each.
        training_intensity: Minibatches for each step stored after learning starts.
        learning_starts: Steps stored before the first minibatch.
        normalize_observations: Whether observations, which a replay stores raw, are normalised by present moments.
    """
    ratio = ReplayRatio(training_intensity, learning_starts)
    minibatches: Flow[SampleBatch] = Flow(ReplayMinibatches(replay, trainee, minibatch_size, ratio))
    return minibatches.for_each(NormalizeObservations(trainee)) if normalize_observations else minibatches


class ReplayMinibatches(Source):
    """Samples minibatches of a replay; see `replay_minibatches`."""

    def __init__(self, replay: Replay, trainee: Trainee, minibatch_size: int, ratio: ReplayRatio) -> None:
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

    @override
    def next_item(self) -> Polled:
        """Returns the next minibatch, if enough steps are stored and it is ready."""
        minibatch = self.replay.sample(self.minibatch_size, self.clock.steps, self.ratio)
        if minibatch is None:
            return Pending(*self.replay.awaited(), reasons=("the replay waits for more steps",))
        return Delivered(minibatch)
