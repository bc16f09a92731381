"""QT-Opt: Q-learning for continuous actions; the cross-entropy method finds actions with high Q values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.actor_q.objectives import loss_of_critics
from rlrun.algorithms.dqn.apex import asynchronous_fragments, store_and_learn_concurrently
from rlrun.algorithms.settings.off_policy import AsynchronyConfig, OffPolicyConfig
from rlrun.algorithms.td_loss import HUBER_METRICS, HuberSettings, huber, huber_excess
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.batch_refs import LowerProcessPriority
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS, replay_updates
from rlrun.engine.flow.sources.rollouts import RolloutMode
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.nn.model_config import ActionValueModelConfig
from rlrun.engine.settings.config import ImportPath, NonNegativeInt, PositiveInt, Schedule, defaults

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.qtopt.networks import CriticsNetworks


@defaults(
    lr=1e-3,
    minibatch_size=128,
    rollout_fragment_length=1,
    max_grad_norm=None,
    training_intensity=1.0,
    tau=0.005,
)
class QTOptConfig(HuberSettings, OffPolicyConfig):
    """Settings of QT-Opt (Kalashnikov et al., arXiv:1806.10293).

    The paper has rewards of 0 or 1 at the end of an episode and a cross-entropy loss; here rewards are arbitrary, and
    the loss is the squared error. In the paper, `tau` of the first target network is 0.0001. With remote workers,
    rollout fragments should be longer, and `training_intensity` is the maximum number of minibatches per env step.
    """

    model: ActionValueModelConfig = ActionValueModelConfig(hiddens=(128, 128), activation="relu", orthogonal_init=False)
    """Network architecture of each of the two critics."""
    learning_starts: NonNegativeInt = 1000
    """Env steps that are stored before the first minibatch is sampled; their actions are drawn uniformly."""
    exploration: Literal["gaussian"] | ImportPath = "gaussian"
    """Exploration noise of actions in training: Gaussian, independent at each step; `package.module:Class` is a custom
    exploration."""
    exploration_noise: Schedule = 0.1
    """Standard deviation of the exploration noise, in units of half the distance between the action bounds."""
    cem_iterations: PositiveInt = 2
    """Iterations of the cross-entropy method per action (the paper's 2)."""
    cem_samples: PositiveInt = 64
    """Samples per iteration (the paper's N)."""
    cem_elites: PositiveInt = 6
    """Elites: best samples, to which the next distribution is fitted (the paper's M)."""
    asynchrony: AsynchronyConfig = AsynchronyConfig()
    """Concurrency of remote workers, replay buffer and learner."""

    @model_validator(mode="after")
    def _check_elites(self) -> QTOptConfig:
        if self.cem_elites > self.cem_samples:
            raise ValueError(f"cem_elites ({self.cem_elites}) must not exceed cem_samples ({self.cem_samples})")
        return self


class QTOpt(Algorithm[QTOptConfig]):
    """Off-policy Q-learning with continuous actions, which the cross-entropy method chooses (arXiv:1806.10293)."""

    Config = QTOptConfig
    acts_in = ("bounded Box",)
    policy_family = "rlrun.algorithms.qtopt.policy:CriticsPolicy"
    has_target_network = True
    learner_metrics = HUBER_METRICS
    operator_metrics = REPLAY_METRICS

    @override
    def loss(self, outputs: CriticsNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Mean squared TD error over a minibatch of S steps, summed over the critics.

        The next action maximizes the first target critic; targets use the minimum over both target critics
        (arXiv:1806.10293, section 4.2, "clipped double Q-learning").
        """
        from rlrun.algorithms.qtopt.networks import NOISE

        valid = batch["valid"].float()
        values = outputs.values(batch["obs"], batch["actions"])
        next_actions = outputs.target_greedy_actions(batch["next_obs"], batch[NOISE])
        next_values = outputs.target_values(batch["next_obs"], next_actions).amin(0)
        errors = values - (batch["rewards"] + batch["discounts"] * next_values).detach()
        bound = self.config.huber
        loss = masked_mean((2.0 * huber(errors, bound)).sum(0) * batch["weights"], valid)
        beyond = huber_excess(errors.detach().abs().mean(0), valid, bound)
        return loss_of_critics(loss, values, errors, valid, beyond)

    @property
    @override
    def mode(self) -> RolloutMode:
        """Collection mode: synchronous without remote workers, else asynchronous."""
        return "async" if self.config.num_workers else "sync"

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Creates the stream of fragments: synchronous from a local worker, asynchronous from remote workers."""
        if not trainee.workers.num_workers:
            return super().collect(trainee)
        return asynchronous_fragments(trainee, self.config.asynchrony, LowerProcessPriority())

    @override
    def learn(self, fragments: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores rollouts in the replay buffer and trains on minibatches sampled from it.

        With remote workers, the dataflow collects and trains concurrently.
        """
        config = self.config
        if trainee.workers.num_workers:
            return store_and_learn_concurrently(fragments, trainee, config, config.asynchrony)
        replay = trainee.make_replay(config.replay, n_step=config.n_step, gamma=config.gamma)
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(replay_updates(replay, trainee, config))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
