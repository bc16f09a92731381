"""State that observations omit: tests whether earlier steps or the time improve predictions of the next step.

In a Markov decision process the observation and the action determine the distribution of the next observation and
reward. Ridge regressions on random features and products predict both, from the observation and the action only, and
with additional inputs. They are fitted on the episodes of half of the env slots, and tested on the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rlrun.engine.envs.env_findings import EnvFinding
from rlrun.engine.envs.probes.action_effects import ActionEffects
from rlrun.engine.envs.probes.random_steps import SLOTS, Flags, Floats, RandomSteps

LATE, HIDDEN, HIDDEN_CLOCK, ONLY_CLOCK = "late observations", "hidden state", "hidden clock", "observed clock"
"""Topics of the findings."""

FEATURES = 200
"""Number of random features in a regression."""
MOST_PRODUCTS = 2_000
"""Number of products of two inputs above which a regression uses none."""
HARMONICS = 2
"""Number of sines and cosines of the episode time that interact with observation and action."""
PENALTIES = (1e-6, 1e-3, 1e-1)
"""Ridge penalties per row; the one with the smallest error on the test rows is used."""
UNPREDICTED = 0.2
"""Minimum fraction of the variance that observation and action must leave unexplained for a finding."""
EXPLAINED = 0.3
"""Maximum unexplained variance with additional inputs, relative to without them, for a finding on these inputs."""
EXPLAINED_BY_TIME = 0.6
"""The same ratio for the episode time, which leaves other effects on the reward unexplained."""
LEAST_ROWS = 200
"""Minimum number of steps for a fit."""
LEAST_EVENTS = 4
"""Minimum number of unusual values of an output in each half of the rows."""
ROUNDING = 1e-3
"""Relative standard deviation of an observation's changes up to which they count as rounding errors."""
MOST_TIMES = 256
"""Maximum number of intervals of the time in an episode."""
LEAST_EPISODES = 4
"""Minimum number of episodes that must have the same observation at a given time."""


class PredictionGain(NamedTuple):
    """Unexplained fraction of an output's variance, without and with additional inputs.

    Attributes:
        output: Description of the output.
        without: Unexplained fraction given observation and action.
        added: Unexplained fraction with additional inputs.
    """

    output: str
    without: float
    added: float

    @property
    def text(self) -> str:
        """Returns the fractions of the variance as text."""
        return f"{self.without:.0%} of the variance of {self.output} unexplained, {self.added:.0%} "


@dataclass(frozen=True)
class _Problem:
    """Inputs and outputs of regressions, on steps with two earlier steps in the same episode.

    Attributes:
        now: Observation and action, [N, D + A].
        products: Products of two numbers of observation and action, [N, P].
        last_action: The previous action, [N, A].
        history: Observations and actions of the two previous steps, [N, 2 (D + A)].
        waves: Time in the episode as sines and cosines, [N, 2 HARMONICS].
        clock: Time in the episode, one-hot by interval, and products of the waves with observation and action,
            [N, I + 2 HARMONICS (D + A)].
        outputs: Change of the observation, and reward, [N, D + 1].
        titles: Descriptions of the outputs.
        fits: Whether a row is used for fitting; the others are for testing, [N].
    """

    now: Floats
    products: Floats
    last_action: Floats
    history: Floats
    waves: Floats
    clock: Floats
    outputs: Floats
    titles: tuple[str, ...]
    fits: Flags


