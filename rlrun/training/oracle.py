"""Exact values of a finite env, and how far what was learned is from them.

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

from rlrun.data.sample_batch import SampleBatch
from rlrun.envs.env_config import EnvConfig
from rlrun.envs.env_model import finite_mdp
from rlrun.errors import UsageError
from rlrun.functional.finite_mdp import Doubles, FiniteMDP, greedy

if TYPE_CHECKING:
    from rlrun.training.training import Training


@dataclass(frozen=True)
class ExactValues:
    """What is best in an env whose model is known.

    Attributes:
        mdp: The model.
        gamma: Discount.
        q: Values of all actions under the best policy, [S, A].
        counts: Which states count: those in which an episode can be, [S].
    """

    mdp: FiniteMDP
    gamma: float
    q: Doubles
    counts: NDArray[np.bool_]

    @property
    def values(self) -> Doubles:
        """Values of all states, [S]."""
        best: Doubles = self.q.max(-1)
        return best

    @property
    def at_start(self) -> float:
        """Mean value where episodes begin."""
        return self.mdp.at_start(self.values)


@dataclass(frozen=True)
class LearnedValues:
    """What a policy has learned of a finite env, beside what is exact.

    Attributes:
        exact: What is best.
        actions: The likeliest action in each state, [S].
        q: Values of all actions that it estimates, [S, A]; None if it estimates those of states alone.
        values: Values of states that it estimates, [S].
    """

    exact: ExactValues
    actions: NDArray[np.int64]
    q: Doubles | None
    values: Doubles

    @cached_property
    def policy_at_start(self) -> float:
        """Mean exact value of the policy of likeliest actions where episodes begin."""
        policy = greedy(np.eye(self.exact.q.shape[1])[self.actions])
        q = self.exact.mdp.q_of(policy, self.exact.gamma)
        return self.exact.mdp.at_start((policy * q).sum(-1))

    @property
    def value_gap(self) -> float:
        """Mean distance of estimates from the best policy's values, of actions or else of states."""
        exact, counts = self.exact, self.exact.counts
        if self.q is not None:
            return float(np.abs(self.q - exact.q)[counts].mean())
        return float(np.abs(self.values - exact.values)[counts].mean())

    @property
    def policy_gap(self) -> float:
        """By how much the best policy is better than that of likeliest actions, where episodes begin."""
        return self.exact.at_start - self.policy_at_start


def exact_values(env: EnvConfig, gamma: float) -> ExactValues:
    """Returns the best policy's values in an env.

    Raises:
        UsageError: It does not tell its model, or has none that is finite.
    """
    if env.has_many_agents:
        raise UsageError(f"env {env.id}: no exact values of a world of many agents")
    return _exact_values(json.dumps(env.to_data(), sort_keys=True, default=str), gamma)


@lru_cache(maxsize=4)
def _exact_values(env: str, gamma: float) -> ExactValues:
    mdp = finite_mdp(EnvConfig.parse(json.loads(env)))
    try:
        q = mdp.optimal_q(gamma)
    except ValueError as error:
        raise UsageError(f"{error}: set gamma below 1, or max_episode_steps of the env") from error
    return ExactValues(mdp, gamma, q, mdp.reachable())


def learned_values(training: Training) -> LearnedValues:
    """Returns what a training has learned so far of its env's values.

    Raises:
        UsageError: The env has no exact values, or the algorithm estimates none that they could be compared with.
    """
    algorithm, trainee = training.description.algorithm, training.running.trainee
    policy, name, config = trainee.policy, algorithm.name(), algorithm.config
    exact = exact_values(training.description.env, config.gamma)
    if policy.estimates is None:
        raise UsageError(f"{name} estimates no values that exact ones could be compared with")
    if config.normalize_rewards or config.clip_rewards is not None:
        raise UsageError(f"{name} estimates values of scaled or clipped rewards, which exact ones are not of")
    behavior = policy.behavior()
    if behavior.network.state_size or behavior.views is not None:
        raise UsageError(f"{name} goes by more than the state that it is in: exact values are of states")
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
    """Returns the values of an actor-critic's outputs, [S, L]; see `Learner.evaluate`."""
    return outputs.values
