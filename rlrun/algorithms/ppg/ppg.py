"""PPG: phasic policy gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.algorithms.settings.on_policy import WHO_HAS_CONSTRAINTS, WHO_HAS_CURIOSITY, WITH_KL_PENALTY
from rlrun.engine.data.learning_rows import learning_rows
from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.data.sample_batch import SampleBatch, concatenated_rows, network_columns
from rlrun.engine.flow.flow import Flow, StatefulOperator
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.value_estimates import MeasureValues
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.settings.config import NonNegativeFloat, PositiveInt, defaults, fixed
from rlrun.engine.settings.metric import Metric
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.ppg.policy import PhasicOutputs
    from rlrun.engine.policy.policy import Policy

POLICY, AUXILIARY = "policy", "auxiliary"
"""Names of the objectives: PPO's loss, and the loss of the auxiliary phases."""


@fixed("rlrun builds separate policy and value networks and the auxiliary head", shared_value=False, module=None)
class PPGModelConfig(ModelConfig):
    """Settings of PPG's networks: the policy network with an auxiliary value head, and the value network."""


@defaults(lr=5e-4, gamma=0.999, num_epochs=1, entropy_coeff=0.01)
@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
class PPGConfig(PPOConfig):
    """Settings of PPG; the defaults are the paper's where it gives any (arXiv:2009.04416, appendix A)."""

    model: PPGModelConfig = PPGModelConfig()
    """Network architecture of the policy and of the values."""
    policy_iterations: PositiveInt = 32
    """Batches in a phase (N_pi): PPO learns from each batch, and the auxiliary phase then learns from all of them."""
    auxiliary_epochs: PositiveInt = 6
    """Epochs (passes over the kept batches) of an auxiliary phase (E_aux)."""
    clone_coeff: NonNegativeFloat = 1.0
    """Weight of the KL divergence from the policy before the auxiliary phase (beta_clone)."""

    @property
    @override
    def sgd_steps_per_env_step(self) -> float:
        return (self.num_epochs + self.auxiliary_epochs) / self.minibatch_size


