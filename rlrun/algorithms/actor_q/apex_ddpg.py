"""Ape-X DPG: DDPG with distributed prioritized replay and asynchronous actors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.actor_q.ddpg import DDPG, DDPGConfig
from rlrun.algorithms.dqn.apex import (
    asynchronous_fragments,
    first_priorities,
    metrics_of_replay,
    store_and_learn_concurrently,
)
from rlrun.algorithms.settings.off_policy import DistributedReplaySettings
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.sources.rollouts import RolloutMode
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.nn.model_config import ActionValueModelConfig
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.settings.config import defaults
from rlrun.engine.settings.metric import Metric


@defaults(
    lr=1e-4,
    critic_lr=1e-4,
    n_step=5,
    exploration_noise=0.3,
    learning_starts=10_000,
    target_update_interval=100,
    tau=1.0,
)
class ApexDDPGConfig(DistributedReplaySettings, DDPGConfig):
    """Settings of Ape-X DPG (Horgan et al., arXiv:1803.00933, section 4.2 and appendix D).

    Most defaults follow the paper, in which 64 workers have one env each and equal exploration noise. The paper's
    learner clips gradients; here `max_grad_norm` is null by default.
    """

    records_values: ClassVar[bool] = True
    model: ActionValueModelConfig = ActionValueModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of the actor and of the critic."""
    replay: SequenceReplayConfig = SequenceReplayConfig(capacity=1_000_000, sampling="prioritized")
    """Replay buffer of single transitions, distributed over shards."""


class ApexDDPG(DDPG):
    """DDPG's policy and losses with distributed prioritized experience replay (arXiv:1803.00933)."""

    Config = ApexDDPGConfig
    config: ApexDDPGConfig

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return metrics_of_replay(self.config.asynchrony, self.config.num_workers)

    @property
    @override
    def mode(self) -> RolloutMode:
        return "async"

    @override
    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """Operators on workers: initial priorities, and a process priority below that of replay shards and learner."""
        return first_priorities(trainee, self.config)

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Stream of asynchronous fragments; fragments for replay shards are delivered as object references."""
        return asynchronous_fragments(trainee, self.config.asynchrony, *self.on_worker(trainee))

    @override
    def learn(self, fragments: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Dataflow: stores fragments and sends weights to their workers; concurrently, updates from minibatches."""
        return store_and_learn_concurrently(fragments, trainee, self.config, self.config.asynchrony)
