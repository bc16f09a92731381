"""Off-policy update loop: sampled minibatches, SGD, priority updates and target network updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rlrun.flow.operators.replay import UpdatePriorities
from rlrun.flow.operators.training import TrainedMinibatch, TrainOnMinibatch, UpdateTargetNetwork
from rlrun.flow.sources.replay_minibatches import replay_minibatches

if TYPE_CHECKING:
    from rlrun.flow.flow import Flow
    from rlrun.flow.trainee import Trainee
    from rlrun.replay.replay import Replay


class ReplayUpdateSettings(Protocol):
    """Protocol of off-policy update settings, such as `rlrun.algorithms.settings.off_policy.OffPolicyConfig`."""

    @property
    def minibatch_size(self) -> int:
        """Number of rows in a minibatch."""

    @property
    def training_intensity(self) -> float:
        """Minibatches per env step after learning starts."""

    @property
    def learning_starts(self) -> int:
        """Env steps that are stored before the first minibatch."""

    @property
    def normalize_observations(self) -> bool:
        """Whether minibatches are normalised by the current running moments of observations."""

    @property
    def target_update_interval(self) -> int:
        """Minibatches between two updates of the target network."""

    @property
    def tau(self) -> float:
        """Polyak coefficient of the target network; 1 copies the parameters."""


def replay_updates(replay: Replay, trainee: Trainee, config: ReplayUpdateSettings) -> Flow[TrainedMinibatch]:
    """Builds the off-policy update loop: sample a minibatch, take an SGD step, update priorities and target network.

    Args:
        replay: Replay from which minibatches are sampled.
        trainee: Trainee with the learner, target network and clock.
        config: Settings: minibatch size, replay ratio, and target network updates.
    """
    return (
        replay_minibatches(
            replay,
            trainee,
            minibatch_size=config.minibatch_size,
            training_intensity=config.training_intensity,
            learning_starts=config.learning_starts,
            normalize_observations=config.normalize_observations,
        )
        .for_each(TrainOnMinibatch(trainee))
        .for_each(UpdatePriorities(replay))
        .for_each(UpdateTargetNetwork(trainee, config.target_update_interval, config.tau))
    )
