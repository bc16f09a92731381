"""Multi-agent CartPole with independent poles, as a dict-based env and as a vectorized env of many worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.envs.cartpole_motion import CartPoleMotion
from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.worlds.array_worlds import ArrayGroup, ArrayStep, GroupRows
from rlrun.engine.worlds.world import World, WorldStep

GROUP = "pole"
MAX_STEPS = 500


class CartPoleArrays:
    """Vectorized form of `CartPoles`: W multi-agent envs (worlds) of K poles each, stepped together as arrays.

    It implements `ArrayWorld`, with one group of agents, `pole`.

    Args:
        num_worlds: W, number of worlds.
        num_agents: K, number of poles per world.
        reborn: Whether a fallen pole is replaced by a new one.
        max_steps: Steps after which a world's episode is truncated.
    """

    clock: WorldClock = "parallel"
    state_space = None

    def __init__(
        self, num_worlds: int, num_agents: int = 2, *, reborn: bool = False, max_steps: int = MAX_STEPS
    ) -> None:
        shape = (num_worlds, num_agents)
        self.num_worlds = num_worlds
        single = CartPoleEnv()
        self.groups: Mapping[str, ArrayGroup] = {
            GROUP: ArrayGroup(num_agents, Spaces(single.observation_space, single.action_space))
        }
        self._reborn = reborn
        self._max_steps = np.array(max_steps)
        self._motion = CartPoleMotion(num_worlds * num_agents)
        self._state_rows = self._motion.state.T.reshape(*shape, 4)  # a view
        self._generators = [np.random.default_rng(0)] * num_worlds
        self._lengths = np.zeros(num_worlds, np.int64)
        self._fallen, self._acts, self._terminateds, self._truncateds = np.zeros((4, *shape), np.bool_)
        self._observations = np.zeros((*shape, 4), np.float32)
        self._rewards = np.zeros(shape)
        self._over = np.zeros(num_worlds, np.bool_)
        rows = GroupRows(self._observations, self._rewards, self._terminateds, self._truncateds, self._acts)
        self._rows = {GROUP: rows}

    def reset(self, worlds: Sequence[int], seeds: Sequence[int]) -> ArrayStep:
        """Resets selected worlds: each pole gets a new initial state.

        The initial states in a world are equal to those from successive resets of one CartPole with the world's seed.
        """
        num_agents = self._acts.shape[1]
        for world, seed in zip(worlds, seeds, strict=True):
            # Gymnasium creates the same generator from a seed.
            generator = self._generators[world] = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
            self._motion.start_several(slice(world * num_agents, (world + 1) * num_agents), generator)
        begun = list(worlds)
        self._acts[begun] = True
        self._lengths[begun] = 0
        self._rewards[begun] = 0.0
        self._terminateds[begun] = self._truncateds[begun] = False
        self._over[begun] = False
        self._observations[:] = self._state_rows
        return ArrayStep(self._rows, self._over)

    def step(self, actions: Mapping[str, Any]) -> ArrayStep:
        """Pushes each cart to the left or to the right."""
        acts, terminateds, truncateds, over = self._acts, self._terminateds, self._truncateds, self._over
        leaving = np.argwhere(terminateds).tolist() if self._reborn else ()
        self._motion.move(actions[GROUP].reshape(-1), self._fallen.reshape(-1))
        self._lengths += 1
        np.greater_equal(self._lengths, self._max_steps, over)
        self._rewards[:] = acts
        np.logical_and(self._fallen, acts, terminateds)
        np.logical_and(acts, over[:, None], truncateds)
        np.greater(acts, terminateds, acts)
        np.greater(acts, truncateds, acts)
        if self._reborn:
            for world, pole in leaving:
                if not over[world]:
                    self._motion.start(world * acts.shape[1] + pole, self._generators[world])
                    acts[world, pole] = True
        else:
            np.logical_or(over, ~acts.any(axis=1), over)
        self._observations[:] = self._state_rows
        return ArrayStep(self._rows, over)

    def state(self) -> NDArray[Any]:
        """Raises NotImplementedError, since the worlds have no global state."""
        raise NotImplementedError("CartPoles have no state")

    def close(self) -> None:
        """No-op: there are no resources to release."""


class CartPoles(World):
    """Multi-agent CartPole: each agent balances and observes its own pole only.

    Each pole equals Gymnasium's CartPole-v1 bit for bit. The poles start in the same states as successive resets of one
    CartPole with the env's seed.

    Observation: position, velocity, angle, angular velocity of the agent's own pole, [4]. Actions: Discrete(2), 0
    pushes to the left, 1 to the right. Rewards: 1 for each step, including the step of the fall. Ends: an agent's
    episode is terminated when its pole falls. The episode of the whole multi-agent env (the world) ends when all poles
    have fallen, or is truncated after `max_steps` steps. The best return is `max_steps`.

    With `reborn`, a fallen pole is replaced in the next step by a new pole with the same id, and only `max_steps` ends
    the world's episode. The new pole starts in the state that the next reset of that same CartPole would give.

    Args:
        num_agents: Number of poles at any time; their ids are `pole_0`, `pole_1` and so on.
        reborn: Whether a fallen pole is replaced by a new one.
        max_steps: Steps after which the world's episode is truncated.
    """

    def __init__(self, num_agents: int = 2, *, reborn: bool = False, max_steps: int = MAX_STEPS) -> None:
        self.possible_agents = [f"{GROUP}_{pole}" for pole in range(num_agents)]
        self._arrays = CartPoleArrays(1, num_agents, reborn=reborn, max_steps=max_steps)
        self._actions = np.zeros((1, num_agents), np.int64)

    @override
    def spaces(self, agent: str) -> Spaces:
        return self._arrays.groups[GROUP].spaces

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        rows = self._arrays.reset([0], [seed]).groups[GROUP]
        return dict(zip(self.possible_agents, rows.observations[0].copy(), strict=True))

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Pushes each cart to the left or to the right."""
        for pole, agent in enumerate(self.possible_agents):
            self._actions[0, pole] = actions.get(agent, 0)
        groups, (ended,) = self._arrays.step({GROUP: self._actions})
        rows = groups[GROUP]
        seen = rows.observations[0].copy()
        terminated, truncated = rows.terminateds[0].tolist(), rows.truncateds[0].tolist()
        observations, terminateds, truncateds = {}, {}, {}
        for pole, acts in enumerate(rows.acts[0].tolist()):
            agent = self.possible_agents[pole]
            if acts or terminated[pole] or truncated[pole]:
                observations[agent] = seen[pole]
            if terminated[pole]:
                terminateds[agent] = True
            if truncated[pole]:
                truncateds[agent] = True
        return WorldStep(observations, dict.fromkeys(actions, 1.0), terminateds, truncateds, {}, bool(ended))
