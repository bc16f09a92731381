"""World adapters for PettingZoo's parallel and AEC (turn-based) envs.

If infos hold an `action_mask` at the first reset, observations become {observation: ..., action_mask: ...} for all
agents whose actions can be masked. Later infos without a mask allow all actions.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, MultiBinary
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.action_masks import ACTION_MASK, can_be_masked, has_action_mask, masked_choices
from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError
from rlrun.engine.messages.foreign_names import moved_module
from rlrun.engine.settings.registry import UserCodeError, load_object
from rlrun.engine.worlds.world import World, WorldStep

_MARL = "pip install 'rlrun[marl]'"

_PROBE_SEED = 0
"""Seed of the probing reset, whose only purpose is to inspect agents and infos."""


class ParallelWorld(World):
    """World adapter for a PettingZoo ParallelEnv: all living agents act at each step.

    The world's episode is over when the env has no living agents.

    Args:
        env: The env.
    """

    clock: WorldClock = "parallel"

    def __init__(self, env: Any) -> None:
        self._env = _without_order_checks(env)
        _, infos = env.reset(seed=_PROBE_SEED)
        self.possible_agents = _possible_agents(env)
        self.state_space = _state_space(env)
        self._spaces = _AgentSpaces(env, masked=any(ACTION_MASK in info for info in infos.values()))

    @property
    @override
    def unwrapped(self) -> Any:
        """The wrapped PettingZoo env."""
        return self._env.unwrapped

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns an agent's observation and action space."""
        return self._spaces.of(agent)

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Resets the env to the start of an episode; returns the observations of the agents that act first."""
        observations, infos = self._env.reset(seed=seed)
        return self._spaces.shown(observations, infos)

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Steps the env with the joint action of all living agents."""
        observations, rewards, terminations, truncations, infos = self._env.step(actions)
        return WorldStep(
            self._spaces.shown(observations, infos),
            rewards,
            terminations,
            truncations,
            infos,
            all(terminations.get(agent) or truncations.get(agent) for agent in self._env.agents),
        )

    @override
    def state(self) -> NDArray[Any]:
        """Returns the env's global state, a vector of D numbers, [D]."""
        return self._env.state()  # type: ignore[no-any-return]

    @override
    def render(self) -> NDArray[np.uint8] | None:
        """Renders the world as an RGB image [height, width, 3]."""
        return self._env.render()  # type: ignore[no-any-return]

    @override
    def close(self) -> None:
        """Closes the env."""
        self._env.close()


class TurnBasedWorld(World):
    """World adapter for a turn-based PettingZoo AECEnv: only `agent_selection` acts.

    One agent acts in each step, after which all agents receive their part of `env.rewards` (`env.last()` would sum an
    agent's rewards since its previous action). PettingZoo gives an ended agent one more turn, the "dead step" with
    action None. The adapter takes this turn, which ends the agent's episode with its final observation.

    Args:
        env: The env.
    """

    clock: WorldClock = "per_agent"

    def __init__(self, env: Any) -> None:
        self._env = env
        env.reset(seed=_PROBE_SEED)
        self.possible_agents = _possible_agents(env)
        self.state_space = _state_space(env)
        self._spaces = _AgentSpaces(env, masked=any(ACTION_MASK in info for info in env.infos.values()))

    @property
    @override
    def unwrapped(self) -> Any:
        """The wrapped PettingZoo env."""
        return self._env.unwrapped

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns an agent's observation and action space."""
        return self._spaces.of(agent)

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Resets the env to the start of an episode; returns the observations of the agents that act first."""
        self._env.reset(seed=seed)
        observation, _, _, _, info = self._env.last()
        return self._spaces.shown({self._env.agent_selection: observation}, {self._env.agent_selection: info})

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Steps the env with the selected agent's action, then with None while the next selected agent has ended."""
        env = self._env
        (action,) = actions.values()
        env.step(action)
        rewards = dict(env.rewards)  # steps of ended agents clear the rewards
        observations: dict[str, Any] = {}
        terminateds: dict[str, bool] = {}
        truncateds: dict[str, bool] = {}
        infos: dict[str, Any] = {}
        while env.agents:
            agent = env.agent_selection
            observations[agent], _, terminateds[agent], truncateds[agent], infos[agent] = env.last()
            if not (terminateds[agent] or truncateds[agent]):
                break
            env.step(None)
        shown = self._spaces.shown(observations, infos)
        return WorldStep(shown, rewards, terminateds, truncateds, infos, ended=not env.agents)

    @override
    def state(self) -> NDArray[Any]:
        """Returns the env's global state, a vector of D numbers, [D]."""
        return self._env.state()  # type: ignore[no-any-return]

    @override
    def render(self) -> NDArray[np.uint8] | None:
        """Renders the world as an RGB image [height, width, 3]."""
        return self._env.render()  # type: ignore[no-any-return]

    @override
    def close(self) -> None:
        """Closes the env."""
        self._env.close()


