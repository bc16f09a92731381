"""Acting in linear bandits: each arm's expected reward and uncertainty, and exploration based on them (NumPy)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.nn.acting import Floats, Heads
from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions
from rlrun.engine.policy.exploration.exploration import Exploration, RunNetwork
from rlrun.engine.policy.exploration.exploration import Heads as AnyHeads
from rlrun.engine.policy.weights import Weights
from rlrun.engine.settings.schedules import value_at

SPREADS = "spreads"
"""Name of the head S^T x, [B, A, D]; the squared norm is an arm's predictive variance x^T A^-1 x."""


class LinearArms:
    """Network for action selection in a linear bandit: outputs x^T theta (mean reward) and S^T x for each arm.

    Here x is the feature vector, theta the coefficient vector, and S S^T the inverse Gram matrix, so S^T x gives the
    uncertainty of the mean; see `RidgeRegressions`.

    With one shared regression, observations are features of each arm, [A, D]. With a regression per arm, they are a
    context [D], or a one-hot encoded Discrete context.

    Args:
        regressions: Number of regressions M: one per arm, or 1 if shared.
        features: Number of features, D.
        is_one_hot: Whether contexts are Discrete.
        start: Smallest value of a Discrete context.
    """

    state_size = 0

    def __init__(self, regressions: int, features: int, *, is_one_hot: bool = False, start: int = 0) -> None:
        self.regressions = regressions
        self.features = features
        self.is_one_hot = is_one_hot
        self.start = start
        self._coefficients: Floats = np.zeros((regressions, features), np.float32)
        self._roots: Floats = np.zeros((regressions, features, features), np.float32)

    def load(self, flat: Floats) -> None:
        """Loads the flat parameters of M regressions on D features: coefficients and roots, [M D + M D D]."""
        size = self._coefficients.size
        self._coefficients = flat[:size].reshape(self._coefficients.shape)
        self._roots = flat[size:].reshape(self._roots.shape)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Computes the heads `outputs` [B, A], expected rewards, and `spreads` [B, A, D], S^T x."""
        contexts = self.contexts(inputs["obs"])
        if contexts.ndim == 3:
            return {"outputs": contexts @ self._coefficients[0], SPREADS: contexts @ self._roots[0]}, None
        spreads = np.matmul(contexts, self._roots).transpose(1, 0, 2)
        return {"outputs": contexts @ self._coefficients.T, SPREADS: spreads}, None

    def contexts(self, observations: NDArray[Any]) -> Floats:
        """Encodes N observations as D features, [N, D], or as D features of each of A arms, [N, A, D]."""
        if self.is_one_hot:
            one_hot: Floats = np.eye(self.features, dtype=np.float32)[observations - self.start]
            return one_hot
        return observations.astype(np.float32, copy=False)


class ArmExploration(Exploration):
    """Exploration that pulls the arm with the largest expected reward plus bonus.

    Args:
        schedule: Name of the scheduled setting for the weight of the bonus.

    Attributes:
        weight: Current weight of the bonus.
    """

    def __init__(self, schedule: str) -> None:
        self.schedule = schedule
        self.schedules = (schedule,)
        self.weight = np.float32(0.0)

    @override
    def load(self, weights: Weights) -> None:
        self.weight = np.float32(value_at(weights.schedules[self.schedule], weights.env_steps))

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Selects the arm to pull in each of B parallel envs during training."""
        return self.chosen(run(), noise)

    @override
    def sample(self, heads: AnyHeads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Selects the arm to pull in each of B parallel envs outside of training, with newly sampled noise."""
        return self.chosen(heads, self.noise(generator, 1, len(heads["outputs"]))[0])

    def chosen(self, heads: AnyHeads, noise: Floats) -> Actions:
        """Arm with the largest sum of expected reward and weighted bonus, [envs]."""
        result: Actions = (heads["outputs"] + self.weight * self.added(heads[SPREADS], noise)).argmax(-1)
        return result

    @abstractmethod
    def added(self, spreads: Floats, noise: Floats) -> Floats:
        """Unweighted exploration bonus of each arm, [B, A].

        Args:
            spreads: S^T x of each arm with features x, where S S^T is the inverse Gram matrix, [B, A, D]; the
                norm of S^T x is the confidence width sqrt(x^T A^-1 x).
            noise: Noise of the step, [B, ...].
        """


class UpperConfidenceBound(ArmExploration):
    """Upper confidence bound (LinUCB): the bonus is alpha sqrt(x^T A^-1 x).

    Source:
        Li et al., arXiv:1003.0146, algorithm 1.
    """

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        return np.empty((length, slots, 0), np.float32)

    @override
    def added(self, spreads: Floats, noise: Floats) -> Floats:
        """Widths of the confidence intervals, sqrt(x^T A^-1 x), [envs, num_arms]."""
        widths: Floats = np.sqrt((spreads * spreads).sum(-1))
        return widths


class PosteriorSampling(ArmExploration):
    """Thompson sampling: expected rewards under coefficients sampled from the posterior N(theta, v^2 A^-1).

    The coefficients are theta + v S z with standard normal z, sampled for each regression at each step.

    Args:
        schedule: Name of the scheduled setting for v.
        regressions: Number of regressions, M.
        features: Number of features, D.

    Source:
        Agrawal and Goyal, arXiv:1209.3352, algorithm 1.
    """

    def __init__(self, schedule: str, regressions: int, features: int) -> None:
        super().__init__(schedule)
        self.shape = regressions, features

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Samples standard normal noise z for each regression, [steps, envs, num_regressions * num_features]."""
        return generator.standard_normal((length, slots, self.shape[0] * self.shape[1]), np.float32)

    @override
    def added(self, spreads: Floats, noise: Floats) -> Floats:
        """Posterior perturbation x^T S z of each arm's expected reward, [envs, num_arms]."""
        drawn: Floats = (spreads * noise.reshape(-1, *self.shape)).sum(-1)
        return drawn
