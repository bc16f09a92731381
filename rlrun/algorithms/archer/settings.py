"""Settings of ArCHer: replay buffer of utterances, networks, and updates of critics and actor."""

from __future__ import annotations

from typing import ClassVar

from rlrun.algorithms.settings.on_policy import WHO_HAS_CONSTRAINTS, WHO_HAS_CURIOSITY, OnPolicyConfig
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.nn.model_config import WHO_DRAWS_IN_ORDER, WHO_EMBEDS_ACTIONS, CoreKind, ModelConfig
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.settings.config import Fraction, NonNegativeInt, PositiveFloat, PositiveInt, Schedule, defaults, fixed

ACTOR, CRITICS = "policy_", "value_"
"""Prefixes of the names of the actor's and of the critics' parameters."""


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("rlrun builds actor and critics, which share no layers", shared_value=False, module=None)
@fixed("tokens are not drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
class ArcherModelConfig(ModelConfig):
    """Network settings for actor and critics, each with a recurrent core that reads the dialogue."""

    core: CoreKind = "gru"
    """Recurrent core after the dense layers: `lstm`, `gru`, or `gtrxl`, which attends to the last steps."""


@fixed("sequences start from the recurrent state recorded while acting", burn_in=0)
@fixed("utterances are sampled uniformly", sampling="uniform", priority_alpha=0.6, priority_beta=0.4)
@fixed("utterances have no goals", hindsight=None)
class UtteranceReplayConfig(SequenceReplayConfig):
    """Settings of a replay buffer of token sequences and the log-probabilities with which the tokens were sampled."""

    extra_columns: ClassVar[tuple[str, ...]] = ("logp",)

    length: PositiveInt = 32
    """Number of tokens in a sequence. Utterances that are cut off at either end are omitted."""
    stride: PositiveInt = 16
    """Distance in tokens between possible starts of sequences; below `length`, sequences overlap."""


@fixed("a replay buffer stores observations unnormalized", normalize_observations=False)
@fixed("a replay buffer would mix rewards of different scales; set reward_scale instead", normalize_rewards=False)
@fixed("minibatches from a replay buffer are processed in one process", num_learners=0)
@fixed("a minibatch from a replay buffer is used as a whole", microbatch_size=None)
@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
@defaults(gamma=0.95, lr=1e-3, train_batch_size=1024, max_grad_norm=1.0)
class ArcherConfig(DataSettings, OnPolicyConfig):
    """Settings of ArCHer (Zhou et al., arXiv:2402.19446); `gamma` and `tau` default to the values in the authors' code.

    If `input` names data sets whose shares sum to less than 1, the critics learn from these data sets and from the
    replay buffer.
    """

    model: ArcherModelConfig = ArcherModelConfig()
    """Network architecture of the actor and of the critics."""
    utterance_end: tuple[NonNegativeInt, ...] | None = None
    """Tokens that end an utterance, as actions counted from 0; null if each token is an utterance. The end of an
    episode also ends an utterance. `gamma` discounts once per utterance."""
    entropy_coeff: Schedule = 0.0
    """Weight of the entropy bonus of the tokens."""
    critic_lr: Schedule = 1e-3
    """Learning rate of the critics."""
    actor_epochs: PositiveInt = 3
    """Number of passes of the actor over a batch; 3 in the authors' code."""
    actor_minibatch_size: PositiveInt | None = None
    """Tokens in a minibatch of the actor; null for the whole batch."""
    clip_param: PositiveFloat = 0.2
    """Bound on the change of a token's probability ratio in an update of the actor, as in PPO."""
    minibatch_size: PositiveInt = 32
    """Sequences of tokens per minibatch of the critics."""
    replay: UtteranceReplayConfig = UtteranceReplayConfig()
    """Settings of the replay buffer and of the replayed sequences."""
    learning_starts: NonNegativeInt = 1000
    """Env steps (tokens) that are stored before the first minibatch of the critics."""
    training_intensity: PositiveFloat = 0.05
    """Minibatches of the critics per env step (token) after learning starts."""
    tau: Fraction = 0.1
    """Polyak coefficient of the target critics, updated after each minibatch."""
