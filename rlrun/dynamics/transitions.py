"""How transitions enter an ensemble, and which envs they may be of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.dynamics.config import DynamicsConfig
from rlrun.envs.spaces import Spaces
from rlrun.errors import TrainingFailed, UsageError
from rlrun.registry import load_object

Floats = NDArray[np.float32]
Rule = Callable[[NDArray[Any], Any, NDArray[Any]], Any]
"""From observations [N, D], actions [N, ...] and next observations [N, D], as the env has them, to [N]."""


@dataclass(frozen=True)
class TransitionForm:
    """What an ensemble gets and predicts of transitions.

    Attributes:
        num_observed: D, numbers of an observation.
        num_actions: Of how many choices an action is one; None for continuous actions.
        action_size: Numbers of an action as it enters.
        terminated: Which transitions end an episode; None if that is predicted.
        reward: What they are worth; None if that is predicted.
    """

    num_observed: int
    num_actions: int | None
    action_size: int
    terminated: Rule | None
    reward: Rule | None

    @property
    def num_inputs(self) -> int:
        """I, numbers of an observation and an action."""
        return self.num_observed + self.action_size

    @property
    def num_targets(self) -> int:
        """K, numbers that are predicted with a variance: changes of the observation, and the reward behind them."""
        return self.num_observed + (self.reward is None)

    def inputs(self, obs: NDArray[Any], actions: NDArray[Any]) -> Floats:
        """Returns observations [..., D] and a policy's own actions [..., (A)] side by side, [..., I]."""
        if self.num_actions is not None:
            actions = actions[..., None] == np.arange(self.num_actions)
        return np.concatenate([obs, actions], axis=-1, dtype=np.float32, casting="unsafe")

    def targets(self, obs: NDArray[Any], next_obs: NDArray[Any], rewards: NDArray[Any]) -> Floats:
        """Returns how observations [..., D] changed, and rewards [...] behind if they are predicted, [..., K]."""
        parts = [next_obs - obs] if self.reward is not None else [next_obs - obs, rewards[..., None]]
        return np.concatenate(parts, axis=-1, dtype=np.float32, casting="unsafe")


def transition_form(spaces: Spaces, config: DynamicsConfig) -> TransitionForm:
    """Returns what an ensemble gets and predicts in an env.

    Raises:
        UsageError: Observations are no vectors, actions are neither Box nor Discrete, or a rule is not found.
    """
    seen, taken = spaces.observation, spaces.action
    if not (isinstance(seen, gymnasium.spaces.Box) and len(seen.shape) == 1):
        raise UsageError(f"learned dynamics predict observations that are vectors, a Box with one axis, not {seen}")
    if not isinstance(taken, gymnasium.spaces.Box | gymnasium.spaces.Discrete):
        raise UsageError(f"learned dynamics are of actions in a Box or in Discrete, not in {taken}")
    num_actions = int(taken.n) if isinstance(taken, gymnasium.spaces.Discrete) else None
    return TransitionForm(
        num_observed=seen.shape[0],
        num_actions=num_actions,
        action_size=math.prod(taken.shape) if num_actions is None else num_actions,
        terminated=None if config.terminated is None else load_object(config.terminated, "rule of terminated"),
        reward=None if config.reward is None else load_object(config.reward, "rule of reward"),
    )


def by_rule(name: str, rule: Rule, obs: NDArray[Any], actions: Any, next_obs: NDArray[Any]) -> NDArray[Any]:
    """Returns what a user's rule says of transitions, [N].

    Raises:
        TrainingFailed: It returned another shape.
    """
    found = np.asarray(rule(obs, actions, next_obs))
    if found.shape != (len(obs),):
        raise TrainingFailed(
            f"dynamics.{name} must return one value for each transition, ({len(obs)},), not {found.shape}"
        )
    return found
