"""Ape-X DPG: DDPG with many actors, replays in actors of their own, and a learner that none of them waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlrun.algorithms.ddpg import DDPG, DDPGConfig
from rlrun.config import Fraction, NonNegativeInt, PositiveInt, Schedule
from rlrun.flow.flow import Flow
from rlrun.flow.initial_priorities import InitialPriorities
from rlrun.flow.operators import LearnResult
from rlrun.learning_beside import BesideConfig, collected, learn_beside
from rlrun.replay.replay_config import ReplayConfig
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    import gymnasium

    from rlrun.policy.policy import Policy


class ApexDDPGConfig(BesideConfig, DDPGConfig):
    """Settings of Ape-X DPG (Horgan et al., arXiv:1803.00933, section 4.2 and appendix D).

    The paper's 64 workers have an env each. Its learner clips its gradients, which max_grad_norm does not by default.
    """

    lr: Schedule = 1e-4
    """Learning rate of the actor (the paper's)."""
    critic_lr: Schedule = 1e-4
    """Learning rate of the critics (the paper's)."""
    n_step: PositiveInt = 5
    """Steps whose rewards are added up before the value of the next observation counts (the paper's)."""
    exploration_noise: Schedule = 0.3
    """Deviation of the noise that actions are explored with, in units of half the distance of the bounds (the paper's,
    the same for all workers)."""
    replay: ReplayConfig = ReplayConfig(capacity=1_000_000, prioritized=True)
    """The experience that is kept (the paper's million steps)."""
    learning_starts: NonNegativeInt = 10_000
    """Env steps that are put by before the first minibatch is drawn; their actions are drawn uniformly between the
    bounds."""
    target_update_interval: PositiveInt = 100
    """Minibatches between two updates of the target networks (the paper's)."""
    tau: Fraction = 1.0
    """How far the target networks move towards the present ones at an update; 1 copies them (as the paper does)."""


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
