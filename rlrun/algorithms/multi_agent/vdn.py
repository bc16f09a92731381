"""VDN: value decomposition of a team's Q function into the sum of the members' Q functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from typing_extensions import override

from rlrun.algorithms.loss_metrics import td_statistics
from rlrun.algorithms.multi_agent.team import JoinTeams, TeamReward
from rlrun.algorithms.settings.off_policy import OffPolicyConfig
from rlrun.algorithms.td_loss import HUBER_METRICS, HuberSettings, huber, huber_excess
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS, replay_updates
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.functional.sequence_rows import following_steps, row_priorities
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.learner.optimizers import Adam, RMSProp
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import TeamQModelConfig
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.settings.config import ImportPath, PositiveInt, Schedule, defaults, fixed

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.multi_agent.team_q_networks import TeamQNetworks
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.worlds.world_view import WorldView


@fixed("the replay buffer stores observations unnormalized", normalize_observations=False)
@defaults(lr=5e-4, target_update_interval=200)
class VDNConfig(HuberSettings, OffPolicyConfig):
    """Settings of VDN; a transition in its replay buffer is a step of the whole team.

    With a recurrent network (`model.core`), minibatches consist of sequences, as in R2D2: a `minibatch_size` of 32 and
    a `replay.length` of 20 replay 640 steps. The recurrent state before a sequence is the one recorded while acting.
    """

    model: TeamQModelConfig = TeamQModelConfig(activation="relu", orthogonal_init=False)
    """Network architecture shared by all members; observations identify the member, for instance by
    `AgentIndicator`."""
    minibatch_size: PositiveInt = 64
    """Transitions per minibatch from the replay buffer; sequences per minibatch if the network is recurrent."""
    replay: SequenceReplayConfig = SequenceReplayConfig()
    """Settings of the replay buffer."""
    optimizer: Literal["adam", "rmsprop"] = "rmsprop"
    """Name of the optimizer."""
    double: bool = True
    """Double Q-learning: the online network selects the next actions and the target network evaluates them (van Hasselt
    et al., arXiv:1509.06461)."""
    team_reward: TeamReward = "sum"
    """Team reward: the `sum` of the members' rewards, or `once` if the world gives the team's reward to every
    member."""
    exploration: Literal["epsilon_greedy"] | ImportPath = "epsilon_greedy"
    """Exploration of the members in training: epsilon-greedy, or a custom exploration `package.module:Class`."""
    epsilon: Schedule = ((0, 1.0), (50_000, 0.05))
    """Probability of a uniformly random action, drawn independently for each member."""

    @property
    def mixer_width(self) -> int | None:
        """Width of the hidden layer of QMIX's mixer; None for VDN, which sums values."""
        return None


class VDN(Algorithm[VDNConfig]):
    """Value decomposition networks: double Q-learning of the sum of members' Q values (arXiv:1706.05296).

    Each member's greedy action maximizes the sum, so execution is decentralized.
    """

    Config: ClassVar[type[VDNConfig]] = VDNConfig
    acts_in = ("Discrete",)
    policy_family = "rlrun.algorithms.multi_agent.team_q:TeamQPolicy"
    has_target_network = True
    learner_metrics = HUBER_METRICS
    operator_metrics = REPLAY_METRICS

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Raises a UsageError: VDN does not support single-agent envs.

        Raises:
            UsageError: Always.
        """
        raise UsageError(f"{self.name()} needs a multi-agent world, but this env has a single agent: use dqn")

    @override
    def policy_in_world(self, spaces: Spaces, world: WorldView, seed: int) -> Policy:
        """Creates the policy of a team in a multi-agent env: the members' shared Q network, and the mixer.

        Raises:
            UsageError: The env's agents do not act simultaneously, or it lacks the global state that the mixer needs.
        """
        if world.clock != "parallel":
            raise UsageError(
                f"{self.name()} needs agents that act simultaneously, but the agents of this world take "
                "turns: use dqn, or set `clock: parallel` if all agents act in each step"
            )
        return self.family_policy(spaces, seed, world)

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        config = self.config
        optimizer = Adam() if config.optimizer == "adam" else RMSProp(epsilon=RMSPROP_EPSILON)
        loss = self.loss if config.model.core is None else self.sequence_loss
        return [Objective("loss", loss, max_grad_norm=config.max_grad_norm, optimizer=optimizer)]

    @override
    def loss(self, outputs: TeamQNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Squared TD error of joint Q values over a minibatch of S steps (arXiv:1803.11485, eq. 6).

        The default is the squared error instead of the Huber loss: if no sum of members' values can represent the
        target exactly, the sum should be the target's least-squares approximation.
        """
        bound, valid = self.config.huber, batch["valid"].float()
        values = outputs.team_values(batch["obs"], batch["actions"])
        best = outputs.greedy_actions(batch["next_obs"]) if self.config.double else None
        targets = batch["rewards"] + batch["discounts"] * outputs.target_team_values(batch["next_obs"], best)
        errors = values - targets
        loss = masked_mean(2.0 * huber(errors, bound) * batch["weights"], valid)
        distances = errors.detach().abs()
        statistics = td_statistics(loss, values.detach(), distances, valid) | huber_excess(distances, valid, bound)
        return Loss(loss, statistics, priorities=distances.squeeze(-1))

    def sequence_loss(self, outputs: TeamQNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Squared TD error of joint Q values over S recurrent sequences of L steps (arXiv:1803.11485, eq. 6).

        Each member's network is unrolled over the whole sequence from the member's stored recurrent state.
        """
        burn_in, valid = self.config.replay.burn_in, batch["valid"].float()
        bound, length = self.config.huber, valid.shape[1]
        seen = map_tree(lambda leaf: leaf[:, burn_in:], batch["obs"])
        now = map_tree(lambda leaf: leaf[:, :length], seen)
        values, target_values = outputs.unrolled(batch, burn_in)
        best = outputs.best(values.detach() if self.config.double else target_values, seen)
        worth = outputs.target_mixed(target_values, seen, best)
        targets = batch["rewards"] + batch["discounts"] * worth.gather(1, following_steps(batch["steps"]))
        own = outputs.mixed(values[:, :length], now, batch["actions"])
        errors = own - targets
        loss = masked_mean(2.0 * huber(errors, bound) * batch["weights"], valid)
        distances = errors.detach().abs() * valid
        statistics = td_statistics(loss, own.detach(), distances, valid) | huber_excess(distances, valid, bound)
        return Loss(loss, statistics, priorities=row_priorities(distances, valid))

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores joint transitions of the team and trains on replayed minibatches of them."""
        config = self.config
        replay = trainee.make_replay(
            config.replay, n_step=config.n_step, gamma=config.gamma, sequences=config.model.core is not None
        )
        return (
            fragments.zip_with_worker()
            .for_each(JoinTeams(trainee, config.team_reward))
            .for_each(StoreToReplay(replay))
            .followed_by(replay_updates(replay, trainee, config))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


RMSPROP_EPSILON = 1e-10
"""Epsilon under the root; its square root is the 1e-5 that the authors of QMIX add after taking the root."""
