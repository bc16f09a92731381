"""Off-policy algorithms that can learn from data sets: without an env, together with one, or before using one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.datasets.input_sets import opened, within_data
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.recipes.data_updates import data_transitions, updates_from_data, updates_with_data
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS, replay_updates
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.messages.errors import UsageError

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.settings.metric import Metric


class ReplayOrData(Algorithm[Any]):
    """Mixin for off-policy algorithms that learn from data sets, an env, or both, according to their configs.

    List it first among the base classes. If the shares in `input` sum to 1, the algorithm learns from data alone; with
    smaller shares, from data and an env; without `input`, from an env. Configs must extend `DataSettings` and
    `OffPolicyConfig`.
    """

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return () if self.config.is_offline else REPLAY_METRICS

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Creates the policy; if the env's Box leaves an action coordinate unbounded, the recorded actions bound it."""
        sets = self.config.input
        action = within_data(spaces.action, map(opened, sets)) if sets else spaces.action
        return super().policy(spaces._replace(action=action), seed)

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Creates a stream of minibatches if the algorithm learns from data sets alone, else a stream of rollouts."""
        return data_transitions(trainee, self.config) if self.config.is_offline else super().collect(trainee)

    @override
    def learn(self, items: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that trains on minibatches of recorded data, of replayed experience, or of both.

        Raises:
            UsageError: The settings combine data sets with a recurrent network or with hindsight goals.
        """
        config, is_recurrent = self.config, self.config.model.core is not None
        if config.input and is_recurrent:
            raise UsageError(
                f"config.model.core: {self.name()} learns from single transitions of a data set; leave core out"
            )
        if config.is_offline:
            if config.replay.hindsight is not None:
                raise UsageError(
                    "config.replay.hindsight: goals in a data set cannot be relabeled; leave hindsight out"
                )
            return updates_from_data(items, trainee, config)
        replay = trainee.make_replay(config.replay, n_step=config.n_step, gamma=config.gamma, sequences=is_recurrent)
        updates = updates_with_data if config.input else replay_updates
        return (
            items.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(updates(replay, trainee, config))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
