"""Diagnostics of an env: findings on spaces, observations, rewards, seeds and speed, with their effect on learning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.data.tree import named_leaves
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.make import make_env
from rlrun.engine.envs.random_actions import RandomActions
from rlrun.engine.envs.spaces import Spaces, first_bad_row
from rlrun.engine.envs.vector_env import BadReturn, EnvError, close_or_warn, env_error

Verdict = Literal["ok", "note", "wrong"]

TYPED_STEPS = 200
"""Number of steps of a single env in which the dtypes of observations are checked."""
LARGE_NUMBER = 20.0
"""Absolute observation above which learning is slow: networks are initialized for inputs of about 1."""
VERY_LARGE_NUMBER = 100.0
"""Absolute observation above which the first layer saturates."""
LARGE_REWARD = 10.0
"""Mean absolute reward above which values, and so the critic's gradients, are large."""
VERY_LARGE_REWARD, HUGE_REWARD = 100.0, 1_000.0
"""Mean and maximum absolute reward above which learning suffers regardless of other settings."""
SMALL_REWARD = 1e-3
SLOW_STEPS_S = 200.0
"""Steps per second below which an env counts as slow: a million steps take more than 80 minutes."""
SLOW_AFTER_S = 1.0
"""Minimum wall time in seconds for a verdict on speed, since the first steps of many envs are slow."""

ACTION_SEED = 0
"""Seed of the random actions."""


@dataclass(frozen=True)
class EnvFinding:
    """Finding from an env check: a verdict on one topic, with its reason and advice.

    Attributes:
        topic: Subject, such as "rewards" or "seeds".
        verdict: "wrong" if training or a resume fails, "note" if learning may suffer, else "ok".
        found: What was observed, with figures.
        reason: Consequence for learning, "" if there is none.
        advice: Suggested remedy.
        is_severe: Whether a note matters even if returns improve.
        traceback: Traceback of an exception in the env's code, "" without one.
    """

    topic: str
    verdict: Verdict
    found: str
    reason: str = ""
    advice: str = ""
    is_severe: bool = False
    traceback: str = ""


def error_finding(error: EnvError) -> EnvFinding:
    """Returns the finding for an exception in the code of an env or world, or for an invalid return value."""
    reason = "training would stop there with exit code 4; the other findings cover the steps before"
    if isinstance(error, BadReturn):
        return EnvFinding("returns", "wrong", str(error), reason, "fix what the env returns")
    found, _, trace = str(error).partition(":\n")
    return EnvFinding("exception", "wrong", found, reason, "fix the env's code", traceback=trace)


def type_findings(config: EnvConfig, spaces: Spaces, seed: int) -> Iterator[EnvFinding]:
    """Yields findings on observations whose dtypes differ from the space's, which costs a cast in each step."""
    env, random, own_seed = make_env(config, seed=seed), RandomActions(spaces, ACTION_SEED), EpisodeSeeds(seed, 0)
    found: dict[str, str] = {}
    place = EpisodePosition(0, own_seed.seed(0, 0), 0)
    try:
        with Watched(f"env {config.id}: check", lambda: [place]):
            observation, _ = env.reset(seed=place.seed)
            _note_types(found, spaces.observation, observation)
            ended = False
            while not ended and place.length < TYPED_STEPS:
                observation, _, terminated, truncated, _ = env.step(random.draw_one(observation))
                place = replace(place, length=place.length + 1)
                _note_types(found, spaces.observation, observation)
                ended = terminated or truncated
    except (Exception, SystemExit) as error:
        raise env_error(config.id, "step()", str(place), error) from error
    finally:
        close_or_warn(env.close, config.id, str(place))
    for path, told in found.items():
        reason = "rlrun casts it at each step, which takes time; other libraries reject it"
        yield EnvFinding(
            "observations", "note", f"{path or 'the observation'} is {told}", reason, "return the dtype of the space"
        )


def _note_types(found: dict[str, str], space: gymnasium.Space[Any], observation: Any) -> None:
    """Records, for each leaf, the first observed dtype that differs from the space's dtype."""
    for path, leaf in named_leaves(observation):
        own, dtype = _leaf_space(space, path), np.asarray(leaf).dtype
        if isinstance(own, Box) and dtype != own.dtype:
            found.setdefault(path, f"{dtype}, but its space has {own.dtype}")


def space_findings(spaces: Spaces) -> Iterator[EnvFinding]:
    """Yields findings on the observation and action space, such as unbounded actions."""
    yield EnvFinding("observation space", "ok", str(spaces.observation))
    space = spaces.action
    if isinstance(space, Box) and not space.is_bounded():
        reason = "actions are scaled to half the range between the bounds; sac, td3 and ddpg do not work without bounds"
        yield EnvFinding("action space", "note", f"{space} has no bounds", reason, "declare bounds")
    else:
        yield EnvFinding("action space", "ok", str(space))


