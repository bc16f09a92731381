"""SAC with configurable critics, layers, optimizers and resets, on which presets such as REDQ are based."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from annotated_types import Ge, Lt
from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.actor_q.sac import SAC, SACConfig
from rlrun.algorithms.actor_q.scaled_rewards import MeasureReturns, ScaleRewards
from rlrun.engine.envs.env_ids import time_limit
from rlrun.engine.flow.flow import Flow, StatefulOperator
from rlrun.engine.flow.operators.minibatches import TrainedMinibatch
from rlrun.engine.flow.recipes.replay_updates import MOST_TOGETHER, replay_updates
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.learner.optimizers import Adam, AdamW
from rlrun.engine.learner.projection import Projection
from rlrun.engine.nn.model_config import SoftModelConfig
from rlrun.engine.settings.config import Fraction, NonNegativeFloat, NonNegativeInt, PositiveInt

if TYPE_CHECKING:
    from rlrun.engine.data.sample_batch import SampleBatch
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.learner.objective import Objective
    from rlrun.engine.policy.flat_parameters import FlatParameters
    from rlrun.engine.policy.policy import Policy

RUNNING_STATISTICS = ("norm.mean", "norm.variance", "norm.steps")
"""Name suffixes of the parameters that losses assign, in the layers of `rlrun.engine.nn.batch_norm`."""

WeightProjection = Literal["dense", "dense_and_norms"]
"""Names of the groups of parameters that are projected after each optimizer step."""


class ExtendedModelConfig(SoftModelConfig):
    """Network settings for an actor and its critics, optionally with batch normalization or residual layers."""

    critic_hiddens: tuple[PositiveInt, ...] | None = None
    """Widths of the critics' dense layers, if they differ from the actor's; null for `hiddens`."""
    batch_renorm: bool = False
    """Batch renormalization (arXiv:1702.03275) of the inputs of each dense layer of actor and critics, with a
    minibatch's statistics in losses and running statistics when acting. Requires `joint_targets`."""
    batch_norm: bool = False
    """Batch normalization of the inputs of actor and critics, and between each dense layer, which then has no bias, and
    its activation (XQC, arXiv:2509.25174): with a minibatch's statistics in losses and running statistics when acting.
    Continuous actions only."""
    residual: bool = False
    """Whether each number of `hiddens` is a residual block (SimBa, arXiv:2410.09754), all of the same width: two dense
    layers, four times as wide inside, after a LayerNorm. A linear layer comes first, a LayerNorm last. With
    `batch_norm`, both dense layers of a block have batch normalization and an activation, and an RMSNorm comes last
    (FlashSAC, arXiv:2604.04539)."""
    smooth_log_stds: bool = False
    """Whether log standard deviations are -10 + 6 (1 + tanh x) for outputs x of the actor (FlashSAC, arXiv:2604.04539),
    instead of x clipped to -20 and 2."""

    @model_validator(mode="after")
    def _one_normalization(self) -> ExtendedModelConfig:
        has_norms = self.batch_renorm or self.batch_norm or self.residual
        if has_norms and (self.normalization or self.critic_normalization):
            raise ValueError("batch_renorm, batch_norm and residual include normalization; leave normalization out")
        if self.batch_renorm and (self.batch_norm or self.residual):
            raise ValueError("batch_renorm cannot be combined with batch_norm or residual; choose one")
        if self.core and has_norms:
            raise ValueError("core cannot be combined with batch_renorm, batch_norm or residual; choose one")
        if self.residual:
            for name, widths in (("hiddens", self.dense_widths), ("critic_hiddens", self.critic_hiddens)):
                if widths is not None and len(set(widths)) != 1:
                    raise ValueError(f"residual: all {name} must have the same width, not {list(widths)}")
        if self.smooth_log_stds and self.use_sde:
            raise ValueError("smooth_log_stds and use_sde cannot be combined; set one of them to false")
        return self


