"""Effects of actions: compares episodes with equal seeds and actions up to one step, in which their actions differ."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import has_action_mask, mask_of
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_findings import EnvFinding
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env, spaces_of
from rlrun.engine.envs.random_actions import RandomActions
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.vector_env import VectorEnv

CLIPPED, INERT = "clipped actions", "inert actions"
"""Topics of the findings."""

SLOTS = 8
"""Number of env slots; the first one takes no varied action."""
MOST_VALUES = 12
"""Maximum number of choices of an action that are compared."""
MOST_PARTS = 6
"""Maximum number of parts of an action (numbers or choices) that are varied."""
FRACTIONS = (1.0, 0.6, 0.3, 0.1, 0.03)
"""Values to try for a number, as fractions of the way from the middle of its bounds to each bound."""
UNBOUNDED = 100.0
"""Bound of the values to try for a number without bounds."""
SEEN_STEPS = 4
"""Number of steps that are searched for effects, starting with the varied step."""
FURTHEST = 11
"""Maximum number of random steps before the varied one (exclusive)."""
STATES, ENOUGH_STATES = 32, 8
"""Number of states in which actions are compared, and minimum number of states for a verdict."""


@dataclass(frozen=True)
class ActionPart:
    """Part of an action that is varied: a discrete action, or one number or choice of an array.

    Attributes:
        index: Index of the number or choice in a flat action; None if the action is a single choice.
        values: Values to compare; for a Box, first those towards the upper bound, then those towards the lower one.
        is_number: Whether values are numbers between bounds.
    """

    index: int | None
    values: Sequence[float]
    is_number: bool

    @property
    def title(self) -> str:
        """Name of the part in messages."""
        return "action" if self.index is None else f"action[{self.index}]"


Marks = NDArray[np.int64]
"""Marks [S, V] by state and value, which are equal where results are equal; -1 for an illegal value."""


@dataclass
class ActionEffects:
    """Effects of actions in several states.

    Attributes:
        parts: The varied parts of an action.
        results: For each part, `Marks` that are equal for values with equal results (observations, rewards and
            terminations of the next steps).
        lags: Steps until an observation differed, for each state in which one did; 1 is the observation right after
            the action.
        still: For each part, whether the observation stayed the same in the step, [S, V] by state and value.
    """

    parts: Sequence[ActionPart]
    results: list[Marks] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)
    still: list[NDArray[np.bool_]] = field(default_factory=list)

    @property
    def states(self) -> int:
        """Number of states in which actions were compared."""
        return len(self.results[0]) if self.results else 0

    @property
    def is_known(self) -> bool:
        """Whether there were enough states for a verdict."""
        return self.states >= ENOUGH_STATES

    @property
    def changes_observations(self) -> bool:
        """Whether observations depend on actions at all; in bandits they do not."""
        return bool(self.lags)

    @property
    def delay(self) -> int:
        """Number of steps by which effects on observations are delayed in all states; 0 for no delay."""
        return min(self.lags, default=1) - 1 if len(self.lags) >= ENOUGH_STATES else 0


def action_effects(config: EnvConfig, seed: int, most_s: float) -> ActionEffects:
    """Compares actions in states that are reached by random actions.

    Args:
        config: Config of the env, whose slots must accept separate seeds.
        seed: Root seed of the episodes.
        most_s: Limit in seconds after which no further state is tried.

    Raises:
        EnvError: The env's own code raised.
    """
    spaces = spaces_of(config)
    parts = varied_parts(spaces.action)
    if not parts:
        return ActionEffects(parts)
    env = make_vector_env(config, SLOTS, EpisodeSeeds(seed, 0))
    try:
        with Watched(f"env {config.id}: check", env.places):
            return _compared(env, spaces, parts, seed, most_s)
    finally:
        env.close()


def _compared(env: VectorEnv, spaces: Spaces, parts: Sequence[ActionPart], seed: int, most_s: float) -> ActionEffects:
    """Compares actions in one state after another."""
    effects = ActionEffects(parts)
    until = time.monotonic() + most_s
    found: list[list[Marks]] = []
    still: list[list[NDArray[np.bool_]]] = []
    if not env.seeds_episodes:
        return effects
    env.reset()
    comparison = _Comparison(env, spaces, parts)
    for state in range(STATES):
        outcome = comparison.outcome(EpisodeSeeds(seed, 0, 2).seed(0, state), state * 7 % FURTHEST)
        if outcome is not None:
            marks, stays, lag = outcome
            found.append(marks)
            still.append(stays)
            effects.lags += [] if lag is None else [lag]
        if time.monotonic() > until:
            break
    effects.results += [np.stack(own) for own in zip(*found, strict=True)]
    effects.still += [np.stack(own) for own in zip(*still, strict=True)]
    return effects


def varied_parts(space: Any) -> list[ActionPart]:
    """Returns the parts of an action to vary; none for nested spaces."""
    if isinstance(space, Discrete):
        return [ActionPart(None, range(int(space.start), int(space.start) + min(int(space.n), MOST_VALUES)), False)]
    if isinstance(space, MultiDiscrete):
        counts, starts = space.nvec.ravel(), np.broadcast_to(space.start, space.nvec.shape).ravel()
        pairs = list(zip(starts.tolist(), counts.tolist(), strict=True))[:MOST_PARTS]
        return [ActionPart(i, range(start, start + min(n, MOST_VALUES)), False) for i, (start, n) in enumerate(pairs)]
    if isinstance(space, MultiBinary):
        return [ActionPart(i, (0, 1), False) for i in range(min(int(np.prod(space.shape)), MOST_PARTS))]
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        bounds = zip(space.low.ravel().tolist(), space.high.ravel().tolist(), strict=True)
        return [ActionPart(i, _towards_bounds(low, high), True) for i, (low, high) in enumerate([*bounds][:MOST_PARTS])]
    return []


def _towards_bounds(low: float, high: float) -> list[float]:
    low = max(low, -UNBOUNDED) if high > -UNBOUNDED else low
    high = min(high, UNBOUNDED) if low < UNBOUNDED else high
    middle = (low + high) / 2
    return [middle + fraction * (bound - middle) for bound in (high, low) for fraction in FRACTIONS]


Result = tuple[Any, ...]
"""Observations, rewards and episode ends of the steps, starting with the varied one."""


class _Comparison:
    """Comparison of actions in one state after another, using env slots that differ in one action."""

    def __init__(self, env: VectorEnv, spaces: Spaces, parts: Sequence[ActionPart]) -> None:
        self._env, self._spaces, self._parts = env, spaces, parts
        self._varied = [(part, value) for part in parts for value in part.values]

    def outcome(self, seed: int, steps: int) -> tuple[list[Marks], list[NDArray[np.bool_]], int | None] | None:
        """Returns, by part, marks of equal results and of unchanged observations; and the first step that differed.

        None if the state was not reached, or is not the same in all env slots.
        """
        results: list[Result | None] = []
        still: list[bool] = []
        lags: list[int] = []
        for start in range(0, len(self._varied), SLOTS - 1):
            played = self._play(seed, steps, self._varied[start : start + SLOTS - 1])
            if played is None:
                return None
            results += played[0]
            still += played[1]
            lags += played[2]
        numbers: dict[Result, int] = {}
        marks = np.array([-1 if one is None else numbers.setdefault(one, len(numbers)) for one in results])
        ends = np.cumsum([0, *(len(part.values) for part in self._parts)])
        own = [slice(start, end) for start, end in pairwise(ends)]
        return [marks[part] for part in own], [np.array(still[part]) for part in own], min(lags, default=None)

    def _play(
        self, seed: int, steps: int, varied: Sequence[tuple[ActionPart, float]]
    ) -> tuple[list[Result | None], list[bool], list[int]] | None:
        """Plays up to B - 1 varied actions; returns results (None if illegal), unchanged observations and the lag."""
        env, random = self._env, RandomActions(self._spaces, seed)
        seen = env.begin(range(SLOTS), [seed] * SLOTS)
        for _ in range(steps):
            seen, _, terminated, truncated, _ = env.step(_same(random, seen))
            if terminated[0] or truncated[0]:
                return None
        before = _digests(seen)
        if len(set(before)) > 1:
            return None
        actions = _same(random, seen)
        mask = mask_of(seen) if has_action_mask(self._spaces.observation) else None
        allowed = np.ones(SLOTS, np.bool_)
        for slot, (part, value) in enumerate(varied, 1):
            if part.index is None:
                allowed[slot] = mask is None or bool(mask[0][int(value) - int(self._spaces.action.start)])
                actions[slot] = value if allowed[slot] else actions[0]
            else:
                actions.reshape(SLOTS, -1)[slot, part.index] = value
        results: list[list[Any]] = [[] for _ in range(SLOTS)]
        alive, lags, stays = np.ones(SLOTS, np.bool_), list[int](), [False] * SLOTS
        for later in range(1, (SEEN_STEPS if mask is None else 1) + 1):  # later states may forbid these actions
            seen, rewards, terminated, truncated, _ = env.step(actions)
            shown = _digests(seen)
            if later == 1:
                stays = [one == old for one, old in zip(shown, before, strict=True)]
            for slot in alive.nonzero()[0].tolist():
                results[slot].append((shown[slot], float(rewards[slot]), bool(terminated[slot])))
            alive &= ~(terminated | truncated)
            if not lags and len({shown[slot] for slot in alive.nonzero()[0].tolist()}) > 1:
                lags.append(later)
            if mask is None:
                actions = _same(random, seen)
        found = [tuple(result) if may else None for result, may in zip(results, allowed.tolist(), strict=True)]
        return found[1 : 1 + len(varied)], stays[1 : 1 + len(varied)], lags


def _same(random: RandomActions, seen: Any) -> Any:
    """Draws one action for all env slots, [B, ...]; the action is legal in the first slot."""
    drawn = random.draw(map_tree(lambda leaf: leaf[:1], seen))
    return map_tree(lambda leaf: np.repeat(leaf, SLOTS, axis=0), drawn)


def _digests(seen: Any) -> list[bytes]:
    parts = [np.asarray(leaf) for leaf in leaves(seen)]
    return [b"".join(part[slot].tobytes() for part in parts) for slot in range(len(parts[0]))]


def effect_findings(effects: ActionEffects) -> Iterator[EnvFinding]:
    """Yields findings on actions that change nothing, have the same effect, or are clipped."""
    if not effects.is_known:
        return
    inert, clipped, is_severe = [], [], False
    for part, marks, still in zip(effects.parts, effects.results, effects.still, strict=True):
        if (_spread(marks) <= 1).all():
            inert.append(f"{part.title} of any value changed nothing")
            is_severe = True
        elif not part.is_number:
            equal, idle = _equal_values(part, marks), _idle_values(part, marks, still)
            inert += [*equal, *idle]
            is_severe |= bool(equal) and not idle  # actions that do nothing are common, and equal each other
        elif (limits := _clip_limits(part, marks)) is not None:
            clipped.append(f"{part.title} below about {limits[0]:.3g} or above about {limits[1]:.3g}")
    states = f"in all of {effects.states} states"
    if clipped:
        found = f"{', '.join(clipped)} had the effect of that value {states}"
        reason = "most actions that the policy tries may then not differ, though their probabilities do"
        advice = "declare the bounds that the env uses in its action_space, or scale actions to them"
        yield EnvFinding(CLIPPED, "note", found, reason, advice, is_severe=True)
    if inert:
        reason = "a choice without effect cannot be learned: step() may ignore the action, or use a part of it twice"
        advice = "fix how step() uses the action, or leave the choice out"
        yield EnvFinding(INERT, "note", f"{', '.join(inert)} {states}", reason, advice, is_severe=is_severe)


def _spread(marks: Marks) -> NDArray[np.int64]:
    """Returns the number of different results in each state, [S]."""
    return np.array([len(set(row[row >= 0].tolist())) for row in marks])


def _clip_limits(part: ActionPart, marks: Marks) -> tuple[float, float] | None:
    """Returns the limits below and above which all values have the same effect; None unless both limits exist."""
    half = len(FRACTIONS)
    limits = []
    for side, values in ((marks[:, :half], part.values[:half]), (marks[:, half:], part.values[half:])):
        same = (side == side[:, :1]).all(axis=0)
        reach = int(np.argmin(same)) if not same.all() else half
        if reach < 2:
            return None
        limits.append(values[reach - 1])
    return (limits[1], limits[0]) if (marks[:, 0] != marks[:, half]).any() else None


def _equal_values(part: ActionPart, marks: Marks) -> list[str]:
    """Describes the pairs of values with equal results in all states where both are legal."""
    texts = []
    values = list(part.values)
    for i in range(len(values)):
        for j in range(i + 1, len(values)):
            both = (marks[:, i] >= 0) & (marks[:, j] >= 0)
            if both.sum() >= ENOUGH_STATES and (marks[both, i] == marks[both, j]).all():
                texts.append(f"{part.title} {values[i]} and {values[j]} did the same")
    return texts


def _idle_values(part: ActionPart, marks: Marks, still: NDArray[np.bool_]) -> list[str]:
    """Describes the values after which the observation never changed, although it changed after other values."""
    legal = marks >= 0
    idle = (still | ~legal).all(axis=0) & (legal.sum(axis=0) >= ENOUGH_STATES)
    if idle.all():
        return []
    return [
        f"{part.title} {value} changed nothing"
        for value, is_idle in zip(part.values, idle.tolist(), strict=True)
        if is_idle
    ]
