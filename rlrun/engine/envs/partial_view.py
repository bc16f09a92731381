"""Env wrappers for partial observability (POMDPs), for testing policies with memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.envs.batched_observation import BatchedObservation

FLICKERS = 0xF11C
"""Seed constant that separates the wrapper's random stream from the env's."""


NAMES: dict[str, tuple[str, ...]] = {
    "CartPole": ("position", "velocity", "angle", "angular_velocity"),
    "Pendulum": ("cosine", "sine", "angular_velocity"),
    "MountainCar": ("position", "velocity"),
    "MountainCarContinuous": ("position", "velocity"),
    "Acrobot": ("cosine_1", "sine_1", "cosine_2", "sine_2", "angular_velocity_1", "angular_velocity_2"),
    "LunarLander": ("x", "y", "x_velocity", "y_velocity", "angle", "angular_velocity", "left_leg", "right_leg"),
    "LunarLanderContinuous": (
        "x",
        "y",
        "x_velocity",
        "y_velocity",
        "angle",
        "angular_velocity",
        "left_leg",
        "right_leg",
    ),
    "InvertedDoublePendulum": (
        *("position", "sine_1", "sine_2", "cosine_1", "cosine_2"),
        *("velocity", "angular_velocity_1", "angular_velocity_2"),
        "constraint_force",
    ),
    "Reacher": (
        *("cosine_1", "cosine_2", "sine_1", "sine_2", "target_x", "target_y"),
        *("angular_velocity_1", "angular_velocity_2", "distance_x", "distance_y"),
    ),
}
"""Names of the observation's entries, by env id without version."""

VELOCITIES = ("velocity", "qvel", "cvel", "ten_velocity")
"""Substrings that identify the names of velocities."""


def number_names(env: gymnasium.Env[Any, Any]) -> tuple[str, ...]:
    """Returns the names of the entries of an env's observation vector; empty if unknown.

    For MuJoCo envs, these are the names of the observation's declared parts, such as `qvel`.
    """
    base = env.unwrapped
    known = NAMES.get("" if base.spec is None else base.spec.name)
    if known is not None:
        return known
    # Only MuJoCo envs declare the parts of their observations.
    structure: dict[str, int] = vars(base).get("observation_structure", {})
    return tuple(name for name, size in structure.items() if name != "skipped_qpos" for _ in range(size))


class PartialView(BatchedObservation):
    """Env wrapper that keeps a subset of a vector observation's entries, as in ``{kwargs: {numbers: [0, 2]}}``.

    For example, CartPole-v1 with `numbers: [0, 2]`, or `[position, angle]`, has observations without velocities.

    Args:
        env: The env.
        numbers: Entries to keep, given by index (from 0) or by a name from `number_names`.

    Raises:
        ValueError: The env's observations are not vectors, or lack one of the entries.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], numbers: Sequence[int | str]) -> None:
        super().__init__(env)
        self._numbers, self.observation_space = _selection(env, numbers, "PartialView")

    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Returns the kept entries of an observation, [..., kept entries]."""
        shown: NDArray[Any] = observation[..., self._numbers]
        return shown


class Parts(BatchedObservation):
    """Env wrapper that splits a vector observation into a Dict of named parts, as in ``{kwargs: {velocity: [1, 3]}}``.

    The setting `model.actor_sees` can then hide a part, such as the velocities, from the actor but not from the
    critics.

    Args:
        env: The env.
        parts: Entries of each part, by the part's name; entries are given by index or name, as in `PartialView`.

    Raises:
        ValueError: The env's observations are not vectors, or lack one of the entries.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], **parts: Sequence[int | str]) -> None:
        super().__init__(env)
        selections = {name: _selection(env, numbers, "Parts") for name, numbers in parts.items()}
        self._numbers = {name: numbers for name, (numbers, _) in selections.items()}
        self.observation_space = gymnasium.spaces.Dict({name: space for name, (_, space) in selections.items()})

    def observation(self, observation: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Splits an observation into its named parts, each [..., entries of the part]."""
        return {name: observation[..., numbers] for name, numbers in self._numbers.items()}


class HideVelocities(PartialView):
    """Env wrapper that removes velocities from observations of classic control, Box2D and MuJoCo envs.

    Raises:
        ValueError: The env's velocities are unknown.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        names = number_names(env)
        shown = [i for i, name in enumerate(names) if not any(velocity in name for velocity in VELOCITIES)]
        if len(shown) == len(names):
            raise ValueError(
                f"HideVelocities does not know which observations of {env} are velocities; use PartialView to "
                "choose what to show"
            )
        super().__init__(env, shown)


def _selection(
    env: gymnasium.Env[Any, Any], numbers: Sequence[int | str], wrapper: str
) -> tuple[NDArray[np.int64], gymnasium.spaces.Box]:
    """Returns the indices of some entries in an env's observation vector, and the space of these entries."""
    space = env.observation_space
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
        raise ValueError(f"{wrapper} needs vector observations, not {space}")
    names = number_names(env)
    if unknown := [number for number in numbers if isinstance(number, str) and number not in names]:
        told = ", ".join(dict.fromkeys(names)) or "none"
        raise ValueError(f"{wrapper}: unknown name {unknown[0]!r}; known names: {told}")
    # In MuJoCo envs, one name stands for several entries: all numbers of a part of the observation.
    shown = [i for own in numbers for i in ([own] if isinstance(own, int) else _places(names, own))]
    if not shown or min(shown) < 0 or max(shown) >= space.shape[0]:
        raise ValueError(f"{wrapper}: numbers must be from 0 to {space.shape[0] - 1}, not {numbers}")
    places = np.array(shown)
    return places, gymnasium.spaces.Box(space.low[places], space.high[places], dtype=space.dtype)


def _places(names: Sequence[str], name: str) -> list[int]:
    return [i for i, own in enumerate(names) if own == name]


class Flicker(gymnasium.Wrapper[NDArray[Any], Any, NDArray[Any], Any]):  # type: ignore[misc]
    """Env wrapper that zeroes each observation with a fixed probability, as in ``{kwargs: {probability: 0.5}}``.

    The random stream is seeded with the episode's seed, so episodes are reproducible.

    Raises:
        ValueError: The probability is not between 0 and 1, or the observation space is not a Box.

    Source:
        Hausknecht and Stone, arXiv:1507.06527, section 5.1.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], probability: float = 0.5) -> None:
        super().__init__(env)
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"Flicker: the probability must be between 0 and 1, not {probability}")
        space = env.observation_space
        if not isinstance(space, gymnasium.spaces.Box):
            raise ValueError(f"Flicker needs Box observations, not {space}")
        self.observation_space = gymnasium.spaces.Box(
            np.minimum(space.low, 0), np.maximum(space.high, 0), dtype=space.dtype
        )
        self._probability = probability
        self._generator = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the env, and seeds the flicker's random stream with the episode's seed."""
        if seed is not None:
            self._generator = np.random.default_rng([seed, FLICKERS])
        observation, info = self.env.reset(seed=seed, options=options)
        return self._shown(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the env; with probability `probability`, replaces the observation with zeros."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._shown(observation), reward, terminated, truncated, info

    def _shown(self, observation: NDArray[Any]) -> NDArray[Any]:
        return np.zeros_like(observation) if self._generator.random() < self._probability else observation
