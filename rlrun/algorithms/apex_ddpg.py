"""Ape-X DPG: DDPG with many actors, replays in actors of their own, and a learner that none of them waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlrun.algorithms.ddpg import DDPG, DDPGConfig
from rlrun.algorithms.settings_distributed_replay import DistributedReplaySettings
from rlrun.config import defaults
from rlrun.flow.flow import Flow
from rlrun.flow.initial_priorities import InitialPriorities
from rlrun.flow.operators import LearnResult
from rlrun.learning_beside import collected, learn_beside
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    import gymnasium

    from rlrun.policy.policy import Policy


@defaults(
    lr=1e-4,
    critic_lr=1e-4,
    n_step=5,
    exploration_noise=0.3,
    replay={"capacity": 1_000_000, "prioritized": True},
    learning_starts=10_000,
    target_update_interval=100,
    tau=1.0,
)
class ApexDDPGConfig(DistributedReplaySettings, DDPGConfig):
    """Settings of Ape-X DPG (Horgan et al., arXiv:1803.00933, section 4.2 and appendix D).

    Most defaults are the paper's. Its 64 workers have an env each, and all the same noise; its learner clips its
    gradients, which max_grad_norm does not by default.
    """


class ApexDDPG(DDPG):
    """DDPG's policy and losses in the dataflow of Ape-X."""

    Config = ApexDDPGConfig
    config: ApexDDPGConfig

    def make_policy(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], *, seed: int
    ) -> Policy:
        """Returns DDPG's policy, which tells what actions were worth."""
        from rlrun.policy.deterministic import DeterministicPolicy

        policy = super().make_policy(observation_space, action_space, seed=seed)
        assert isinstance(policy, DeterministicPolicy)
        policy.records_values = True
        return policy

    def collect(self, workers: WorkerSet) -> Flow[Any]:
        """Fragments with priorities, as they are ready."""
        config = self.config
        return collected(workers, config.asynchrony, InitialPriorities(config.n_step, config.gamma))

    def learn(self, rollouts: Flow[Any], workers: WorkerSet) -> Flow[LearnResult]:
        """Fragments into the replay and new weights to their workers; beside that, minibatches out of it."""
        return learn_beside(rollouts, self.trainee, self.config, self.config.asynchrony, self.seed)
