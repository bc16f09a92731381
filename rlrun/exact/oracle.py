"""Optimal values of finite MDPs by dynamic programming, and errors of learned values and policies.

Source:
    Kitamura and Yonetani, "ShinRL: A library for evaluating RL algorithms from theoretical and practical
    perspectives", arXiv:2112.04123.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_model import finite_mdp
from rlrun.engine.functional.finite_mdp import FiniteMDP, greedy
from rlrun.engine.functional.returns import Doubles
from rlrun.engine.messages.errors import UsageError

if TYPE_CHECKING:
    from rlrun.engine.training.training import Training


@dataclass(frozen=True)
class ExactValues:
    """Optimal action values of a finite MDP with S states, A actions, and known transitions and rewards.

    Attributes:
        mdp: Transition probabilities and rewards.
        gamma: Discount factor.
        q: Optimal action values, [S, A].
        counts: Mask [S] of the reachable states, over which gaps are averaged.
    """

    mdp: FiniteMDP
    gamma: float
    q: Doubles
    counts: NDArray[np.bool_]

    @property
    def values(self) -> Doubles:
        """Optimal value of each of the S states, [S]."""
        best: Doubles = self.q.max(-1)
        return best

    @property
    def at_start(self) -> float:
        """Mean optimal value of the initial states."""
        return self.mdp.at_start(self.values)


@dataclass(frozen=True)
class LearnedValues:
    """Learned values and greedy policy in a finite MDP with S states and A actions, to compare with the optimal ones.

    Attributes:
        exact: Optimal values of the MDP.
        actions: Greedy action in each state, [S].
        q: Estimated action values, [S, A]; None if only state values are estimated.
        values: Estimated state values, [S].
    """

    exact: ExactValues
    actions: NDArray[np.int64]
    q: Doubles | None
    values: Doubles

    @cached_property
    def policy_at_start(self) -> float:
        """Mean exact value of the greedy policy at the initial states."""
        policy = greedy(np.eye(self.exact.q.shape[1])[self.actions])
        q = self.exact.mdp.q_of(policy, self.exact.gamma)
        return self.exact.mdp.at_start((policy * q).sum(-1))

    @property
    def value_gap(self) -> float:
        """Mean absolute error of the estimated action values, or of the state values if only these are estimated.

        The mean is over the reachable states.
        """
        exact, counts = self.exact, self.exact.counts
        if self.q is not None:
            return float(np.abs(self.q - exact.q)[counts].mean())
        return float(np.abs(self.values - exact.values)[counts].mean())

    @property
    def policy_gap(self) -> float:
        """Optimal value minus the greedy policy's exact value, both averaged over the initial states."""
        return self.exact.at_start - self.policy_at_start


def exact_values(env: EnvConfig, gamma: float) -> ExactValues:
    """Computes the optimal values of an env from its tabular model (transition probabilities and rewards).

    Raises:
        UsageError: The env has no tabular model.
    """
    if env.has_many_agents:
        raise UsageError(f"env {env.id}: exact values cannot be computed for a multi-agent world")
    return _exact_values(json.dumps(env.to_data(), sort_keys=True, default=str), gamma)


@lru_cache(maxsize=4)
def _exact_values(env: str, gamma: float) -> ExactValues:
    mdp = finite_mdp(EnvConfig.parse(json.loads(env)))
    try:
        q = mdp.optimal_q(gamma)
    except ValueError as error:
        raise UsageError(f"{error}: set gamma below 1, or env.max_episode_steps") from error
    return ExactValues(mdp, gamma, q, mdp.reachable())


def learned_values(training: Training) -> LearnedValues:
    """Evaluates the current value function and greedy policy of a training run in all states of its env.

    Raises:
        UsageError: The env has no tabular model, or the algorithm estimates no values.
    """
    algorithm, trainee = training.description.algorithm, training.running.trainee
    policy, name, config = trainee.policy, algorithm.name(), algorithm.config
    exact = exact_values(training.description.env, config.gamma)
    if policy.estimates is None:
        raise UsageError(f"{name} does not estimate values that could be compared with exact ones")
    if config.normalize_rewards or config.reward_scale != 1 or config.clip_rewards is not None:
        raise UsageError(
            f"{name} estimates values of scaled or clipped rewards, which cannot be compared with exact values"
        )
    behavior = policy.behavior()
    if behavior.memory.is_used:
        raise UsageError(f"{name} uses more than the current state, so exact values of states do not apply")
    behavior.load(trainee.weights())
    space: Any = trainee.spaces.observation
    states = np.arange(len(exact.q), dtype=space.dtype) + space.start
    outputs = behavior.outputs(states)
    actions = outputs.argmax(-1)
    if policy.estimates == "state_values":
        rows = SampleBatch(obs=states[:, None])
        values = trainee.learner.evaluate(state_values, rows)[:, 0].astype(np.float64)
        return LearnedValues(exact, actions, None, values)
    q = outputs.astype(np.float64)
    return LearnedValues(exact, actions, q, q.max(-1))


def state_values(outputs: Any, batch: SampleBatch) -> Any:
    """Returns the state values in an actor-critic network's outputs; passed as a function to `Learner.evaluate`."""
    return outputs.values
