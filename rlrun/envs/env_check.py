"""Steps an env by random actions as training would, and says what is found and what it means for learning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK
from rlrun.data.tree import leaves, map_tree, named_leaves
from rlrun.envs.env_config import EnvConfig
from rlrun.envs.env_watch import Watched
from rlrun.envs.episode_place import EpisodePlace, EpisodeSeeds
from rlrun.envs.make import make_env, make_vector_env
from rlrun.envs.random_actions import RandomActions
from rlrun.envs.spaces import Spaces, first_bad_row
from rlrun.envs.vector_env import BadReturn, VectorEnv, close_or_warn, env_error, observation_hash

Verdict = Literal["ok", "note", "wrong"]

SLOTS = 2
REPEATED_STEPS = 200
"""Steps that are taken a second time with the same seeds and actions."""
MAX_REPLAY_S = 60.0
LARGE_NUMBER = 20.0
"""Observations beyond it slow learning down: networks begin with inputs of about 1 in mind."""
LARGE_REWARD = 10.0
"""A mean absolute reward beyond it makes values, and so a critic's gradients, large."""
SMALL_REWARD = 1e-3
SLOW_STEPS_S = 200.0
"""Steps in a second below which an env is slow: a million of them take more than 80 minutes."""
SLOW_AFTER_S = 1.0
"""Seconds that steps must have taken to be judged by: the first ones are slow in many envs."""

_ACTION_SEED = 0


@dataclass(frozen=True)
class EnvFinding:
    """Something that is known of an env now.

    Attributes:
        topic: What it is about.
        verdict: "wrong" for what training or a resume will trip over, "note" for what learning may suffer from, "ok".
        found: What was seen, with its numbers.
        reason: What follows from it, "" where nothing does.
        advice: What to do about it.
    """

    topic: str
    verdict: Verdict
    found: str
    reason: str = ""
    advice: str = ""


@dataclass(frozen=True)
class _Played:
    """What a number of steps showed.

    Attributes:
        observations: [T + 1, B, ...], the first ones included.
        actions: [T, B, ...].
        rewards: [T, B].
        begins: Whether the step began an episode and so was none, [T, B].
        terminateds: [T, B].
        truncateds: [T, B].
        seconds: Wall time of the steps.
        places: Where the env slots are in the end.
        refusal: What the env returned behind all that, and no env may return; "" for nothing.
    """

    observations: Any
    actions: list[Any]
    rewards: NDArray[np.float64]
    begins: NDArray[np.bool_]
    terminateds: NDArray[np.bool_]
    truncateds: NDArray[np.bool_]
    seconds: float
    places: list[EpisodePlace]
    refusal: str

    @property
    def lengths(self) -> list[int]:
        """Steps of each episode that ended, slot by slot."""
        found = []
        for slot in range(self.rewards.shape[1]):
            steps = 0
            for t in range(len(self.rewards)):
                steps = 0 if self.begins[t, slot] else steps + 1
                if self.terminateds[t, slot] or self.truncateds[t, slot]:
                    found.append(steps)
        return found


