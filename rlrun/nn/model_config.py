"""What a spec says of the network."""

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
    """How one part of an observation enters the network; what is left out follows from the space."""

    encode_as: Encoding | None = None
    """As numbers side by side (`vector`); as a one-hot vector for each integer (`one_hot`), or a learned one, the same
    wherever the integer stands (`embedding`); through convolutions (`image`); as a set whose order does not matter
    (`entities`, a Box [entities, features]). null takes what is likely by shape, type and bounds."""
    pooling: Pooling = "attention"
    """How entities become one vector of fixed width: by attention of four heads, or as the mean or the maximum of what
    a net makes of each."""
    mask: NonEmptyText | None = None
    """Key beside the entities, in the same Dict, of a part [entities] with 1 for each that is there, 0 for the others,
    which count nowhere. null if all are there."""
    bounds: tuple[float, float] | None = None
    """The least and the greatest number that occurs, where the space's bounds are not the true ones. They come to 0 and
    1, or are the first and the last of the one-hot values. [0, 1] leaves numbers as they are; null takes the space's
    bounds."""

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
    """Layers of attention, each with a dense layer behind it."""
    heads: PositiveInt = 4
    """Heads of each, which divide `core_width`."""
    memory_len: PositiveInt = 32
    """Steps that each layer looks back, beside the present one. The recurrent state, which is recorded at each step,
    grows with it."""


class ViewsConfig(ConfigModel):
    """What a network sees of an episode besides the present observation: zeros where there was nothing yet."""

    prev_actions: NonNegativeInt = 0
    """So many of the last actions; choices as one-hot vectors."""
    prev_rewards: NonNegativeInt = 0
    """So many of the last rewards, as the env gave them."""
    obs: PositiveInt = 1
    """So many observations, the present one included, the oldest first. Images become channels."""

    @property
    def any(self) -> bool:
        """Whether it is more than the present observation."""
        return bool(self.prev_actions or self.prev_rewards or self.obs > 1)


class ModelConfig(ConfigModel):
    """The network between observations and what a policy puts out.

    Attributes:
        convolves_images: Whether images pass convolutions of the policy's own, which `conv` does not choose.
    """

    convolves_images: ClassVar[bool] = False

    hiddens: tuple[PositiveInt, ...] | None = None
    """Widths of the dense layers behind the encoded observation, first to last. null for [64, 64]; for none where
    images are all that is observed, whose encoders end in a dense layer."""
    activation: Activation = "tanh"
    """What follows each dense layer."""
    core: CoreKind | None = None
    """The recurrent layer behind the dense layers: an LSTM; a GRU, which has three gates instead of four and half the
    recurrent state; `gtrxl`, which attends to the last steps; null for none. A value net with layers of its own has
    one of its own."""
    core_width: PositiveInt = 64
    """Numbers that it puts out, its hidden state; an LSTM keeps as many to itself."""
    gtrxl: GTrXLConfig = GTrXLConfig()
    """More about the core `gtrxl`."""
    observations: dict[str, ObservationConfig] = Field(default_factory=dict)
    """How parts of an observation enter the network where the default is not right, by key: `image`, or `inner/0` in a
    nested one, or "" for an observation that is no dict or tuple. `rlrun plan -f FILE` prints how each part does."""
    views: ViewsConfig = ViewsConfig()
    """What it sees besides the present observation: `{prev_actions: 1, prev_rewards: 1, obs: 4}` for the last action,
    what it gave, and the last four observations. An action mask is the present one alone."""
    encoders: dict[str, str] = Field(default_factory=dict)
    """Encoders of one's own for parts of an observation, by key as in `observations`, each as `package.module:Class`:
    an nn.Module made from the part's space that returns features [N, D] of float32 for what the env shows, [N, ...]."""
    conv: Conv | None = None
    """Encoder of image observations: `nature` (Mnih et al. 2015) or `impala` (the residual net of arXiv:1802.01561).
    null takes `impala` for images of less than 36 pixels along a side, else `nature`."""
    shared_value: bool | None = None
    """Whether the value net shares the policy's layers up to its own head; null shares them where an image is
    observed, or there is an encoder of one's own."""
    orthogonal_init: bool = True
    """Whether weights start orthogonal (gain sqrt 2, policy head 0.01, value head 1) instead of torch's own way."""
    log_std_init: float = 0.0
    """First logarithm of the standard deviation of continuous actions, in units of half the range between the bounds:
    0 is a standard deviation of 8 where actions lie between -8 and 8. One in the env's own units is
    log(std / half_range); without bounds both are the same. With use_sde it is that of the entries of the noise
    matrix."""
    use_sde: bool = False
    """Whether continuous actions are explored with noise that is a function of the observation and stays the same for
    some steps (gSDE, arXiv:2005.05719), by policies that draw their actions."""
    sde_sample_freq: PositiveInt | None = None
    """Steps of each env after which that function is drawn anew, whatever the length of fragments; null for once in a
    fragment, or in a few short ones that together come to 32 steps."""
    autoregressive: bool = False
    """Whether the parts of a MultiDiscrete, Tuple or Dict action are drawn one after the other, each by a head that
    reads what was drawn before it; a policy draws them independently of each other else. For policies that draw their
    actions."""
    action_embeddings: NonEmptyText | None = None
    """Key of the observation's part with features of the actions that can be taken, a Box [K, F] beside Discrete(K)
    actions: the logit or value of an action is the scaled dot product of its embedding with that of the observation's
    other parts. null for a head with an output for each action."""
    module: str | None = None
    """A network of one's own as `package.module:Class`: an nn.Module made from (observation_space, num_outputs, model)
    that returns outputs [N, num_outputs] and values [N] for observations [N, ...]; for Q policies outputs alone, action
    after action (of c51 and quantile num_atoms numbers for each)."""

    @property
    def dense_widths(self) -> tuple[int, ...]:
        """`hiddens`, or [64, 64] where that is left open."""
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
    """The network between observations and what a policy puts out, without a recurrent core."""