class _AgentSpaces:
    """Spaces of a PettingZoo env's agents, and observations combined with the infos' action masks.

    Args:
        env: The env.
        masked: Whether infos hold action masks.
    """

    def __init__(self, env: Any, masked: bool) -> None:
        self._env = env
        self._masked = masked
        self._widths: dict[str, int] = {}

    def of(self, agent: str) -> Spaces:
        """Returns an agent's observation and action space."""
        observation, action = self._env.observation_space(agent), self._env.action_space(agent)
        if width := self._width(agent):
            observation = Dict({"observation": observation, ACTION_MASK: MultiBinary(width)})
        return Spaces(observation, action)

    def shown(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns observations combined with the infos' action masks, if the env has masks."""
        if not self._masked:
            return observations
        return {agent: self._with_mask(agent, seen, infos.get(agent, {})) for agent, seen in observations.items()}

    def _with_mask(self, agent: str, observation: Any, info: Mapping[str, Any]) -> Any:
        width = self._width(agent)
        if not width:
            return observation
        mask = info.get(ACTION_MASK)
        return {"observation": observation, ACTION_MASK: np.ones(width, np.int8) if mask is None else np.asarray(mask)}

    def _width(self, agent: str) -> int:
        """Returns the length of the action mask in an agent's info, 0 without a mask."""
        if not self._masked:
            return 0
        width = self._widths.get(agent)
        if width is None:
            action = self._env.action_space(agent)
            has_own = has_action_mask(self._env.observation_space(agent))
            is_masked = can_be_masked(action) and not has_own
            width = self._widths[agent] = sum(masked_choices(action)) if is_masked else 0
        return width


def _without_order_checks(env: Any) -> Any:
    """Removes the `OrderEnforcingWrapper` inside a ParallelEnv converted from an AECEnv, in place.

    rlrun always calls `reset` and `step` in order. The wrapper's checks take a third of the step time of MPE's worlds.
    """
    conversions = importlib.import_module("pettingzoo.utils.conversions")
    wrappers = importlib.import_module("pettingzoo.utils.wrappers")
    if isinstance(env, conversions.aec_to_parallel_wrapper) and isinstance(env.aec_env, wrappers.OrderEnforcingWrapper):
        env.aec_env = env.aec_env.env
    return env


def _possible_agents(env: Any) -> Sequence[str]:
    """Returns the possible agent ids; PettingZoo envs that generate agents need not declare them."""
    return list(getattr(env, "possible_agents", None) or env.agents)


def _state_space(env: Any) -> Box | None:
    """Returns the space of `env.state()`; None without a 1-d global state, which base classes do not declare."""
    space = getattr(env, "state_space", None)
    return space if isinstance(space, Box) and len(space.shape) == 1 else None


def as_pettingzoo_world(made: Any) -> World | None:
    """Wraps a PettingZoo env in its world adapter; returns None for other objects."""
    pettingzoo = importlib.import_module("pettingzoo")
    if isinstance(made, pettingzoo.ParallelEnv):
        return ParallelWorld(made)
    return TurnBasedWorld(made) if isinstance(made, pettingzoo.AECEnv) else None


def pettingzoo_factory(module_name: str) -> Callable[..., Any]:
    """Returns the factory of a PettingZoo module: `parallel_env`, or `env` for modules without a parallel form.

    Raises:
        UsageError: The module does not exist, or has no env.
        EnvironmentUnusable: A package is not installed.
        UserCodeError: The module raises an exception while it is imported.
    """
    package = module_name.partition(".")[0]
    for needed in ("pettingzoo", package):
        if package.isidentifier() and importlib.util.find_spec(needed) is None:
            raise EnvironmentUnusable(f"env {module_name} needs {needed}, which is not installed: {_MARL}")
    try:
        with warnings.catch_warnings():  # since 1.27, PettingZoo warns about modules that its own documentation names
            warnings.filterwarnings("ignore", "The old environment creation API", DeprecationWarning)
            load_object(f"{module_name}:__name__", "PettingZoo env")
    except UserCodeError as error:
        if isinstance(error.__cause__, ImportError):
            if moved := moved_module(module_name):
                raise UsageError(f"{module_name} has moved to a separate package: write {moved}") from None
            raise EnvironmentUnusable(f"env {module_name}: {error.__cause__}{_extra(module_name)}") from error
        raise
    factories = vars(importlib.import_module(module_name))
    factory = factories.get("parallel_env") or factories.get("env")
    if factory is None:
        raise UsageError(f"env {module_name} is not a PettingZoo env: the module has neither parallel_env nor env")
    return factory  # type: ignore[no-any-return]


def _extra(module_name: str) -> str:
    """Returns a hint with the pip command for the dependencies of a family of PettingZoo envs."""
    package, _, rest = module_name.partition(".")
    return f": pip install 'pettingzoo[{rest.partition('.')[0]}]'" if package == "pettingzoo" else ""
