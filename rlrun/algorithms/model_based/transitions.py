"""Encoding of env transitions as inputs and targets of a dynamics ensemble."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.model_based.settings import DynamicsConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import TrainingFailed, UsageError
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.action_spaces.squashed_box import SquashedBoxActions
from rlrun.engine.settings.registry import load_internal, load_object

RULES = "rlrun.algorithms.model_based.rules"
"""Module of the built-in rules."""

Floats = NDArray[np.float32]
AgentActions = DiscreteActions | GaussianBoxActions | SquashedBoxActions
"""Action spaces supported by model-based policies."""

Rule = Callable[[NDArray[Any], Any, NDArray[Any]], Any]
"""Termination rule or reward function: maps obs [N, D], env actions [N, ...] and next obs [N, D] to [N]."""


@dataclass(frozen=True)
class TransitionForm:
    """Encoding of transitions as inputs and targets of a dynamics ensemble.

    Attributes:
        num_observed: Size of an observation, D.
        choices: The values of a Discrete action, as a range; None for continuous actions.
        action_size: Size of an action as input.
        terminated: Termination rule; None if termination is predicted.
        reward: Reward function; None if rewards are predicted.
    """

    num_observed: int
    choices: range | None
    action_size: int
    terminated: Rule | None
    reward: Rule | None

    @property
    def num_inputs(self) -> int:
        """Size I of the ensemble's input: an observation and an action, concatenated."""
        return self.num_observed + self.action_size

    @property
    def num_targets(self) -> int:
        """Size K of a target: change of the observation, followed by the reward if it is predicted."""
        return self.num_observed + (self.reward is None)

    def inputs(self, obs: NDArray[Any], actions: NDArray[Any]) -> Floats:
        """Inputs [N, I]: observations [N, D] and env actions [N, ...], concatenated."""
        entered = actions.reshape(len(obs), -1)
        if self.choices is not None:
            entered = entered == np.array(self.choices)
        return np.concatenate([obs, entered], axis=-1, dtype=np.float32, casting="unsafe")

    def targets(self, obs: NDArray[Any], next_obs: NDArray[Any], rewards: NDArray[Any]) -> Floats:
        """Targets [N, K]: changes of observations [N, D], followed by rewards [N] if they are predicted."""
        parts = [next_obs - obs] if self.reward is not None else [next_obs - obs, rewards[:, None]]
        return np.concatenate(parts, axis=-1, dtype=np.float32, casting="unsafe")


def transition_form(spaces: Spaces, config: DynamicsConfig) -> TransitionForm:
    """Creates the transition encoding of an env.

    Raises:
        UsageError: Observations are not vectors, actions are neither Box nor Discrete, or a rule does not exist.
    """
    seen, taken = spaces.observation, spaces.action
    if not (isinstance(seen, gymnasium.spaces.Box) and len(seen.shape) == 1):
        raise UsageError(f"learned dynamics need vector observations (a Box with one axis), not {seen}")
    if not isinstance(taken, gymnasium.spaces.Box | gymnasium.spaces.Discrete):
        raise UsageError(f"learned dynamics need a Box or Discrete action space, but this env has {taken}")
    is_choice = isinstance(taken, gymnasium.spaces.Discrete)
    choices = range(int(taken.start), int(taken.start + taken.n)) if is_choice else None
    return TransitionForm(
        num_observed=seen.shape[0],
        choices=choices,
        action_size=math.prod(taken.shape) if choices is None else len(choices),
        terminated=_rule(config.terminated, "function for dynamics.terminated"),
        reward=_rule(config.reward, "function for dynamics.reward"),
    )


def _rule(name: str | None, what: str) -> Rule | None:
    """Resolves a rule: a plain name in `model_based.rules`, else an import path of the user's function."""
    if name is None:
        return None
    found: Rule = load_object(name, what) if ":" in name else load_internal(f"{RULES}:{name}", what)
    return found


def by_rule(name: str, rule: Rule, obs: NDArray[Any], actions: Any, next_obs: NDArray[Any]) -> NDArray[Any]:
    """Evaluates a termination rule or reward function on transitions, [N].

    Raises:
        TrainingFailed: The rule returned an array of the wrong shape.
    """
    found = np.asarray(rule(obs, actions, next_obs))
    if found.shape != (len(obs),):
        raise TrainingFailed(
            f"dynamics.{name} must return one value per transition, shape ({len(obs)},), but it returned shape "
            f"{found.shape}"
        )
    return found
