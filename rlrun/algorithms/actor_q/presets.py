"""Presets of SAC: published methods that change its critics, layers or replay ratio, such as REDQ and DroQ.

A preset is a name, defaults and fixed settings. The function `preset` turns it into an algorithm class and its config.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rlrun.algorithms.actor_q.extended_sac import ExtendedSAC, ExtendedSACConfig
from rlrun.engine.data.space_kinds import ActionKind
from rlrun.engine.nn.model_config import WHO_IS_RECURRENT
from rlrun.engine.settings.config import defaults, fixed

FEED_FORWARD: Mapping[str, Mapping[str, Any]] = {
    WHO_IS_RECURRENT: {"model": {"core": None, "core_width": 64, "gtrxl": {}}}
}
"""Fixed settings of presets without recurrent networks."""


def preset(
    name: str,
    summary: str,
    settings_summary: str,
    values: Mapping[str, Any],
    *,
    fixed_values: Mapping[str, Mapping[str, Any]] | None = None,
    acts_in: tuple[ActionKind, ...] = ExtendedSAC.acts_in,
) -> type[ExtendedSAC]:
    """Creates an algorithm class from a preset of settings.

    Args:
        name: Name of the algorithm. This module must assign the result to a variable of this name, for pickling.
        summary: Docstring of the algorithm.
        settings_summary: Docstring of the config.
        values: Settings whose defaults differ from those of `ExtendedSACConfig`, with the new defaults; a section of
            settings is given as a dict.
        fixed_values: Settings with fixed values, grouped by the reason that error messages give; see `fixed`.
        acts_in: Supported kinds of action spaces.
    """
    place = {"__module__": __name__, "__qualname__": f"{name}.Config", "__doc__": settings_summary}
    config = cast("type[ExtendedSACConfig]", type(f"{name}Config", (ExtendedSACConfig,), place))
    for reason, chosen in (fixed_values or {}).items():
        config = fixed(reason, **chosen)(config)
    config = defaults(**values)(config)
    members = {"Config": config, "acts_in": acts_in, "__module__": __name__, "__qualname__": name, "__doc__": summary}
    return cast("type[ExtendedSAC]", type(name, (ExtendedSAC,), members))


TQC = preset(
    "TQC",
    "Truncated quantile critics: targets drop the largest quantiles of all critics (arXiv:2005.04269).",
    "Settings of TQC (Kuznetsov et al., arXiv:2005.04269); the defaults are those of the paper's table 3, "
    "and SAC's for the rest.",
    {"critic_lr": 3e-4, "num_critics": 5, "num_quantiles": 25, "dropped_per_critic": 2, "actor_objective": "mean"},
    acts_in=("bounded Box",),
)

REDQ = preset(
    "REDQ",
    "Randomized ensembled double Q-learning: many critics, and many updates per env step (arXiv:2101.05982).",
    "Settings of REDQ (Chen et al., arXiv:2101.05982); the defaults are those of the paper's appendix, and "
    "SAC's for the rest.",
    {
        "critic_lr": 3e-4,
        "learning_starts": 5000,
        "num_critics": 10,
        "num_target_critics": 2,
        "actor_objective": "mean",
        "policy_delay": 20,
        "training_intensity": 20.0,
    },
)

DroQ = preset(
    "DroQ",
    "Dropout Q-functions: two critics with dropout and LayerNorm, and many updates per env step (arXiv:2110.02034).",
    "Settings of DroQ (Hiraoka et al., arXiv:2110.02034); the defaults are those of the paper's appendix, "
    "and SAC's for the rest.",
    {
        "critic_lr": 3e-4,
        "learning_starts": 5000,
        "critic_dropout": 0.01,
        "actor_objective": "mean",
        "policy_delay": 20,
        "training_intensity": 20.0,
        "model": {"critic_normalization": "layer"},
    },
    fixed_values=FEED_FORWARD,
)

CrossQ = preset(
    "CrossQ",
    "SAC with batch renormalization and no target networks: one pass computes values and targets (arXiv:1902.05605).",
    "Settings of CrossQ (Bhatt et al., arXiv:1902.05605); the defaults are those of the paper's table 2, and "
    "SAC's for the rest.",
    {
        "lr": 1e-3,
        "critic_lr": 1e-3,
        "alpha_lr": 1e-3,
        "learning_starts": 5000,
        "policy_delay": 3,
        "adam_beta_1": 0.5,
        "model": {"critic_hiddens": (2048, 2048), "batch_renorm": True},
    },
    fixed_values={
        **FEED_FORWARD,
        "targets come from the critics, without target networks": {
            "joint_targets": True,
            "tau": 0.005,
            "target_update_interval": 1,
        },
    },
    acts_in=("bounded Box",),
)

SimBa = preset(
    "SimBa",
    "SAC with normalized observations, residual blocks with LayerNorm, and weight decay (arXiv:2410.09754).",
    "Settings of SimBa (Lee et al., arXiv:2410.09754); the defaults are those of the paper's table 7, and "
    "SAC's for the rest.",
    {
        "lr": 1e-4,
        "critic_lr": 1e-4,
        "alpha_lr": 1e-4,
        "learning_starts": 5000,
        "initial_alpha": 0.01,
        "normalize_observations": True,
        "target_entropy_per_action": -0.5,
        "training_intensity": 2.0,
        "weight_decay": 0.01,
        "model": {"hiddens": (128,), "orthogonal_init": True, "critic_hiddens": (512, 512), "residual": True},
    },
    fixed_values=FEED_FORWARD,
)


def normalized(lr: Any, critic_lr: Any, **values: Any) -> Mapping[str, Any]:
    """Creates the settings shared by presets whose categorical critics predict scaled returns.

    Args:
        lr: Learning rate of actor and temperature.
        critic_lr: Learning rate of the critics.
        values: Further settings.
    """
    return {
        "lr": lr,
        "critic_lr": critic_lr,
        "alpha_lr": lr,
        "initial_alpha": 0.01,
        "num_bins": 101,
        "scale_rewards": True,
        **values,
    }


XQC = preset(
    "XQC",
    "SAC with batch normalization, projected weights and categorical critics of scaled returns (arXiv:2509.25174).",
    "Settings of XQC (Palenicek et al., arXiv:2509.25174); the defaults are those of the authors' code, and SAC's for "
    "the rest. Learning rates fall over a million env steps, also in shorter runs.",
    normalized(
        ((0, 3e-4), (1_000_000, 3e-5)),
        ((0, 3e-4), (1_000_000, 3e-5)),
        gamma="auto",
        learning_starts=5000,
        policy_delay=3,
        target_entropy_per_action=-0.5,
        training_intensity=2.0,
        weight_projection="dense",
        model={
            "hiddens": (256, 256, 256, 256),
            "orthogonal_init": True,
            "critic_hiddens": (512, 512, 512, 512),
            "batch_norm": True,
        },
    ),
    fixed_values=FEED_FORWARD,
    acts_in=("bounded Box",),
)

FlashSAC = preset(
    "FlashSAC",
    "SAC with inverted residual blocks, batch normalization, projected weights and repeated noise (arXiv:2604.04539).",
    "Settings of FlashSAC (arXiv:2604.04539); the defaults are those of the authors' code for simulators on the CPU, "
    "and SAC's for the rest. The critics' learning rate falls over a million env steps, also in shorter runs.",
    normalized(
        {"cosine": ((10_000, 3e-4), (2_010_000, 1.5e-4))},
        {"cosine": ((10_000, 3e-4), (1_010_000, 1.5e-4))},
        actor_first=True,
        joint_actor=True,
        exploration="repeated",
        learning_starts=10_000,
        minibatch_size=512,
        policy_delay=2,
        target_entropy_per_action=-0.478,
        tau=0.01,
        weight_projection="dense_and_norms",
        model={
            "hiddens": (128, 128),
            "orthogonal_init": True,
            "critic_hiddens": (256, 256),
            "batch_norm": True,
            "residual": True,
            "smooth_log_stds": True,
        },
    ),
    fixed_values=FEED_FORWARD,
    acts_in=("bounded Box",),
)
