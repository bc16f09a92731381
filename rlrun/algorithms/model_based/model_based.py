"""Base class of algorithms that learn a dynamics ensemble, and train a model-free algorithm's policy with it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.learner.objective import Objective

if TYPE_CHECKING:
    from rlrun.algorithms.model_based.policy import ModelBasedPolicy
    from rlrun.algorithms.model_based.settings import DynamicsConfig
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.policy.policy import Policy

C = TypeVar("C", bound=AlgorithmConfig)


class ModelBased(Algorithm[C]):
    """Base class of model-based algorithms: a model-free algorithm's policy and losses, and a dynamics ensemble."""

    learns_in_worlds = False

    @property
    @abstractmethod
    def model_free(self) -> Algorithm[Any]:
        """The model-free algorithm, with this algorithm's settings, whose policy learns from imagined experience."""

    @property
    @abstractmethod
    def dynamics(self) -> DynamicsConfig:
        """Settings of the ensemble of dynamics models."""

    @override
    def policy(self, spaces: Spaces, seed: int) -> ModelBasedPolicy:
        """Creates the model-free algorithm's policy with a dynamics ensemble.

        Raises:
            UsageError: The ensemble does not support the env's spaces, or a termination or reward rule is not found.
        """
        from rlrun.algorithms.model_based.policy import model_based

        agent: Any = self.model_free.policy(spaces, seed)
        return model_based(agent, agent.action_space, spaces, self.dynamics, seed)

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives of the model-free algorithm, and the ensemble's loss; each is trained on separate minibatches."""
        from rlrun.algorithms.model_based.policy import with_dynamics_objective

        return with_dynamics_objective(self.model_free.objectives(policy))
