"""Settings of GAIL, and columns of the batches from which its discriminator learns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import field_validator
from typing_extensions import override

from rlrun.algorithms.ppo import PPOConfig
from rlrun.engine.settings.config import PositiveInt, Schedule, defaults, fixed

OWN_OBS, OWN_ACTIONS = "discriminator_obs", "discriminator_actions"
"""Columns of the learner's current observations, trees of [T, B, ...], and of its actions as the env took them."""

EXPERT_OBS, EXPERT_ACTIONS = "expert_obs", "expert_actions"
"""Columns of expert steps, drawn uniformly, one for each of the learner's steps."""

RewardSign = Literal["signed", "positive", "negative"]


@defaults(entropy_coeff=0.001)
@fixed("gail's rewards come from its discriminator", normalize_rewards=False, reward_scale=1.0, clip_rewards=None)
@fixed("gail learns only from its discriminator's rewards", curiosity=None, constraint=None)
class GAILConfig(PPOConfig):
    """Settings of GAIL (Ho and Ermon, arXiv:1606.03476): the settings of PPO and of the discriminator."""

    needed: ClassVar[Mapping[str, str]] = {"expert": "must name a data set recorded by the expert to imitate"}

    expert: str | None = None
    """Path of the expert's data set, or of a file of demonstrations; required for training. A relative path is searched
    for in the current directory and next to the spec."""
    reward: RewardSign = "signed"
    """Sign of the rewards, from the discriminator's probability D that a step is the expert's: `signed` for
    log D - log(1 - D), `positive` for -log(1 - D), where each further step pays, `negative` for log D, where each
    further step costs. Terminations are judged as well: they lead to an absorbing state with such rewards."""
    discriminator_hiddens: tuple[PositiveInt, ...] = (64, 64)
    """Widths of the dense layers of the discriminator."""
    discriminator_lr: Schedule = 3e-4
    """Learning rate of the discriminator."""
    discriminator_every: PositiveInt = 4
    """The discriminator learns from one of every `discriminator_every` minibatches, together with as many expert
    steps."""

    @field_validator("gamma")
    @classmethod
    def _absorbing_state_has_a_value(cls, gamma: float) -> float:
        if gamma == 1:
            raise ValueError("must be below 1, because a terminated episode continues forever in an absorbing state")
        return gamma

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        return path == "discriminator_hiddens" or super().shapes_parameters(path)
