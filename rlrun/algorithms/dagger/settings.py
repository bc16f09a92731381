"""Settings of DAgger, and names of the columns that DAgger and policy distillation add to rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.settings.off_policy import OffPolicyConfig
from rlrun.engine.nn.model_config import WHO_IS_RECURRENT, ModelConfig
from rlrun.engine.settings.config import Schedule, defaults, fixed

EXPERT_ACTIONS = "expert_actions"
"""Column of the expert's actions in the states that were visited, in the policy's units, [T, B, ...]."""

EXPERT_OUTPUTS = "expert_outputs"
"""Column of the parameters of the expert's action distributions in the states that were visited, [T, B, K]."""


@fixed(WHO_IS_RECURRENT, core=None, core_width=64, gtrxl={})
@fixed("the policy has no value network", shared_value=False)
@fixed("the policy has no critic", critic_sees=None)
class DAggerModelConfig(ModelConfig):
    """Network settings for a policy that imitates an expert."""


@defaults(
    lr=1e-3,
    num_envs_per_worker=4,
    rollout_fragment_length=250,
    training_intensity=1.0,
    learning_starts=0,
    min_env_steps_per_iteration=100,
)
@fixed(
    "the policy learns from the expert's actions, not from rewards",
    gamma=0.0,
    n_step=1,
    reward_scale=1.0,
    clip_rewards=None,
)
@fixed("dagger has no target network", target_update_interval=1, tau=1.0)
class DAggerConfig(OffPolicyConfig):
    """Settings of DAgger (Ross, Gordon and Bagnell, arXiv:1011.0686).

    In a round, each worker collects a fragment of `rollout_fragment_length` * `num_envs_per_worker` env steps. The
    learner then trains on `training_intensity` minibatches per collected step.
    """

    needed: ClassVar[Mapping[str, str]] = {"expert": "must name the expert that dagger imitates"}

    model: DAggerModelConfig = DAggerModelConfig()
    """Network architecture."""
    expert: str | None = None
    """The expert: `package.module:function` from an observation to an action, or a checkpoint's path; required for
    training. It is queried at every step."""
    beta: Schedule = ((0, 1.0), (1_000, 0.0))
    """Probability that the expert's action is taken instead of the learner's, at each step. A round uses the value at
    its first step throughout."""

    @model_validator(mode="after")
    def _all_labels_count_alike(self) -> DAggerConfig:
        if self.replay.sampling == "prioritized":
            raise ValueError("replay.sampling: dagger has no TD errors to prioritize by; leave it out")
        if self.replay.hindsight is not None:
            raise ValueError("replay.hindsight: the expert's labels apply only to the goal it observed; leave it out")
        return self

    @property
    @override
    def learns_values(self) -> bool:
        return False
