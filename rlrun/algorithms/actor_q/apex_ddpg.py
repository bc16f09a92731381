"""Ape-X DPG: DDPG with distributed prioritized replay and asynchronous actors."""

from __future__ import annotations

from typing import ClassVar

from rlrun.algorithms.actor_q.ddpg import DDPG, DDPGConfig
from rlrun.algorithms.dqn.apex import DistributedReplay
from rlrun.algorithms.settings.off_policy import DistributedReplaySettings
from rlrun.engine.nn.model_config import ActionValueModelConfig
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.settings.config import defaults


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


class ApexDDPG(DistributedReplay, DDPG):
    """DDPG's policy and losses with distributed prioritized experience replay (arXiv:1803.00933)."""

    Config = ApexDDPGConfig
    config: ApexDDPGConfig