def check_by_stepping(config: EnvConfig, *, steps: int, seed: int = 0) -> list[EnvFinding]:
    """Steps an env by random actions, and tries what training, resume and evaluation count on.

    Args:
        config: The env.
        steps: Env steps to take in all.
        seed: Root seed of its episodes.

    Returns:
        What was found, in the order in which a reader should take it in.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or this is no env that rlrun can train on.
        EnvError: The env's own code raised.
    """
    world = _make(config, seed)
    try:
        spaces = Spaces(world.observation_space, world.action_space)
        with Watched(f"env {config.id}: check", world.places):
            played = _play(world, spaces, max(steps // SLOTS, 2))
    finally:
        world.close()
    if not played.actions:
        return [*_spaces(world), refusal_finding(played.refusal)]
    return [
        *_spaces(world),
        *([refusal_finding(played.refusal)] if played.refusal else _types(config, spaces, seed, world.name)),
        *observation_findings(spaces.observation, played.observations, played.rewards.size, _after_steps),
        *reward_findings(played.rewards[~played.begins]),
        *_episodes(played),
        *_seeds(config, seed, played),
        *([] if played.refusal else _replay(config, seed, played)),
        speed_finding(played.rewards.size, played.seconds, f"in one process, {SLOTS} env slots"),
    ]


def _make(config: EnvConfig, seed: int) -> VectorEnv:
    return make_vector_env(config, SLOTS, EpisodeSeeds(seed, 0))


def _play(world: VectorEnv, spaces: Spaces, length: int) -> _Played:
    random = RandomActions(spaces, _ACTION_SEED)
    seen: list[Any] = []
    actions: list[Any] = []
    rewards, (begins, terminateds, truncateds) = np.zeros((length, SLOTS)), np.zeros((3, length, SLOTS), np.bool_)
    seconds, refusal = 0.0, ""
    try:
        seen.append(map_tree(np.copy, world.reset()))
        for t in range(length):
            action = random.draw(seen[-1])
            start = time.perf_counter()
            observations, rewards[t], terminateds[t], truncateds[t], _ = world.step(action)
            seconds += time.perf_counter() - start
            seen.append(map_tree(np.copy, observations))
            actions.append(action)
            begins[t] = terminateds[t - 1] | truncateds[t - 1] if t else False
    except BadReturn as error:
        refusal = str(error)
    taken = len(actions)
    return _Played(
        observations=map_tree(lambda *rows: np.stack(rows), *seen) if seen else None,
        actions=actions,
        rewards=rewards[:taken],
        begins=begins[:taken],
        terminateds=terminateds[:taken],
        truncateds=truncateds[:taken],
        seconds=seconds,
        places=world.places(),
        refusal=refusal,
    )


def refusal_finding(refusal: str) -> EnvFinding:
    """Says what was returned that no env or world may return."""
    reason = "training ends there with exit code 4; what else is told is of the steps before"
    return EnvFinding("returns", "wrong", refusal, reason, "mend what it returns")


def _types(config: EnvConfig, spaces: Spaces, seed: int, backend: str) -> Iterator[EnvFinding]:
    """Looks at what a single env itself returns: the loop backend casts it to the types of the space."""
    if backend != "loop":
        return
    env, random, own_seed = make_env(config, seed=seed), RandomActions(spaces, _ACTION_SEED), EpisodeSeeds(seed, 0)
    found: dict[str, str] = {}
    place = EpisodePlace(0, own_seed.seed(0, 0), 0)
    try:
        with Watched(f"env {config.id}: check", lambda: [place]):
            observation, _ = env.reset(seed=place.seed)
            _note_types(found, spaces.observation, observation)
            ended = False
            while not ended and place.length < REPEATED_STEPS:
                observation, _, terminated, truncated, _ = env.step(random.draw_one(observation))
                place = replace(place, length=place.length + 1)
                _note_types(found, spaces.observation, observation)
                ended = terminated or truncated
    except (Exception, SystemExit) as error:
        raise env_error(config.id, "step()", str(place), error) from error
    finally:
        close_or_warn(env.close, config.id, str(place))
    for path, told in found.items():
        reason = "it is cast at each step, which takes time, and other libraries refuse it"
        yield EnvFinding("observations", "note", f"{path or 'one'} is {told}", reason, "return the type that holds")


def _note_types(found: dict[str, str], space: gymnasium.Space[Any], observation: Any) -> None:
    """Notes by path the first number type of a part of an observation that is not the one of its space."""
    for path, leaf in named_leaves(observation):
        own, dtype = _leaf_space(space, path), np.asarray(leaf).dtype
        if isinstance(own, Box) and dtype != own.dtype:
            found.setdefault(path, f"{dtype}, and its space says {own.dtype}")


def _after_steps(steps: int, slot: int) -> str:
    return f"env {slot}, after {steps} steps"


def _spaces(world: VectorEnv) -> Iterator[EnvFinding]:
    yield from space_findings(Spaces(world.observation_space, world.action_space))
    yield EnvFinding("backend", "ok", world.name)


def space_findings(spaces: Spaces) -> Iterator[EnvFinding]:
    """Says what is found of spaces."""
    yield EnvFinding("observation space", "ok", str(spaces.observation))
    space = spaces.action
    if isinstance(space, Box) and not space.is_bounded():
        reason = "a policy's actions are in units of half the range between bounds; sac, td3 and ddpg cannot act at all"
        yield EnvFinding("action space", "note", f"{space} has no bounds", reason, "declare bounds")
    else:
        yield EnvFinding("action space", "ok", str(space))


def observation_findings(
    space: gymnasium.Space[Any], rows: Any, steps: int, where: Callable[[int, int], str]
) -> Iterator[EnvFinding]:
    """Says what is found of observations.

    Args:
        space: Their space.
        rows: Leaves [T, B, ...].
        steps: In how many steps they were shown.
        where: From t and b to the words for where that was.
    """
    bad = first_bad_row(space, rows)
    if bad is not None:
        place, misfit = bad
        found = f"{misfit} ({where(*place)})"
        yield EnvFinding("observations", "wrong", found, "training stops at the first of them", "mend the env")
        return
    outside = [*_outside(space, rows)]
    yield from outside
    large = []
    for path, leaf in named_leaves(rows):
        own = _leaf_space(space, path)
        if isinstance(own, Box) and np.issubdtype(own.dtype, np.floating) and leaf.size:
            most = float(np.abs(leaf).max())
            if most > LARGE_NUMBER:
                large.append(f"{f' of {path}' if path else ''} up to {most:.4g}")
    if large:
        reason, advice = "networks learn slowly from large inputs", "config.normalize_observations: true, or scale them"
        yield EnvFinding("observations", "note", f"numbers{', '.join(large)}", reason, advice)
    elif not outside:
        yield EnvFinding("observations", "ok", f"{steps:,} steps: shape and bounds as declared")
    still = [path for path, leaf in named_leaves(rows) if (leaf == leaf[:1]).all()]
    constant = [path or "all of it" for path in still if path != ACTION_MASK]
    if constant:
        reason = "what never changes under random actions tells a policy nothing"
        yield EnvFinding("observations", "note", f"constant: {', '.join(constant)}", reason, "leave it out")


def _outside(space: gymnasium.Space[Any], rows: Any) -> Iterator[EnvFinding]:
    for path, values in named_leaves(rows):
        leaf = _leaf_space(space, path)
        if isinstance(leaf, Box):
            outside = (values < leaf.low) | (values > leaf.high)
            if outside.any():
                found = f"{path or 'one'} holds {values[outside].ravel()[0]:.6g}, which is outside {leaf}"
                reason = "rlrun relies on bounds of whole numbers and images alone, other libraries may scale by all"
                yield EnvFinding("observations", "note", found, reason, "declare the bounds that hold")


def _leaf_space(space: gymnasium.Space[Any], path: str) -> gymnasium.Space[Any]:
    for key in path.split("/") if path else []:
        parts: Any = space
        space = parts[int(key)] if isinstance(space, gymnasium.spaces.Tuple) else parts[key]
    return space


def reward_findings(rewards: NDArray[np.float64]) -> Iterator[EnvFinding]:
    """Says what is found of rewards, [N]."""
    size, least, most = float(np.abs(rewards).mean()), float(rewards.min()), float(rewards.max())
    found = f"{least:.4g} to {most:.4g}, mean absolute {size:.4g}"
    if not rewards.any():
        reason = "random actions never meet a reward, and nothing is learned before one is met"
        yield EnvFinding("rewards", "note", "all 0", reason, "help exploration, or shape the reward")
    elif size > LARGE_REWARD:
        reason, advice = (
            "values and gradients grow with it",
            "config.normalize_rewards: true on-policy, else scale",
        )
        yield EnvFinding("rewards", "note", found, reason, advice)
    elif size < SMALL_REWARD and max(-least, most) < SMALL_REWARD:
        yield EnvFinding("rewards", "note", found, "errors of values are tiny beside it", "scale rewards to about 1")
    else:
        yield EnvFinding("rewards", "ok", found)


def _episodes(played: _Played) -> Iterator[EnvFinding]:
    lengths = played.lengths
    if played.refusal and not lengths:
        return
    if not lengths:
        found = f"none ended within {len(played.rewards):,} steps"
        reason = "without an end there is no return to report or to judge by"
        yield EnvFinding("episodes", "note", found, reason, "env.max_episode_steps: 1000, if it never ends")
        return
    both = int((played.terminateds & played.truncateds).sum())
    ends = f"{int(played.terminateds.sum())} terminated, {int(played.truncateds.sum())} truncated"
    found = f"{len(lengths)} of {min(lengths)} to {max(lengths)} steps; {ends}"
    if max(lengths) == 1 and len(lengths) > 1:
        yield EnvFinding("episodes", "note", found, "it is a bandit, or terminated is always True")
    elif both:
        reason = "such an end counts as terminated: no reward is expected behind it"
        yield EnvFinding("episodes", "note", f"{found}, {both} of them both", reason)
    else:
        yield EnvFinding("episodes", "ok", found)


def _seeds(config: EnvConfig, seed: int, played: _Played) -> Iterator[EnvFinding]:
    repeated, other = _make(config, seed), _make(config, seed + 1)
    try:
        if not repeated.seeds_episodes:
            yield EnvFinding("seeds", "note", "single episodes cannot be seeded here", "a resume begins new episodes")
            return
        with Watched(f"env {config.id}: check", lambda: [*repeated.places(), *other.places()]):
            found = seed_finding(
                _first_difference(repeated, played),
                partial(_first_difference, other, played),
                kind="env",
                advice="draw all randomness from self.np_random, which reset(seed=...) seeds",
            )
        yield found
    finally:
        repeated.close()
        other.close()


def seed_finding(step: int | None, of_other_seeds: Callable[[], int | None], *, kind: str, advice: str) -> EnvFinding:
    """Says what is found of seeds.

    Args:
        step: After how many steps the same seeds and actions came to something else; None for never.
        of_other_seeds: Returns the same of other seeds.
        kind: What has them, such as "env".
        advice: Where its randomness is to come from.
    """
    if step is not None:
        found = f"the same seeds and actions came to something else after {step} steps"
        return EnvFinding("seeds", "wrong", found, "runs can neither be repeated nor resumed exactly", advice)
    if of_other_seeds() is None:
        found = f"other seeds come to the same episodes: the {kind} is deterministic"
        reason = "episodes differ by actions alone, so that an evaluation without exploring repeats a single one"
        return EnvFinding("seeds", "note", found, reason, "let reset(seed) draw the first state, if it may vary")
    return EnvFinding("seeds", "ok", "the same seeds repeat episodes, others differ")


def _first_difference(world: VectorEnv, played: _Played) -> int | None:
    """Returns after how many steps another env shows something else under the same actions; None for never."""
    if not _equal(world.reset(), map_tree(partial(_row, index=0), played.observations)):
        return 0
    for t in range(min(len(played.rewards), REPEATED_STEPS)):
        try:
            observations, rewards, *_ = world.step(played.actions[t])
        except BadReturn:  # what was played returned nothing of the kind here
            return t + 1
        same = _equal(observations, map_tree(partial(_row, index=t + 1), played.observations))
        if not same or not np.array_equal(rewards, played.rewards[t]):
            return t + 1
    return None


def _equal(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(leaves(one), leaves(other), strict=True))


def _row(rows: NDArray[Any], index: int) -> Any:
    return rows[index]


def _of_slot(actions: Any, slot: int, first: int) -> Any:
    """Returns one slot's actions [T, B, ...] from a step on."""
    return map_tree(lambda rows: rows[first:, slot], actions)


def _replay(config: EnvConfig, seed: int, played: _Played) -> Iterator[EnvFinding]:
    """Brings a fresh env to where the played one ended, as a resume does."""
    world = _make(config, seed)
    try:
        if not world.seeds_episodes:
            return
        length = len(played.rewards)
        last = map_tree(lambda rows: rows[-1], played.observations)
        actions = map_tree(lambda *rows: np.stack(rows), *played.actions)
        taken = [_of_slot(actions, slot, length - place.length) for slot, place in enumerate(played.places)]
        hashes = [observation_hash(map_tree(partial(_row, index=slot), last)) for slot in range(SLOTS)]
        with Watched(f"env {config.id}: check", world.places):
            world.reset()
            start = time.perf_counter()
            _, exact = world.restore(played.places, taken, hashes, MAX_REPLAY_S)
        seconds = time.perf_counter() - start
    finally:
        world.close()
    if all(exact):
        steps = sum(place.length for place in played.places)
        yield EnvFinding("resume", "ok", f"{steps} actions replayed in {seconds:.2g} s, exactly")
    else:
        found = f"{SLOTS - sum(exact)} of {SLOTS} env slots came elsewhere when their actions were replayed"
        reason = "it has state that seed and actions do not decide; a resume begins new episodes there"
        yield EnvFinding("resume", "wrong", found, reason, "make reset(seed=...) set all of the env's state")


def speed_finding(steps: int, seconds: float, how: str) -> EnvFinding:
    """Says what is found of an env's speed.

    Args:
        steps: Steps that were taken.
        seconds: Wall time of them.
        how: How they were taken.
    """
    rate = steps / max(seconds, 1e-9)
    found = f"{rate:,.0f} steps/s {how}"
    if rate >= SLOW_STEPS_S or seconds < SLOW_AFTER_S:
        return EnvFinding("speed", "ok", found)
    reason = f"a million steps take {1e6 / rate / 3600:,.1f} hours, whatever learns from them"
    return EnvFinding("speed", "note", found, reason, "config.num_workers: 2 or more, an algorithm with a replay")
