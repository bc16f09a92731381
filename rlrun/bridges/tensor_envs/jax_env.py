"""Tensor envs for JAX simulators: gymnax, Brax and MuJoCo Playground.

One compiled JAX function steps all env slots, including autoreset and random numbers. Tensors are passed in and out
through DLPack, without a copy. Each env slot has its own random key, initialized from the slot's seed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor

from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.tensor_vector_env import FinalObservations, TensorStep, TensorTree
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError, did_you_mean

PyTree = Any
"""A tree of JAX arrays."""


class Advanced(NamedTuple):
    """Result of a step in B env slots, as JAX arrays.

    Attributes:
        state: State of the simulator after resets.
        observations: Observations of that state, [B, ...].
        rewards: Rewards, [B].
        terminateds: Whether each slot's episode ended in a terminal state, bool [B].
        truncateds: Whether each slot's episode was cut off, bool [B].
        finals: Observations before resets, [B, ...].
    """

    state: PyTree
    observations: PyTree
    rewards: Any
    terminateds: Any
    truncateds: Any
    finals: PyTree


class JaxSimulator(Protocol):
    """Simulator with B env slots, as pure functions that JAX compiles.

    Attributes:
        observation_space: Space of one env slot's observation.
        action_space: Space of one env slot's action.
    """

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]

    def begin(self, keys: Any) -> tuple[PyTree, PyTree]:
        """Starts an episode in each slot from random keys, uint32 [B, 2]; returns the state and observations."""
        ...

    def advance(self, keys: Any, state: PyTree, actions: Any) -> Advanced:
        """Steps all slots with random keys, uint32 [B, 2]; starts a new episode in each slot whose episode ends."""
        ...


class Slots(NamedTuple):
    """Everything that the next step of B env slots depends on, as JAX arrays.

    Attributes:
        keys: Random keys, uint32 [B, 2].
        state: State of the simulator.
        observations: Observations of that state, [B, ...].
    """

    keys: Any
    state: PyTree
    observations: PyTree


class JaxEnv:
    """Tensor env that runs a JAX simulator, with exact resume.

    Args:
        simulator: The simulator.
        num_envs: Number of env slots, B.
        device: Device of all tensors, which must be available to JAX too.

    Raises:
        EnvironmentUnusable: JAX does not have the device.
    """

    seeds_episodes = True
    is_only_one = False

    def __init__(self, simulator: JaxSimulator, num_envs: int, device: torch.device) -> None:
        import jax

        self.num_envs = num_envs
        self.device = device
        self.observation_space = simulator.observation_space
        self.action_space = simulator.action_space
        platform = "gpu" if device.type == "cuda" else device.type
        try:
            self._place = jax.devices(platform)[device.index or 0]
        except (RuntimeError, IndexError):
            found = ", ".join(map(str, jax.devices()))
            raise EnvironmentUnusable(f"JAX has no device {device}, only {found}: pip install 'jax[cuda13]'") from None
        self._simulator = simulator
        self._compiled_start = jax.jit(self._start)
        self._compiled_advance = jax.jit(self._advance)
        self._slots: Slots | None = None

    def reset(self, *, seeds: Tensor | None = None, mask: Tensor | None = None) -> TensorTree:
        """Starts a new episode in some env slots; see `TensorVectorEnv.reset`."""
        import jax

        chosen, keys = (None if given is None else _from_torch(given) for given in (mask, seeds))
        self._slots = self._compiled_start(self._slots, jax.device_put(keys, self._place), chosen)
        return _to_torch(self._slots.observations)

    def step(self, actions: TensorTree) -> TensorStep:
        """Steps all env slots, and resets those whose episode ends."""
        self._slots, moved = self._compiled_advance(self._slots, map_tree(_from_torch, actions))
        terminateds, truncateds = _to_torch((moved.terminateds, moved.truncateds))
        finals = FinalObservations(terminateds | truncateds, _to_torch(moved.finals))
        return TensorStep(_to_torch(moved.observations), _to_torch(moved.rewards), terminateds, truncateds, finals)

    def state(self) -> Mapping[str, Any]:
        """Returns random keys, the simulator's state and the observations, as a list of arrays."""
        import jax

        return {"leaves": [np.array(leaf) for leaf in jax.tree.leaves(self._slots)]}

    def load_state(self, state: Mapping[str, Any]) -> TensorTree:
        """Restores the result of `state()`; returns the observations [B, ...]."""
        import jax

        keys = jax.ShapeDtypeStruct((self.num_envs, 2), np.uint32)
        structure = jax.tree.structure(Slots(keys, *jax.eval_shape(self._simulator.begin, keys)))
        leaves = [jax.device_put(np.asarray(leaf), self._place) for leaf in state["leaves"]]
        slots: Slots = jax.tree.unflatten(structure, leaves)
        self._slots = slots
        return _to_torch(slots.observations)

    def close(self) -> None:
        """No-op: JAX frees its memory with the arrays."""

    def _start(self, slots: Slots | None, seeds: Any, mask: Any) -> Slots:
        """Starts episodes in the slots of a mask [B], None for all, with new keys if there are seeds [B]."""
        import jax

        if seeds is not None:
            keys = jax.vmap(jax.random.PRNGKey)(seeds)
        else:
            assert slots is not None, "the first reset has seeds"
            keys = slots.keys
        keys, drawn = _split(keys)
        begun = _strong(Slots(keys, *self._simulator.begin(drawn)))
        return begun if mask is None else choose(mask, begun, slots)

    def _advance(self, slots: Slots, actions: Any) -> tuple[Slots, Advanced]:
        keys, drawn = _split(slots.keys)
        moved = self._simulator.advance(drawn, slots.state, actions)
        return _strong(Slots(keys, moved.state, moved.observations)), moved


