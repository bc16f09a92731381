"""Settings of the reward model, of PPO on its rewards, and of DPO."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.ppo import PPOConfig
from rlrun.algorithms.settings.offline import OfflineConfig
from rlrun.algorithms.settings.on_policy import WHO_HAS_CONSTRAINTS, WHO_HAS_CURIOSITY, EpochsSettings, OnPolicyConfig
from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.nn.model_config import NO_VIEWS, ModelConfig
from rlrun.engine.settings.config import (
    ConfigModel,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    defaults,
    fixed,
)

WHOLE_EPISODES = "whole episodes are compared, in one process"
"""Error message for settings that divide a minibatch's rows among processes."""


@fixed(NO_VIEWS, views={})
class WholeEpisodesModelConfig(ModelConfig):
    """Network settings for a policy trained on complete episodes."""


@fixed("the policy has no value network", shared_value=False)
@fixed("the policy has no critic", critic_sees=None)
class DPOModelConfig(WholeEpisodesModelConfig):
    """Network settings for a policy trained by DPO."""


class RewardNetworkConfig(ConfigModel):
    """Settings of a reward model's network: dense layers, a GRU, and a score."""

    hiddens: tuple[PositiveInt, ...] = (64,)
    """Widths of the dense layers before the GRU."""
    core_width: PositiveInt = 64
    """Width of the GRU."""


class RewardModelSettings(AlgorithmConfig):
    """Settings shared by algorithms whose policy includes a reward model."""

    model: WholeEpisodesModelConfig = WholeEpisodesModelConfig()
    """Network architecture of policy and value."""
    reward_model: RewardNetworkConfig = RewardNetworkConfig()
    """Network of the reward model."""

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        return path.startswith("reward_model") or super().shapes_parameters(path)


@defaults(lr=1e-3, minibatch_size=64, sgd_steps_per_iteration=100)
@fixed("preferences depend on an episode's undiscounted return", gamma=1.0, reward_scale=1.0, clip_rewards=None)
@fixed("a reward model uses unnormalized observations", normalize_observations=False)
class RewardModelConfig(RewardModelSettings, OfflineConfig):
    """Settings of a reward model that learns from preferences."""

    seq_len: PositiveInt = 64
    """Maximum length of an episode in steps; the reward model reads whole episodes."""
    pairs: PositiveInt = 1000
    """Number of pairs of episodes to learn from, drawn once. If there are too few episodes, each is in several
    pairs."""
    held_out_pairs: NonNegativeInt = 500
    """Number of additional pairs, on which `held_out_accuracy` is measured."""
    temperature: PositiveFloat = 0.1
    """Difference of two returns at which the better episode is preferred with odds of e to 1. Scores of the model have
    the scale of returns."""

    @property
    @override
    def learns_values(self) -> bool:
        return False


@defaults(gamma=1.0)
@fixed("rlhf's rewards come from its reward model", normalize_rewards=False, reward_scale=1.0, clip_rewards=None)
@fixed("rlhf learns only from its reward model", curiosity=None, constraint=None)
@fixed("a reward model uses unnormalized observations", normalize_observations=False)
class RLHFConfig(RewardModelSettings, PPOConfig):
    """Settings of PPO on a reward model's scores: the settings of PPO, and the KL penalty to the reference policy."""

    reference_kl_coeff: NonNegativeFloat = 0.05
    """Weight of the penalty log pi(a|s) - log pi_reference(a|s) at each step; 0 for none."""
    seq_len: PositiveInt = 64
    """Maximum length of an episode in steps: a batch has whole episodes, and a recurrent network learns from each as
    one sequence. Batches and minibatches count the empty steps after an episode's end too."""


@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
@fixed(
    "preferences depend on an episode's undiscounted return",
    gamma=1.0,
    normalize_rewards=False,
    reward_scale=1.0,
    clip_rewards=None,
)
@fixed("the reference policy uses unnormalized observations", normalize_observations=False)
@fixed(WHOLE_EPISODES, microbatch_size=None, num_learners=0)
@defaults(lr=1e-3, num_envs_per_worker=16, num_epochs=2, minibatch_size=1024)
class DPOConfig(RewardModelSettings, EpochsSettings, OnPolicyConfig):
    """Settings of online iterative DPO (Rafailov et al., arXiv:2305.18290)."""

    model: DPOModelConfig = DPOModelConfig()
    """Network architecture."""
    labels: Literal["returns", "reward_model"] = "returns"
    """Source of the preferences between two episodes: their returns, or the scores of a reward model that an earlier
    stage has trained."""
    beta: PositiveFloat = 0.1
    """Strength of the reference: temperature of the implicit reward beta log(pi / pi_reference)."""
    temperature: PositiveFloat = 0.1
    """Difference of two returns or scores at which the better episode is preferred with odds of e to 1."""
    seq_len: PositiveInt = 64
    """Maximum length of an episode in steps. Two episodes form one sequence; batches also count the empty steps after
    an episode's end."""

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        return path == "labels" or super().shapes_parameters(path)

    @model_validator(mode="after")
    def _whole_comparisons_in_a_minibatch(self) -> DPOConfig:
        if self.minibatch_size % (2 * self.seq_len):
            raise ValueError(
                f"minibatch_size ({self.minibatch_size}) must be a multiple of twice seq_len ({2 * self.seq_len}), "
                "because minibatches hold whole comparisons"
            )
        return self

    @property
    @override
    def learns_values(self) -> bool:
        return False
