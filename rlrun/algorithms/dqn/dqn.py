"""DQN: deep Q-learning with a replay buffer and a target network, its extensions up to Rainbow, and IQN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Le
from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.dqn.q_settings import QExploration, QSettings
from rlrun.algorithms.dqn.return_model import ReturnKind, ReturnModel
from rlrun.algorithms.loss_metrics import td_statistics
from rlrun.algorithms.settings.off_policy import OffPolicyConfig
from rlrun.algorithms.td_loss import (
    HUBER_METRICS,
    HuberSettings,
    cross_entropy,
    entropy,
    huber,
    huber_excess,
    projected,
    quantile_huber,
)
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS, replay_updates
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.learner.optimizers import Adam
from rlrun.engine.nn.model_config import QModelConfig
from rlrun.engine.settings.config import (
    ConfigModel,
    Fraction,
    ImportPath,
    PositiveFloat,
    PositiveInt,
    Schedule,
    defaults,
)

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.dqn.networks import QNetworks
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.settings.metric import Metric


class MunchausenConfig(ConfigModel):
    """Settings of Munchausen targets (Vieillard et al., arXiv:2007.14430); the defaults are the paper's."""

    alpha: Fraction = 0.9
    """Weight with which rewards include the log-policy of the action taken; 0 is soft DQN."""
    temperature: PositiveFloat = 0.03
    """Temperature of the policy, a softmax of the target network's Q values; it is in units of returns."""
    clip: Annotated[float, Le(0)] = -1.0
    """Lower bound of temperature * log-policy in the reward; the upper bound is 0."""


