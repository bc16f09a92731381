"""Settings of evolutionary algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.nn.model_config import ActorModelConfig
from rlrun.engine.settings.config import PositiveInt, fixed

if TYPE_CHECKING:
    from rlrun.algorithms.evolution.actor_policy import ActorPolicy
    from rlrun.engine.envs.spaces import Spaces


@fixed("only undiscounted returns of whole episodes are compared", gamma=1.0)
@fixed("returns of whole episodes are compared unscaled", normalize_rewards=False, reward_scale=1.0, clip_rewards=None)
@fixed("candidates play whole episodes, one after the other", rollout_fragment_length=None)
@fixed(
    "there is no loss to differentiate", max_grad_norm=None, microbatch_size=None, compile=False, precision="float32"
)
@fixed("updating the parameters takes almost no time, so the trial's process does it", num_learners=0)
@fixed("evolution strategies have no learner processes", num_gpus=0.0)
class EvolutionConfig(AlgorithmConfig):
    """Settings of algorithms that compare candidate parameters by the returns of complete episodes."""

    model: ActorModelConfig = ActorModelConfig()
    """Network architecture."""
    episodes_per_candidate: PositiveInt = 1
    """Number of episodes per candidate in a generation; a candidate's fitness is the mean return."""

    def actor(self, spaces: Spaces, seed: int, *, num_candidates: int) -> ActorPolicy:
        """Creates the policy: an actor, followed by additional parameter vectors for candidates.

        Args:
            spaces: Observation and action space.
            seed: Seed for the initial parameters.
            num_candidates: Number of candidate parameter vectors, which are initialized to 0.
        """
        from rlrun.algorithms.evolution.actor_policy import ActorPolicy

        return ActorPolicy(spaces, self, seed, num_candidates=num_candidates)
