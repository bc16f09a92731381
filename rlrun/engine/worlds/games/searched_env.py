"""Adapter for tree search in single-agent Gymnasium envs whose state can be set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.settings.registry import load_object
from rlrun.engine.worlds.games.searchable import ObjectGame
from rlrun.engine.worlds.world import World, WorldStep

AGENT = "agent"
METHODS = ("get_state", "set_state", "state_of")


class SearchedEnv(World):
    """Adapter for tree search that presents a deterministic single-agent env as a world with one agent.

    The env must have three additional methods: `get_state()`; `set_state(state)`, which must also work within an
    episode; and `state_of(observation)`, which infers the state from an observation. States are immutable, and only
    `reset` may be random. The agent's id is `agent`.

    Args:
        env: Import path of the env's factory, `package.module:factory`.
        kwargs: Keyword arguments of the env.

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
            raise EnvironmentUnusable(f"env {env} does not support tree search: it has no {', '.join(missing)}")
        if not isinstance(self._env.action_space, Discrete):
            raise EnvironmentUnusable(
                f"env {env} does not support tree search: its actions must be Discrete, not {self._env.action_space}"
            )

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns the env's observation and action space."""
        return Spaces(self._env.observation_space, self._env.action_space)

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Resets the env to the start of an episode."""
        observation, _ = self._env.reset(seed=seed)
        return {AGENT: observation}

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Steps the env with the agent's action."""
        observation, reward, terminated, truncated, _ = self._env.step(actions[AGENT])
        ended = bool(terminated or truncated)
        return WorldStep(
            {AGENT: observation}, {AGENT: float(reward)}, {AGENT: terminated}, {AGENT: truncated}, {}, ended
        )

    @override
    def array_game(self) -> ObjectGame:
        """Returns the env as a game for tree search, with the episode's return as outcome.

        Raises:
            EnvironmentUnusable: Steps after `set_state` differ from the original steps.
        """
        return ObjectGame(self._id, InitialPositions(self._make), int(self._env.action_space.n))

    @override
    def render(self) -> NDArray[np.uint8] | None:
        """Renders the env, if it has a render mode."""
        picture: NDArray[np.uint8] | None = self._env.render() if self._env.render_mode == "rgb_array" else None
        return picture

    @override
    def close(self) -> None:
        """Closes the env."""
        self._env.close()


class InitialPositions:
    """Sampler of initial env states for tree search; pickling it stores the env's factory instead of the env.

    Args:
        make: Factory of the env, which all positions share.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._env = make()

    @override
    def __reduce__(self) -> tuple[type[InitialPositions], tuple[Callable[[], Any]]]:
        return InitialPositions, (self._make,)

    def __call__(self, seed: int) -> EnvPosition:
        """Returns the initial position of the episode with a given seed."""
        observation, _ = self._env.reset(seed=seed)
        return EnvPosition(self._env, self._env.get_state(), observation)


class EnvPosition:
    """Node of a tree search in an env: a saved env state, its observation and the return so far; see `Searchable`.

    Args:
        env: The env, which all nodes share.
        state: Saved state of the env.
        observation: Observation of the state.
        gained: Sum of the episode's rewards so far.

    Attributes:
        mover: Always 1, the only player.
        result: Return of the episode at its end, None before.
    """

    __slots__ = ("_env", "_gained", "_observation", "_state", "mover", "result")

    def __init__(self, env: Any, state: Any, observation: Any, gained: float = 0.0) -> None:
        self.mover = 1
        self.result: float | None = None
        self._env, self._state, self._observation, self._gained = env, state, observation, gained

    def observe(self) -> Any:
        """Returns the position's observation."""
        return self._observation

    def legal(self) -> NDArray[np.bool_]:
        """Returns an all-True mask, with one entry per action, [A]: every action of the env is legal."""
        return np.ones(self._env.action_space.n, np.bool_)

    def play(self, action: int) -> None:
        """Steps the env from this state and saves the next state."""
        self._env.set_state(self._state)
        self._observation, reward, terminated, truncated, _ = self._env.step(action)
        self._state = self._env.get_state()
        self._gained += float(reward)
        if terminated or truncated:
            self.result = self._gained

    def clone(self) -> EnvPosition:
        """Returns an independent copy of the position."""
        cloned = EnvPosition(self._env, self._state, self._observation, self._gained)
        cloned.result = self.result
        return cloned

    def at(self, observation: Any) -> EnvPosition:
        """Returns the node whose env state is inferred from an observation; its return so far is set to 0."""
        return EnvPosition(self._env, self._env.state_of(observation), observation)
