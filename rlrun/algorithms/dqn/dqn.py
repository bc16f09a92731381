"""DQN: Q-learning with a replay and a target network, and what has been added to it up to Rainbow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from rlrun.algorithm import Algorithm
from rlrun.algorithms.dqn.q_settings import QSettings
from rlrun.algorithms.dqn.return_distributions import cross_entropy, entropy, huber, projected, quantile_huber
from rlrun.algorithms.dqn.return_model import ReturnKind, ReturnModel
from rlrun.algorithms.loss_metrics import TD_METRICS
from rlrun.algorithms.settings.off_policy import OffPolicyConfig
from rlrun.config import ImportPath, PositiveFloat, PositiveInt, Schedule, defaults
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.operators.replay import StoreToReplay, UpdatePriorities
from rlrun.flow.operators.training import TrainOnMinibatch, UpdateTargetNetwork
from rlrun.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.flow.recipes.replays import local_replay
from rlrun.flow.sources.replay_minibatches import replay_minibatches
from rlrun.flow.trainee import Trainee
from rlrun.functional.masked import masked_mean
from rlrun.learner.objective import Loss, Objective
from rlrun.learner.optimizers import Adam
from rlrun.nn.model_config import QModelConfig
from rlrun.policy.exploration.kinds import QExploration

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.dqn.networks import QNetworks
    from rlrun.policy.policy import Policy


@defaults(lr=5e-4, target_update_interval=250)
class DQNConfig(OffPolicyConfig):
    """Settings of DQN (Mnih et al., "Human-level control through deep reinforcement learning", 2015).

    Rainbow (Hessel et al., arXiv:1710.02298) is `double`, `dueling`, `noisy`, `distribution: c51`, `n_step: 3` and a
    prioritized replay together.
    """

    model: QModelConfig = QModelConfig(activation="relu", orthogonal_init=False)
    """The network."""
    adam_epsilon: PositiveFloat = 1e-5
    """Added to the root of the gradient's second moment; larger takes smaller steps where gradients are small."""
    double: bool = True
    """Whether the network says which action is best in the next observation and the target network only what it is
    worth (van Hasselt et al., arXiv:1509.06461)."""
    dueling: bool = False
    """Whether values are put together from the observation's value and actions' advantages (Wang et al.,
    arXiv:1511.06581); the last of model.hiddens is then there twice, once for each."""
    distribution: ReturnKind = "none"
    """What is estimated of an action's return: `none` its mean; `c51` the probabilities of returns that lie evenly
    between v_min and v_max (Bellemare et al., arXiv:1707.06887); `quantile` its quantiles (QR-DQN, Dabney et al.,
    arXiv:1710.10044)."""
    num_atoms: PositiveInt = 51
    """Returns of c51, or quantiles."""
    v_min: float = -10.0
    """Smallest return of c51."""
    v_max: float = 10.0
    """Largest return of c51."""
    noisy: bool = False
    """Whether the dense layers' parameters are drawn around a mean, by learned standard deviations (Fortunato et al.,
    arXiv:1706.10295): for every minibatch, and for every fragment that is collected. It explores by itself."""
    noisy_sigma: PositiveFloat = 0.5
    """First standard deviation of a noisy layer's parameters, times the root of its inputs."""
    exploration: QExploration | ImportPath = "epsilon_greedy"
    """How actions are chosen in training: `epsilon_greedy` the best one, or any; `soft_q` by a softmax of values over
    temperature, or any; `parameter_noise` the best one by a network with noise on its parameters, the same for an
    episode (Plappert et al., arXiv:1706.01905). `package.module:Class` is an exploration of one's own."""
    epsilon: Schedule = ((0, 1.0), (10_000, 0.05))
    """Probability of an action that is drawn from all alike; 0 if nothing else is said and the network is noisy or
    exploration is soft_q. parameter_noise draws none, and makes its noise so large that it changes what is done as much
    as this epsilon would."""
    temperature: Schedule = 1.0
    """What soft_q divides values by."""

    @model_validator(mode="before")
    @classmethod
    def _one_exploration_is_enough(cls, data: Any) -> Any:
        explores = isinstance(data, Mapping) and (data.get("noisy") is True or data.get("exploration") == "soft_q")
        return {"epsilon": 0.0, **data} if explores else data

    @model_validator(mode="after")
    def _fits_together(self) -> DQNConfig:
        if self.noisy and self.exploration == "parameter_noise":
            raise ValueError("noisy and exploration: parameter_noise both put noise on parameters; drop one")
        if self.dueling and self.model.module is not None:
            raise ValueError("dueling needs rlrun's own network: set it to false or drop model.module")
        if self.distribution == "c51" and not (self.v_min < self.v_max and self.num_atoms > 1):
            raise ValueError(
                f"c51 needs returns to choose from: v_min ({self.v_min:g}) below v_max ({self.v_max:g}), and num_atoms "
                f"({self.num_atoms}) of 2 or more"
            )
        return self

    @property
    def q(self) -> QSettings:
        """Settings of the Q policy."""
        return QSettings(
            returns=ReturnModel(self.distribution, self.num_atoms, self.v_min, self.v_max),
            dueling=self.dueling,
            noisy_sigma=self.noisy_sigma if self.noisy else None,
            exploration=self.exploration,
        )

    @classmethod
    def shapes_parameters(cls, path: str) -> bool:
        """Whether a setting decides which parameters and statistics there are."""
        return path in ("dueling", "distribution", "num_atoms", "noisy") or super().shapes_parameters(path)