def observation_findings(
    space: gymnasium.Space[Any], rows: Any, steps: int, where: Callable[[int, int], str]
) -> Iterator[EnvFinding]:
    """Yields findings on observations: invalid, out of bounds, large or constant values.

    Args:
        space: Observation space.
        rows: Observations, arrays [T, B, ...].
        steps: Number of env steps that produced the observations.
        where: Function that describes entry (t, b) in messages.
    """
    bad = first_bad_row(space, rows)
    if bad is not None:
        place, mismatch = bad
        found = f"{mismatch} ({where(*place)})"
        yield EnvFinding("observations", "wrong", found, "training would stop at the first one", "fix the env")
        return
    outside = [*_outside(space, rows)]
    yield from outside
    large, largest = [], 0.0
    for path, leaf in named_leaves(rows):
        own = _leaf_space(space, path)
        if isinstance(own, Box) and np.issubdtype(own.dtype, np.floating) and leaf.size:
            most = float(np.abs(leaf).max())
            largest = max(largest, most)
            if most > LARGE_NUMBER:
                large.append(f"{f' of {path}' if path else ''} up to {most:.4g}")
    if large:
        reason, advice = "networks learn slowly from large inputs", "config.normalize_observations: true, or scale them"
        is_severe = largest > VERY_LARGE_NUMBER
        yield EnvFinding("observations", "note", f"numbers{', '.join(large)}", reason, advice, is_severe)
    elif not outside:
        yield EnvFinding("observations", "ok", f"{steps:,} steps: shape and bounds as declared")
    still = [path for path, leaf in named_leaves(rows) if (leaf == leaf[:1]).all()]
    constant = [path or "the whole observation" for path in still if path != ACTION_MASK]
    if constant:
        reason = "parts that never change under random actions carry no information for the policy"
        yield EnvFinding("observations", "note", f"constant: {', '.join(constant)}", reason, "leave them out")


def _outside(space: gymnasium.Space[Any], rows: Any) -> Iterator[EnvFinding]:
    for path, values in named_leaves(rows):
        leaf = _leaf_space(space, path)
        if isinstance(leaf, Box):
            outside = (values < leaf.low) | (values > leaf.high)
            if outside.any():
                found = f"{path or 'one'} contains {values[outside].ravel()[0]:.6g}, which is outside {leaf}"
                reason = (
                    "rlrun uses only the bounds of whole numbers and images, but other libraries may scale by "
                    "all bounds"
                )
                yield EnvFinding("observations", "note", found, reason, "declare the true bounds")


def _leaf_space(space: gymnasium.Space[Any], path: str) -> gymnasium.Space[Any]:
    for key in path.split("/") if path else []:
        parts: Any = space
        space = parts[int(key)] if isinstance(space, gymnasium.spaces.Tuple) else parts[key]
    return space


def reward_findings(rewards: NDArray[np.float64]) -> Iterator[EnvFinding]:
    """Yields one finding on the scale of an array of rewards: all zero, large, tiny or fine."""
    size, least, most = float(np.abs(rewards).mean()), float(rewards.min()), float(rewards.max())
    found = f"{least:.4g} to {most:.4g}, mean absolute {size:.4g}"
    if not rewards.any():
        reason = "random actions never earned a reward, and an agent cannot learn before it finds one"
        yield EnvFinding("rewards", "note", "all 0", reason, "improve exploration, or shape the reward")
    elif size > LARGE_REWARD or max(-least, most) > HUGE_REWARD:
        reason, advice = (
            "values and gradients grow with the reward",
            "set config.normalize_rewards: true for on-policy algorithms, else config.reward_scale below 1",
        )
        is_severe = size > VERY_LARGE_REWARD or max(-least, most) > HUGE_REWARD
        yield EnvFinding("rewards", "note", found, reason, advice, is_severe)
    elif size < SMALL_REWARD and max(-least, most) < SMALL_REWARD:
        yield EnvFinding("rewards", "note", found, "value errors are then tiny", "set reward_scale above 1")
    else:
        yield EnvFinding("rewards", "ok", found)


def seed_finding(
    step: int | None, of_other_seeds: Callable[[], int | None], *, starts_vary: bool, is_world: bool
) -> EnvFinding:
    """Returns the finding on reproducibility: equal seeds must repeat an episode, and different seeds should change it.

    Args:
        step: First step at which episodes with equal seeds and actions differ; None if they are equal.
        of_other_seeds: Function that returns the first step at which episodes with other seeds differ; None if equal.
        starts_vary: Whether the episodes of one env began in different states.
        is_world: Whether the env is a multi-agent world.
    """
    source = "a generator that reset(seed) creates" if is_world else "self.np_random, which reset(seed=...) seeds"
    if step is not None:
        found = f"the same seeds and actions led to a different state after {step} steps"
        reason = "runs cannot be reproduced or resumed exactly"
        return EnvFinding("seeds", "wrong", found, reason, f"draw all randomness from {source}")
    if of_other_seeds() is not None:
        return EnvFinding("seeds", "ok", "the same seeds repeat the same episodes, and different seeds differ")
    if starts_vary:
        found = (
            "different seeds lead to the same episodes, although the episodes of an env differ: reset ignores its seed"
        )
        reason = "all env slots and all seeds of a run see the same episodes, and runs cannot be resumed exactly"
        return EnvFinding("seeds", "wrong", found, reason, f"draw all randomness from {source}")
    found = f"different seeds lead to the same episodes: the {'world' if is_world else 'env'} is deterministic"
    reason = "episodes differ only by their actions, so a greedy evaluation repeats a single episode"
    return EnvFinding("seeds", "note", found, reason, "if the initial state may vary, have reset(seed) draw it")


def speed_finding(steps: int, seconds: float, how: str) -> EnvFinding:
    """Returns the finding on an env's throughput in steps per second.

    Args:
        steps: Number of steps taken.
        seconds: Wall time of the steps.
        how: Description of how the env was stepped, for the message.
    """
    rate = steps / max(seconds, 1e-9)
    found = f"{rate:,.0f} steps/s {how}"
    if rate >= SLOW_STEPS_S or seconds < SLOW_AFTER_S:
        return EnvFinding("speed", "ok", found)
    reason = f"a million steps take {1e6 / rate / 3600:,.1f} hours with any algorithm"
    return EnvFinding(
        "speed", "note", found, reason, "set config.num_workers: 2 or more, or use an algorithm with a replay buffer"
    )
