"""Presets of SAC: methods that change its critics and the number of updates."""

from __future__ import annotations

from typing import ClassVar

from rlrun.algorithms.actor_q.extended_sac import ExtendedModelConfig, ExtendedSAC, ExtendedSACConfig
from rlrun.algorithms.actor_q.sac import SACConfig
from rlrun.engine.nn.model_config import WHO_IS_RECURRENT
from rlrun.engine.settings.config import defaults, fixed


@defaults(critic_lr=3e-4, num_critics=5, num_quantiles=25, dropped_per_critic=2, actor_objective="mean")
class TQCConfig(ExtendedSACConfig):
    """Settings of TQC (Kuznetsov et al., arXiv:2005.04269); the defaults are from its table 3, and otherwise SAC's."""


class TQC(ExtendedSAC):
    """Truncated quantile critics: SAC whose targets omit the largest quantiles of all critics (arXiv:2005.04269)."""

    Config: ClassVar[type[SACConfig]] = TQCConfig
    acts_in = ("bounded Box",)


@defaults(
    critic_lr=3e-4,
    learning_starts=5000,
    num_critics=10,
    num_target_critics=2,
    actor_objective="mean",
    policy_delay=20,
    training_intensity=20.0,
)
class REDQConfig(ExtendedSACConfig):
    """Settings of REDQ (Chen et al., arXiv:2101.05982); the defaults are from its appendix, and otherwise SAC's."""


class REDQ(ExtendedSAC):
    """Randomized ensembled double Q-learning: SAC with many critics and updates per env step (arXiv:2101.05982)."""

    Config: ClassVar[type[SACConfig]] = REDQConfig


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@defaults(critic_normalization="layer")
class DroQModelConfig(ExtendedModelConfig):
    """Settings of the networks of DroQ, whose critics are layer-normalised."""


@defaults(
    critic_lr=3e-4,
    learning_starts=5000,
    critic_dropout=0.01,
    actor_objective="mean",
    policy_delay=20,
    training_intensity=20.0,
)
class DroQConfig(ExtendedSACConfig):
    """Settings of DroQ (Hiraoka et al., arXiv:2110.02034); the defaults are from its appendix, and otherwise SAC's."""

    model: DroQModelConfig = DroQModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of the actor and of each critic."""


class DroQ(ExtendedSAC):
    """Dropout Q-functions: two critics with dropout and LayerNorm, and many updates per env step (arXiv:2110.02034)."""

    Config: ClassVar[type[SACConfig]] = DroQConfig


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@defaults(critic_hiddens=(2048, 2048), batch_renorm=True)
class CrossQModelConfig(ExtendedModelConfig):
    """Settings of the networks of CrossQ, with batch renormalisation and wide critics."""


@defaults(
    lr=1e-3,
    critic_lr=1e-3,
    alpha_lr=1e-3,
    learning_starts=5000,
    policy_delay=3,
    adam_beta_1=0.5,
)
@fixed("targets come from the critics themselves", joint_targets=True, tau=0.005, target_update_interval=1)
class CrossQConfig(ExtendedSACConfig):
    """Settings of CrossQ (Bhatt et al., arXiv:1902.05605); the defaults are from its table 2, and otherwise SAC's."""

    model: CrossQModelConfig = CrossQModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """Network architecture of the actor and of each critic."""


class CrossQ(ExtendedSAC):
    """SAC with batch renormalisation and no target networks: one pass gives values and targets (arXiv:1902.05605)."""

    Config: ClassVar[type[SACConfig]] = CrossQConfig
    acts_in = ("bounded Box",)


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@defaults(critic_hiddens=(512, 512), residual=True)
class SimBaModelConfig(ExtendedModelConfig):
    """Settings of the networks of SimBa: residual blocks, one in the actor and two in each critic."""


@defaults(
    lr=1e-4,
    critic_lr=1e-4,
    alpha_lr=1e-4,
    learning_starts=5000,
    initial_alpha=0.01,
    normalize_observations=True,
    target_entropy_per_action=-0.5,
    training_intensity=2.0,
    weight_decay=0.01,
)
class SimBaConfig(ExtendedSACConfig):
    """Settings of SimBa (Lee et al., arXiv:2410.09754); the defaults are from its table 7, and otherwise SAC's."""

    model: SimBaModelConfig = SimBaModelConfig(hiddens=(128,), activation="relu", orthogonal_init=True)
    """Network architecture of the actor and of each critic."""


class SimBa(ExtendedSAC):
    """SAC with normalised observations, residual blocks with LayerNorm, and weight decay (arXiv:2410.09754)."""

    Config: ClassVar[type[SACConfig]] = SimBaConfig
