"""Certificate of a task: the exact probabilities that the best policy and a learned policy satisfy it.

Source:
    Hasanbeig, Kroening, Abate, "LCRL: certified policy synthesis via logically-constrained reinforcement learning",
    arXiv:2209.10341.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlrun.engine.messages.errors import UsageError
from rlrun.exact.task_model import task_model

if TYPE_CHECKING:
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.training.training import Training


@dataclass(frozen=True)
class Certificate:
    """Exact probabilities that a task is satisfied within an episode, computed by dynamic programming.

    Attributes:
        best: Probability under the best policy.
        learned: Probability under the learned policy's greedy actions; None without a learned policy.
    """

    best: float
    learned: float | None


def certificate(env: EnvConfig, training: Training | None = None) -> Certificate:
    """Computes the exact probability that the task of an env is satisfied.

    Args:
        env: The env, whose task is given by an automaton.
        training: The training whose policy is evaluated; None for the best policy only.

    Raises:
        UsageError: The env has no known finite model, or the policy depends on more than the state.
    """
    model = task_model(env)
    if training is None:
        return Certificate(model.satisfaction(), None)
    trainee = training.running.trainee
    behavior = trainee.policy.behavior()
    if behavior.memory.is_used:
        raise UsageError(f"{training.description.algorithm.name()} goes by more than the state that it is in")
    behavior.load(trainee.weights())
    chosen = behavior.chosen(model.observations(), None)
    return Certificate(model.satisfaction(), model.satisfaction(chosen))