class ExtendedSACConfig(SACConfig):
    """Settings of SAC and of the extensions that its presets use; with the defaults, the algorithm is plain SAC."""

    model: ExtendedModelConfig = ExtendedModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of the actor and of each critic."""
    gamma: Fraction | Literal["auto"] = 0.99  # type: ignore[assignment]  # `in_env` replaces auto with a number
    """Discount factor. `auto` derives it from the env's time limit of T steps: 1 - 5 / T, but at least 0.95 and at most
    0.995 (XQC, arXiv:2509.25174), which is also the value without a time limit."""
    target_entropy_per_action: float = -1.0
    """Target entropy in nats for each continuous action, where `target_entropy` is null."""

    num_quantiles: PositiveInt | None = None
    """Number of quantiles of the return that each critic estimates by quantile regression (TQC, arXiv:2005.04269);
    null for its expectation. Continuous actions only."""
    dropped_per_critic: NonNegativeInt = 0
    """Number of quantiles per critic that targets omit: the largest ones after pooling all target critics'
    quantiles."""
    num_bins: Annotated[int, Ge(2)] | None = None
    """Number of evenly spaced returns whose probabilities each critic estimates (C51, arXiv:1707.06887); null for its
    expectation. Targets are the distribution of the critic whose expectation is smaller. Continuous actions only."""
    support: tuple[float, float] = (-5.0, 5.0)
    """Smallest and largest of the `num_bins` returns."""
    scale_rewards: bool = False
    """Whether the rewards of minibatches are divided by the standard deviation of all discounted returns so far, and by
    more if the largest return would otherwise be outside `support`. The replay buffer stores rewards unscaled."""

    critic_dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Probability that a hidden unit of a critic, or of a target critic, is dropped in a loss (DroQ, arXiv:2110.02034);
    acting and evaluation use all units."""
    joint_targets: bool = False
    """Whether targets come from the critics themselves, in one pass with the values of the actions taken, and there are
    no target networks (CrossQ, arXiv:1902.05605). Continuous actions only; `model.batch_renorm` requires it."""
    joint_actor: bool = False
    """Whether the actor's loss normalizes recorded and next observations together, in one pass (FlashSAC,
    arXiv:2604.04539); only with `model.batch_norm`."""
    actor_first: bool = False
    """Whether a minibatch updates actor and temperature before the critics (FlashSAC, arXiv:2604.04539)."""
    adam_beta_1: Annotated[float, Ge(0), Lt(1)] = 0.9
    """Decay rate of Adam's first moment, for all networks and the temperature."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay of actor and critics (AdamW): each update subtracts lr * weight_decay times the
    parameter."""
    weight_projection: WeightProjection | None = None
    """Projection after each optimizer step of actor and critics: `dense` scales the weights of each output of a dense
    layer to norm 1 (XQC, arXiv:2509.25174); `dense_and_norms` also scales each normalization's learned scale and shift,
    together, to the norm of its initial ones (FlashSAC, arXiv:2604.04539); null for none."""

    reset_interval: PositiveInt | None = None
    """Number of minibatches between resets, in which all networks, the temperature and the optimizers are reinitialized
    and the replay buffer is kept (arXiv:2205.07802); null for no resets."""

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        return path in ("num_quantiles", "num_bins") or super().shapes_parameters(path)

    @property
    def is_joint(self) -> bool:
        """Whether the critics evaluate recorded and next actions in one pass, batch-normalized over both."""
        return self.joint_targets or self.model.batch_norm

    @model_validator(mode="after")
    def _has_a_support(self) -> ExtendedSACConfig:
        low, high = self.support
        if not low < high:
            raise ValueError(f"support: the smallest return must be below the largest one, not [{low:g}, {high:g}]")
        if self.num_bins is not None and self.num_quantiles is not None:
            raise ValueError("num_bins and num_quantiles cannot be combined; set one of them to null")
        return self

    @model_validator(mode="after")
    def _keeps_quantiles(self) -> ExtendedSACConfig:
        if self.dropped_per_critic and self.dropped_per_critic >= (self.num_quantiles or 0):
            quantiles = ", which is null" if self.num_quantiles is None else f" ({self.num_quantiles})"
            raise ValueError(f"dropped_per_critic ({self.dropped_per_critic}) must be below num_quantiles{quantiles}")
        if self.num_quantiles is not None and self.num_target_critics is not None:
            raise ValueError(
                "num_quantiles: targets pool the quantiles of all critics, so leave num_target_critics null"
            )
        return self

    @model_validator(mode="after")
    def _has_networks_for_its_updates(self) -> ExtendedSACConfig:
        model = self.model
        if model.batch_renorm and not self.joint_targets:
            raise ValueError(
                "model.batch_renorm needs joint_targets: true, because target networks keep no batch statistics"
            )
        if self.joint_actor and not model.batch_norm:
            raise ValueError("joint_actor needs model.batch_norm: true; leave it out")
        if self.joint_targets and model.core is not None:
            raise ValueError("joint_targets: recurrent networks need target networks; leave model.core null")
        if self.critic_dropout and (model.core is not None or model.residual):
            raise ValueError("critic_dropout works only with plain dense layers; leave out model.core and residual")
        return self