@fixed("steps of adaptation are about present observations alone", views={})
class AdaptableModelConfig(FeedForwardModelConfig):
    """The network of a policy that adapts to tasks."""


@fixed("a position is all that a search is shown", views={})
@fixed("an action of a game is one choice", autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("no action is drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
class SearchModelConfig(FeedForwardModelConfig):
    """The network between positions of a game and what a search asks of them."""


NO_VIEWS = "views are of a policy's own observations, of which this one does not learn alone"


@fixed(NO_VIEWS, views={})
@fixed("a value network beside it sees something else", shared_value=False)
@fixed("networks whose values are normalised are built by rlrun", module=None, use_sde=False, sde_sample_freq=None)
class StateValueModelConfig(ModelConfig):
    """The networks of a policy and of a value that may see more than the policy does.

    The core is the policy's alone: the value has no memory.
    """


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
class NormalizedValueModelConfig(StateValueModelConfig):
    """The networks of a policy and of a value that see the same, without a recurrent core."""


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed("it has no value network beside it", shared_value=False)
@fixed("no action is drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
class QModelConfig(FeedForwardModelConfig):
    """The network between observations and the values of all actions."""


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("it has no value network beside it", shared_value=False)
@fixed("no action is drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
@fixed("networks of teams are built by rlrun", module=None)
@fixed(NO_VIEWS, views={})
class TeamQModelConfig(ModelConfig):
    """The network between observations and action values that the members of a team share."""


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("it has no value network beside it", shared_value=False)
@fixed("no action is drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
@fixed("networks that take actions are built by rlrun", module=None)
class ActorQModelConfig(ModelConfig):
    """The networks of a deterministic actor and of its Q functions.

    With a core, the Q functions take actions behind it, and dense layers of the same widths follow there.
    """


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
class ActionValueModelConfig(ActorQModelConfig):
    """The network that takes observations and actions, and that of a deterministic actor, without a recurrent core."""


@fixed("candidates are not shown what their actions gave", views={})
@fixed("it has no value network beside it", shared_value=False)
@fixed("no action is drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("networks of candidates are built by rlrun", module=None)
class ActorModelConfig(ModelConfig):
    """The network between observations and actions."""


@fixed(NO_VIEWS, views={})
class TeamActorQModelConfig(ActionValueModelConfig):
    """The networks of a team's actors and critics, without a recurrent core."""


@defaults(log_std_init=-3.0)
@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("it has no value network beside it", shared_value=False)
@fixed("networks that take actions are built by rlrun", module=None)
class SoftModelConfig(ModelConfig):
    """The networks of a stochastic actor and of its Q functions; with a core as `ActorQModelConfig` says.

    `log_std_init` counts with use_sde alone, as the standard deviations are outputs of the network otherwise. Entries
    of 1 would shift the mean by the norm of all features, which saturates every action at first.
    """


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@fixed("a learned model predicts single observations", views={})
class ModelBasedModelConfig(SoftModelConfig):
    """The networks of a stochastic actor and of its Q functions, without a recurrent core."""
