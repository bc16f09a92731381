"""Log-probabilities of actions in the units of the env, for data sets and importance weights (NumPy).

A policy's own actions are scaled to [-1, 1], and its log-probabilities are those of its own actions. Rescaling changes
a density by the size of the range. Clipping collects probability at the bounds.
"""

from __future__ import annotations

import numpy as np

from rlrun.functional.normal_tails import log_normal_cdf
from rlrun.policy.action_spaces.action_space import Actions, Floats, StochasticActions
from rlrun.policy.action_spaces.gaussian_box import LOG_2PI, GaussianBoxActions
from rlrun.policy.action_spaces.product import ProductActions
from rlrun.policy.action_spaces.squashed_box import SquashedBoxActions
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.exploration.epsilon_greedy import EpsilonGreedy, SoftQ
from rlrun.policy.exploration.sampling import SampleActions, SampleInOrder, StateDependentNoise, UniformUntil


def behavior_log_probs(behavior: BehaviorPolicy, outputs: Floats, actions: Actions) -> Floats | None:
    """Log-probabilities of sampled actions in the env's units, [...]; None where the policy does not know them.

    Args:
        behavior: The behavior policy that sampled the actions.
        outputs: Network outputs, [..., K].
        actions: The policy's own actions, [..., *action_shape].
    """
    exploration = behavior.exploration
    if isinstance(exploration, UniformUntil):
        exploration = exploration.inner
    if isinstance(exploration, EpsilonGreedy | SoftQ):
        return exploration.log_prob(outputs, actions)
    if not isinstance(exploration, SampleActions | SampleInOrder | StateDependentNoise):
        return None
    return log_probs_in_env(exploration.actions, outputs, actions)


def log_probs_in_env(space: StochasticActions, outputs: Floats, actions: Actions) -> Floats:
    """Log-probabilities of `to_env(actions)` in the units of the env, [...].

    Args:
        space: Action space with the policy's distributions.
        outputs: Network outputs, [..., K].
        actions: The policy's own actions, [..., *action_shape].
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
    """Log-probabilities of rescaled and clipped Gaussian actions, [...].

    A coordinate that is clipped has the probability of all that is clipped to its bound, others have a density. So the
    ratio of two policies' probabilities is that of the actions that the env received.
    """
    scale, size = space.scale, space.size
    half = np.where(scale.half_range > 0, scale.half_range, np.float32(1))
    # In the type of `from_env`, so that a recorded action at a bound is at it in the policy's units, too.
    low, high = ((bound.astype(np.float32) - scale.middle) / half for bound in (scale.low, scale.high))
    means, precisions = outputs[..., :size], np.exp(-outputs[..., size:])
    noise = (actions - means) * precisions
    parts = -0.5 * (noise * noise + LOG_2PI) + np.log(precisions / half)
    for clipped, tails in ((actions <= low, low - means), (actions >= high, means - high)):
        parts[clipped] = log_normal_cdf((tails * precisions)[clipped])
    result: Floats = np.where(scale.low < scale.high, parts, 0.0).sum(-1, dtype=np.float32)
    return result