def hidden_findings(taken: RandomSteps, effects: ActionEffects) -> Iterator[EnvFinding]:
    """Yields findings on observations that are delayed or incomplete, lack the time, or show nothing but the time."""
    if shows_only_the_time(taken):
        found = "the observation is the same at each step of all episodes, whatever the actions and the seed were"
        reason = "the policy cannot see what its actions change"
        yield EnvFinding(ONLY_CLOCK, "note", found, reason, "show the state, not only the time", is_severe=True)
        return
    problem = _problem(taken)
    if problem is None:
        return
    nothing = problem.now[:, :0]
    without = _unexplained(problem, nothing, nothing)
    with_history = _unexplained(problem, problem.history, nothing)
    if effects.delay and (late := _lateness(problem, without, with_history, taken)) is not None:
        found = f"in all of {effects.states} states an action first showed after {effects.delay + 1} steps{late}"
        reason = "the policy acts on a state that has changed already, and its latest actions are hidden"
        advice = "return the observation of the state after the step, or add the last action to the observation"
        yield EnvFinding(LATE, "note", found, reason, advice, is_severe=True)
        return
    history = _best_gain(problem, without, with_history, EXPLAINED)
    clock = None
    if not shows_time(taken):
        with_time = _unexplained(problem, problem.waves, problem.clock)
        clock = _best_gain(problem, without, with_time, EXPLAINED_BY_TIME)
    if history is not None and (clock is None or history.added <= clock.added):
        found = f"observation and action leave {history.text}with two earlier steps"
        reason = "states that differ look alike, so a policy without memory cannot tell them apart"
        advice = (
            "show what is missing, such as velocities; or use the wrapper FrameStackObservation, or a recurrent policy"
        )
        yield EnvFinding(HIDDEN, "note", found, reason, advice, is_severe=True)
    elif clock is not None:
        found = f"observation and action leave {clock.text}with the time in the episode"
        reason = "the same observation is worth more or less at another time, which the policy cannot know"
        yield EnvFinding(
            HIDDEN_CLOCK, "note", found, reason, "add the time, such as t / T, to the observation", is_severe=True
        )


def shows_only_the_time(taken: RandomSteps) -> bool:
    """Whether all episodes have the same observation at each time, and the observation is not constant."""
    seen, times = taken.observations, taken.times
    if not seen.shape[1] or (seen == seen[:1]).all():
        return False
    judged = 0
    for when in range(int(times.max()) + 1):
        rows = seen[times == when]
        if len(rows) < LEAST_EPISODES:
            break
        if (rows != rows[:1]).any():
            return False
        judged += 1
    return judged >= 2


def shows_time(taken: RandomSteps) -> bool:
    """Whether an entry of the observation is a function of the time in the episode, and changes with it."""
    seen, times = taken.observations, taken.times
    if not seen.shape[1] or not times.any():
        return False
    counts = np.maximum(np.bincount(times), 1)
    for column in seen.T:
        within = column - (np.bincount(times, column) / counts)[times]
        if column.std() > 0 and np.abs(within).max() < ROUNDING * column.std():
            return True
    return False


