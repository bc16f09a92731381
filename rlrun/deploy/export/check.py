"""Comparison of an exported policy with the original policy, along episodes of real observations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.deploy.export.graph import Array
from rlrun.deploy.export.policy_graph import ACTION, EPISODE_START, OBS, PREV_REWARD, PolicyGraph, leaf_names
from rlrun.engine.data.tree import map_tree
from rlrun.engine.functional.seeding import generator
from rlrun.engine.messages.errors import RlrunError

if TYPE_CHECKING:
    from rlrun.engine.policy.behavior import BehaviorPolicy

Runner = Callable[[Mapping[str, Array]], dict[str, Array]]
"""Type of a function that runs an exported policy: input arrays by name -> output arrays by name."""

TOLERANCE = 1e-5
"""Largest accepted difference between an exported policy's number and the original x, relative to max(1, |x|)."""

SLOTS = 7
"""Number of parallel streams of episodes, the batch size of the comparison."""


class ExportDiffers(RlrunError):
    """Error: an exported policy acts differently from the original policy."""


@dataclass(frozen=True)
class ObservationStream:
    """Observations over T steps in B = `SLOTS` parallel streams, each with one episode after another.

    Attributes:
        observations: Observations, a tree of [T, B, ...].
        rewards: Reward of the step before each observation, [T, B].
        starts: Whether an observation starts an episode, [T, B].
    """

    observations: Any
    rewards: NDArray[np.float64]
    starts: NDArray[np.bool_]


@dataclass
class OutputComparison:
    """Result of comparing an exported policy with the original.

    Attributes:
        observations: Number of observations.
        episodes: Number of episodes started.
        difference: Largest difference of any output: |exported - original| / max(1, |original|).
        ties: Number of actions that differ only because the two best actions are equally good within the tolerance.
    """

    observations: int = 0
    episodes: int = 0
    difference: float = 0.0
    ties: int = 0


def compare(
    behavior: BehaviorPolicy, policy: PolicyGraph, runner: Runner, stream: ObservationStream, *, seed: int
) -> OutputComparison:
    """Runs an exported policy and the original on the same observations, and compares their outputs.

    At each step, the exported policy is called with a batch of `SLOTS` observations, and again with only the first of
    them.

    Args:
        behavior: The behavior policy, with its weights loaded.
        policy: The graph that was exported.
        runner: Function that runs the exported policy.
        stream: Observations on which the policies are compared.
        seed: Seed of the noise.

    Raises:
        ExportDiffers: The policies act differently.
    """
    found = OutputComparison()
    draws = _Draws(seed, list(policy.noise))
    by_rows = {rows: _Exported(policy, runner, rows) for rows in (SLOTS, 1)}
    for t in range(len(stream.starts)):
        observations = map_tree(lambda leaf, t=t: np.ascontiguousarray(leaf[t]), stream.observations)
        expected = _expected(behavior, policy, observations, stream.rewards[t], stream.starts[t], draws)
        given = dict(leaf_names(OBS, observations)) | draws.latest
        given |= {PREV_REWARD: stream.rewards[t].astype(np.float32), EPISODE_START: stream.starts[t]}
        for rows, exported in by_rows.items():
            got = exported.step({name: np.ascontiguousarray(array[:rows]) for name, array in given.items()})
            _check(behavior, policy, {name: array[:rows] for name, array in expected.items()}, got, t, found)
        found.observations += SLOTS
        found.episodes += int(stream.starts[t].sum())
    return found


class _Exported:
    """Exported policy with the memory of its episodes."""

    def __init__(self, policy: PolicyGraph, runner: Runner, slots: int) -> None:
        self._runner = runner
        inputs = policy.graph.inputs
        names = [f"{name}_in" for name in policy.memory]
        self._memory = {name: np.zeros((slots, *inputs[name].shape[1:]), inputs[name].dtype) for name in names}

    def step(self, given: Mapping[str, Array]) -> dict[str, Array]:
        outputs = self._runner({**given, **self._memory})
        self._memory = {name: outputs[f"{name.removesuffix('_in')}_out"] for name in self._memory}
        return outputs


class _Draws:
    """Generator whose draws are kept as noise inputs."""

    def __init__(self, seed: int, names: list[str]) -> None:
        self._generator = generator(seed, "export")
        self._names = names
        self.latest: dict[str, Array] = {}
        self.as_generator: Any = self

    def begin(self) -> None:
        self.latest = {}

    def _kept(self, drawn: Array) -> Array:
        self.latest[self._names[len(self.latest)]] = drawn.reshape(SLOTS, -1)
        return drawn

    def standard_normal(self, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
        return self._kept(self._generator.standard_normal(shape, dtype))

    def standard_exponential(self, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
        return self._kept(self._generator.standard_exponential(shape, dtype))

    def logistic(self, size: tuple[int, ...]) -> Array:
        return self._kept(self._generator.logistic(size=size))

    def random(self, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
        return self._kept(self._generator.random(shape, dtype))


def _expected(
    behavior: BehaviorPolicy, policy: PolicyGraph, observations: Any, rewards: Array, starts: Array, draws: _Draws
) -> dict[str, Array]:
    """The policy's own actions and scores, by the names of the outputs."""
    behavior.take_rewards(rewards)
    behavior.begin_episodes(starts)
    draws.begin()
    if policy.noise:
        own, scores = behavior.sampled(observations, draws.as_generator)
    else:
        scores = behavior.outputs(observations)
        own = behavior.action_space.mode(scores)
    behavior.memory.remember(own, None)
    actions = behavior.action_space.to_env(own)
    return {policy.scores: scores} | {name: np.asarray(leaf) for name, leaf in leaf_names(ACTION, actions)}


def _check(
    behavior: BehaviorPolicy,
    policy: PolicyGraph,
    expected: Mapping[str, Array],
    got: Mapping[str, Array],
    t: int,
    found: OutputComparison,
) -> None:
    """Adds the differences of a step to a comparison.

    Raises:
        ExportDiffers: They are too large.
    """
    for name, numbers in expected.items():
        other = got[name]
        if other.shape != numbers.shape or other.dtype != numbers.dtype:
            raise ExportDiffers(f"{name} is {other.dtype} {other.shape}, not {numbers.dtype} {numbers.shape}")
        if not np.issubdtype(numbers.dtype, np.floating):
            continue
        # Equality is tested first, because infinities and NaNs match themselves but have no distance.
        same = (numbers == other) | (np.isnan(numbers) & np.isnan(other))
        distance = np.where(same, 0.0, np.abs(np.float64(numbers) - other) / np.maximum(1, np.abs(numbers)))
        found.difference = max(found.difference, float(distance.max(initial=0.0)))
        if not found.difference <= TOLERANCE:
            raise ExportDiffers(
                f"the difference in {name} is {found.difference:.2g} at step {t}, more than the allowed {TOLERANCE:g}"
            )
    wrong = [name for name, numbers in expected.items() if not _is_real(numbers) and (numbers != got[name]).any()]
    if not wrong:
        return
    # Scores that agree within the tolerance may lead to another choice, which is valid if the export's scores imply it.
    chosen = behavior.action_space.to_env(behavior.action_space.mode(got[policy.scores]))
    by_scores = dict(leaf_names(ACTION, chosen))
    if policy.noise or any((by_scores[name] != got[name]).any() for name in wrong):
        raise ExportDiffers(f"{wrong[0]} is {got[wrong[0]].tolist()} at step {t}, not {expected[wrong[0]].tolist()}")
    found.ties += 1


def _is_real(numbers: Array) -> bool:
    return bool(np.issubdtype(numbers.dtype, np.floating))
