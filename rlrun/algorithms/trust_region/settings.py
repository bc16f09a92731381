"""Settings of TRPO: its networks, the natural gradient step, and the fit of the value network."""

from __future__ import annotations

from typing_extensions import override

from rlrun.algorithms.settings.on_policy import WHO_HAS_CONSTRAINTS, WHO_HAS_CURIOSITY, OnPolicyConfig
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.settings.config import Fraction, NonNegativeInt, PositiveFloat, PositiveInt, defaults, fixed

ONE_PROCESS = "a natural-gradient step must be computed from the whole batch in one process"
"""Error message for settings that divide a batch."""


@fixed("the value network has separate layers, which are fitted separately", shared_value=False, module=None)
class SeparateValueModelConfig(ModelConfig):
    """Network settings for a policy and a value function without shared layers."""


@defaults(lr=1e-3)
@fixed(ONE_PROCESS, num_learners=0, microbatch_size=None)
@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
class TRPOConfig(OnPolicyConfig):
    """Settings of TRPO; `lr` and `max_grad_norm` apply to the value network."""

    of_logged_actions = "mask"

    model: SeparateValueModelConfig = SeparateValueModelConfig()
    """Network architecture of the policy and of the values."""
    gae_lambda: Fraction = 0.95
    """Lambda of GAE, between one-step (0) and Monte Carlo (1) advantages (arXiv:1506.02438)."""
    max_kl: PositiveFloat = 0.01
    """Bound of a step's mean KL divergence from the old policy, the trust region's size (eq. 12's delta)."""
    cg_steps: PositiveInt = 15
    """Iterations of the conjugate gradient method."""
    damping: PositiveFloat = 0.1
    """Damping: multiple of the identity that is added to the Fisher matrix."""
    line_search_steps: NonNegativeInt = 10
    """Step lengths that the backtracking line search tries; if none succeeds, the policy is unchanged. 0 takes the full
    step without a line search."""
    shrink: Fraction = 0.8
    """Ratio of each step length of the line search to the one before it."""
    value_epochs: PositiveInt = 10
    """Epochs (passes over each batch) in which the values are fitted."""
    minibatch_size: PositiveInt = 128
    """Number of steps per minibatch in these epochs."""

    @property
    @override
    def sgd_steps_per_env_step(self) -> float:
        return self.value_epochs / self.minibatch_size
