"""Off-policy updates from data sets: alone, or next to experience from an env."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.input_config import InputConfig, total_share
from rlrun.engine.datasets.shuffle_window import ViewFactory
from rlrun.engine.datasets.transitions import Transitions
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.data import AddData, DropDataPriorities, TrainOnData
from rlrun.engine.flow.operators.minibatches import TrainOnMinibatch, UpdateTargetNetwork
from rlrun.engine.flow.operators.replay import NormalizeObservations, UpdatePriorities
from rlrun.engine.flow.recipes.replay_updates import ReplayUpdateSettings
from rlrun.engine.flow.sources.data_minibatches import DataMinibatches, MinibatchSettings, data_minibatches
from rlrun.engine.flow.sources.replay_minibatches import replay_minibatches
from rlrun.engine.messages.errors import UsageError

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.replay.replay import Replay


class ReplayAndDataSettings(MinibatchSettings, Protocol):
    """Protocol of settings of minibatches from a replay and from data sets."""

    @property
    def training_intensity(self) -> float:
        """Minibatches per env step after learning starts."""

    @property
    def learning_starts(self) -> int:
        """Env steps that are stored before the first minibatch."""


class DataUpdateSettings(ReplayUpdateSettings, Protocol):
    """Protocol of off-policy update settings with data sets, as configs of `DataSettings` and `OffPolicyConfig`."""

    @property
    def input(self) -> Sequence[InputConfig] | None:
        """The data sets with their shares."""

    @property
    def gamma(self) -> float:
        """Discount factor."""

    @property
    def n_step(self) -> int:
        """Maximum length n of a transition."""

    @property
    def clip_rewards(self) -> float | None:
        """Bound to which each reward is clipped; None for none."""

    @property
    def further_columns(self) -> tuple[str, ...]:
        """Further columns of transitions that losses read from data."""


def data_transitions(trainee: Trainee, config: DataUpdateSettings) -> Flow[SampleBatch]:
    """Flow of minibatches of transitions from data sets, with the columns of a replay's minibatches.

    Args:
        trainee: The policy in training.
        config: Settings: data sets, minibatch size and n-step returns.
    """
    return data_minibatches(trainee, config, transitions(config))


def transitions(config: DataUpdateSettings) -> Any:
    """View of data sets as the n-step transitions of an algorithm's settings."""
    return partial(
        Transitions,
        gamma=config.gamma,
        n_step=config.n_step,
        clip_rewards=config.clip_rewards,
        further=config.further_columns,
    )


def updates_from_data(minibatches: Flow[SampleBatch], trainee: Trainee, config: DataUpdateSettings) -> Flow[Any]:
    """Update loop on data alone: takes an SGD step, updates the target network.

    Args:
        minibatches: Flow of minibatches from data, as of `data_transitions`.
        trainee: Trainee with the learner and a target network.
        config: Settings of target network updates.
    """
    return minibatches.for_each(TrainOnData(trainee)).for_each(
        UpdateTargetNetwork(trainee, config.target_update_interval, config.tau)
    )


def rows_of_data(config: MinibatchSettings) -> int:
    """Rows of a minibatch that data gives next to those of a replay.

    Raises:
        UsageError: The shares leave one of the two without a row.
    """
    own = round(config.minibatch_size * total_share(tuple(config.input or ())))
    if not 0 < own < config.minibatch_size:
        raise UsageError(f"config.input: its shares are {own} of {config.minibatch_size} rows of a minibatch")
    return own


def minibatches_with_data(
    replay: Replay, trainee: Trainee, config: ReplayAndDataSettings, view: ViewFactory
) -> Flow[SampleBatch]:
    """Flow of minibatches from a replay, of which data gives the last rows: the share that the settings name.

    Args:
        replay: Replay of experience from the env.
        trainee: The policy in training.
        config: Settings: data sets with shares, minibatch size and replay ratio.
        view: How the data sets are read.

    Raises:
        UsageError: The shares leave one of the two without a row.
    """
    own = rows_of_data(config)
    return replay_minibatches(
        replay,
        trainee,
        minibatch_size=config.minibatch_size - own,
        training_intensity=config.training_intensity,
        learning_starts=config.learning_starts,
    ).for_each(AddData(DataMinibatches(trainee, config.input, view, own, measures=False)))


def updates_with_data(replay: Replay, trainee: Trainee, config: DataUpdateSettings) -> Flow[Any]:
    """Update loop of `replay_updates` in which data gives the share of each minibatch that the settings name.

    Source:
        Ball et al., arXiv:2302.02948 (RLPD), section 4.1 (symmetric sampling: a share of 0.5).

    Args:
        replay: Replay of experience from the env.
        trainee: Trainee with the learner, target network and clock.
        config: Settings: data sets with shares, minibatch size, replay ratio, and target network updates.

    Raises:
        UsageError: The share leaves one of the two without a row.
    """
    minibatches = minibatches_with_data(replay, trainee, config, transitions(config))
    if config.normalize_observations:
        minibatches = minibatches.for_each(NormalizeObservations(trainee))
    return (
        minibatches.for_each(TrainOnMinibatch(trainee))
        .for_each(DropDataPriorities())
        .for_each(UpdatePriorities(replay))
        .for_each(UpdateTargetNetwork(trainee, config.target_update_interval, config.tau))
    )
