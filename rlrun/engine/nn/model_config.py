"""Settings of networks, given in a spec under the key `model`."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from rlrun.engine.settings.config import ConfigModel, NonEmptyText, NonNegativeInt, PositiveInt, defaults, fixed

Activation = Literal["tanh", "relu", "elu", "silu"]

Conv = Literal["nature", "impala", "small"]

Normalization = Literal["layer"]

CoreKind = Literal["lstm", "gru", "gtrxl"]

Encoding = Literal["vector", "one_hot", "embedding", "image", "entities"]

Pooling = Literal["attention", "mean", "max"]


class ObservationConfig(ConfigModel):
    """Settings for encoding one entry of the observation; defaults depend on the entry's space."""

    encode_as: Encoding | None = None
    """Encoding: flat numbers (`vector`), a CNN (`image`), a pooled set (`entities`, a Box [entities, features]), or for
    integers one-hot vectors (`one_hot`) or learned vectors shared by all positions (`embedding`); null chooses by
    shape, type and bounds."""
    pooling: Pooling = "attention"
    """Pooling of entities into one vector: attention with four heads, or the mean or maximum of their features."""
    mask: NonEmptyText | None = None
    """Key of the entity mask [entities] in the same Dict: 1 for present entities, 0 for absent ones; null if all are
    present."""
    bounds: tuple[float, float] | None = None
    """Lowest and highest value, if the space's bounds are not the true ones. Numbers are scaled to 0..1, and one-hot
    vectors cover the integers between. [0, 1] leaves numbers unscaled; null takes the space's bounds."""

    @model_validator(mode="after")
    def _bounds_ascend(self) -> ObservationConfig:
        if self.bounds is not None and self.bounds[0] >= self.bounds[1]:
            raise ValueError(f"the first bound must be less than the second, not {list(self.bounds)}")
        return self

    @model_validator(mode="after")
    def _only_entities_are_pooled(self) -> ObservationConfig:
        if self.encode_as != "entities" and (self.mask is not None or self.pooling != "attention"):
            raise ValueError("pooling and mask need encode_as: entities")
        return self


class GTrXLConfig(ConfigModel):
    """Settings of the recurrent core `gtrxl`: a gated transformer over the last steps.

    Source:
        Parisotto et al., arXiv:1910.06764.
    """

    layers: PositiveInt = 1
    """Number of attention layers, each followed by a dense layer."""
    heads: PositiveInt = 4
    """Number of attention heads per layer, a divisor of `core_width`."""
    memory_len: PositiveInt = 32
    """Number of past steps that each layer attends to; the recurrent state recorded at each step grows in
    proportion."""


class ViewsConfig(ConfigModel):
    """Settings that add past steps to a network's input: stacked observations, past actions and past rewards."""

    prev_actions: NonNegativeInt = 0
    """Number of last actions in the input; discrete actions are one-hot encoded."""
    prev_rewards: NonNegativeInt = 0
    """Number of last rewards in the input, unscaled, as returned by the env."""
    obs: PositiveInt = 1
    """Number of stacked observations, including the current one, oldest first. Images are stacked along the
    channels."""

    @property
    def any(self) -> bool:
        """Whether any past steps are added to the network's input."""
        return bool(self.prev_actions or self.prev_rewards or self.obs > 1)