class ExtendedSAC(SAC):
    """SAC with the extensions that its presets (TQC, REDQ, DroQ, CrossQ, SimBa, XQC, FlashSAC) use."""

    Config: ClassVar[type[SACConfig]] = ExtendedSACConfig
    config: ExtendedSACConfig
    policy_family = "rlrun.algorithms.actor_q.extended_soft_policy:ExtendedSoftPolicy"

    @property
    @override
    def has_target_network(self) -> bool:
        return not self.config.joint_targets

    @override
    def in_env(self, env: EnvConfig) -> Self:
        """Returns the algorithm with `gamma: auto` replaced by the discount factor for the env."""
        if self.config.gamma != "auto":
            return self
        return type(self)(self.config.replace(gamma=automatic_gamma(time_limit(env))))

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """SAC's objectives, each with a separate optimizer.

        The losses also update the running normalization statistics of the networks. Weights are projected if the
        settings say so.
        """
        config = self.config
        adam = Adam(beta_1=config.adam_beta_1)
        decayed = AdamW(config.weight_decay, beta_1=config.adam_beta_1) if config.weight_decay else adam
        critics, *others = super().objectives(policy)
        return [
            replace(
                each,
                optimizer=adam if each.name == "alpha" else decayed,
                assigns=running_statistics(policy.parameters, each.parameters or ""),
                projects=projections(policy.parameters, each.parameters or "", config.weight_projection),
            )
            for each in ([*others, critics] if config.actor_first else [critics, *others])
        ]

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds SAC's dataflow, with scaled rewards and resets of the networks if they are enabled."""
        config, replay = self.config, self.make_replay(trainee)
        scale = None
        if config.scale_rewards:
            bounds = (-math.inf, math.inf) if config.num_bins is None else config.support
            measure = MeasureReturns(cast("float", config.gamma), bounds)
            fragments, scale = fragments.zip_with_worker().for_each(measure), ScaleRewards(measure)
        together = MOST_TOGETHER if config.reset_interval is None else 1  # a reset must directly follow its minibatch
        updates = replay_updates(replay, trainee, config, together, has_target=self.has_target_network, prepare=scale)
        if config.reset_interval is not None:
            updates = updates.for_each(ResetNetworks(trainee, self.policy, config.reset_interval))
        return self.learn_from(replay, fragments, updates, trainee)


def automatic_gamma(steps: int | None) -> float:
    """Discount factor that `gamma: auto` selects for a time limit in steps, or for no limit (None).

    Examples:
        >>> [automatic_gamma(steps) for steps in (50, 200, 1000, None)]
        [0.95, 0.975, 0.995, 0.995]
    """
    return 0.995 if steps is None else min(max(1 - 5 / steps, 0.95), 0.995)


def running_statistics(parameters: FlatParameters, prefix: str) -> tuple[str, ...]:
    """Names of the parameters with a given prefix that are running statistics of batch normalization."""
    return tuple(
        slot.name
        for slot in parameters.slots
        if slot.name.startswith(prefix) and slot.name.endswith(RUNNING_STATISTICS)
    )


def projections(parameters: FlatParameters, prefix: str, kind: WeightProjection | None) -> tuple[Projection, ...]:
    """Projections of the dense layers' weights and, depending on `kind`, of the normalization scales and shifts.

    Args:
        parameters: The parameters of all networks.
        prefix: Prefix of the names of the parameters to project.
        kind: Which parameters are projected; None for no projections.
    """
    if kind is None:
        return ()
    found = []
    own = {slot.name: slot for slot in parameters.slots if slot.name.startswith(prefix)}
    for name, slot in own.items():
        if not name.endswith(".weight"):
            continue
        if len(slot.shape) == 2:
            found.append(Projection((name,), axis=1))
        elif len(slot.shape) == 1 and kind == "dense_and_norms":
            shift = f"{name.removesuffix('weight')}bias"
            found.append(Projection((name, shift) if shift in own else (name,), axis=0, norm=math.sqrt(slot.size)))
    return tuple(found)


class ResetNetworks(StatefulOperator):
    """Resets all networks and optimizers at regular intervals, without clearing the replay buffer.

    Args:
        trainee: The policy in training, whose learner holds the networks to reset.
        policy: Function that creates a policy with new parameters from spaces and a seed.
        every: Number of minibatches between two resets.

    Source:
        Nikishin et al., "The primacy bias in deep reinforcement learning", arXiv:2205.07802, section 4.
    """

    def __init__(self, trainee: Trainee, policy: Callable[[Spaces, int], Policy], every: int) -> None:
        self.trainee = trainee
        self.policy = policy
        self.every = every
        self._minibatches = 0

    @override
    def settings(self) -> dict[str, Any]:
        return {"every": self.every}

    @override
    def __call__(self, item: TrainedMinibatch) -> TrainedMinibatch:
        """Counts an item's minibatches, and resets after the last one where a reset is due."""
        before = self._minibatches // self.every
        self._minibatches += item.number
        number = self._minibatches // self.every
        if number > before:
            self._reset(number)
        return item

    def _reset(self, number: int) -> None:
        learner = self.trainee.learner
        made = self.policy(self.trainee.spaces, child_seed(self.trainee.seed, "reset", number))
        first = made.parameters.gather(made.module).numpy()
        learner.load_flat(first)
        learner.load_target(first)
        learner.load_optimizer_state({name: np.zeros_like(part) for name, part in learner.optimizer_state().items()})

    @override
    def state(self) -> dict[str, Any]:
        """State for a checkpoint: the number of minibatches since the start."""
        return {"minibatches": self._minibatches}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._minibatches = int(state["minibatches"])
