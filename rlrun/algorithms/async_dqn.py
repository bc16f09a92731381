"""Asynchronous n-step Q-learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from rlrun.algorithm import Algorithm, AlgorithmConfig
from rlrun.config import Fraction, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Schedule
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.gradients import ApplyGradients, parallel_gradients, refuse_central_learning
from rlrun.flow.operators import LearnResult, MergeFilters, SendWeights, UpdateTargetNetwork
from rlrun.functional.exploration import FinalEpsilons
from rlrun.functional.masked import masked_mean
from rlrun.learner.objective import Loss
from rlrun.nn.model_config import ModelConfig
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    import gymnasium
    from torch import Tensor

    from rlrun.policy.policy import Policy
    from rlrun.policy.q import QNetworks


class AsyncDQNConfig(AlgorithmConfig):
    """Settings of asynchronous n-step Q-learning (Mnih et al., arXiv:1602.01783, algorithm S2).

    The optimizer is Adam with one state for all workers, where the paper shares RMSProp's (section 4, "optimization").
    """

    lr: Schedule = 1e-3
    """Learning rate."""
    model: ModelConfig = ModelConfig(activation="relu", orthogonal_init=False)
    """The network."""
    num_envs_per_worker: PositiveInt = 1
    """Envs that a worker steps side by side; the paper's actors have one."""
    rollout_fragment_length: PositiveInt | None = 5
    """Steps of each env in one fragment, all of which look ahead to its end (the paper's t_max, 5); null for as many as
    let one fragment of every worker fill train_batch_size."""
    min_env_steps_per_iteration: NonNegativeInt = 1000
    """An iteration, after which a result is written, goes on until at least so many env steps have been taken."""
    max_grad_norm: PositiveFloat | None = 10.0
    """Bound of the gradient's norm; null for none."""
    target_update_interval: PositiveInt = 1000
    """Gradients between two updates of the target network, which all workers share (the paper's, every 40,000 frames,
    is 2000 fragments of 5 steps of 4 frames)."""
    epsilon: Schedule = ((0, 1.0), (20_000, 0.0))
    """Which part of the way from 1 to their final probability the columns have left before them: of the probability of
    an action that is drawn from all alike. The paper's takes 4 million frames."""
    final_epsilons: tuple[Fraction, ...] = (0.1, 0.01, 0.5)
    """The final probabilities (section 5.1's)."""
    final_epsilon_shares: tuple[Fraction, ...] = (0.4, 0.3, 0.3)
    """Which part of all workers' columns goes to each (section 5.1's probabilities); they add up to 1."""
    gradients_in_flight: PositiveInt = 1
    """Gradients that each worker is asked for ahead of time: with 1 it waits for new weights after each one, as in the
    paper; with 2 it goes on meanwhile, with older ones."""
    num_gpus: NonNegativeFloat = 0.0
    """0: gradients are computed where the workers are, on CPUs."""

    @model_validator(mode="after")
    def _fits(self) -> AsyncDQNConfig:
        refuse_central_learning(self.num_gpus, self.num_learners)
        if self.normalize_observations:
            raise ValueError("normalize_observations must be false: workers learn from observations as they came")
        if len(self.final_epsilons) != len(self.final_epsilon_shares) or abs(sum(self.final_epsilon_shares) - 1) > 1e-6:
            raise ValueError("final_epsilon_shares must give each of final_epsilons a share, and add up to 1")
        return self

    @property
    def sgd_steps_per_env_step(self) -> float:
        """Gradients per env step."""
        return 1 / (self.fragment_length * self.num_envs_per_worker)


class AsyncDQN(Algorithm[AsyncDQNConfig]):
    """Workers compute gradients of their own fragments; each is applied as it arrives, and answered by new weights.

    `gradient_share/worker_<index>` is the part of an iteration's gradients that a worker delivered; `policy_lag_mean`
    counts gradients by which the parameters had moved on meanwhile.
    """

    Config = AsyncDQNConfig
    policy_family = "q"
    has_target_network = True
    learner_metrics: ClassVar[tuple[str, ...]] = ("loss", "q_mean", "td_error", "grad_norm")

    def make_policy(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], *, seed: int
    ) -> Policy:
        """Returns a Q policy whose columns explore each towards a final probability of its own."""
        from rlrun.policy.q import QPolicy

        policy = super().make_policy(observation_space, action_space, seed=seed)
        assert isinstance(policy, QPolicy)
        policy.spread = FinalEpsilons(self.config.final_epsilons, self.config.final_epsilon_shares)
        return policy

    def loss(self, outputs: QNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Half the squared error of the values against n-step returns (algorithm S2) over rows [S, T + 1].

        A return adds up the rewards to its fragment's or episode's end, and the largest value there that the target
        network gives, unless the episode ended for good.
        """
        from rlrun.functional.vtrace import vtrace

        valid = batch["valid"].float()
        values = outputs.values(batch["obs"]).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
        best = outputs.target_values(batch["obs"]).amax(-1)
        # With ratios of 1, V-trace is the n-step return (arXiv:1802.01561, remark 1).
        targets, _ = vtrace(
            best.new_zeros(best.shape),
            best,
            batch["rewards"],
            batch["terminateds"],
            batch["valid"],
            gamma=self.config.gamma,
        )
        errors = values - targets
        loss = masked_mean(errors.square(), valid) / 2
        distance = masked_mean(errors.abs(), valid)
        return Loss(loss, {"loss": loss, "q_mean": masked_mean(values, valid), "td_error": distance})

    def collect(self, workers: WorkerSet) -> Flow[Any]:
        """Gradients of the workers' fragments, as they are ready."""
        in_flight = self.config.gradients_in_flight
        return parallel_gradients(workers, self.remote_learner(), whole_fragments=True, in_flight=in_flight)

    def learn(self, rollouts: Flow[Any], workers: WorkerSet) -> Flow[LearnResult]:
        """One step of SGD along each gradient, new weights and the target network's to whoever has delivered it."""
        self._gradients = ApplyGradients(self.trainee)
        return (
            rollouts.zip_with_worker()
            .for_each(self._gradients)
            .for_each(UpdateTargetNetwork(self.learner, self.config.target_update_interval))
            .for_each(MergeFilters(self.trainee))
            .zip_with_worker()
            .for_each(SendWeights(self.trainee, with_target=True))
        )

    def own_metrics(self) -> Mapping[str, float]:
        """Returns every worker's share of the gradients."""
        return self._gradients.take_shares()