def _problem(taken: RandomSteps) -> _Problem | None:
    own, rows = taken, np.flatnonzero(taken.times >= 2)
    if len(rows) < LEAST_ROWS or not own.observations.shape[1]:
        return None
    now = np.concatenate([own.observations, own.actions], axis=1)
    spread = max(1, -(-int(own.times.max() + 1) // MOST_TIMES))
    turns = np.arange(1, HARMONICS + 1) * 2 * np.pi * own.times[rows, None] / (own.times.max() + 1)
    waves = np.concatenate([np.sin(turns), np.cos(turns)], axis=1)
    clock = np.eye(int(own.times.max()) // spread + 1)[own.times[rows] // spread]
    outputs = np.concatenate([own.following - own.observations, own.rewards[:, None]], axis=1)
    titles = (*(f"the change of observation[{i}]" for i in range(own.observations.shape[1])), "the reward")
    fits = own.slots[rows] < SLOTS // 2
    scales = np.append(ROUNDING * own.observations.std(axis=0), 0.0)
    used = [
        column.std() > scale and _is_eventful(column, fits)
        for column, scale in zip(outputs[rows].T, scales, strict=True)
    ]
    if not any(used) or fits.all() or not fits.any():
        return None
    return _Problem(
        now[rows],
        _products(own.observations[rows], own.actions[rows]),
        own.actions[rows - 1],
        np.concatenate([now[rows - 1], now[rows - 2]], axis=1),
        waves,
        np.concatenate([clock, (waves[:, :, None] * now[rows, None]).reshape(len(rows), -1)], axis=1),
        outputs[rows][:, used],
        tuple(title for title, is_used in zip(titles, used, strict=True) if is_used),
        fits,
    )


def _products(observations: Floats, actions: Floats) -> Floats:
    """Returns the products of all pairs of inputs; if too many, only products of observation and action, or none."""
    inputs = np.concatenate([observations, actions], axis=1)
    first, second = np.triu_indices(inputs.shape[1])
    if len(first) > MOST_PRODUCTS:
        own = np.arange(observations.shape[1])
        first, second = np.repeat(own, actions.shape[1]), np.tile(np.arange(len(own), inputs.shape[1]), len(own))
    return inputs[:, first] * inputs[:, second] if len(first) <= MOST_PRODUCTS else inputs[:, :0]


def _is_eventful(column: Floats, fits: Flags) -> bool:
    """Whether an output varies in both halves by more than a few unusual values."""
    values, counts = np.unique(column, return_counts=True)
    unusual = column != values[counts.argmax()]
    return min(int(unusual[fits].sum()), int(unusual[~fits].sum())) >= LEAST_EVENTS


def _unexplained(problem: _Problem, together: Floats, added: Floats) -> Floats:
    """Returns the fraction of each output's variance that a regression leaves unexplained in the test rows, [O].

    Args:
        problem: The problem; its inputs and products are always used.
        together: Additional inputs that interact with the others, [N, H].
        added: Additional inputs with purely additive effects, [N, I].
    """
    inputs = np.concatenate([problem.now, together], axis=1)
    features = np.concatenate([_random_features(inputs), problem.products, added], axis=1)
    fits, outputs = problem.fits, problem.outputs
    scale = features[fits].std(axis=0)
    features = (features - features[fits].mean(axis=0)) / np.where(scale > 1e-9, scale, np.inf)
    mean = outputs[fits].mean(axis=0)
    inside, outside = features[fits], features[~fits]
    gram, moments = inside.T @ inside / len(inside), inside.T @ (outputs[fits] - mean) / len(inside)
    variance = np.maximum(((outputs[~fits] - mean) ** 2).mean(axis=0), 1e-300)
    errors = []
    for penalty in PENALTIES:
        weights = np.linalg.solve(gram + penalty * np.eye(len(gram)), moments)
        errors.append((((outputs[~fits] - mean - outside @ weights) ** 2).mean(axis=0)) / variance)
    least: Floats = np.minimum(np.min(errors, axis=0), 1.0)
    return least


def _random_features(inputs: Floats) -> Floats:
    """Returns the inputs, followed by random nonlinear functions of them, [N, D + FEATURES]."""
    scale = inputs.std(axis=0)
    scaled = (inputs - inputs.mean(axis=0)) / np.where(scale > 1e-9, scale, np.inf)
    random = np.random.default_rng(0)
    weights = random.normal(size=(scaled.shape[1], FEATURES)) / np.sqrt(max(scaled.shape[1], 1))
    return np.concatenate([scaled, np.tanh(scaled @ weights + random.uniform(-2, 2, FEATURES))], axis=1)


def _best_gain(problem: _Problem, without: Floats, added: Floats, explained: float) -> PredictionGain | None:
    """Returns the output that additional inputs explain best, if they explain what observation and action do not.

    Args:
        problem: The problem.
        without: Unexplained variance of each output without the inputs, [O].
        added: Unexplained variance of each output with the inputs, [O].
        explained: Ratio of `added` to `without` below which the inputs count as an explanation.
    """
    gains = [PredictionGain(*own) for own in zip(problem.titles, without.tolist(), added.tolist(), strict=True)]
    found = [gain for gain in gains if gain.without > UNPREDICTED and gain.added < explained * gain.without]
    return min(found, key=lambda gain: gain.added / gain.without, default=None)


def _lateness(problem: _Problem, without: Floats, with_history: Floats, taken: RandomSteps) -> str | None:
    """Returns evidence that observations are delayed rather than incomplete, as text; None if there is none.

    The evidence is either that the last action predicts the next observation as well as two earlier steps do (with
    hidden velocities, it would not), or that each episode begins with the same observation twice.
    """
    first = taken.times == 0
    if (taken.observations[first] == taken.following[first]).all():
        return ", and the first observation is shown twice"
    late = _best_gain(problem, without, _unexplained(problem, problem.last_action, problem.now[:, :0]), EXPLAINED)
    if late is None or late.added > 2 * with_history[problem.titles.index(late.output)] + 0.01:
        return None
    return f", and observation and action leave {late.text}with the last action"