# --- Simulators


class GymnaxSimulator:
    """Simulator for a gymnax env, such as CartPole-v1 or Breakout-MinAtar.

    Args:
        name: Name of the env in gymnax.
        params: Env parameters to set instead of their defaults, such as `max_steps_in_episode`.

    Raises:
        UsageError: gymnax does not have the env, or the env does not have a parameter.
    """

    def __init__(self, name: str, params: Mapping[str, Any]) -> None:
        import gymnax
        from gymnax.environments.spaces import gymnax_space_to_gym_space

        _check_name("gymnax", name, gymnax.registered_envs)
        self._env, defaults = gymnax.make(name)
        for unknown in params.keys() - vars(defaults).keys():
            raise UsageError(f"gymnax's {name} has no parameter {unknown!r}{did_you_mean(unknown, vars(defaults))}")
        self._params = defaults.replace(**params)
        self.observation_space = gymnax_space_to_gym_space(self._env.observation_space(self._params))
        self.action_space = gymnax_space_to_gym_space(self._env.action_space(self._params))

    def begin(self, keys: Any) -> tuple[PyTree, PyTree]:
        """Starts episodes; see `JaxSimulator`."""
        import jax

        observations, state = jax.vmap(self._env.reset, (0, None))(keys, self._params)
        return state, self._typed(observations)

    def advance(self, keys: Any, state: PyTree, actions: Any) -> Advanced:
        """Steps all slots; gymnax starts new episodes itself."""
        import jax

        step = jax.vmap(self._env.step, (0, 0, 0, None))
        observations, state, rewards, terminateds, truncateds, infos = step(keys, state, actions, self._params)
        finals = self._typed(infos["final_observation"])
        return Advanced(state, self._typed(observations), rewards, terminateds, truncateds, finals)

    def _typed(self, observations: PyTree) -> PyTree:
        """Converts observations to the dtypes of their space, since some envs return other dtypes."""
        return _typed(self.observation_space, observations)