class DQN(Algorithm[DQNConfig]):
    """Deep Q-network: every fragment goes into a replay buffer, and minibatches out of it are learned from."""

    Config: ClassVar[type[DQNConfig]] = DQNConfig
    policy_family = "q"
    has_target_network = True
    learner_metrics = TD_METRICS

    def objectives(self, policy: Policy) -> list[Objective]:
        """Returns the one loss."""
        config = self.config
        return [Objective("loss", self.loss, max_grad_norm=config.max_grad_norm, optimizer=Adam(config.adam_epsilon))]

    def loss(self, outputs: QNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """How far what is estimated of the taken actions is from what followed, over rows [S, 1].

        What followed is the reward and what the target network estimates of the next best action, discounted. Where the
        next observation holds an action mask, the best one is the best of those that it allows.
        """
        valid = batch["valid"].float()
        taken = gather_actions(outputs.q_outputs(batch["obs"]), batch["actions"])
        target_outputs = outputs.target_q_outputs(batch["next_obs"])
        if self.config.double:
            best = outputs.greedy_actions(batch["next_obs"])
        else:
            best = outputs.allowed_argmax(outputs.means(target_outputs), batch["next_obs"])
        following = gather_actions(target_outputs, best)
        values = outputs.means(taken)
        targets = batch["rewards"] + batch["discounts"] * outputs.means(following)
        td_errors = (values.detach() - targets).abs()
        distances, priorities = self._distances(outputs, batch, taken, following)
        loss = masked_mean(distances * batch["weights"], valid)
        statistics = {"loss": loss, "q_mean": masked_mean(values, valid), "td_error": masked_mean(td_errors, valid)}
        return Loss(loss, statistics, priorities=(td_errors if priorities is None else priorities).squeeze(-1))

    def _distances(
        self, outputs: QNetworks, batch: SampleBatch, taken: Tensor, following: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Returns what is minimised [S, 1], and priorities [S, 1] if they are not the errors of means.

        Args:
            outputs: The networks.
            batch: Rows [S, 1].
            taken: What describes the return of the action that was taken, [S, 1, K].
            following: The same of the next one, [S, 1, K].
        """
        rewards, discounts = batch["rewards"].unsqueeze(-1), batch["discounts"].unsqueeze(-1)
        match self.config.distribution:
            case "none":
                return huber((taken - rewards - discounts * following).squeeze(-1)), None
            case "quantile":
                return quantile_huber(taken, rewards + discounts * following), None
        support = outputs.support(taken)
        targets = projected(following.softmax(-1), rewards + discounts * support, support)
        crossed = cross_entropy(taken, targets)
        return crossed, (crossed.detach() - entropy(targets)).clamp(min=0.0)

    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Fragments into the replay buffer, `training_intensity` minibatches per env step out of it, new weights."""
        config = self.config
        replay = local_replay(config.replay, trainee, n_step=config.n_step, gamma=config.gamma)
        updates = (
            replay_minibatches(
                replay,
                trainee,
                minibatch_size=config.minibatch_size,
                training_intensity=config.training_intensity,
                learning_starts=config.learning_starts,
                normalize_observations=config.normalize_observations,
            )
            .for_each(TrainOnMinibatch(trainee))
            .for_each(UpdatePriorities(replay))
            .for_each(UpdateTargetNetwork(trainee, config.target_update_interval, config.tau))
        )
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(updates)
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


def gather_actions(q_outputs: Tensor, actions: Tensor) -> Tensor:
    """Returns what describes the returns of the actions [S, L] among those of all, [S, L, A, K], as [S, L, K]."""
    index = actions[..., None, None].expand(*actions.shape, 1, q_outputs.shape[-1])
    return q_outputs.gather(-2, index).squeeze(-2)
