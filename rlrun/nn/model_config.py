"""Settings of networks: the `model` of a spec."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from rlrun.config import ConfigModel, NonEmptyText, NonNegativeInt, PositiveInt, defaults, fixed

Activation = Literal["tanh", "relu", "elu", "silu"]

Conv = Literal["nature", "impala"]

CoreKind = Literal["lstm", "gru", "gtrxl"]

Encoding = Literal["vector", "one_hot", "embedding", "image", "entities"]

Pooling = Literal["attention", "mean", "max"]


class ObservationConfig(ConfigModel):
    """Encoding of one part of an observation; defaults follow from the space."""

    encode_as: Encoding | None = None
    """Flat numbers (`vector`); a one-hot vector for each integer (`one_hot`), or a learned one, shared by all positions
    (`embedding`); convolutions (`image`); a set whose order does not matter (`entities`, a Box [entities, features]).
    null chooses by shape, type and bounds."""
    pooling: Pooling = "attention"
    """Pooling of entities to one vector of fixed width: attention of four heads, or the mean or maximum of their
    features."""
    mask: NonEmptyText | None = None
    """Key in the same Dict as the entities of their mask [entities]: 1 for each that is present, 0 for the others,
    which are ignored. null if all are present."""
    bounds: tuple[float, float] | None = None
    """The least and the greatest number that occurs, where the space's bounds are not the true ones. They are scaled to
    0 and 1, or are the first and the last of the one-hot values. [0, 1] leaves numbers as they are; null takes the
    space's bounds."""

    @model_validator(mode="after")
    def _bounds_ascend(self) -> ObservationConfig:
        if self.bounds is not None and self.bounds[0] >= self.bounds[1]:
            raise ValueError(f"bounds must ascend, not {list(self.bounds)}")
        return self

    @model_validator(mode="after")
    def _only_entities_are_pooled(self) -> ObservationConfig:
        if self.encode_as != "entities" and (self.mask is not None or self.pooling != "attention"):
            raise ValueError("pooling and mask are for what is encoded as entities")
        return self


class GTrXLConfig(ConfigModel):
    """The core `gtrxl`: a gated transformer over the last steps (Parisotto et al., arXiv:1910.06764)."""

    layers: PositiveInt = 1
    """Layers of attention, each followed by a dense layer."""
    heads: PositiveInt = 4
    """Attention heads of each layer; their number must divide `core_width`."""
    memory_len: PositiveInt = 32
    """Steps that each layer attends back to, in addition to the present one. The recurrent state, which is recorded at
    each step, grows with it."""


class ViewsConfig(ConfigModel):
    """History in a network's inputs: stacked observations, last actions, last rewards; zeros before the start."""

    prev_actions: NonNegativeInt = 0
    """Number of last actions; discrete ones as one-hot vectors."""
    prev_rewards: NonNegativeInt = 0
    """Number of last rewards, unscaled, as the env returned them."""
    obs: PositiveInt = 1
    """Number of stacked observations, the present one included, the oldest first. Images become channels."""

    @property
    def any(self) -> bool:
        """Whether there is more than the present observation."""
        return bool(self.prev_actions or self.prev_rewards or self.obs > 1)


