"""Log-probabilities of actions in the env's units, for data sets and importance weights (NumPy).

A policy rescales actions to [-1, 1], and its log-probabilities are those of the rescaled actions. In the env's units,
densities are divided by half the width of each range, and clipping concentrates probability at the bounds.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from rlrun.engine.data.action_masks import FORBIDDEN
from rlrun.engine.functional.normal_tails import log_normal_cdf
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats, StochasticActions
from rlrun.engine.policy.action_spaces.box import LOG_2PI, BoxScale, DeterministicBoxActions, GaussianBoxActions
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.action_spaces.product import ProductActions
from rlrun.engine.policy.action_spaces.squashed_box import SquashedBoxActions
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.action_noise import ActionNoise
from rlrun.engine.policy.exploration.epsilon_greedy import EpsilonGreedy, SoftQ
from rlrun.engine.policy.exploration.exploration import Exploration
from rlrun.engine.policy.exploration.sampling import SampleActions, SampleInOrder
from rlrun.engine.policy.exploration.state_dependent_noise import StateDependentNoise
from rlrun.engine.policy.exploration.uniform_until import UniformUntil
from rlrun.engine.policy.fragment_collector import LogProbs

BoundedActions = DeterministicBoxActions | GaussianBoxActions | SquashedBoxActions
"""Continuous action spaces in which uniformly random actions are drawn between the bounds."""

KNOWN_EXPLORATIONS = (ActionNoise, EpsilonGreedy, SampleActions, SampleInOrder, SoftQ, StateDependentNoise)
"""Exploration strategies whose action probabilities are known."""


def behavior_log_probs(behavior: BehaviorPolicy, outputs: Floats, actions: Actions) -> Floats | None:
    """Returns the log-probabilities of sampled actions in the env's units, one per action; None if unknown.

    Args:
        behavior: The policy that sampled the actions.
        outputs: Network outputs from which the actions were sampled, [..., K].
        actions: The sampled actions in the policy's own representation, [..., *action_shape].
    """
    exploration = behavior.exploration
    log_probs = _explored_log_probs(exploration.inner if isinstance(exploration, UniformUntil) else exploration)
    return None if log_probs is None else log_probs(outputs, actions)


def taken_log_probs(behavior: BehaviorPolicy) -> LogProbs | None:
    """Returns a function that computes the log-probabilities of a policy's actions in the env's units; None if unknown.

    They are unknown, for example, with parameter noise, with noise that is correlated over steps, and with a custom
    exploration strategy.
    """
    exploration, collector = behavior.exploration, behavior.collector
    if collector.parameter_noise is not None or (collector.recording and collector.recording.replaces_actions):
        return None
    if not isinstance(exploration, UniformUntil):
        return _explored_log_probs(exploration)
    later, space, until = _explored_log_probs(exploration.inner), behavior.action_space, exploration
    if later is None or not isinstance(space, DiscreteActions | BoundedActions):
        return None
    return lambda outputs, actions: _uniform(space, outputs) if until.is_uniform else later(outputs, actions)


def _explored_log_probs(exploration: Exploration) -> LogProbs | None:
    """Returns a function for an exploration strategy's log-probabilities after any uniform phase; None if unknown."""
    if type(exploration) not in KNOWN_EXPLORATIONS:  # subclasses may sample differently
        return None
    match exploration:
        case EpsilonGreedy() | SoftQ():
            return exploration.log_prob
        case ActionNoise(kind="gaussian"):
            return partial(_with_noise, exploration)
        case SampleActions() | SampleInOrder() | StateDependentNoise():
            return partial(log_probs_in_env, exploration.actions)
    return None


def _uniform(space: DiscreteActions | BoundedActions, outputs: Floats) -> Floats:
    """Returns log-probabilities [B] of uniform actions in a Box, or among actions that masked outputs [B, A] allow."""
    if isinstance(space, DiscreteActions):
        allowed: Floats = (outputs > FORBIDDEN).sum(-1).clip(min=1).astype(np.float32)
        return -np.log(allowed)
    half = space.scale.half_range
    return np.full(len(outputs), -np.log(2 * half[half > 0]).sum(), np.float32)


def _with_noise(exploration: ActionNoise, outputs: Floats, actions: Actions) -> Floats:
    """Returns log-probabilities [B] of deterministic actions with Gaussian noise, clipped to [-1, 1].

    Without noise, actions have probability 1.
    """
    space = exploration.actions
    if not exploration.std:
        return np.zeros(len(actions), np.float32)
    bounds = np.ones(space.size, np.float32)
    log_stds = np.full(space.size, np.log(exploration.std), np.float32)
    return _of_clipped_normal(space.scale, actions, space.mode(outputs), log_stds, (-bounds, bounds))


def log_probs_in_env(space: StochasticActions, outputs: Floats, actions: Actions) -> Floats:
    """Returns the log-probabilities, in the env's units, of the env actions that a policy's rescaled actions represent.

    Args:
        space: The policy's action space, which defines its action distribution.
        outputs: Network outputs, [..., K].
        actions: Actions in the policy's own representation, [..., *action_shape].
    """
    if isinstance(space, ProductActions):
        parts = [log_probs_in_env(part.actions, part.own_outputs(outputs), part.own(actions)) for part in space.parts]
        result: Floats = np.sum(parts, axis=0, dtype=np.float32)
        return result
    if isinstance(space, GaussianBoxActions):
        return _clipped(space, outputs, actions)
    log_probs = space.log_prob(outputs, actions)
    if isinstance(space, SquashedBoxActions):
        half = space.scale.half_range
        log_probs = log_probs - np.log(half[half > 0]).sum(dtype=np.float32)
    return log_probs


def _clipped(space: GaussianBoxActions, outputs: Floats, actions: Actions) -> Floats:
    """Returns log-probabilities of rescaled and clipped Gaussian actions, [...].

    A coordinate at a bound has the probability mass of all values clipped to this bound; other coordinates have a
    density. The ratio of two policies' probabilities thus refers to the actions that the env received.
    """
    scale, size = space.scale, space.size
    half = np.where(scale.half_range > 0, scale.half_range, np.float32(1))
    # Same dtype as in `from_env`, so that a recorded action at a bound is also at the bound in the policy's units.
    low, high = ((bound.astype(np.float32) - scale.middle) / half for bound in (scale.low, scale.high))
    return _of_clipped_normal(scale, actions, outputs[..., :size], outputs[..., size:], (low, high))


def _of_clipped_normal(
    scale: BoxScale, actions: Actions, means: Floats, log_stds: Floats, bounds: tuple[Floats, Floats]
) -> Floats:
    """Returns log-probabilities, in the env's units, of normal actions [..., D] that are clipped to bounds, [...].

    Args:
        scale: Rescaling of the policy's own actions.
        actions: The policy's own actions, [..., D].
        means: Means before clipping, [..., D].
        log_stds: Log standard deviations before clipping, [..., D] or [D].
        bounds: Bounds of the policy's own actions, [D] each.
    """
    low, high = bounds
    half = np.where(scale.half_range > 0, scale.half_range, np.float32(1))
    precisions = np.exp(-log_stds)
    noise = (actions - means) * precisions
    parts = -0.5 * (noise * noise + LOG_2PI) + np.log(precisions / half)
    for clipped, tails in ((actions <= low, low - means), (actions >= high, means - high)):
        parts[clipped] = log_normal_cdf((tails * precisions)[clipped])
    result: Floats = np.where(scale.low < scale.high, parts, 0.0).sum(-1, dtype=np.float32)
    return result