class PPG(PPO):
    """Phasic policy gradient: PPO whose policy network learns values in separate phases (arXiv:2009.04416)."""

    Config: ClassVar[type[PPGConfig]] = PPGConfig
    config: PPGConfig
    policy_family = "rlrun.algorithms.ppg.policy:PhasicPolicy"
    learner_metrics = (
        *PPO.learner_metrics,
        Metric("auxiliary/auxiliary_value_loss", "", "Mean squared error of the policy network's values", mode="min"),
        Metric("auxiliary/value_loss", "", "Mean squared error of the value network in auxiliary phases", mode="min"),
        Metric("auxiliary/kl", "nats", "Mean KL divergence from the policy before the auxiliary phase"),
        Metric("auxiliary/grad_norm", "", "Norm of the auxiliary phase's gradient before clipping"),
    )

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives: PPO's loss, and the auxiliary loss with a separate optimizer."""
        (own,) = super().objectives(policy)
        auxiliary = Objective(AUXILIARY, self.auxiliary_loss, max_grad_norm=self.config.max_grad_norm)
        return [replace(own, name=POLICY), auxiliary]

    def auxiliary_loss(self, outputs: PhasicOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Auxiliary loss over S sequences of L steps: value errors of both networks, and KL from the old policy."""
        config, valid, targets = self.config, batch["valid"].float(), batch["value_targets"]
        old = outputs.distribution.like(batch["target_outputs"])
        kl = masked_mean(old.kl(outputs.distribution), valid)
        auxiliary = masked_mean((outputs.auxiliary_values - targets).square(), valid)
        value = masked_mean((outputs.values - targets).square(), valid)
        return Loss(
            config.vf_loss_coeff * (auxiliary + value) + config.clone_coeff * kl,
            {"auxiliary_value_loss": auxiliary, "value_loss": value, "kl": kl},
        )

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds PPO's dataflow, extended by an auxiliary phase after every `policy_iterations` batches."""
        config = self.config
        compute = ComputeAdvantages(config.gamma, config.gae_lambda)
        flow = (
            fragments.for_each(compute)
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(MeasureValues())
            .for_each(Standardize("advantages"))
            .for_each(
                TrainOnBatch(
                    trainee,
                    num_epochs=config.num_epochs,
                    minibatch_size=config.minibatch_size,
                    seq_len=config.steps_in_row,
                    stop=config.early_stop,
                    recompute=(compute, Standardize("advantages")) if config.recompute_advantages else (),
                    objectives=(POLICY,),
                )
            )
            .for_each(
                AuxiliaryPhase(
                    trainee,
                    AUXILIARY,
                    policy_iterations=config.policy_iterations,
                    num_epochs=config.auxiliary_epochs,
                    minibatch_size=config.minibatch_size,
                    seq_len=config.steps_in_row,
                )
            )
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
        return flow if config.kl_penalty is None else load_internal(WITH_KL_PENALTY)(flow, config.kl_penalty, trainee)


class AuxiliaryPhase(StatefulOperator):
    """Stores the steps of several batches, and then trains an objective on all of them (auxiliary phase).

    The steps get the column `target_outputs`, the current policy's outputs, which the auxiliary loss preserves.

    Args:
        trainee: The policy in training.
        objective: Name of the objective.
        policy_iterations: Number of batches before each auxiliary phase, N_pi in the paper (arXiv:2009.04416).
        num_epochs: Number of passes over the stored steps in a phase.
        minibatch_size: Number of steps in a minibatch.
        seq_len: Number of steps per sequence of a recurrent policy; None for single steps.
    """

    learns = True

    def __init__(
        self,
        trainee: Trainee,
        objective: str,
        *,
        policy_iterations: int,
        num_epochs: int,
        minibatch_size: int,
        seq_len: int | None,
    ) -> None:
        self.trainee = trainee
        self.objective = objective
        self.policy_iterations = policy_iterations
        self.num_epochs = num_epochs
        self.minibatch_size = minibatch_size
        self.seq_len = seq_len
        self._kept: list[SampleBatch] = []
        self._restored = RestoredRows()

    @override
    def settings(self) -> dict[str, Any]:
        return {
            "policy_iterations": self.policy_iterations,
            "num_epochs": self.num_epochs,
            "minibatch_size": self.minibatch_size,
        }

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Keeps the rows of a batch [T, B], and trains if the phase is over; returns the batch unchanged."""
        columns = SampleBatch({name: column for name, column in item.items() if name != "weights_version"})
        rows = learning_rows(columns, seq_len=self.seq_len, whole_fragments=False)
        rows = SampleBatch(network_columns(rows), value_targets=rows["value_targets"])
        self._restored.compare(rows)
        self._kept.append(rows)
        if len(self._kept) == self.policy_iterations:
            self._train()
        return item

    def _train(self) -> None:
        from rlrun.algorithms.ppg.policy import action_outputs

        learner, kept = self.trainee.learner, self._kept
        self._kept = []
        # Rows are evaluated batch by batch; a single forward pass would hold the features of all rows in memory.
        targets = [SampleBatch(rows, target_outputs=learner.evaluate(action_outputs, rows)) for rows in kept]
        learner.learn(
            concatenated_rows(targets),
            num_epochs=self.num_epochs,
            minibatch_size=self.minibatch_size,
            scheduled=self.trainee.clock.scheduled(),
            objectives=(self.objective,),
        )

    @override
    def state(self) -> dict[str, Any]:
        """State for a checkpoint: the experience stored for the next auxiliary phase."""
        return {"kept": [dict(rows) for rows in self._kept]}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._kept = [SampleBatch(rows) for rows in state["kept"]]
        self._restored.load(self._kept)