class ModelConfig(ConfigModel):
    """Settings of a policy's network: encoders, dense layers, recurrent core and heads.

    Attributes:
        convolves_images: Whether the policy has custom convolutions for images, so that the setting `conv` has no
            effect.
    """

    convolves_images: ClassVar[bool] = False

    hiddens: tuple[PositiveInt, ...] | None = None
    """Widths of the dense layers after the observation encoders; null for [64, 64], or for no dense layers if all
    observations are images, because image encoders end in one."""
    activation: Activation = "tanh"
    """Activation after each dense layer."""
    normalization: Normalization | None = None
    """Normalization before each activation: `layer` for LayerNorm (arXiv:1607.06450), null for none."""
    core: CoreKind | None = None
    """Recurrent core after the dense layers: an LSTM, a GRU (whose recurrent state is half as large), or `gtrxl`, which
    attends to the last steps; null for none. A separate value network has a separate core."""
    core_width: PositiveInt = 64
    """Width of the core's output, and number of an LSTM's memory cells."""
    gtrxl: GTrXLConfig = GTrXLConfig()
    """Settings of the core `gtrxl`."""
    observations: dict[str, ObservationConfig] = Field(default_factory=dict)
    """Encodings that replace the defaults, by key of the observation part: `image`, `inner/0` if nested, or "" for an
    observation without parts. `rlrun plan -f FILE` prints all encodings."""
    views: ViewsConfig = ViewsConfig()
    """History in the network's inputs: `{prev_actions: 1, prev_rewards: 1, obs: 4}` for the last action, its reward,
    and the last four observations. Action masks have no history."""
    encoders: dict[str, str] = Field(default_factory=dict)
    """Custom encoders as `package.module:Class`, by key as in `observations`: an nn.Module, created from the part's
    space, that maps observations [N, ...] to float32 features [N, D]."""
    conv: Conv | None = None
    """Encoder of image observations: `nature` (Mnih et al. 2015), `impala` (the residual net of arXiv:1802.01561), or
    `small` (two convolutions with stride 2); null for `small` if a side has fewer than 36 pixels, else `nature`."""
    actor_sees: tuple[NonEmptyText, ...] | None = None
    """Parts of a Dict observation that the actor sees; null for all. Saved policies act without the parts that only
    critics see."""
    critic_sees: tuple[NonEmptyText, ...] | None = None
    """Parts of a Dict observation that the critics see; null for all."""
    shared_value: bool | None = None
    """Whether the value network shares the policy's layers except the head; null shares layers if an observation part
    is an image or has a custom encoder."""
    orthogonal_init: bool = True
    """Whether initial weights are orthogonal (gain sqrt 2, policy head 0.01, value head 1) instead of torch's
    default."""
    log_std_init: float = 0.0
    """Initial log standard deviation of continuous actions, in units of half the action range (without bounds, in the
    env's units): 0 is a standard deviation of 8 for actions between -8 and 8. With use_sde, this applies to the entries
    of the noise matrix."""
    use_sde: bool = False
    """Whether stochastic policies explore with gSDE (arXiv:2005.05719): the noise is a function of the observation that
    is kept for several steps."""
    sde_sample_freq: PositiveInt | None = None
    """Steps of each env between two samples of the gSDE noise matrix; null for once per fragment, or every 32 steps if
    fragments are shorter."""
    autoregressive: bool = False
    """Whether stochastic policies sample each part of a MultiDiscrete, Tuple or Dict action given the previous parts,
    instead of independently."""
    action_embeddings: NonEmptyText | None = None
    """Observation part with the features of the available actions, a Box [K, F] for Discrete(K). Logits or values are
    then scaled dot products of the action's and the other parts' embeddings; null for one output per action."""
    module: str | None = None
    """Custom network as `package.module:Class`: an nn.Module created from (observation_space, num_outputs, model) that
    maps observations [N, ...] to outputs [N, num_outputs] and values [N]. In Q policies, it returns only outputs,
    ordered by action (num_atoms for each with c51 and quantile)."""

    @property
    def dense_widths(self) -> tuple[int, ...]:
        """Widths of the dense layers: `hiddens`, or [64, 64] if `hiddens` is null."""
        return (64, 64) if self.hiddens is None else self.hiddens

    @property
    def widths_after_images(self) -> tuple[int, ...]:
        """Widths of the dense layers for image-only observations: `hiddens`, or none if `hiddens` is null."""
        return self.hiddens or ()

    @property
    def decoder_width(self) -> int:
        """Width of action embeddings and of autoregressive hidden layers, equal to the last of `dense_widths`."""
        return self.dense_widths[-1] if self.dense_widths else 64

    @model_validator(mode="after")
    def _decodes_own_heads(self) -> ModelConfig:
        if self.module is not None and (self.autoregressive or self.action_embeddings is not None):
            raise ValueError(
                "a custom network computes all outputs itself; leave out autoregressive and "
                "action_embeddings, or module"
            )
        if self.action_embeddings in self.observations or self.action_embeddings in self.encoders:
            raise ValueError(
                f"{self.action_embeddings!r} is listed in action_embeddings and also in observations or encoders; "
                "remove it from observations and encoders, because action features have their own encoding"
            )
        return self

    @model_validator(mode="after")
    def _check_core(self) -> ModelConfig:
        if self.core is not None and self.module is not None:
            raise ValueError("rlrun builds recurrent networks itself; leave out core, or module")
        return self

    @model_validator(mode="after")
    def _heads_of_equal_width(self) -> ModelConfig:
        if self.core == "gtrxl" and self.core_width % self.gtrxl.heads:
            raise ValueError(f"gtrxl.heads ({self.gtrxl.heads}) must divide core_width ({self.core_width})")
        return self

    @model_validator(mode="after")
    def _views_of_own_layers(self) -> ModelConfig:
        if self.views.any and self.module is not None:
            raise ValueError("a custom network receives unprocessed observations; leave out views or module")
        if self.views.any and self.action_embeddings is not None:
            raise ValueError("views cannot be combined with action_embeddings; leave one out")
        return self

    @model_validator(mode="after")
    def _observations_of_own_layers(self) -> ModelConfig:
        if self.observations and self.module is not None:
            raise ValueError("a custom network receives unprocessed observations; leave out observations or module")
        if self.encoders and self.module is not None:
            raise ValueError("a custom network encodes observations itself; leave out encoders or module")
        if both := sorted(self.observations.keys() & self.encoders.keys()):
            raise ValueError(
                f"{both[0]!r} is in both observations and encoders; a custom encoder gets unprocessed "
                "observations, so leave it out of observations"
            )
        return self


