"""R2D2: recurrent Q-learning from a replay buffer of sequences with stored recurrent states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from rlrun.algorithms.loss_metrics import td_statistics
from rlrun.algorithms.settings.off_policy import OffPolicyConfig
from rlrun.algorithms.td_loss import HUBER_METRICS, HuberSettings, huber, huber_excess
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS, replay_updates
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.functional.sequence_rows import following_steps, row_priorities
from rlrun.engine.learner.objective import Loss
from rlrun.engine.nn.model_config import (
    WHO_DRAWS_IN_ORDER,
    WHO_EMBEDS_ACTIONS,
    WHO_HAS_PRIVILEGES,
    CoreKind,
    ModelConfig,
)
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.settings.config import ImportPath, PositiveInt, Schedule, defaults, fixed

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.recurrent_q.networks import RecurrentQNetworks
    from rlrun.engine.replay.replay import Replay


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("the policy has no value network", shared_value=False)
@fixed("actions are not drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
@fixed("rlrun builds recurrent networks itself", module=None)
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class RecurrentModelConfig(ModelConfig):
    """Network architecture of a recurrent Q policy: dense layers, a recurrent core, and a head for the Q values."""

    core: CoreKind = "lstm"
    """Recurrent core after the dense layers: `lstm`; `gru`, with three gates instead of four and half the recurrent
    state; or `gtrxl`, which attends to the last steps."""
    dueling: bool = True
    """Dueling network: Q values are the state value plus advantages minus their mean (Wang et al., arXiv:1511.06581,
    eq. 9)."""


@defaults(replay={"sampling": "prioritized", "priority_alpha": 0.9, "priority_beta": 0.6})
@defaults(lr=5e-4, training_intensity=0.1, n_step=3, target_update_interval=100)
class R2D2Config(HuberSettings, OffPolicyConfig):
    """Settings of R2D2.

    With 32 sequences of 20 steps, a `training_intensity` of 0.1 replays 64 steps per env step. The paper's learner
    replays only 0.4 steps per env step: each second, it trains on 5 minibatches of 64 sequences of 80 steps, while each
    of the 256 actors takes 260 env steps (section 2.3 of the paper). This ratio suits billions of env steps; smaller
    runs need more updates per env step.

    Source:
        Kapturowski et al., "Recurrent experience replay in distributed reinforcement learning", ICLR 2019.
    """

    model: RecurrentModelConfig = RecurrentModelConfig(hiddens=(64,), activation="relu", orthogonal_init=False)
    """Network architecture."""
    minibatch_size: PositiveInt = 32
    """Sequences per minibatch from the replay buffer."""
    replay: SequenceReplayConfig = SequenceReplayConfig()
    """Settings of the replay buffer and of the replayed sequences."""
    exploration: Literal["epsilon_greedy"] | ImportPath = "epsilon_greedy"
    """Exploration in training: epsilon-greedy, or a custom exploration `package.module:Class`."""
    epsilon: Schedule = ((0, 1.0), (10_000, 0.05))
    """Probability of a uniformly random action."""


class R2D2(Algorithm[R2D2Config]):
    """Recurrent replay distributed DQN: double Q-learning from sequences with stored recurrent states."""

    Config = R2D2Config
    acts_in = ("Discrete",)
    policy_family = "rlrun.algorithms.recurrent_q.policy:RecurrentQPolicy"
    has_target_network = True
    learner_metrics = HUBER_METRICS
    operator_metrics = REPLAY_METRICS

    @override
    def loss(self, outputs: RecurrentQNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Squared n-step TD error of rescaled Q values over S sequences of L steps.

        Double Q-learning: the online network selects the next action, and the target network evaluates it. Both are
        unrolled over the whole sequence.
        """
        valid = batch["valid"].float()
        length = valid.shape[1]
        values, target_values = outputs.unrolled(batch, self.config.replay.burn_in)
        own = values[:, :length].gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
        best = outputs.allowed_argmax(values.detach(), batch["obs"], self.config.replay.burn_in).unsqueeze(-1)
        worth = unrescaled(target_values.gather(-1, best).squeeze(-1))
        following = worth.gather(1, following_steps(batch["steps"]))
        targets = rescaled(batch["rewards"] + batch["discounts"] * following)
        errors = own - targets
        distance, bound = errors.abs() * valid, self.config.huber
        loss = masked_mean(huber(errors, bound) * batch["weights"], valid)
        statistics = td_statistics(loss, unrescaled(own), distance, valid) | huber_excess(distance, valid, bound)
        return Loss(loss, statistics, priorities=row_priorities(distance, valid))

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores rollouts in the replay buffer and trains on minibatches sampled from it.

        The dataflow trains on `training_intensity` minibatches per env step, and broadcasts the weights to the workers.
        """
        config = self.config
        replay = self.replay(trainee)
        return (
            fragments.zip_with_worker()
            .for_each(StoreToReplay(replay))
            .followed_by(replay_updates(replay, trainee, config))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )

    def replay(self, trainee: Trainee) -> Replay:
        """Creates the replay buffer of sequences for collected experience."""
        config = self.config
        return trainee.make_replay(config.replay, n_step=config.n_step, gamma=config.gamma, sequences=True)


EPSILON = 1e-3
"""Weight of the linear term, which makes the inverse Lipschitz continuous."""


def rescaled(values: Tensor) -> Tensor:
    """Value rescaling h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x.

    Source:
        Pohlen et al., arXiv:1805.11593, section 3.2.
    """
    return values.sign() * ((values.abs() + 1).sqrt() - 1) + EPSILON * values


def unrescaled(values: Tensor) -> Tensor:
    """Inverse of `rescaled`.

    h^-1(x) = sign(x) (((sqrt(1 + 4 eps (|x| + 1 + eps)) - 1) / (2 eps))^2 - 1), where the inner fraction is computed
    as 2 (|x| + 1 + eps) / (sqrt(...) + 1) to avoid cancellation.

    Source:
        Pohlen et al., arXiv:1805.11593, proposition A.2.
    """
    shifted = values.abs() + 1 + EPSILON
    root = 2 * shifted / ((1 + 4 * EPSILON * shifted).sqrt() + 1)
    return values.sign() * (root.square() - 1)
