"""Settings that all algorithms of linear bandits share."""

from __future__ import annotations

from typing_extensions import override

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.settings.config import PositiveFloat, defaults, fixed


@defaults(num_envs_per_worker=1, min_env_steps_per_iteration=100)
@fixed("regressions are solved exactly, by no gradient", lr=1.0, max_grad_norm=None, microbatch_size=None)
@fixed("regressions are solved exactly, by no gradient", compile=False, precision="float32")
@fixed("a pull's reward is all that follows from it", gamma=0.0)
@fixed("what is expected of an arm is the reward as it is", normalize_rewards=False, clip_rewards=None)
@fixed("what was learned of a context holds for it as it is", normalize_observations=False)
@fixed("what is expected of an arm is linear in what is observed", model={})
@fixed("regressions are solved in the trial's process", num_learners=0, num_parameter_servers=0, num_gpus=0.0)
class LinearBanditConfig(AlgorithmConfig):
    """Settings of linear bandits.

    Each update uses `num_workers * num_envs_per_worker * rollout_fragment_length` pulls, 1 by default. With more pulls,
    the arms of one update are chosen without knowing each other's rewards.
    """

    ridge: PositiveFloat = 1.0
    """Ridge penalty: weight of the coefficients' squared norm; the initial Gram matrix is ridge times the identity."""

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        """Always False: no setting of a linear bandit determines the shapes of its parameters."""
        return False