@defaults(lr=5e-4, target_update_interval=250)
class DQNConfig(HuberSettings, OffPolicyConfig):
    """Settings of DQN (Mnih et al., "Human-level control through deep reinforcement learning", 2015).

    Rainbow (Hessel et al., arXiv:1710.02298) combines `double`, `dueling`, `noisy`, `distribution: c51`, `n_step: 3`
    and prioritized replay.
    """

    model: QModelConfig = QModelConfig(activation="relu", orthogonal_init=False)
    """Network architecture."""
    adam_epsilon: PositiveFloat = 1e-5
    """Adam's epsilon, added to the root of the second moment; a larger one takes smaller steps where gradients are
    small."""
    double: bool = True
    """Double Q-learning: the network selects the next action and the target network evaluates it (van Hasselt et al.,
    arXiv:1509.06461)."""
    dueling: bool = False
    """Dueling network with streams for the state value and the advantages (Wang et al., arXiv:1511.06581); each stream
    has a separate last hidden layer."""
    distribution: ReturnKind = "none"
    """Distribution of returns: `none` learns the mean; `c51` a categorical distribution over atoms evenly spaced from
    v_min to v_max (Bellemare et al., arXiv:1707.06887); `quantile` quantiles (QR-DQN, Dabney et al.,
    arXiv:1710.10044); `iqn` quantiles at drawn fractions (implicit quantile networks, Dabney et al.,
    arXiv:1806.06923)."""
    num_atoms: PositiveInt = 51
    """Number of atoms (c51) or quantiles; with iqn, number of fractions drawn for each transition and its target."""
    acting_quantiles: PositiveInt = 32
    """Number of quantiles, at midpoints of equal parts of [0, 1], whose mean is an action's value in iqn's choices."""
    num_cosines: PositiveInt = 64
    """Number of cosines, cos(pi i tau), with which iqn embeds a fraction tau."""
    v_min: float = -10.0
    """Smallest atom of c51."""
    v_max: float = 10.0
    """Largest atom of c51."""
    munchausen: MunchausenConfig | None = None
    """Munchausen targets: soft targets, with the scaled log-policy added to the reward (Vieillard et al.,
    arXiv:2007.14430); `{}` for the paper's settings, null for standard targets. They average over the next actions, so
    `double` is false."""
    noisy: bool = False
    """Noisy networks: dense layers with learned Gaussian noise on their parameters (Fortunato et al.,
    arXiv:1706.10295), drawn for every minibatch and every fragment. They explore without epsilon."""
    noisy_sigma: PositiveFloat = 0.5
    """Initial standard deviation of a noisy layer's parameters, times the root of the number of its inputs."""
    exploration: QExploration | ImportPath = "epsilon_greedy"
    """Exploration in training: `epsilon_greedy`; `soft_q` samples from a softmax of values over temperature;
    `parameter_noise` acts greedily with noise on the network's parameters, drawn once per episode (Plappert et al.,
    arXiv:1706.01905). `package.module:Class` is a custom exploration."""
    epsilon: Schedule = ((0, 1.0), (10_000, 0.05))
    """Probability of a uniformly random action; 0 by default if the network is noisy or exploration is soft_q. With
    parameter_noise no action is uniformly random: the noise is scaled so that it changes as many actions as this
    epsilon would."""
    temperature: Schedule = 1.0
    """Softmax temperature of soft_q."""

    @model_validator(mode="before")
    @classmethod
    def _one_exploration_is_enough(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("munchausen") is not None:
            data = {"double": False, **data}  # soft targets do not select a next action
        explores = isinstance(data, Mapping) and (data.get("noisy") is True or data.get("exploration") == "soft_q")
        return {"epsilon": 0.0, **data} if explores else data

    @model_validator(mode="after")
    def _check_consistency(self) -> DQNConfig:
        if self.noisy and self.exploration == "parameter_noise":
            raise ValueError("noisy and exploration: parameter_noise both add noise to parameters; leave one out")
        if self.dueling and self.model.module is not None:
            raise ValueError("dueling does not work with a custom network: set it to false, or leave out model.module")
        if self.distribution == "c51" and not (self.v_min < self.v_max and self.num_atoms > 1):
            raise ValueError(
                f"c51 needs v_min ({self.v_min:g}) below v_max ({self.v_max:g}), and num_atoms ({self.num_atoms}) "
                "of at least 2"
            )
        return self

    @model_validator(mode="after")
    def _fits_its_paper(self) -> DQNConfig:
        if self.munchausen is not None and (self.double or self.n_step > 1 or self.distribution in ("c51", "quantile")):
            raise ValueError(
                f"munchausen needs n_step: 1 (now {self.n_step}), distribution: none or iqn (now "
                f"{self.distribution}) and double: false; change these, or leave out munchausen"
            )
        if self.distribution == "iqn" and (self.dueling or self.noisy or self.model.module or self.model.normalization):
            raise ValueError(
                "distribution: iqn does not support dueling, noisy, model.module or model.normalization; leave them out"
            )
        return self

    @property
    def q(self) -> QSettings:
        """Settings of the Q policy, such as dueling heads, the representation of returns, and exploration."""
        support, quantiles = (self.v_min, self.v_max), (self.acting_quantiles, self.num_cosines)
        return QSettings(
            returns=ReturnModel(self.distribution, self.num_atoms, *support, *quantiles),
            dueling=self.dueling,
            noisy_sigma=self.noisy_sigma if self.noisy else None,
            exploration=self.exploration,
        )

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        shaping = ("dueling", "distribution", "num_atoms", "num_cosines", "noisy")
        return path in shaping or super().shapes_parameters(path)


class DQN(Algorithm[DQNConfig]):
    """Deep Q-network: off-policy Q-learning from a replay buffer with a target network."""

    Config: ClassVar[type[DQNConfig]] = DQNConfig
    acts_in = ("Discrete",)
    policy_family = "rlrun.algorithms.dqn.policy:QPolicy"
    has_target_network = True
    learner_metrics = HUBER_METRICS

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return REPLAY_METRICS

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        config = self.config
        return [Objective("loss", self.loss, max_grad_norm=config.max_grad_norm, optimizer=Adam(config.adam_epsilon))]

    @override
    def loss(self, outputs: QNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Loss of n-step TD errors (cross-entropy for C51, quantile Huber for quantiles) over a minibatch of S steps.

        The next action is greedy among those that the next observation's action mask allows.
        """
        config, valid = self.config, batch["valid"].float()
        taken = gather_actions(outputs.q_outputs(batch["obs"]), batch["actions"])
        rewards, following = self._rewards_and_returns(outputs, batch)
        values = outputs.means(taken)
        targets = rewards + batch["discounts"] * outputs.means(following)
        td_errors = (values.detach() - targets).abs()
        distances, priorities = self._distances(outputs, SampleBatch(batch, rewards=rewards), taken, following)
        loss = masked_mean(distances * batch["weights"], valid)
        bound = config.huber if config.distribution == "none" else None
        statistics = td_statistics(loss, values, td_errors, valid) | huber_excess(td_errors, valid, bound)
        return Loss(loss, statistics, priorities=(td_errors if priorities is None else priorities).squeeze(-1))

    def _rewards_and_returns(self, outputs: QNetworks, batch: SampleBatch) -> tuple[Tensor, Tensor]:
        """Rewards [S, 1], and target network's return distributions of the next observations, [S, 1, K]."""
        target_outputs = outputs.target_q_outputs(batch["next_obs"])
        if self.config.munchausen is not None:
            return munchausen_targets(self.config.munchausen, outputs, batch, target_outputs)
        if self.config.double:
            best = outputs.greedy_actions(batch["next_obs"])
        else:
            values = outputs.target_values(batch["next_obs"], target_outputs)
            best = outputs.allowed_argmax(values, batch["next_obs"])
        return batch["rewards"], gather_actions(target_outputs, best)

    def _distances(
        self, outputs: QNetworks, batch: SampleBatch, taken: Tensor, following: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Loss of each row [S, 1], and replay priorities [S, 1] where these differ from the absolute TD errors.

        Args:
            outputs: The networks.
            batch: Rows [S, 1].
            taken: Return distributions of the taken actions, [S, 1, K].
            following: Target network's return distributions of the next actions, [S, 1, K].
        """
        rewards, discounts = batch["rewards"].unsqueeze(-1), batch["discounts"].unsqueeze(-1)
        match self.config.distribution:
            case "none":
                return huber((taken - rewards - discounts * following).squeeze(-1), self.config.huber), None
            case "quantile" | "iqn":
                return quantile_huber(taken, rewards + discounts * following, outputs.fractions), None
        support = outputs.support(taken)
        targets = projected(following.softmax(-1), rewards + discounts * support, support)
        crossed = cross_entropy(taken, targets)
        return crossed, (crossed.detach() - entropy(targets)).clamp(min=0.0)

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores rollouts in the replay buffer and trains on minibatches sampled from it.

        The dataflow trains on `training_intensity` minibatches per env step, and broadcasts the weights to the workers.
        """
        config = self.config
        replay = trainee.make_replay(config.replay, n_step=config.n_step, gamma=config.gamma)
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(replay_updates(replay, trainee, config))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


def gather_actions(q_outputs: Tensor, actions: Tensor) -> Tensor:
    """Selects the K outputs of each action taken, [rows, steps, K], from the outputs of all A actions.

    The outputs of all actions are [rows, steps, A, K].
    """
    index = actions[..., None, None].expand(*actions.shape, 1, q_outputs.shape[-1])
    return q_outputs.gather(-2, index).squeeze(-2)


def munchausen_targets(
    settings: MunchausenConfig, outputs: QNetworks, batch: SampleBatch, target_outputs: Tensor
) -> tuple[Tensor, Tensor]:
    """Munchausen rewards [rows, 1], which include the clipped log-policy, and next states' soft values [rows, 1, K].

    The reward is r + alpha tau log pi(a | s), where tau log pi is clipped to the range from `clip` to 0. The
    soft value is the sum over a' of pi(a' | s') (z(s', a') - tau log pi(a' | s')). Both use pi = softmax(q / tau) under
    action masks. The target network computes q and the returns z; in an implicit quantile network, q is evaluated at
    fixed fractions, as for greedy choices.

    Args:
        settings: Settings of Munchausen targets.
        outputs: Online and target network.
        batch: Minibatch of S single steps, [S, 1].
        target_outputs: Target network's return distributions z at the next observations, [S, 1, A, K].

    Source:
        Vieillard et al., arXiv:2007.14430, section 2 (M-DQN), and its appendix for quantiles (M-IQN).
    """
    tau = settings.temperature
    present = outputs.log_policy(outputs.target_values(batch["obs"]), batch["obs"], tau)
    taken = present.gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
    rewards = batch["rewards"] + settings.alpha * (tau * taken).clamp(settings.clip, 0.0)
    ahead = outputs.target_values(batch["next_obs"], target_outputs)
    following = outputs.log_policy(ahead, batch["next_obs"], tau).unsqueeze(-1)
    return rewards, (following.exp() * (target_outputs - tau * following)).sum(-2)


@defaults(distribution="iqn", num_atoms=8, double=False)
class IQNConfig(DQNConfig):
    """Settings of IQN (Dabney et al., arXiv:1806.06923): DQN with 8 quantiles at random fractions per transition."""


class IQN(DQN):
    """Implicit quantile networks: DQN that learns the return's quantiles at random fractions (arXiv:1806.06923)."""

    Config: ClassVar[type[IQNConfig]] = IQNConfig
    config: IQNConfig
