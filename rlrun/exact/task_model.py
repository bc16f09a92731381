"""Tabular model of a task: product of an env's finite MDP and the task's automaton.

Source:
    Hasanbeig, Kroening, Abate, "LCRL: certified policy synthesis via logically-constrained reinforcement learning",
    arXiv:2209.10341.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_model import MOST_NUMBERS, provided_model
from rlrun.engine.functional.finite_mdp import FiniteMDP
from rlrun.engine.messages.errors import UsageError
from rlrun.exact.task_automaton import AUTOMATON, SATISFIED, AutomatonConfig, Progress, labels_of

if TYPE_CHECKING:
    from rlrun.engine.training.training import Training


TASK = "rlrun.plugin:TaskAutomaton"
STATE_LABELS = "rlrun.plugin:StateLabels"
"""Import paths of the env wrappers that define the labels of states and the task."""

_FORM = f"wrappers: [{{id: {STATE_LABELS}, kwargs: {{labels: ...}}}}, {{id: {TASK}, kwargs: ...}}]"


def has_task(config: EnvConfig) -> bool:
    """Whether an env's config includes a task that is defined by an automaton."""
    return any(wrapper.id == TASK for wrapper in config.wrappers)


def with_satisfaction(config: EnvConfig) -> EnvConfig:
    """Extends the config of an env that has a task, so that the env records whether each episode satisfies the task."""
    if not has_task(config) or SATISFIED in config.columns:
        return config
    return config.replace(columns=(*config.columns, SATISFIED))


@dataclass(frozen=True)
class TaskModel:
    """Product of a finite MDP and an automaton: its states are pairs of an env state and the progress of the task.

    Attributes:
        mdp: The product MDP with N states, whose reward is 1 for the step that satisfies the task; undiscounted values
            are probabilities of satisfaction.
        env_states: Env state of each product state, [N].
        automaton_states: Index of each product state's automaton state, [N].
    """

    mdp: FiniteMDP
    env_states: NDArray[np.int64]
    automaton_states: NDArray[np.int64]

    def observations(self) -> dict[str, NDArray[np.int64]]:
        """Returns the observations in the N product states: env state and automaton state, arrays [N]."""
        return {"observation": self.env_states, AUTOMATON: self.automaton_states}

    def satisfaction(self, policy: NDArray[np.int64] | None = None) -> float:
        """Probability that an episode satisfies the task within the time limit, by value iteration from values of 0.

        Without a time limit, the probabilities converge from below to the least fixed point.

        Args:
            policy: Action in each product state, [N]; None for the best policy.
        """
        values = np.zeros(len(self.env_states))
        sweeps = 0
        while self.mdp.time_limit is None or sweeps < self.mdp.time_limit:
            q = self.mdp.backup(values, gamma=1.0)
            latest = q.max(-1) if policy is None else q[np.arange(len(q)), policy]
            values, before = latest, values
            sweeps += 1
            if np.abs(values - before).max() <= _TOLERANCE:
                break
        return self.mdp.at_start(values)


_TOLERANCE = 1e-12


def task_model(config: EnvConfig) -> TaskModel:
    """Creates the product of an env's tabular model and the automaton of its task.

    Raises:
        UsageError: The env has no tabular model; or it has wrappers other than those for labels and the task, settings
            that may change the model, epsilon transitions, or too many states.
    """
    where = f"env {config.id}: no exact probability of its task"
    if [wrapper.id for wrapper in config.wrappers] != [STATE_LABELS, TASK]:
        raise UsageError(f"{where}, because it needs exactly these wrappers: {_FORM}")
    changed = [name for name in ("reset_options", "tasks", "curriculum") if getattr(config, name)]
    if changed:
        raise UsageError(f"{where}, because {changed[0]} may change its transition probabilities")
    labels, task = (wrapper.kwargs for wrapper in config.wrappers)
    automaton = AutomatonConfig.parse(task["automaton"], path="automaton")
    if any(each.epsilon for each in automaton.transitions):
        raise UsageError(f"{where}, because epsilon transitions do not step the env")
    model, limit = provided_model(config, where)
    product = _Product(model, labels["labels"], automaton, int(task.get("rounds", 1)))
    if len(product.states) ** 2 * product.num_actions > MOST_NUMBERS:
        raise UsageError(f"{where}, because its {len(product.states):,} states need more than {MOST_NUMBERS:,} numbers")
    numbers = {state: index for index, state in enumerate(automaton.states)}
    return TaskModel(
        product.mdp(limit),
        np.array([state for state, _ in product.states], np.int64),
        np.array([numbers[progress.state] for _, progress in product.states], np.int64),
    )


class _Product:
    """Reachable product states, numbered in the order in which they are found, and their outcomes."""

    def __init__(
        self, model: Any, labels: Mapping[str, Sequence[int]], automaton: AutomatonConfig, rounds: int
    ) -> None:
        self.num_actions = int(model.action_space.n)
        self._starts = np.asarray(model.initial_state_distrib, np.float64)
        begins = [(int(state), automaton.begin(rounds)) for state in self._starts.nonzero()[0]]
        self.states: dict[tuple[int, Progress], int] = {state: index for index, state in enumerate(begins)}
        self._outcomes: list[tuple[int, int, float, int | None, bool]] = []
        dead_states = automaton.dead_states()
        queue = list(begins)
        for state, progress in queue:  # the loop appends the states that it finds
            for action in range(self.num_actions):
                for chance, following, _, terminated in model.P[state][action]:
                    after = automaton.after(progress, labels_of(labels, int(following)))
                    is_over = terminated or not after.rounds_left or after.state in dead_states
                    found = (int(following), after)
                    if not is_over and found not in self.states:
                        self.states[found] = len(self.states)
                        queue.append(found)
                    target = None if is_over else self.states[found]
                    begun = self.states[state, progress]
                    self._outcomes.append((begun, action, chance, target, not after.rounds_left))

    def mdp(self, time_limit: int | None) -> FiniteMDP:
        """Returns the product as arrays."""
        number = len(self.states)
        transitions, rewards = np.zeros((number, self.num_actions, number)), np.zeros((number, self.num_actions))
        for state, action, chance, following, satisfied in self._outcomes:
            rewards[state, action] += chance * satisfied
            if following is not None:
                transitions[state, action, following] += chance
        starts = np.zeros(number)
        for (state, _), index in list(self.states.items())[: np.count_nonzero(self._starts)]:
            starts[index] = self._starts[state]
        return FiniteMDP(transitions, rewards, starts, time_limit)


@dataclass(frozen=True)
class Certificate:
    """Probabilities that a task is satisfied within an episode, computed by dynamic programming.

    Attributes:
        best: Probability under the best policy.
        learned: Probability under the learned policy's most probable actions; None without a learned policy.
    """

    best: float
    learned: float | None


def certificate(env: EnvConfig, training: Training | None = None) -> Certificate:
    """Computes the probability that the task of an env is satisfied.

    Args:
        env: The env, with a task that is defined by an automaton.
        training: The training run whose policy is evaluated; None for the best policy alone.

    Raises:
        UsageError: The env has no known finite model, or the policy's actions depend on more than the state.
    """
    model = task_model(env)
    if training is None:
        return Certificate(model.satisfaction(), None)
    trainee = training.running.trainee
    behavior = trainee.policy.behavior()
    if behavior.memory.is_used:
        raise UsageError(f"{training.description.algorithm.name()} uses more than the current state")
    behavior.load(trainee.weights())
    chosen = behavior.chosen(model.observations(), None)
    return Certificate(model.satisfaction(), model.satisfaction(chosen))