class ModelConfig(ConfigModel):
    """The network from observations to a policy's outputs.

    Attributes:
        convolves_images: Whether the policy has convolutions of its own, which `conv` does not choose.
    """

    convolves_images: ClassVar[bool] = False

    hiddens: tuple[PositiveInt, ...] | None = None
    """Widths of the dense layers after the observation encoders, first to last. null for [64, 64]; for none where
    images are all that is observed, whose encoders end in a dense layer."""
    activation: Activation = "tanh"
    """Activation after each dense layer."""
    core: CoreKind | None = None
    """The recurrent layer after the dense layers: an LSTM; a GRU, which has three gates instead of four and half the
    recurrent state; `gtrxl`, which attends to the last steps; null for none. A value net with layers of its own has
    one of its own."""
    core_width: PositiveInt = 64
    """Width of the core's hidden state, which it outputs; an LSTM has as many memory cells."""
    gtrxl: GTrXLConfig = GTrXLConfig()
    """Settings of the core `gtrxl`."""
    observations: dict[str, ObservationConfig] = Field(default_factory=dict)
    """Encodings of parts of an observation where the default is not right, by key: `image`, or `inner/0` in a nested
    one, or "" for an observation that is no dict or tuple. `rlrun plan -f FILE` prints the encoding of each part."""
    views: ViewsConfig = ViewsConfig()
    """History in the network's inputs: `{prev_actions: 1, prev_rewards: 1, obs: 4}` for the last action, its reward,
    and the last four observations. Of action masks there is the present one alone."""
    encoders: dict[str, str] = Field(default_factory=dict)
    """Custom encoders for parts of an observation, by key as in `observations`, each as `package.module:Class`:
    an nn.Module made from the part's space that returns features [N, D] of float32 for observations [N, ...]."""
    conv: Conv | None = None
    """Encoder of image observations: `nature` (Mnih et al. 2015) or `impala` (the residual net of arXiv:1802.01561).
    null takes `impala` for images of less than 36 pixels along a side, else `nature`."""
    shared_value: bool | None = None
    """Whether the value net shares the policy's layers up to its own head; null shares them where an image is observed,
    or there is a custom encoder."""
    orthogonal_init: bool = True
    """Whether initial weights are orthogonal (gain sqrt 2, policy head 0.01, value head 1) instead of torch's
    default."""
    log_std_init: float = 0.0
    """Initial log standard deviation of continuous actions, in units of half the range between the bounds:
    0 is a standard deviation of 8 where actions lie between -8 and 8. One in the env's own units is
    log(std / half_range); without bounds both are the same. With use_sde it is that of the entries of the noise
    matrix."""
    use_sde: bool = False
    """Whether continuous actions are explored with noise that is a function of the observation and stays the same for
    some steps (gSDE, arXiv:2005.05719), by policies that draw their actions."""
    sde_sample_freq: PositiveInt | None = None
    """Steps of each env after which that function is drawn again, whatever the length of fragments; null for once per
    fragment, or per 32 steps where fragments are shorter."""
    autoregressive: bool = False
    """Whether the parts of a MultiDiscrete, Tuple or Dict action are drawn one after the other, each by a head that
    reads what was drawn before it; otherwise they are drawn independently of each other. For policies that draw their
    actions."""
    action_embeddings: NonEmptyText | None = None
    """Key of the observation's part with features of the actions that can be taken, a Box [K, F] for Discrete(K)
    actions: the logit or value of an action is the scaled dot product of its embedding with that of the observation's
    other parts. null for a head with an output for each action."""
    module: str | None = None
    """A custom network as `package.module:Class`: an nn.Module made from (observation_space, num_outputs, model)
    that returns outputs [N, num_outputs] and values [N] for observations [N, ...]; for Q policies outputs alone, action
    after action (num_atoms numbers for each with c51 and quantile)."""

    @property
    def dense_widths(self) -> tuple[int, ...]:
        """`hiddens`, or [64, 64] where it is null."""
        return (64, 64) if self.hiddens is None else self.hiddens

    @property
    def widths_behind_images(self) -> tuple[int, ...]:
        """`hiddens` where images are all that is observed: none unless they are set, as the encoders end in a layer."""
        return self.hiddens or ()

    @property
    def decoder_width(self) -> int:
        """Width of embeddings of actions, and of the layers between an action's parts: that of the last dense layer."""
        return self.dense_widths[-1] if self.dense_widths else 64

    @model_validator(mode="after")
    def _decodes_own_heads(self) -> ModelConfig:
        if self.module is not None and (self.autoregressive or self.action_embeddings is not None):
            raise ValueError(
                "a network of one's own puts all outputs out by itself; leave out autoregressive and "
                "action_embeddings, or module"
            )
        if self.action_embeddings in self.observations or self.action_embeddings in self.encoders:
            raise ValueError(
                f"features of actions are embedded as they are; {self.action_embeddings!r} is in action_embeddings, "
                "and in observations or encoders"
            )
        return self

    @model_validator(mode="after")
    def _core_behind_own_layers(self) -> ModelConfig:
        if self.core is not None and self.module is not None:
            raise ValueError("recurrent networks are built by rlrun; leave out core, or module")
        return self

    @model_validator(mode="after")
    def _heads_of_equal_width(self) -> ModelConfig:
        if self.core == "gtrxl" and self.core_width % self.gtrxl.heads:
            raise ValueError(f"gtrxl.heads ({self.gtrxl.heads}) must divide core_width ({self.core_width})")
        return self

    @model_validator(mode="after")
    def _views_of_own_layers(self) -> ModelConfig:
        if self.views.any and self.module is not None:
            raise ValueError("a network of one's own takes observations as they are; leave out views, or module")
        if self.views.any and self.action_embeddings is not None:
            raise ValueError("a list of actions is the present one alone; leave out views, or action_embeddings")
        return self

    @model_validator(mode="after")
    def _observations_of_own_layers(self) -> ModelConfig:
        if self.observations and self.module is not None:
            raise ValueError("a network of one's own takes observations as they are; leave out observations, or module")
        if self.encoders and self.module is not None:
            raise ValueError("a network of one's own encodes observations itself; leave out encoders, or module")
        if both := sorted(self.observations.keys() & self.encoders.keys()):
            raise ValueError(
                f"an encoder of one's own takes observations as they are; {both[0]!r} is in observations and encoders"
            )
        return self