class BraxSimulator:
    """Simulator for an env with the functions `reset(key)` and `step(state, action)`, as in Brax and Playground.

    Brax's own autoreset overwrites final observations, so this class resets env slots itself.

    Args:
        env: The env of one slot. Actions are numbers between -1 and 1.
        physics: Field of the env's state that holds the physical state: `pipeline_state` in Brax, `data` in Playground.
        episode_length: Steps after which an episode is truncated.
        full_reset: Whether each episode starts with a new reset. If not, every episode in a slot starts from
            the initial physical state of the slot's first episode, so that resets take no time.
    """

    def __init__(self, env: Any, physics: str, episode_length: int, *, full_reset: bool) -> None:
        import jax

        self._env = env
        self._physics = physics
        self._episode_length = episode_length
        self._full_reset = full_reset
        shapes = jax.eval_shape(env.reset, jax.ShapeDtypeStruct((2,), np.uint32)).obs
        self.observation_space = map_tree(lambda leaf: Box(-np.inf, np.inf, leaf.shape, leaf.dtype), shapes)
        if isinstance(self.observation_space, dict):
            self.observation_space = Dict(self.observation_space)
        self.action_space = Box(-1, 1, (env.action_size,), np.float32)

    def begin(self, keys: Any) -> tuple[PyTree, PyTree]:
        """Starts episodes; the state also holds the first physical states and observations, and episode lengths."""
        import jax
        import jax.numpy as jnp

        first = jax.vmap(self._env.reset)(keys)
        again = None if self._full_reset else {self._physics: getattr(first, self._physics), "obs": first.obs}
        return (first, again, jnp.zeros(len(keys), jnp.int32)), first.obs

    def advance(self, keys: Any, state: PyTree, actions: Any) -> Advanced:
        """Steps all slots, and resets those whose episode ends."""
        import jax
        import jax.numpy as jnp

        env_state, again, lengths = state
        moved = jax.vmap(self._env.step)(env_state.replace(done=jnp.zeros_like(env_state.done)), actions)
        terminateds = moved.done > 0
        truncateds = lengths + 1 >= self._episode_length
        ended = terminateds | truncateds
        if again is None:
            after = choose(ended, jax.vmap(self._env.reset)(keys), moved)
        else:
            after = moved.replace(**{name: choose(ended, begun, getattr(moved, name)) for name, begun in again.items()})
        state = (after, again, jnp.where(ended, 0, lengths + 1))
        return Advanced(state, after.obs, moved.reward, terminateds, truncateds, moved.obs)


# --- Functions that specs name


def gymnax_env(num_envs: int, device: torch.device, *, name: str, params: Mapping[str, Any] | None = None) -> JaxEnv:
    """Creates a gymnax env (gymnax 1.0 or newer).

    Args:
        num_envs: Number of env slots, B.
        device: Device of all tensors.
        name: Name of the env in gymnax.
        params: Env parameters to set instead of their defaults, such as `max_steps_in_episode`.

    Raises:
        UsageError: gymnax does not have the env, or the env does not have a parameter.
        EnvironmentUnusable: gymnax is not installed, or JAX does not have the device.
    """
    _require("gymnax", "gymnax")
    return JaxEnv(GymnaxSimulator(name, params or {}), num_envs, device)


def brax_env(
    num_envs: int,
    device: torch.device,
    *,
    name: str,
    episode_length: int = 1000,
    full_reset: bool = False,
    options: Mapping[str, Any] | None = None,
) -> JaxEnv:
    """Creates a Brax env.

    Args:
        num_envs: Number of env slots, B.
        device: Device of all tensors.
        name: Name of the env in Brax.
        episode_length: Steps after which an episode is truncated.
        full_reset: Whether each episode starts from a new reset, instead of the slot's first state.
        options: Arguments of the env's class, such as `backend`.

    Raises:
        UsageError: Brax does not have the env.
        EnvironmentUnusable: Brax is not installed, or JAX does not have the device.
    """
    _require("brax", "brax")
    from brax import envs

    _check_name("brax", name, envs._envs)
    env = envs.get_environment(name, **(options or {}))
    return JaxEnv(BraxSimulator(env, "pipeline_state", episode_length, full_reset=full_reset), num_envs, device)