WHO_DRAWS_IN_ORDER = "only on-policy algorithms sample the parts of an action one after another"

WHO_EMBEDS_ACTIONS = "only on-policy algorithms, dqn and its variants support action embeddings"


WHO_IS_RECURRENT = (
    "only on-policy algorithms, sac, redq, tqc, ddpg, td3, r2d2, r2d3, vdn, qmix, es, ars, cmaes, cem and bc "
    "support recurrent networks"
)


WHO_HAS_PRIVILEGES = (
    "only on-policy algorithms, marwil, sac, ddpg, td3 and rlpd support critics whose observations differ from the "
    "actor's"
)


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class FeedForwardModelConfig(ModelConfig):
    """Settings of a policy's network without a recurrent core."""


@fixed("adaptation steps use only the current observation", views={})
class AdaptableModelConfig(FeedForwardModelConfig):
    """Settings of the network of a meta-learned policy, which adapts to tasks by gradient steps."""


NO_VIEWS = "views cover only the policy's own observations, but this algorithm learns from others too"


@fixed(NO_VIEWS, views={})
@fixed("the value network has separate inputs", shared_value=False)
@fixed("rlrun builds networks with normalized values itself", module=None, use_sde=False, sde_sample_freq=None)
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class StateValueModelConfig(ModelConfig):
    """Settings of a policy's network and of a centralized value network, which may see more than the policy.

    Only the policy can have a recurrent core; the value network is feed-forward.
    """


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
class NormalizedValueModelConfig(StateValueModelConfig):
    """Settings of separate feed-forward networks for policy and value function; values are normalized.

    Both networks see the same observations.
    """


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed("the algorithm has no value network", shared_value=False)
@fixed("actions are not drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
class QModelConfig(FeedForwardModelConfig):
    """Settings of a Q network, which maps an observation to the values of all actions."""


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("the algorithm has no value network", shared_value=False)
@fixed("actions are not drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
@fixed("rlrun builds the networks of teams itself", module=None)
@fixed(NO_VIEWS, views={})
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class TeamQModelConfig(ModelConfig):
    """Settings of the Q network that all agents of a team share, as in VDN and QMIX."""


@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("the algorithm has no value network", shared_value=False)
@fixed("rlrun builds networks that take actions as input itself", module=None)
class CriticsModelConfig(ModelConfig):
    """Settings of the networks of an actor and its critics (Q functions).

    With a recurrent core, a Q function concatenates the core's outputs and the actions, and passes them through further
    dense layers of the configured widths.
    """

    critic_normalization: Normalization | None = None
    """Normalization of the critics' dense layers, where the actor has none; null for `normalization`."""


@fixed("actions are not drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
class ActorQModelConfig(CriticsModelConfig):
    """Settings of the networks of a deterministic actor and its Q functions, with an optional recurrent core."""


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class ActionValueModelConfig(ActorQModelConfig):
    """Settings of the networks of a deterministic actor and its Q functions, without a recurrent core."""


@fixed("candidates do not see the results of their actions", views={})
@fixed("the algorithm has no value network", shared_value=False)
@fixed("actions are not drawn from a normal distribution", log_std_init=0.0, use_sde=False, sde_sample_freq=None)
@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
@fixed(WHO_EMBEDS_ACTIONS, action_embeddings=None)
@fixed("rlrun builds the networks of candidates itself", module=None)
@fixed(WHO_HAS_PRIVILEGES, actor_sees=None, critic_sees=None)
class ActorModelConfig(ModelConfig):
    """Settings of the network of a deterministic policy for evolution strategies and similar black-box optimizers."""


@defaults(log_std_init=-3.0)
class SoftModelConfig(CriticsModelConfig):
    """Settings of the networks of a stochastic actor and its Q functions, as in SAC.

    `log_std_init` only has an effect with `use_sde` (state-dependent exploration, gSDE), since otherwise standard
    deviations are outputs of the network. Its default is low: gSDE multiplies the noise by all features, so noise with
    standard deviation 1 would saturate every action at first.
    """
