"""MAML: model-agnostic meta-learning for reinforcement learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.loss_metrics import CLIP_FRACTION, ENTROPY, GRAD_NORM, KL
from rlrun.algorithms.meta.tasks import TrainOnTasks
from rlrun.engine.algorithm import Algorithm, AlgorithmConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.nn.model_config import AdaptableModelConfig
from rlrun.engine.settings.config import NonNegativeFloat, PositiveInt, Schedule, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.meta.adaptation import AdaptableOutputs
    from rlrun.algorithms.meta.adapting_worker import AdaptingWorkerConfig
    from rlrun.engine.rollout.worker_config import WorkerConfig


@fixed("adaptation uses only a few episodes of one task", normalize_observations=False, normalize_rewards=False)
@fixed("each task is used as a whole", microbatch_size=None)
@fixed("each batch is adapted by a single learner", num_learners=0)
@defaults(num_envs_per_worker=20, rollout_fragment_length=100, lr=1e-3)
class MAMLConfig(AlgorithmConfig):
    """Settings of MAML (Finn et al., arXiv:1703.03400).

    A task has a phase of episodes before each inner gradient step, and one after the last. `num_envs_per_worker` is the
    number of episodes in a phase (K in the paper). `rollout_fragment_length` is the maximum length of an episode;
    longer ones are truncated.
    """

    model: AdaptableModelConfig = AdaptableModelConfig()
    """Network architecture of the policy. The baseline is a linear regression, fitted to each phase, instead of a value
    network."""
    tasks_per_update: PositiveInt = 20
    """Tasks per batch, the paper's meta batch size."""
    inner_steps: PositiveInt = 1
    """Number of inner gradient steps per adaptation to a task, each on new episodes of the policy before the step."""
    inner_lr: NonNegativeFloat = 0.1
    """Inner step size, the paper's alpha."""
    first_order: bool = False
    """First-order MAML: whether second derivatives are dropped from the meta-gradient (section 5.2 of the paper)."""
    num_epochs: PositiveInt = 5
    """Meta-updates per batch; each repeats the adaptation from the current parameters, on the collected episodes."""
    clip_param: Schedule = 0.2
    """Clip range of the probability ratio in the adapted policies' surrogate."""
    entropy_coeff: NonNegativeFloat = 0.0
    """Weight of the adapted policies' entropy bonus."""

    @property
    def columns_per_task(self) -> int:
        """Number of episodes per task: all those before each inner gradient step and after the last."""
        return (self.inner_steps + 1) * self.num_envs_per_worker

    @property
    @override
    def env_steps_per_update(self) -> int:
        return self.tasks_per_update * self.columns_per_task * self.fragment_length

    @property
    @override
    def learns_values(self) -> bool:
        """Always False: the baseline is a linear regression of returns instead of a learned value network."""
        return False

    @property
    @override
    def sgd_steps_per_env_step(self) -> float:
        return self.num_epochs / self.env_steps_per_update


class MAML(Algorithm[MAMLConfig]):
    """Model-agnostic meta-learning: initial parameters for fast adaptation to a task (arXiv:1703.03400, alg. 3).

    An env samples a task from an episode's seed. Each rollout fragment of a worker is one task, to which the worker
    adapts the policy by REINFORCE. The meta-update differentiates PPO's clipped surrogate of the adapted policies
    through the adaptation; the paper uses TRPO instead.
    """

    Config: ClassVar[type[MAMLConfig]] = MAMLConfig
    policy_family = "rlrun.algorithms.meta.adaptation:AdaptablePolicy"
    worker_factory = "rlrun.algorithms.meta.adapting_worker:AdaptingWorker"
    learns_in_worlds = False
    learner_metrics = (
        Metric("policy_loss", "", "Loss of the adapted policies"),
        ENTROPY,
        KL,
        CLIP_FRACTION,
        GRAD_NORM,
    )
    operator_metrics = TrainOnTasks.declared_metrics

    @override
    def worker_config(self, config: WorkerConfig) -> AdaptingWorkerConfig:
        from rlrun.algorithms.meta.adapting_worker import adapting

        own = self.config
        return adapting(config, self.policy, inner_steps=own.inner_steps, inner_lr=own.inner_lr, gamma=own.gamma)

    @override
    def loss(self, outputs: AdaptableOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Meta-objective: clipped surrogate loss and entropy bonus of the adapted policies, averaged over S tasks."""
        measured = [self._of_task(outputs, batch, task, scheduled) for task in range(len(batch["valid"]))]
        means = {name: _mean([each[name] for each in measured]) for name in measured[0]}
        total = means["policy_loss"] - self.config.entropy_coeff * means["entropy"]
        return Loss(total, statistics=means)

    def _of_task(
        self, outputs: AdaptableOutputs, batch: SampleBatch, task: int, scheduled: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """PPO's clipped surrogate (arXiv:1707.06347, eq. 7) of one task's adapted policy, with statistics."""
        from rlrun.algorithms.meta.adaptation import adapted, surrogate

        config = self.config
        phases, views = phases_of(batch, task, config.inner_steps + 1), outputs.views
        for phase in phases[:-1]:
            views = adapted(surrogate(outputs, phase), views, config.inner_lr, first_order=config.first_order)
        last, clip = phases[-1], scheduled["clip_param"]
        valid, distribution = last["valid"].float(), outputs.run(views, last).distribution
        log_ratio = (distribution.log_prob(last["actions"]) - last["logp"]) * valid
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - clip, 1 + clip) * last["advantages"]
        return {
            "policy_loss": -masked_mean((ratio * last["advantages"]).minimum(clipped), valid),
            "entropy": masked_mean(distribution.entropy(), valid),
            "kl": masked_mean(ratio - 1 - log_ratio, valid),
            "clip_fraction": masked_mean(((ratio - 1).abs() > clip).float(), valid),
        }

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that runs epochs of meta-updates on each batch of tasks and broadcasts the weights."""
        config = self.config
        train_on = TrainOnTasks(
            trainee,
            phases=config.inner_steps + 1,
            episodes=config.num_envs_per_worker,
            num_epochs=config.num_epochs,
        )
        return (
            fragments.combine(ConcatBatches(config.env_steps_per_update, exact=True))
            .for_each(train_on)
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


def _mean(numbers: list[Tensor]) -> Tensor:
    first, *others = numbers
    return sum(others, first) / len(numbers)


def phases_of(batch: SampleBatch, task: int, phases: int) -> list[SampleBatch]:
    """Splits one task's row of a batch at the inner gradient steps, into `phases` batches of equal length."""
    length = batch["valid"].shape[1] // phases
    return [
        SampleBatch(
            {
                name: map_tree(lambda leaf, i=i: leaf[task : task + 1, i * length : (i + 1) * length], column)
                for name, column in batch.items()
            }
        )
        for i in range(phases)
    ]
