"""MBMPO: model-based meta-policy optimization, MAML over the members of a learned dynamics ensemble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.meta.maml import MAML, MAMLConfig
from rlrun.algorithms.meta.tasks import TrainOnTasks
from rlrun.algorithms.model_based.fit_model import FitModel, transition_buffer
from rlrun.algorithms.model_based.imagined_tasks import ImagineTasks, SendAdapted, after_fits
from rlrun.algorithms.model_based.model_based import ModelBased
from rlrun.algorithms.model_based.settings import (
    DYNAMICS_METRICS,
    FEWEST_TRANSITIONS,
    DynamicsConfig,
    TransitionReplayConfig,
)
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.replay.local_replay import LocalReplay
from rlrun.engine.settings.config import PositiveInt, Schedule, defaults, fixed

if TYPE_CHECKING:
    pass


@fixed("each network of the learned model is one task", tasks_per_update=20)
@defaults(num_envs_per_worker=1, rollout_fragment_length=200)
class MBMPOConfig(MAMLConfig):
    """Settings of MBMPO (Clavera et al., arXiv:1809.05214): a dynamics ensemble, and MAML on imagined tasks."""

    replay: TransitionReplayConfig = TransitionReplayConfig(capacity=100_000)
    """Settings of the replay buffer of collected transitions."""
    dynamics: DynamicsConfig = DynamicsConfig(num_members=5, num_elites=5, fit_interval=1000)
    """Settings of the dynamics ensemble, which is fitted to collected transitions; each member is a task."""
    dynamics_lr: Schedule = 1e-3
    """Learning rate of the dynamics ensemble."""
    imagined_episodes: PositiveInt = 20
    """Imagined episodes in each phase of a task; each starts in a replayed state."""
    imagined_length: PositiveInt = 100
    """Horizon of imagined episodes: steps after which they are truncated."""
    meta_updates: PositiveInt = 10
    """Number of imagined batches of tasks after every fit of the ensemble, each with a meta-update."""

    @model_validator(mode="after")
    def _check_fit(self) -> MBMPOConfig:
        if self.dynamics.fit_interval < FEWEST_TRANSITIONS:
            raise ValueError(
                f"dynamics.fit_interval must be at least {FEWEST_TRANSITIONS}, so that there are enough transitions to "
                "fit a model"
            )
        return self

    @property
    @override
    def env_steps_per_update(self) -> int:
        return self.dynamics.fit_interval

    @property
    @override
    def sgd_steps_per_env_step(self) -> float:
        return self.meta_updates * self.num_epochs / self.env_steps_per_update


class MBMPO(ModelBased[MBMPOConfig]):
    """Model-based meta-policy optimization: MAML whose tasks are the members of a dynamics ensemble (arXiv:1809.05214).

    The policy learns to adapt where the members' predictions differ, and to act well where they agree (section 4.2).
    The meta-update is the same as in `MAML`, with PPO's clipped surrogate instead of the paper's TRPO.
    """

    Config = MBMPOConfig
    acts_in = ("Discrete", "Box")
    learner_metrics = (*MAML.learner_metrics, *DYNAMICS_METRICS)
    operator_metrics = (
        *StoreToReplay.declared_metrics,
        *FitModel.declared_metrics,
        *ImagineTasks.declared_metrics,
        *TrainOnTasks.declared_metrics,
    )

    @property
    @override
    def model_free(self) -> MAML:
        return MAML(self.config)

    @property
    @override
    def dynamics(self) -> DynamicsConfig:
        return self.config.dynamics

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow of MBMPO: stores rollouts, fits the ensemble to them, and meta-learns on imagined tasks.

        Each worker then collects data with a policy that was adapted to one of the tasks.
        """
        config, dynamics = self.config, self.config.dynamics
        kept = transition_buffer(config.replay, trainee, gamma=config.gamma)
        fit = FitModel(trainee, kept, dynamics, learning_starts=dynamics.fit_interval)
        imagine = ImagineTasks(
            trainee,
            fit,
            inner_steps=config.inner_steps,
            inner_lr=config.inner_lr,
            episodes=config.imagined_episodes,
            length=config.imagined_length,
            gamma=config.gamma,
            scale=RewardScale(config.reward_scale, config.clip_rewards),
        )
        train_on = TrainOnTasks(
            trainee,
            phases=config.inner_steps + 1,
            episodes=config.imagined_episodes,
            num_epochs=config.num_epochs,
            objectives=("loss",),
        )
        send = SendAdapted(
            trainee,
            every=config.meta_updates,
            inner_steps=config.inner_steps,
            inner_lr=config.inner_lr,
            episodes=config.imagined_episodes,
        )
        updates = after_fits(fit, config.meta_updates).for_each(imagine).for_each(train_on).for_each(send)
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(LocalReplay(kept, trainee.workers.indices)))
            .for_each(fit)
            .followed_by(updates)
            .for_each(MergeFilters(trainee))
        )
