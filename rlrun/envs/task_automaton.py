"""LTL tasks: product of an env with a limit-deterministic Büchi automaton that defines the reward.

A formula of linear temporal logic such as "visit a, then b, and never c" is given as a limit-deterministic Büchi
automaton, which tools such as Rabinizer or Owl make of it: states, transitions over labels, and sets of accepting
states. An infinite run satisfies the formula if it visits each of these sets again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.spaces import Dict, Discrete
from pydantic import model_validator

from rlrun.config import ConfigModel, NonEmptyText, PositiveInt
from rlrun.errors import UsageError

LABELS, SATISFIED, AUTOMATON = "labels", "satisfied", "automaton"
"""Keys of the labels in the env's info, of the outcome in the wrapper's, and of the state in its observations."""


class Transition(ConfigModel):
    """Where an automaton goes."""

    source: NonEmptyText
    """The state that it leaves."""
    target: NonEmptyText
    """The state that it enters."""
    when: tuple[NonEmptyText, ...] = ()
    """Labels that have to be true, and with `!` in front those that must not be; none for any."""
    epsilon: bool = False
    """Whether it is an action of its own, with which the automaton goes there and the env stands still."""

    def allows(self, labels: frozenset[str]) -> bool:
        """Whether it is taken where these labels are true."""
        return all((label[1:] not in labels) if label[0] == "!" else (label in labels) for label in self.when)


class AutomatonConfig(ConfigModel):
    """A limit-deterministic Büchi automaton."""

    states: tuple[NonEmptyText, ...]
    """Its states; it begins in the first one."""
    transitions: tuple[Transition, ...]
    """Where it goes: by the first one from its state whose labels fit; it stays where none does."""
    accepting: tuple[tuple[NonEmptyText, ...], ...]
    """Sets of states, each of which has to be visited again and again."""

    @model_validator(mode="after")
    def _known_states(self) -> AutomatonConfig:
        named = [state for each in self.transitions for state in (each.source, each.target)]
        unknown = [state for state in (*named, *sum(self.accepting, ())) if state not in self.states]
        if unknown:
            raise ValueError(f"there is no state {unknown[0]!r}; there are {', '.join(self.states)}")
        if len(set(self.states)) < len(self.states) or not self.states:
            raise ValueError("states must be at least one, each there once")
        if not self.accepting or not all(self.accepting):
            raise ValueError("accepting needs at least one set, and each set a state")
        if len(self.transitions) == 0:
            raise ValueError("transitions needs at least one")
        return self

    def hopeless(self) -> frozenset[str]:
        """Returns the states from which one of the accepting sets cannot be visited any more."""
        reached = {state: {state} for state in self.states}
        for _ in self.states:
            for each in self.transitions:
                reached[each.source] |= reached[each.target]
        return frozenset(
            state for state, found in reached.items() if not all(found.intersection(each) for each in self.accepting)
        )


class TaskAutomaton(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """The product of an env and an automaton, whose accepting transitions are all that is paid for.

    The env's info says in `labels` what is true in the state that a step led to, a list of texts. The automaton's state
    joins the observation as `automaton`, a Discrete. A step pays 1 if it visits an accepting set that was not visited
    yet in this round; a round is over when all were. After `rounds` of them the task counts as satisfied and the
    episode ends; it also ends, not satisfied, in a state from which a set cannot be visited any more. The info says in
    `satisfied` whether it was, 1 or 0, so that results report the probability of that as `info/satisfied`.

    Transitions with `epsilon` are further actions of an env with Discrete actions, in their order after its own. One
    that does not leave the present state does nothing.

    Args:
        env: The env.
        automaton: The settings of `AutomatonConfig`.
        rounds: Visits of all accepting sets that count as forever.

    Raises:
        SpecError: If the automaton is none.
        UsageError: If actions of the env's kind cannot be joined by further ones.

    Source:
        Hasanbeig, Kroening, Abate, "LCRL: certified policy synthesis via logically-constrained reinforcement learning",
        arXiv:2209.10341.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], automaton: Mapping[str, Any], rounds: PositiveInt = 1) -> None:
        super().__init__(env)
        self._automaton = AutomatonConfig.parse(automaton, path="automaton")
        self._hopeless = self._automaton.hopeless()
        self._rounds = rounds
        self._jumps = [each for each in self._automaton.transitions if each.epsilon]
        self._number = {state: i for i, state in enumerate(self._automaton.states)}
        seen = env.observation_space
        self._joins = isinstance(seen, Dict)
        parts = seen.spaces if self._joins else {"observation": seen}
        self.observation_space = Dict({**parts, AUTOMATON: Discrete(len(self._number))})
        if self._jumps:
            if not isinstance(env.action_space, Discrete):
                raise UsageError(f"transitions with epsilon join Discrete actions, which {env.action_space} is not")
            self.action_space = Discrete(int(env.action_space.n) + len(self._jumps), start=int(env.action_space.start))
        self._state = self._automaton.states[0]
        self._frontier: list[Sequence[str]] = []
        self._rounds_left = rounds
        self._shown: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in the automaton's first state."""
        self._shown, info = self.env.reset(seed=seed, options=options)
        self._state = self._automaton.states[0]
        self._frontier = list(self._automaton.accepting)
        self._rounds_left = self._rounds
        return self._observation(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes a step in the env, or a jump of the automaton, and pays for visits of accepting sets."""
        jump = int(action) - self.env.action_space.start - self.env.action_space.n if self._jumps else -1
        terminated, truncated, info = False, False, {}
        if jump >= 0:
            if self._jumps[jump].source == self._state:
                self._state = self._jumps[jump].target
        else:
            self._shown, _, terminated, truncated, info = self.env.step(action)
            self._state = self._after(frozenset(info.get(LABELS, ())))
        reward = self._visit()
        is_over = terminated or not self._rounds_left or self._state in self._hopeless
        satisfied = float(not self._rounds_left)
        return self._observation(), reward, is_over, truncated, {**info, SATISFIED: satisfied}

    def _after(self, labels: frozenset[str]) -> str:
        """Returns the automaton's successor state under a set of labels."""
        own = (each for each in self._automaton.transitions if each.source == self._state and not each.epsilon)
        return next((each.target for each in own if each.allows(labels)), self._state)

    def _visit(self) -> float:
        """Removes the accepting sets of the current state from the frontier; returns the reward."""
        left = [each for each in self._frontier if self._state not in each]
        reward = float(len(left) < len(self._frontier))
        self._frontier = left
        if not left:
            self._frontier = list(self._automaton.accepting)
            self._rounds_left -= 1
        return reward

    def _observation(self) -> dict[str, Any]:
        shown = self._shown if self._joins else {"observation": self._shown}
        return {**shown, AUTOMATON: self._number[self._state]}
