"""Ape-X DPG: DDPG with many actors, replays in actors of their own, and a learner that none of them waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rlrun.algorithms.actor_q.ddpg import DDPG, DDPGConfig
from rlrun.algorithms.dqn.apex import asynchronous_fragments, first_priorities, store_and_learn_concurrently
from rlrun.algorithms.settings.distributed_replay import DistributedReplaySettings
from rlrun.config import defaults
from rlrun.flow.flow import Flow
from rlrun.flow.sources.rollouts import RolloutMode
from rlrun.flow.trainee import Trainee
from rlrun.nn.model_config import ActionValueModelConfig
from rlrun.replay.sequences import SequenceReplayConfig


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

    Most defaults are the paper's. Its 64 workers have an env each, and all the same noise; its learner clips its
    gradients, which max_grad_norm does not by default.
    """

    records_values: ClassVar[bool] = True
    model: ActionValueModelConfig = ActionValueModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """The networks of the actor and of the critic."""
    replay: SequenceReplayConfig = SequenceReplayConfig(capacity=1_000_000, prioritized=True)
    """The replay buffer, of single transitions."""


class ApexDDPG(DDPG):
    """DDPG's policy and losses in the dataflow of Ape-X."""

    Config = ApexDDPGConfig
    config: ApexDDPGConfig

    @property
    def mode(self) -> RolloutMode:
        """Fragments as they are ready."""
        return "async"

    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """First priorities; remote workers make room for shards and learner."""
        return first_priorities(trainee, self.config)

    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Fragments as they are ready; those for shards stay where they were collected."""
        return asynchronous_fragments(trainee, self.config.asynchrony, *self.on_worker(trainee))

    def learn(self, fragments: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Fragments into the replay and new weights to their workers; concurrently, minibatches out of it."""
        return store_and_learn_concurrently(fragments, trainee, self.config, self.config.asynchrony)
