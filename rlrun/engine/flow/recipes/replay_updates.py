"""Off-policy update loop: samples minibatches, takes SGD steps, updates priorities and target network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from rlrun.engine.flow.operators.minibatches import TrainedMinibatch, TrainOnMinibatch
from rlrun.engine.flow.operators.replay import StoreToReplay, UpdatePriorities
from rlrun.engine.flow.sources.replay_minibatches import replay_minibatches
from rlrun.engine.learner.learner import TargetUpdates

if TYPE_CHECKING:
    from rlrun.engine.data.sample_batch import SampleBatch
    from rlrun.engine.flow.flow import Flow
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.replay.replay import Replay


class ReplayUpdateSettings(Protocol):
    """Interface of the settings for off-policy updates from a replay buffer."""

    @property
    def minibatch_size(self) -> int:
        """Number of transitions, or sequences, in a minibatch."""

    @property
    def training_intensity(self) -> float:
        """Number of minibatches per env step, once learning has started."""

    @property
    def learning_starts(self) -> int:
        """Number of env steps that are stored before the first minibatch."""

    @property
    def normalize_observations(self) -> bool:
        """Whether minibatches are normalized by the current mean and variance of observations."""

    @property
    def target_update_interval(self) -> int:
        """Number of minibatches from one update of the target network to the next."""

    @property
    def tau(self) -> float:
        """Polyak coefficient of the target network; 1 copies the parameters."""


REPLAY_METRICS = (*StoreToReplay.declared_metrics, *TrainOnMinibatch.declared_metrics)
"""Metrics of dataflows that store fragments in a replay buffer and learn from its minibatches."""

MOST_TOGETHER = 16
"""Maximum number of minibatches that are sampled and learned from in one call; larger numbers take more memory without
saving time."""


def replay_updates(
    replay: Replay,
    trainee: Trainee,
    config: ReplayUpdateSettings,
    most_together: int = MOST_TOGETHER,
    *,
    has_target: bool = True,
    prepare: Callable[[SampleBatch], SampleBatch] | None = None,
) -> Flow[TrainedMinibatch]:
    """Creates the off-policy update loop: sample a minibatch, take an SGD step, update priorities and target network.

    Consecutive minibatches that are due at the same time form one item of the flow, unless something must happen
    between them, such as an update of priorities.

    Args:
        replay: Replay buffer from which minibatches are sampled.
        trainee: The policy in training, whose learner has a target network.
        config: Settings of the minibatch size, the replay ratio, and the updates of the target network.
        most_together: Maximum number of minibatches in an item; must be 1 if the flow alternates with others.
        has_target: Whether there is a target network.
        prepare: Operator applied to minibatches before the SGD step; None if there is none.
    """
    target = TargetUpdates(config.target_update_interval, config.tau) if has_target else None
    train = TrainOnMinibatch(trainee, minibatch_size=config.minibatch_size, target=target)
    minibatches: Flow[Any] = replay_minibatches(
        replay,
        trainee,
        minibatch_size=config.minibatch_size,
        training_intensity=config.training_intensity,
        learning_starts=config.learning_starts,
        normalize_observations=config.normalize_observations,
        at_most=most_together,
        unread=prepare is None,
    )
    if prepare is not None:
        minibatches = minibatches.for_each(prepare)
    updates = minibatches.for_each(train)
    return updates.for_each(UpdatePriorities(replay)) if replay.learns_priorities else updates
