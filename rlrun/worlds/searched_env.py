"""Gymnasium envs of one agent that can be searched in, as worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.envs.spaces import Spaces
from rlrun.errors import EnvironmentUnusable
from rlrun.registry import load_object
from rlrun.worlds.searchable import ObjectGame
from rlrun.worlds.world import World, WorldStep

AGENT = "agent"
METHODS = ("get_state", "set_state", "state_of")


class SearchedEnv(World):
    """An env without chance whose state can be read, set, and told from an observation.

    Besides what every Gymnasium env has, it has `get_state()`; `set_state(state)`, which returns to it in the middle of
    an episode; and `state_of(observation)`, the state that shows an observation. What `get_state` returned never
    changes. `reset` alone may draw at random. The agent is called `agent`.

    Args:
        env: package.module:factory of the env.
        kwargs: Its keyword arguments.

    Raises:
        EnvironmentUnusable: The env lacks one of the methods, or its actions are not Discrete.
    """

    possible_agents = (AGENT,)

    def __init__(self, env: str, kwargs: Mapping[str, Any] | None = None) -> None:
        factory = load_object(env, "env factory")
        self._id = env
        self._make: Callable[[], Any] = partial(factory, **(kwargs or {}))
        self._env = self._make()
        missing = [name for name in METHODS if name not in dir(self._env)]
        if missing:
            raise EnvironmentUnusable(f"env {env} cannot be searched in: it has no {', '.join(missing)}")
        if not isinstance(self._env.action_space, Discrete):
            raise EnvironmentUnusable(
                f"env {env} cannot be searched in: its actions are {self._env.action_space}, not Discrete"
            )

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns the env's spaces."""
        return Spaces(self._env.observation_space, self._env.action_space)

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Begins an episode."""
        observation, _ = self._env.reset(seed=seed)
        return {AGENT: observation}

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Takes a step."""
        observation, reward, terminated, truncated, _ = self._env.step(actions[AGENT])
        ended = bool(terminated or truncated)
        return WorldStep(
            {AGENT: observation}, {AGENT: float(reward)}, {AGENT: terminated}, {AGENT: truncated}, {}, ended
        )

    @override
    def array_game(self) -> ObjectGame:
        """Returns the env as a game whose result is the return.

        Raises:
            EnvironmentUnusable: States that are set again do not go on as they did.
        """
        return ObjectGame(self._id, Beginnings(self._make), int(self._env.action_space.n))

    @override
    def render(self) -> NDArray[np.uint8] | None:
        """Returns a picture, if the env makes some."""
        picture: NDArray[np.uint8] | None = self._env.render() if self._env.render_mode == "rgb_array" else None
        return picture

    @override
    def close(self) -> None:
        """Closes the env."""
        self._env.close()


class Beginnings:
    """Where episodes of an env begin; what is pickled is how it is made.

    Args:
        make: Makes the env, which all positions move, one after the other.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._env = make()

    @override
    def __reduce__(self) -> tuple[type[Beginnings], tuple[Callable[[], Any]]]:
        return Beginnings, (self._make,)

    def __call__(self, seed: int) -> EnvPosition:
        """Returns the beginning of the episode with a seed."""
        observation, _ = self._env.reset(seed=seed)
        return EnvPosition(self._env, self._env.get_state(), observation)


class EnvPosition:
    """A state of an env, and what was observed and gained up to there; see `rlrun.worlds.searchable.Searchable`.

    Args:
        env: An env that any position may move.
        state: The state.
        observation: What is observed there.
        gained: Rewards of the episode so far.

    Attributes:
        mover: 1, as there is one player.
        result: The return, once the episode has ended.
    """

    __slots__ = ("_env", "_gained", "_observation", "_state", "mover", "result")

    def __init__(self, env: Any, state: Any, observation: Any, gained: float = 0.0) -> None:
        self.mover = 1
        self.result: float | None = None
        self._env, self._state, self._observation, self._gained = env, state, observation, gained

    def observe(self) -> Any:
        """Returns the observation."""
        return self._observation

    def legal(self) -> NDArray[np.bool_]:
        """Returns that every action is legal, [A]."""
        return np.ones(self._env.action_space.n, np.bool_)

    def play(self, action: int) -> None:
        """Takes a step from the state."""
        self._env.set_state(self._state)
        self._observation, reward, terminated, truncated, _ = self._env.step(action)
        self._state = self._env.get_state()
        self._gained += float(reward)
        if terminated or truncated:
            self.result = self._gained

    def clone(self) -> EnvPosition:
        """Returns the same position."""
        cloned = EnvPosition(self._env, self._state, self._observation, self._gained)
        cloned.result = self.result
        return cloned

    def at(self, observation: Any) -> EnvPosition:
        """Returns the position that an observation shows, with nothing gained before it."""
        return EnvPosition(self._env, self._env.state_of(observation), observation)
