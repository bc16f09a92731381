"""Adapter for multi-agent Gymnasium envs with tuples of observations and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Tuple
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.single_env import make_single_env
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.vector_env import close_or_warn
from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.worlds.world import World, WorldStep


class JointEnv(World):
    """World adapter for a multi-agent Gymnasium env with Tuple spaces, one element per agent, and a list of rewards.

    Examples are level-based foraging (`lbforaging`) and multi-robot warehouses. All agents act at each step, and their
    episodes end with the env's episode. Agents' ids are agent_0, agent_1, and so on. If observations are 1-d float
    Boxes, the global state is their concatenation, as in Papoudakis et al., arXiv:2006.07869.

    Args:
        env_id: The env's id; `package:Id-v0` imports the package first.
        kwargs: Keyword arguments of the env.

    Raises:
        EnvironmentUnusable: The env's spaces are not Tuples with one element per agent, or a package is missing.
        UsageError: No env is registered under the id.
    """

    def __init__(self, env_id: str, kwargs: Mapping[str, Any] | None = None) -> None:
        self._env = make_single_env(EnvConfig(id=env_id, kwargs=dict(kwargs or {})))
        observations, actions = self._env.observation_space, self._env.action_space
        if not (isinstance(observations, Tuple) and isinstance(actions, Tuple) and len(observations) == len(actions)):
            close_or_warn(self._env.close, env_id, "before any episode")
            raise EnvironmentUnusable(
                f"env {env_id} is not a multi-agent env: observations and actions must be Tuples with a part "
                f"for each agent, not {observations} and {actions}"
            )
        parts = (Spaces(*pair) for pair in zip(observations, actions, strict=True))
        self._spaces = {f"agent_{number}": spaces for number, spaces in enumerate(parts)}
        self.possible_agents = tuple(self._spaces)
        self.state_space = _joint_box([spaces.observation for spaces in self._spaces.values()])
        self._seen: Sequence[Any] = ()

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns an agent's observation and action space."""
        return self._spaces[agent]

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Resets the env to the start of an episode; returns all agents' observations."""
        self._seen, _ = self._env.reset(seed=seed)
        return self._by_agent(self._seen)

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Steps the env with the joint action of all agents."""
        joint = tuple(actions[agent] for agent in self.possible_agents)
        self._seen, rewards, terminated, truncated, _ = self._env.step(joint)
        ended = dict.fromkeys(self.possible_agents, True)
        return WorldStep(
            self._by_agent(self._seen),
            self._by_agent(rewards),
            ended if terminated else {},
            ended if truncated else {},
            {},
            bool(terminated or truncated),
        )

    @override
    def state(self) -> NDArray[Any]:
        """Returns the global state, a vector of D numbers, [D]: the concatenated observations of all agents."""
        return np.concatenate(self._seen)

    @override
    def render(self) -> NDArray[np.uint8] | None:
        """Renders the env as an RGB image [height, width, 3]; None without a render mode for images."""
        picture = self._env.render()
        return picture if isinstance(picture, np.ndarray) else None

    @override
    def close(self) -> None:
        """Closes the env."""
        self._env.close()

    def _by_agent(self, parts: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self.possible_agents, parts, strict=True))


def _joint_box(spaces: Sequence[Any]) -> Box | None:
    """Returns the space of the concatenated observations; None unless all are 1-d Boxes."""
    boxes = [space for space in spaces if isinstance(space, Box) and len(space.shape) == 1]
    if len(boxes) < len(spaces):
        return None
    return Box(
        np.concatenate([box.low for box in boxes]), np.concatenate([box.high for box in boxes]), dtype=np.float32
    )
