"""MBPO: model-based policy optimization, SAC on short model rollouts branched from replayed states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.actor_q.sac import SAC, SACConfig
from rlrun.algorithms.model_based.branch_rollouts import AddImagined, BranchRollouts, ModelReplay
from rlrun.algorithms.model_based.fit_model import FitModel, transition_buffer
from rlrun.algorithms.model_based.model_based import ModelBased
from rlrun.algorithms.model_based.settings import (
    DYNAMICS_METRICS,
    FEWEST_TRANSITIONS,
    DynamicsConfig,
    TransitionReplayConfig,
)
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.minibatches import TrainOnMinibatch, UpdateTargetNetwork
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS
from rlrun.engine.flow.sources.replay_minibatches import replay_minibatches
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.nn.model_config import WHO_HAS_PRIVILEGES, WHO_IS_RECURRENT, SoftModelConfig
from rlrun.engine.replay.local_replay import LocalReplay
from rlrun.engine.settings.config import Fraction, PositiveInt, Schedule, defaults, fixed

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.model_based.policy import ModelBasedOutputs


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@fixed("a learned model predicts single observations", views={})
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class ModelBasedModelConfig(SoftModelConfig):
    """Network settings for a stochastic actor and its Q functions, without a recurrent core."""


@fixed("imagined transitions span single steps", n_step=1)
@fixed("the ensemble normalizes observations itself", normalize_observations=False)
@defaults(training_intensity=20.0)
@fixed("the dynamics model is fitted in one process", num_learners=0)
class MBPOConfig(SACConfig):
    """Settings of MBPO (Janner et al., arXiv:1906.08253): settings of SAC, the dynamics ensemble and model rollouts."""

    model: ModelBasedModelConfig = ModelBasedModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of the actor and of each critic."""
    replay: TransitionReplayConfig = TransitionReplayConfig(capacity=1_000_000)
    """Settings of the replay buffer of collected transitions."""
    dynamics: DynamicsConfig = DynamicsConfig()
    """Settings of the dynamics ensemble, which is fitted to collected transitions."""
    dynamics_lr: Schedule = 1e-3
    """Learning rate of the dynamics ensemble."""
    real_ratio: Fraction = 0.05
    """Fraction of each minibatch that was collected, rounded to whole transitions; the others are imagined."""
    rollout_length: Schedule = 1.0
    """Steps of a model rollout, rounded down; the schedule may grow as the ensemble improves."""
    rollouts_per_env_step: PositiveInt = 400
    """Model rollouts per env step; the rollouts for `dynamics.fit_interval` env steps start together after a fit."""
    rollout_rounds: PositiveInt = 4
    """Number of latest rounds of rollouts from which imagined transitions are sampled."""

    @property
    def real_rows(self) -> int:
        """Number of transitions in a minibatch that were collected in the env; the others are imagined."""
        return round(self.real_ratio * self.minibatch_size)

    @model_validator(mode="after")
    def _check_real_ratio(self) -> MBPOConfig:
        if not self.real_rows:
            raise ValueError(
                f"real_ratio: {self.real_ratio:g} of {self.minibatch_size} transitions rounds to none; raise it"
            )
        return self

    @model_validator(mode="after")
    def _check_fit(self) -> MBPOConfig:
        if self.learning_starts < FEWEST_TRANSITIONS:
            raise ValueError(
                f"learning_starts must be at least {FEWEST_TRANSITIONS}, the fewest transitions that a model is "
                "fitted to"
            )
        return self


class MBPO(ModelBased[MBPOConfig]):
    """Model-based policy optimization: SAC on model rollouts branched from replayed states (arXiv:1906.08253)."""

    Config = MBPOConfig
    acts_in = ("bounded Box", "Discrete")
    has_target_network = True
    learner_metrics = (
        *SAC.learner_metrics,
        *DYNAMICS_METRICS,
    )
    operator_metrics = (*REPLAY_METRICS, *FitModel.declared_metrics, *BranchRollouts.declared_metrics)

    @property
    @override
    def model_free(self) -> SAC:
        return SAC(self.config)

    @property
    @override
    def dynamics(self) -> DynamicsConfig:
        return self.config.dynamics

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow of MBPO: stores rollouts, fits the ensemble to them, and imagines short rollouts.

        SAC then trains on minibatches that mix collected and imagined transitions.
        """
        config, dynamics = self.config, self.config.dynamics
        starts = config.learning_starts
        kept = transition_buffer(config.replay, trainee, gamma=config.gamma)
        replay = LocalReplay(kept, trainee.workers.indices)
        imagined = ModelReplay(config.rollout_rounds, seed=trainee.seed)
        fit = FitModel(trainee, kept, dynamics, learning_starts=starts)
        branch = BranchRollouts(
            trainee,
            fit,
            imagined,
            actor_outputs,
            number=config.rollouts_per_env_step * dynamics.fit_interval,
            gamma=config.gamma,
            scale=RewardScale(config.reward_scale, config.clip_rewards),
        )
        of_sac = ("critics", "actor", "alpha") if config.learn_alpha else ("critics", "actor")
        updates = (
            replay_minibatches(
                replay,
                trainee,
                minibatch_size=config.real_rows,
                training_intensity=config.training_intensity,
                learning_starts=starts,
            )
            .for_each(AddImagined(imagined, config.minibatch_size - config.real_rows))
            .for_each(TrainOnMinibatch(trainee, of_sac))
            .for_each(UpdateTargetNetwork(trainee, config.target_update_interval, config.tau, "agent.critics."))
        )
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .for_each(fit)
            .for_each(branch)
            .followed_by(updates)
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


def actor_outputs(outputs: ModelBasedOutputs, batch: SampleBatch) -> Tensor:
    """Function for `Learner.evaluate`: outputs of SAC's actor for a batch's observations [rows, steps, ...]."""
    found: Tensor = outputs.agent.networks.actor_outputs(batch["obs"])
    return found