WHO_DRAWS_IN_ORDER = "on-policy algorithms draw the parts of an action one after the other"

WHO_EMBEDS_ACTIONS = "on-policy algorithms, dqn and those derived from it embed actions"


WHO_IS_RECURRENT = (
    "on-policy algorithms, sac, ddpg, td3, r2d2, r2d3, vdn, qmix, es, ars, cmaes and cem have recurrent networks"
)


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
class FeedForwardModelConfig(ModelConfig):
    """The network from observations to a policy's outputs, without a recurrent core."""


@fixed("steps of adaptation are about present observations alone", views={})
class AdaptableModelConfig(FeedForwardModelConfig):
    """The network of a meta-learned policy, which adapts to tasks by gradient steps."""


@fixed("a position is all that a search is shown", views={})
@fixed("an action of a game is one choice", autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("no action is drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
class SearchModelConfig(FeedForwardModelConfig):
    """The network from positions of a game to the priors and values of a tree search."""


NO_VIEWS = "views are of a policy's own observations, of which this one does not learn alone"


@fixed(NO_VIEWS, views={})
@fixed("the value network has inputs of its own", shared_value=False)
@fixed("networks whose values are normalised are built by rlrun", module=None, use_sde=False, sde_sample_freq=None)
class StateValueModelConfig(ModelConfig):
    """The networks of a policy and of a centralised value function, which may have more inputs than the policy.

    Only the policy has a core: the value network is feed-forward.
    """


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
class NormalizedValueModelConfig(StateValueModelConfig):
    """The networks of a policy and of a value function with the same inputs, without a recurrent core."""


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed("there is no value network", shared_value=False)
@fixed("no action is drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
class QModelConfig(FeedForwardModelConfig):
    """The Q network from observations to the values of all actions."""


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("there is no value network", shared_value=False)
@fixed("no action is drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
@fixed("networks of teams are built by rlrun", module=None)
@fixed(NO_VIEWS, views={})
class TeamQModelConfig(ModelConfig):
    """The Q network that the members of a team share."""


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("there is no value network", shared_value=False)
@fixed("no action is drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
@fixed("networks that take actions are built by rlrun", module=None)
class ActorQModelConfig(ModelConfig):
    """The networks of a deterministic actor and of its Q functions.

    With a core, the Q functions take actions after it, followed by dense layers of the same widths.
    """


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
class ActionValueModelConfig(ActorQModelConfig):
    """The networks of a deterministic actor and of its Q functions, without a recurrent core."""


@fixed("candidates are not shown what their actions gave", views={})
@fixed("there is no value network", shared_value=False)
@fixed("no action is drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("networks of candidates are built by rlrun", module=None)
class ActorModelConfig(ModelConfig):
    """The network of a deterministic policy, whose parameters evolve."""


@fixed(NO_VIEWS, views={})
class TeamActorQModelConfig(ActionValueModelConfig):
    """The networks of a team's actors and critics, without a recurrent core."""


@defaults(log_std_init=-3.0)
@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("there is no value network", shared_value=False)
@fixed("networks that take actions are built by rlrun", module=None)
class SoftModelConfig(ModelConfig):
    """The networks of a stochastic actor and of its Q functions; for a core see `ActorQModelConfig`.

    `log_std_init` has an effect with use_sde alone, since otherwise standard deviations are outputs of the network.
    Entries of 1 would shift the mean by the norm of all features, which saturates every action at first.
    """


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@fixed("a learned model predicts single observations", views={})
class ModelBasedModelConfig(SoftModelConfig):
    """The networks of a stochastic actor and of its Q functions, without a recurrent core."""