def playground_env(
    num_envs: int,
    device: torch.device,
    *,
    name: str,
    full_reset: bool = False,
    config: Mapping[str, Any] | None = None,
) -> JaxEnv:
    """Creates a MuJoCo Playground env; the env's config sets the episode length.

    Args:
        num_envs: Number of env slots, B.
        device: Device of all tensors.
        name: Name of the env in Playground.
        full_reset: Whether each episode starts from a new reset, instead of the slot's first physical state.
        config: Entries of the env's config to set instead of their defaults, such as `{impl: jax}`.

    Raises:
        UsageError: Playground does not have the env.
        EnvironmentUnusable: Playground is not installed, or JAX does not have the device.
    """
    _require("mujoco_playground", "playground")
    from mujoco_playground import registry

    _check_name("MuJoCo Playground", name, registry.ALL_ENVS)
    settings = registry.get_default_config(name)
    settings.update_from_flattened_dict(dict(config or {}))
    env = registry.load(name, config=settings)
    return JaxEnv(BraxSimulator(env, "data", settings.episode_length, full_reset=full_reset), num_envs, device)


def _require(module: str, package: str) -> None:
    """Checks that a simulator's package is installed, and keeps JAX from reserving most of the GPU's memory.

    Raises:
        EnvironmentUnusable: The package is not installed.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # by default, JAX reserves 75% of a GPU's memory
    if find_spec(module) is None:
        raise EnvironmentUnusable(f"the env needs {module}, which is not installed: pip install {package}")


def _check_name(package: str, name: str, known: Any) -> None:
    if name not in known:
        raise UsageError(f"{package} has no env {name!r}{did_you_mean(name, list(known))}")


# --- Trees of arrays


def choose(mask: Any, first: PyTree, second: PyTree) -> PyTree:
    """Selects the first tree's rows where a mask [B] is true, and the second tree's rows elsewhere.

    Leaves without a row for each env slot come from the second tree: in MuJoCo Warp, all slots share some buffers.
    """
    import jax
    import jax.numpy as jnp

    def chosen(one: Any, other: Any) -> Any:
        if other.ndim == 0 or len(other) != len(mask):
            return other
        return jnp.where(mask.reshape(-1, *[1] * (other.ndim - 1)), one, other)

    return jax.tree.map(chosen, first, second)


def _typed(space: gymnasium.Space[Any], observations: PyTree) -> PyTree:
    if isinstance(space, Dict):
        return {key: _typed(part, observations[key]) for key, part in space.items()}
    return observations.astype(space.dtype)


def _split(keys: Any) -> tuple[Any, Any]:
    """Splits random keys [B, 2] into keys for later steps and keys to draw with now."""
    import jax

    pairs = jax.vmap(jax.random.split)(keys)
    return pairs[:, 0], pairs[:, 1]


def _strong(slots: Slots) -> Slots:
    """Returns arrays of the same types that do not depend on Python numbers, so that a step is compiled only once."""
    import jax

    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), slots)  # type: ignore[no-any-return]


def _from_torch(tensor: Tensor) -> Any:
    """Returns a tensor as a JAX array; 64-bit integers become 32-bit integers, JAX's default."""
    import jax

    narrow = tensor.to(torch.int32) if tensor.dtype == torch.int64 else tensor
    return jax.dlpack.from_dlpack(narrow.detach().contiguous())


def _to_torch(tree: PyTree) -> TensorTree:
    """Returns JAX arrays as tensors that share their memory; torch's stream waits for their contents."""
    return map_tree(torch.utils.dlpack.from_dlpack, tree)
