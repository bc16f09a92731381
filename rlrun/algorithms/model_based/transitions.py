"""Inputs and targets of an ensemble for transitions of an env."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.model_based.dynamics_config import DynamicsConfig
from rlrun.envs.spaces import Spaces
from rlrun.errors import TrainingFailed, UsageError
from rlrun.policy.action_spaces.discrete import DiscreteActions
from rlrun.policy.action_spaces.gaussian_box import GaussianBoxActions
from rlrun.policy.action_spaces.squashed_box import SquashedBoxActions
from rlrun.registry import load_object

Floats = NDArray[np.float32]
AgentActions = DiscreteActions | GaussianBoxActions | SquashedBoxActions
"""Actions of an agent that may learn in a model."""

Rule = Callable[[NDArray[Any], Any, NDArray[Any]], Any]
"""From observations [N, D], actions [N, ...] and next observations [N, D], as the env has them, to [N]."""


@dataclass(frozen=True)
class TransitionForm:
    """Inputs and targets of an ensemble for transitions.

    Attributes:
        num_observed: D, size of an observation.
        choices: The discrete actions; None for continuous actions.
        action_size: Size of an action as input.
        terminated: Termination rule; None if ends are predicted.
        reward: Reward function; None if rewards are predicted.
    """

    num_observed: int
    choices: range | None
    action_size: int
    terminated: Rule | None
    reward: Rule | None

    @property
    def num_inputs(self) -> int:
        """I, numbers of an observation and an action."""
        return self.num_observed + self.action_size

    @property
    def num_targets(self) -> int:
        """K, size of the targets: the change of the observation, followed by the reward if it is predicted."""
        return self.num_observed + (self.reward is None)

    def inputs(self, obs: NDArray[Any], actions: NDArray[Any]) -> Floats:
        """Returns observations [N, D] and the env's own actions [N, ...], concatenated, [N, I]."""
        entered = actions.reshape(len(obs), -1)
        if self.choices is not None:
            entered = entered == np.array(self.choices)
        return np.concatenate([obs, entered], axis=-1, dtype=np.float32, casting="unsafe")

    def targets(self, obs: NDArray[Any], next_obs: NDArray[Any], rewards: NDArray[Any]) -> Floats:
        """Returns changes of observations [N, D], followed by rewards [N] if they are predicted, [N, K]."""
        parts = [next_obs - obs] if self.reward is not None else [next_obs - obs, rewards[:, None]]
        return np.concatenate(parts, axis=-1, dtype=np.float32, casting="unsafe")


def transition_form(spaces: Spaces, config: DynamicsConfig) -> TransitionForm:
    """Returns the inputs and targets of an ensemble in an env.

    Raises:
        UsageError: Observations are no vectors, actions are neither Box nor Discrete, or a rule is not found.
    """
    seen, taken = spaces.observation, spaces.action
    if not (isinstance(seen, gymnasium.spaces.Box) and len(seen.shape) == 1):
        raise UsageError(f"learned dynamics predict observations that are vectors, a Box with one axis, not {seen}")
    if not isinstance(taken, gymnasium.spaces.Box | gymnasium.spaces.Discrete):
        raise UsageError(f"learned dynamics are of actions in a Box or in Discrete, not in {taken}")
    is_choice = isinstance(taken, gymnasium.spaces.Discrete)
    choices = range(int(taken.start), int(taken.start + taken.n)) if is_choice else None
    return TransitionForm(
        num_observed=seen.shape[0],
        choices=choices,
        action_size=math.prod(taken.shape) if choices is None else len(choices),
        terminated=_rule(config.terminated, "rule of terminated"),
        reward=_rule(config.reward, "rule of reward"),
    )


def _rule(name: str | None, what: str) -> Rule | None:
    """Returns a user's rule, or for a plain name one of `model_based.rules`, which runs no code from elsewhere."""
    if name is None:
        return None
    found: Rule = load_object(name if ":" in name else f"rlrun.algorithms.model_based.rules:{name}", what)
    return found


def by_rule(name: str, rule: Rule, obs: NDArray[Any], actions: Any, next_obs: NDArray[Any]) -> NDArray[Any]:
    """Evaluates a user's rule on transitions, [N].

    Raises:
        TrainingFailed: It returned another shape.
    """
    found = np.asarray(rule(obs, actions, next_obs))
    if found.shape != (len(obs),):
        raise TrainingFailed(
            f"dynamics.{name} must return one value for each transition, ({len(obs)},), not {found.shape}"
        )
    return found
