"""Env backends (ways to step envs, such as a Python loop or EnvPool) and the choice of a backend for an env."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import EnvSpec

from rlrun.engine.envs.env_ids import factory_of, find_spec, is_factory, makes_vector_env
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.vector_env import VectorEnv, close_or_warn
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    import gymnasium

    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.envs.episode_position import EpisodeSeeds
    from rlrun.engine.envs.tasks import Lessons

BACKENDS = {
    "atari": "rlrun.engine.envs.atari_backend:AtariBackend",
    "cartpole": "rlrun.engine.envs.cartpole_vector_env:CartPoleBackend",
    "envpool": "rlrun.engine.envs.envpool_vector_env:EnvPoolBackend",
    "gymnasium": "rlrun.engine.envs.gymnasium_vector_env:GymnasiumBackend",
    "loop": "rlrun.engine.envs.loop_vector_env:LoopBackend",
    "tensors": "rlrun.engine.envs.tensor_backend:TensorBackend",
}
"""Import paths of the backends by name."""

SINGLE_ENV = {
    "check": "rlrun.engine.envs.single_env:check_single_env",
    "make": "rlrun.engine.envs.single_env:make_single_env",
    "wrapper class": "rlrun.engine.envs.single_env:wrapper_class",
}
"""Import paths of functions that check and create single envs, for backends whose envs have a vector form."""

BATCHED = "rlrun.engine.envs.batched_observation:BatchedObservation"
"""Import path of the base class of wrappers that convert observations of all env slots at once."""

_CARTPOLE = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
_CARTPOLE_KWARGS = frozenset({"sutton_barto_reward"})


class EnvBackend(ABC):
    """Way of stepping envs, such as a Python loop or EnvPool; checks an env's config and creates the env."""

    @abstractmethod
    def check(self, config: EnvConfig) -> None:
        """Validates an env config without creating the env.

        Raises:
            UsageError: A name or a keyword argument does not exist.
            EnvironmentUnusable: A package is not installed.
            UserCodeError: Importing the module of a factory or wrapper raised an exception.
        """

    @abstractmethod
    def make(
        self,
        config: EnvConfig,
        num_envs: int,
        seeds: EpisodeSeeds,
        first_episodes: Sequence[int] | None,
        lessons: Lessons | None,
    ) -> VectorEnv:
        """Creates a vector env with B env slots.

        See `make_vector_env`, which also adds the validation of action masks.
        """

    @abstractmethod
    def make_single(self, config: EnvConfig, render_mode: str | None, seed: int) -> gymnasium.Env[Any, Any]:
        """Creates a single env with the same spaces and wrappers as an env slot of the vector env.

        See `make_env`.
        """

    def spaces(self, config: EnvConfig) -> Spaces:
        """Returns the observation and action space of an env slot; by default, the spaces of a single env."""
        env = self.make_single(config, None, 0)
        try:
            return Spaces(env.observation_space, env.action_space)
        finally:
            close_or_warn(env.close, config.id, "before any episode")


def backend(name: str) -> EnvBackend:
    """Imports and creates the env backend with a given name.

    Args:
        name: A key of `BACKENDS`.
    """
    made: EnvBackend = load_internal(BACKENDS[name])()
    return made


def backend_of(config: EnvConfig) -> str:
    """Returns the name of the backend that steps an env, a key of `BACKENDS`.

    With ``backend: auto``, an env's native vector env is used if its autoreset mode is NEXT_STEP. Wrappers, reset
    options, recorded info entries (`columns`) or arguments that only the single env accepts require the loop backend.
    With batched wrappers, CartPole remains vectorized. A factory of a `gymnasium.vector` env cannot create a single
    env.

    Raises:
        UsageError: No env has the id, or the requested backend cannot step the env.
        EnvironmentUnusable: The id belongs to a package that is not installed.
        UserCodeError: Importing the module of a factory raised an exception.
    """
    if config.tensors is not None:
        return "tensors"
    if config.backend == "envpool":
        return config.backend
    asks_single = config.reset_options or config.columns or config.varies
    if is_factory(config.id) and makes_vector_env(factory_of(config)):
        if config.wrappers or asks_single or config.max_episode_steps is not None or config.backend == "loop":
            raise UsageError(
                f"env {config.id} is a gymnasium.vector env, which does not support wrappers, reset_options, "
                "columns, tasks, curriculum, max_episode_steps or backend: loop; leave them out"
            )
        return "gymnasium"
    if config.backend == "loop":
        return config.backend
    spec = None if is_factory(config.id) else find_spec(config.id)
    is_plain = spec is not None and not (asks_single or spec.additional_wrappers)
    vector = _vector_form(spec, config) if is_plain else ""
    if config.wrappers and not (vector == "cartpole" and _are_batched(config)):
        vector = ""
    if config.backend == "vector" and not vector:
        raise UsageError(f"env {config.id} has no native vector env with these arguments: use backend: loop or auto")
    return vector or "loop"


def _are_batched(config: EnvConfig) -> bool:
    """Whether all wrappers of an env convert observations of all env slots at once."""
    classes = [load_internal(SINGLE_ENV["wrapper class"])(wrapper) for wrapper in config.wrappers]
    return all(isinstance(each, type) and issubclass(each, load_internal(BATCHED)) for each in classes)


def _vector_form(spec: EnvSpec, config: EnvConfig) -> str:
    """Returns the backend for a registered env's native vector form; "" if there is no suitable one."""
    if spec.entry_point == _CARTPOLE and (config.max_episode_steps or spec.max_episode_steps):
        return "cartpole" if {*spec.kwargs, *config.kwargs} <= _CARTPOLE_KWARGS else ""
    entry_point = spec.vector_entry_point
    if entry_point is None:
        return ""
    return "atari" if str(entry_point).startswith("ale_py.") else "gymnasium"
