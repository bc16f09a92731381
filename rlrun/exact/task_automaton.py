"""LTL tasks: product of an env with a limit-deterministic Büchi automaton that defines the reward.

A formula of linear temporal logic is, for example, "visit a, then b, and never c". Tools such as Rabinizer or Owl
convert it to a limit-deterministic Büchi automaton: states, transitions over labels, and sets of accepting states. An
infinite run satisfies the formula if it visits each accepting set infinitely often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
from gymnasium.spaces import Dict, Discrete
from pydantic import model_validator
from typing_extensions import override

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.config import ConfigModel, NonEmptyText, PositiveInt

LABELS, SATISFIED, AUTOMATON = "labels", "satisfied", "automaton"
"""Keys of the labels in the env's info, the outcome in the wrapper's info, and the automaton's state in
observations."""


class Transition(ConfigModel):
    """Transition of the automaton, triggered by the labels of a state or by an additional (epsilon) action."""

    source: NonEmptyText
    """State before the transition."""
    target: NonEmptyText
    """State after the transition."""
    when: tuple[NonEmptyText, ...] = ()
    """Labels that must be true, or must be false with the prefix `!`; empty for an unconditional transition."""
    epsilon: bool = False
    """Whether the transition is an additional action, which changes the automaton's state without a step of the env."""

    def allows(self, labels: frozenset[str]) -> bool:
        """Whether the labels that are true in a state satisfy the transition's condition `when`."""
        return all((label[1:] not in labels) if label[0] == "!" else (label in labels) for label in self.when)


class Progress(NamedTuple):
    """Progress of an episode towards satisfying a task.

    Attributes:
        state: State of the automaton.
        unvisited: Indices of the accepting sets that have not been visited yet in the current round.
        rounds_left: Number of rounds until the task counts as satisfied; 0 if it is satisfied.
    """

    state: str
    unvisited: tuple[int, ...]
    rounds_left: int


class AutomatonConfig(ConfigModel):
    """Limit-deterministic Büchi automaton: states, transitions and accepting sets."""

    states: tuple[NonEmptyText, ...]
    """Names of the states; the first one is the initial state."""
    transitions: tuple[Transition, ...]
    """Transitions: the first one from the current state whose labels match is taken; without any, the state is
    unchanged."""
    accepting: tuple[tuple[NonEmptyText, ...], ...]
    """Accepting sets of states, each of which must be visited infinitely often."""

    @model_validator(mode="after")
    def _known_states(self) -> AutomatonConfig:
        named = [state for each in self.transitions for state in (each.source, each.target)]
        unknown = [state for state in (*named, *sum(self.accepting, ())) if state not in self.states]
        if unknown:
            raise ValueError(f"unknown state {unknown[0]!r}; must be one of: {', '.join(self.states)}")
        if len(set(self.states)) < len(self.states) or not self.states:
            raise ValueError("states must contain at least one state, each only once")
        if not self.accepting or not all(self.accepting):
            raise ValueError("accepting needs at least one set, and each set at least one state")
        if len(self.transitions) == 0:
            raise ValueError("transitions needs at least one transition")
        return self

    def begin(self, rounds: int) -> Progress:
        """Returns the progress at the start of an episode: the initial state, nothing visited."""
        return Progress(self.states[0], tuple(range(len(self.accepting))), rounds)

    def after(self, progress: Progress, labels: frozenset[str]) -> Progress:
        """Returns the progress after an env step, given the labels that are true in the new state."""
        own = (each for each in self.transitions if each.source == progress.state and not each.epsilon)
        return self.visit(progress, next((each.target for each in own if each.allows(labels)), progress.state))

    def visit(self, progress: Progress, state: str) -> Progress:
        """Returns the progress after the automaton enters a state; a round ends when all accepting sets are visited."""
        left = tuple(index for index in progress.unvisited if state not in self.accepting[index])
        if left:
            return Progress(state, left, progress.rounds_left)
        return Progress(state, tuple(range(len(self.accepting))), progress.rounds_left - 1)

    def dead_states(self) -> frozenset[str]:
        """Returns the states from which some accepting set is unreachable."""
        reached = {state: {state} for state in self.states}
        for _ in self.states:
            for each in self.transitions:
                reached[each.source] |= reached[each.target]
        return frozenset(
            state for state, found in reached.items() if not all(found.intersection(each) for each in self.accepting)
        )


