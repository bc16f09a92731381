"""Update loops of off-policy methods on data sets, alone or mixed with experience from an env."""

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
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.messages.errors import UsageError

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.replay.replay import Replay


class ReplayAndDataSettings(MinibatchSettings, Protocol):
    """Interface of the settings for minibatches that mix a replay buffer and data sets."""

    @property
    def training_intensity(self) -> float:
        """Number of minibatches per env step, once learning has started."""

    @property
    def learning_starts(self) -> int:
        """Number of env steps that are stored before the first minibatch."""


class DataUpdateSettings(ReplayUpdateSettings, Protocol):
    """Interface of the settings for off-policy updates from data sets."""

    @property
    def input(self) -> Sequence[InputConfig] | None:
        """Data sets to learn from, each with its share of the minibatches."""

    @property
    def gamma(self) -> float:
        """Discount factor of returns."""

    @property
    def n_step(self) -> int:
        """Maximum number of rewards in an n-step return."""

    @property
    def reward_scale(self) -> float:
        """Factor of each reward."""

    @property
    def clip_rewards(self) -> float | None:
        """Bound on the absolute value of each scaled reward; None for no clipping."""

    @property
    def further_columns(self) -> tuple[str, ...]:
        """Additional columns that losses read from the data sets."""


def data_transitions(trainee: Trainee, config: DataUpdateSettings) -> Flow[SampleBatch]:
    """Returns a flow of minibatches of transitions from data sets, with the columns of a replay buffer.

    Args:
        trainee: The policy in training.
        config: Settings: data sets, minibatch size and n-step returns.
    """
    return data_minibatches(trainee, config, transitions(config))


def transitions(config: DataUpdateSettings) -> Any:
    """Returns a function that reads a data set as n-step transitions, with an algorithm's settings."""
    return partial(
        Transitions,
        gamma=config.gamma,
        n_step=config.n_step,
        scale=RewardScale(config.reward_scale, config.clip_rewards),
        further=config.further_columns,
    )


def updates_from_data(minibatches: Flow[SampleBatch], trainee: Trainee, config: DataUpdateSettings) -> Flow[Any]:
    """Off-policy update loop on recorded data only: takes SGD steps, and updates the target network.

    Args:
        minibatches: Flow of minibatches from data sets, such as the result of `data_transitions`.
        trainee: The policy in training, whose learner has a target network.
        config: Settings of target network updates.
    """
    return minibatches.for_each(TrainOnData(trainee)).for_each(
        UpdateTargetNetwork(trainee, config.target_update_interval, config.tau)
    )


def rows_of_data(config: MinibatchSettings) -> int:
    """Returns the number of rows per minibatch that come from data sets rather than from the replay buffer.

    Raises:
        UsageError: The shares leave no rows for the data or for the replay buffer.
    """
    own = round(config.minibatch_size * total_share(tuple(config.input or ())))
    if not 0 < own < config.minibatch_size:
        raise UsageError(
            f"config.input: the data sets' shares make up {own} of the {config.minibatch_size} rows of a minibatch, "
            "but both data and replay need at least one row; change the shares or minibatch_size"
        )
    return own


def minibatches_with_data(
    replay: Replay, trainee: Trainee, config: ReplayAndDataSettings, view: ViewFactory
) -> Flow[SampleBatch]:
    """Returns a flow of minibatches from a replay buffer, in which a fixed share of rows comes from data sets.

    Args:
        replay: Replay buffer with experience from the env.
        trainee: The policy in training.
        config: Settings of the data sets' shares, the minibatch size and the replay ratio.
        view: Function that defines how a data set is read, for example as n-step transitions.

    Raises:
        UsageError: The shares leave no rows for the data or for the replay buffer.
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
    """Off-policy update loop with minibatches that come partly from a replay buffer and partly from data sets.

    Args:
        replay: Replay buffer with experience from the env.
        trainee: The policy in training, whose learner has a target network.
        config: Settings: data sets with shares, minibatch size, replay ratio, and target network updates.

    Raises:
        UsageError: The shares leave no rows for the data or for the replay buffer.

    Source:
        Ball et al., arXiv:2302.02948 (RLPD), section 4.1 (symmetric sampling: a share of 0.5).
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