class TaskAutomaton(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Env wrapper: product of an env with a Büchi automaton, in which only visits to accepting sets are rewarded.

    The env's info must hold `labels`, the names of the labels that are true in the state after a step. The
    automaton's state is added to observations under the key `automaton`, a Discrete. The env's own rewards are dropped:
    a step's reward is 1 if it visits an accepting set for the first time in this round, else 0. A round ends once all
    accepting sets have been visited. After `rounds` rounds the task counts as satisfied, and the episode terminates.
    The episode also terminates, unsatisfied, in a state from which some accepting set is unreachable. The info entry
    `satisfied` is 1 or 0, so its mean in results, `info/satisfied`, is the probability of satisfaction.

    Transitions with `epsilon` are additional actions, numbered after the Discrete actions of the env. Such an action
    has no effect unless its transition starts in the current state.

    Args:
        env: The env.
        automaton: Settings for the automaton, as in `AutomatonConfig`.
        rounds: Number of rounds after which the task counts as satisfied.

    Raises:
        SpecError: If the settings are not a valid automaton.
        UsageError: If there are epsilon transitions, but the env's actions are not Discrete.

    Source:
        Hasanbeig, Kroening, Abate, "LCRL: certified policy synthesis via logically-constrained reinforcement learning",
        arXiv:2209.10341.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], automaton: Mapping[str, Any], rounds: PositiveInt = 1) -> None:
        super().__init__(env)
        self._automaton = AutomatonConfig.parse(automaton, path="automaton")
        self._hopeless = self._automaton.dead_states()
        self._rounds = rounds
        self._jumps = [each for each in self._automaton.transitions if each.epsilon]
        self._number = {state: i for i, state in enumerate(self._automaton.states)}
        seen = env.observation_space
        self._joins = isinstance(seen, Dict)
        parts = seen.spaces if self._joins else {"observation": seen}
        self.observation_space = Dict({**parts, AUTOMATON: Discrete(len(self._number))})
        if self._jumps:
            if not isinstance(env.action_space, Discrete):
                raise UsageError(f"epsilon transitions need Discrete actions, not {env.action_space}")
            self.action_space = Discrete(int(env.action_space.n) + len(self._jumps), start=int(env.action_space.start))
        self._progress = self._automaton.begin(rounds)
        self._shown: Any = None

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the env, and the automaton to its initial state."""
        self._shown, info = self.env.reset(seed=seed, options=options)
        self._progress = self._automaton.begin(self._rounds)
        return self._observation(), info

    @override
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes an env step or an epsilon transition; the reward is 1 for a newly visited accepting set, else 0."""
        jump = int(action) - self.env.action_space.start - self.env.action_space.n if self._jumps else -1
        terminated, truncated, info, before = False, False, {}, self._progress
        if jump >= 0:
            fits = self._jumps[jump].source == before.state
            after = self._automaton.visit(before, self._jumps[jump].target if fits else before.state)
        else:
            self._shown, _, terminated, truncated, info = self.env.step(action)
            after = self._automaton.after(before, frozenset(info.get(LABELS, ())))
        self._progress = after
        reward = float(after.rounds_left < before.rounds_left or len(after.unvisited) < len(before.unvisited))
        is_over = terminated or not after.rounds_left or after.state in self._hopeless
        satisfied = float(not after.rounds_left)
        return self._observation(), reward, is_over, truncated, {**info, SATISFIED: satisfied}

    def _observation(self) -> dict[str, Any]:
        shown = self._shown if self._joins else {"observation": self._shown}
        return {**shown, AUTOMATON: self._number[self._progress.state]}


class StateLabels(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]
    """Env wrapper that adds the labels of states to the info, for envs whose Discrete observation is the state.

    Args:
        env: The env.
        labels: For each label, the states in which it is true.

    Raises:
        UsageError: The observations are not Discrete, or a label names a state that the env does not have.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], labels: Mapping[str, Sequence[int]]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, Discrete):
            raise UsageError(f"labels need Discrete observations (states), not {space}")
        for label, states in labels.items():
            if unknown := [state for state in states if not space.contains(state)]:
                raise UsageError(f"label {label!r}: there is no state {unknown[0]!r} in {space}")
        self._labels = labels

    @override
    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        state, reward, terminated, truncated, info = self.env.step(action)
        return state, reward, terminated, truncated, {**info, LABELS: sorted(labels_of(self._labels, int(state)))}


def labels_of(labels: Mapping[str, Sequence[int]], state: int) -> frozenset[str]:
    """Returns the labels that are true in a state, given the states in which each label is true."""
    return frozenset(label for label, states in labels.items() if state in states)
