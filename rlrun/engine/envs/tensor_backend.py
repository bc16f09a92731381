"""Creation and checks of envs of torch tensors, and their view as a NumPy vector env for evaluations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.engine.data.action_masks import check_action_mask
from rlrun.engine.data.space_kinds import known_kind, space_tree
from rlrun.engine.data.tree import map_tree, named_leaves
from rlrun.engine.envs.backend import EnvBackend
from rlrun.engine.envs.env_ids import factory_of
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_ledger import EpisodeLedger
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.factory_call import check_call, made_by
from rlrun.engine.envs.lockstep_restore import restore_in_lockstep
from rlrun.engine.envs.spaces import Spaces, check_spaces
from rlrun.engine.envs.tensor_vector_env import RendersTensorEnv, TensorStep, TensorTree, TensorVectorEnv
from rlrun.engine.envs.vector_env import (
    NO_COLUMNS,
    BadReturn,
    Infos,
    Tree,
    VectorEnv,
    begin_unsupported,
    close_or_warn,
    describe_positions,
    env_error,
    first_not_finite,
)
from rlrun.engine.messages.errors import EnvironmentUnusable

if TYPE_CHECKING:
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.envs.tasks import Lessons

_OPEN: dict[str, TensorVectorEnv] = {}
"""Envs that are open in this process and whose factories allow only one instance, by the factory's path."""

_ONLY_ONE: set[str] = set()
"""Paths of factories known to allow only one instance, because this process has created an env with them."""

_KNOWN: dict[str, Spaces] = {}
"""Spaces by the env's config; cached, since creating a simulator may take minutes."""


def make_tensor_env(config: EnvConfig, num_envs: int, device: torch.device, where: str) -> TensorVectorEnv:
    """Creates an env of tensors with the factory that its config names.

    Args:
        config: Config of the env.
        num_envs: Number of env slots, B.
        device: Device of all tensors.
        where: Description of the worker, or of the env's purpose, for messages.

    Raises:
        UsageError: The factory does not accept the keyword arguments.
        EnvironmentUnusable: The factory's return value is not an env of tensors, or has a different device or number
            of slots; or the factory allows only one instance, which is already in use.
        EnvError: The factory raised.
    """
    if config.id in _OPEN:
        raise EnvironmentUnusable(
            f"env {config.id} allows one instance in a process, which the training uses ({where}): leave out "
            "evaluations during training, and run `rlrun evaluate` afterwards"
        )
    with Watched(f"env {config.id}: making it ({where})"):
        kwargs = {**config.kwargs, "num_envs": num_envs, "device": device}
        env: TensorVectorEnv = made_by(factory_of(config), config.id, kwargs, {}, where)
    lacks = [name for name in ("num_envs", "device", "observation_space", "action_space") if name not in dir(env)]
    if lacks:
        raise EnvironmentUnusable(
            f"env {config.id}: its factory must return a TensorVectorEnv, but a {type(env).__name__} has no {lacks[0]}"
        )
    if env.num_envs != num_envs:
        raise EnvironmentUnusable(
            f"env {config.id}: its factory, called with num_envs={num_envs}, returned an env of {env.num_envs} slots"
        )
    if torch.device(env.device).type != device.type:
        raise EnvironmentUnusable(
            f"env {config.id}: its factory, called with device={device}, returned an env on {env.device}"
        )
    check_spaces(config.id, env.observation_space, env.action_space)
    spaces = Spaces(env.observation_space, env.action_space)
    check_action_mask(*spaces)
    _KNOWN[_key(config)] = spaces
    if env.is_only_one:
        _OPEN[config.id] = env
        _ONLY_ONE.add(config.id)
    return env


def allows_one_instance(config: EnvConfig) -> bool:
    """Whether the simulator allows only one instance per process; known once an env has been created."""
    return config.id in _ONLY_ONE


def close_tensor_env(config: EnvConfig, env: TensorVectorEnv) -> None:
    """Closes an env that `make_tensor_env` created; an exception becomes a warning."""
    if _OPEN.get(config.id) is env:
        del _OPEN[config.id]
    close_or_warn(env.close, config.id, "its end")


def spaces_of_tensor_env(config: EnvConfig) -> Spaces:
    """Returns the spaces of one env slot; creates an env of one slot unless one was created in this process."""
    if _key(config) not in _KNOWN:
        close_tensor_env(config, make_tensor_env(config, 1, evaluation_device(), "for its spaces"))
    return _KNOWN[_key(config)]


def check_factory(config: EnvConfig) -> None:
    """Validates an env's factory and its keyword arguments without calling the factory.

    Raises:
        UsageError: The factory does not exist, or does not accept the keyword arguments.
        UserCodeError: Importing the factory's module raised an exception.
    """
    check_call(factory_of(config), (), {**config.kwargs, "num_envs": 1, "device": "cpu"}, f"env {config.id}")


def check_tensors(env_id: str, env: TensorVectorEnv, step: TensorStep) -> None:
    """Validates the types, devices and shapes of a step's tensors without reading their values.

    Args:
        env_id: Name of the env in messages.
        env: The env.
        step: Result of the env's `step`.

    Raises:
        BadReturn: A part is not a tensor on the env's device, or has a different shape or dtype.
    """
    if not isinstance(step, TensorStep):
        raise BadReturn(f"env {env_id}: step() must return a TensorStep, not a {type(step).__name__}")
    check_observations(env_id, env, step.observations, "step() returned observations")
    flags = {"terminateds": step.terminateds, "truncateds": step.truncateds}
    if step.finals is not None:
        flags["finals.mask"] = step.finals.mask
        check_observations(env_id, env, step.finals.observations, "step() returned finals.observations")
    for name, flag in flags.items():
        _check(env_id, env, f"step() returned {name}", flag, (), torch.bool)
    _check(env_id, env, "step() returned rewards", step.rewards, (), None)


def check_observations(env_id: str, env: TensorVectorEnv, observations: TensorTree, what: str) -> None:
    """Validates the structure, types, devices and shapes of observations [B, ...]; see `check_tensors`."""
    expected = dict(named_leaves(space_tree(env.observation_space)))
    found = dict(named_leaves(observations))
    if expected.keys() != found.keys():
        raise BadReturn(
            f"env {env_id}: {what} with the parts {', '.join(found) or 'none'}, but its space has {', '.join(expected)}"
        )
    for name, space in expected.items():
        _check(env_id, env, f"{what}{name and f' at {name!r}'}", found[name], *tensor_form(space))


def tensor_form(space: gymnasium.Space[Any]) -> tuple[tuple[int, ...], torch.dtype]:
    """Returns the shape and dtype of the tensor that represents one element of a space."""
    shape, dtype = known_kind(space).form(space)
    return shape, torch.from_numpy(np.zeros((), dtype)).dtype


def _check(
    env_id: str, env: TensorVectorEnv, what: str, found: Any, shape: tuple[int, ...], dtype: torch.dtype | None
) -> None:
    """Validates one tensor [B, *shape]; the dtype None stands for any floating-point type."""
    if not isinstance(found, Tensor):
        raise BadReturn(
            f"env {env_id}: {what} as a {type(found).__module__.partition('.')[0]} {type(found).__name__}, but an env "
            "of tensors must return torch tensors; for NumPy, name a Gymnasium vector env as `id`"
        )
    if found.device.type != torch.device(env.device).type:
        raise BadReturn(f"env {env_id}: {what} on {found.device}, but the env is on {env.device}")
    if tuple(found.shape) != (env.num_envs, *shape):
        raise BadReturn(f"env {env_id}: {what} of shape {(*found.shape,)}, not {(env.num_envs, *shape)}")
    if found.dtype != dtype if dtype is not None else not found.dtype.is_floating_point:
        raise BadReturn(f"env {env_id}: {what} of dtype {found.dtype}, not {dtype or 'a floating-point type'}")


class HostVectorEnv:
    """View of an env of tensors as a NumPy vector env with NEXT_STEP autoreset, for evaluations and checks.

    The env resets a slot in the step that ends an episode. The view returns the final observation in that step (or the
    previous observation if the final one is unknown), and in the next step resets the slot again, with the next
    episode's seed. If slots cannot be seeded, the view does not reset them again: it ignores the action and the
    reward of that next step, and continues the episode that the env itself started.

    Args:
        config: Config of the env.
        env: The env.
        seeds: Seeds of the episodes.
        first_episodes: Index of each env slot's first episode.
    """

    name = "tensors"
    columns = NO_COLUMNS

    def __init__(
        self, config: EnvConfig, env: TensorVectorEnv, seeds: EpisodeSeeds, first_episodes: Sequence[int] | None
    ) -> None:
        self.num_envs = env.num_envs
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.seeds_episodes = env.seeds_episodes
        self._config, self._env = config, env
        self._where = f"worker {seeds.worker_index}"
        self._ledger = EpisodeLedger(seeds, env.num_envs, first_episodes)
        self._lengths = np.zeros(env.num_envs, np.int64)
        self._awaiting = np.zeros(env.num_envs, np.bool_)
        self._observations: Tree = None

    def reset(self) -> Tree:
        """Starts the first episode of every env slot with its own seed."""
        return self._begin(np.ones(self.num_envs, np.bool_), self._ledger.start_over())

    def step(self, actions: Tree) -> tuple[Tree, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Steps all env slots; a slot whose episode ended is reset instead (NEXT_STEP autoreset)."""
        device = self._env.device
        self._lengths += 1
        step = self._called("step()", partial(self._env.step, on_device(device, actions)))
        check_tensors(self._config.id, self._env, step)
        awaiting, before = self._awaiting, self._observations
        rewards: NDArray[np.float64] = np.where(awaiting, 0.0, step.rewards.cpu().numpy())
        terminateds = step.terminateds.cpu().numpy() & ~awaiting
        truncateds = step.truncateds.cpu().numpy() & ~awaiting
        if (bad := first_not_finite(rewards)) is not None:
            slot = bad[0]
            place = f"{self._where}, env {slot}, {self.places()[slot]}"
            raise BadReturn(f"env {self._config.id}: step() returned the reward {rewards[slot]} ({place})")
        ends = terminateds | truncateds
        observations = map_tree(_on_host, step.observations)
        known = np.zeros_like(ends) if step.finals is None else step.finals.mask.cpu().numpy() & ends
        if step.finals is not None:
            observations = map_tree(partial(_where, known), map_tree(_on_host, step.finals.observations), observations)
        self._observations = map_tree(partial(_where, ends & ~known), before, observations)
        if awaiting.any():
            seeds = [self._ledger.begin_next(slot) if awaiting[slot] else 0 for slot in range(self.num_envs)]
            self._lengths[awaiting] = 0
            if self.seeds_episodes:
                self._begin(awaiting, seeds)
        self._awaiting = ends
        return self._observations, rewards, terminateds, truncateds, {}

    def begin(self, slots: Sequence[int], seeds: Sequence[int]) -> Tree:
        """Starts new episodes with given seeds in some env slots; see `VectorEnv.begin`."""
        if not self.seeds_episodes:
            raise begin_unsupported(self._config.id, "it does not seed its env slots separately")
        return self.start_at({slot: self._ledger.chosen(slot, seed) for slot, seed in zip(slots, seeds, strict=True)})

    def places(self) -> list[EpisodePosition]:
        """Returns the current position of each env slot: episode number, seed and episode length so far."""
        return self._ledger.places(self._lengths.tolist())

    def restore(
        self, places: Sequence[EpisodePosition], actions: Sequence[Tree], hashes: Sequence[str], max_replay_s: float
    ) -> tuple[Tree, list[bool]]:
        """Restores all env slots to saved steps by replaying actions; starts new episodes if slots have no seeds."""
        if self.seeds_episodes:
            return restore_in_lockstep(self, places, actions, hashes, max_replay_s)
        return self.start_after(dict(enumerate(places))), [False] * self.num_envs

    def start_at(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets some env slots, each to the start of a saved episode; returns the observations of all env slots."""
        return self._start(places, [self._returned(slot, place) for slot, place in places.items()])

    def start_after(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets some env slots, each to the episode after a saved one; returns the observations of all env slots."""
        for slot, place in places.items():
            self._ledger.return_to(slot, place)
        return self._start(places, [self._ledger.begin_next(slot) for slot in places])

    def close(self) -> None:
        """Closes the env."""
        close_tensor_env(self._config, self._env)

    def _returned(self, slot: int, place: EpisodePosition) -> int:
        self._ledger.return_to(slot, place)
        return place.seed

    def _start(self, places: Mapping[int, EpisodePosition], own: Sequence[int]) -> Tree:
        mask, seeds = np.zeros(self.num_envs, np.bool_), np.zeros(self.num_envs, np.int64)
        mask[list(places)], seeds[list(places)] = True, own
        return self._begin(mask, seeds.tolist())

    def _begin(self, mask: NDArray[np.bool_], seeds: Sequence[int]) -> Tree:
        """Resets the env slots in the mask; returns the observations of all env slots."""
        device = self._env.device
        chosen = None if mask.all() else on_device(device, mask)
        reset = partial(self._env.reset, seeds=torch.tensor(seeds, device=device), mask=chosen)
        found = self._called("reset()", reset)
        check_observations(self._config.id, self._env, found, "reset() returned observations")
        found = map_tree(_on_host, found)
        self._observations = found if chosen is None else map_tree(partial(_where, mask), found, self._observations)
        self._lengths[mask] = 0
        self._awaiting = self._awaiting & ~mask
        return self._observations

    def _called(self, doing: str, call: Any) -> Any:
        try:
            return call()
        except (Exception, SystemExit) as error:
            where = f"{self._where}, {describe_positions('env', self.places())}"
            raise env_error(self._config.id, doing, where, error) from error


class SingleTensorEnv(gymnasium.Env[Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """One slot of an env of tensors as a Gymnasium env, for recordings.

    Args:
        config: Config of the env.
        env: The env, with one slot.
        render_mode: `rgb_array` for images; None for no images.

    Raises:
        EnvironmentUnusable: Images are requested, but the env cannot render.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}

    def __init__(self, config: EnvConfig, env: TensorVectorEnv, render_mode: str | None) -> None:
        if render_mode is not None and not (render_mode == "rgb_array" and isinstance(env, RendersTensorEnv)):
            raise EnvironmentUnusable(
                f"env {config.id} renders no images: give its class a method render() that returns an image "
                "[height, width, 3] of the first env slot"
            )
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.render_mode = render_mode
        self._config, self._env = config, env
        self._observation: Tree = None

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        seeds = self.np_random.integers(2**31 - 1, size=1) if seed is None else np.array([seed])
        self._observation = self._first(self._env.reset(seeds=on_device(self._env.device, seeds)))
        return self._observation, {}

    @override
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        actions = on_device(self._env.device, map_tree(lambda leaf: np.asarray(leaf)[None], action))
        step = self._env.step(actions)
        check_tensors(self._config.id, self._env, step)
        terminated, truncated = bool(step.terminateds[0]), bool(step.truncateds[0])
        if not terminated | truncated:
            self._observation = self._first(step.observations)
        elif step.finals is not None and bool(step.finals.mask[0]):
            self._observation = self._first(step.finals.observations)
        return self._observation, float(step.rewards[0]), terminated, truncated, {}

    @override
    def render(self) -> Any:
        return self._env.render() if isinstance(self._env, RendersTensorEnv) else None

    @override
    def close(self) -> None:
        close_tensor_env(self._config, self._env)

    def _first(self, tree: TensorTree) -> Tree:
        """Returns the observation of the only slot, as an element of the observation space."""
        return map_tree(lambda leaf: _on_host(leaf)[0], tree)


class TensorBackend(EnvBackend):
    """Env backend that presents envs of tensors as NumPy vector envs."""

    @override
    def check(self, config: EnvConfig) -> None:
        check_factory(config)

    @override
    def make(
        self,
        config: EnvConfig,
        num_envs: int,
        seeds: EpisodeSeeds,
        first_episodes: Sequence[int] | None,
        lessons: Lessons | None,
    ) -> VectorEnv:
        env = make_tensor_env(config, num_envs, evaluation_device(), "an evaluation")
        return HostVectorEnv(config, env, seeds, first_episodes)

    @override
    def make_single(self, config: EnvConfig, render_mode: str | None, seed: int) -> gymnasium.Env[Any, Any]:
        env = make_tensor_env(config, 1, evaluation_device(), "a single env")
        return SingleTensorEnv(config, env, render_mode)

    @override
    def spaces(self, config: EnvConfig) -> Spaces:
        return spaces_of_tensor_env(config)


def _key(config: EnvConfig) -> str:
    return json.dumps([config.id, config.kwargs], sort_keys=True, default=repr)


def evaluation_device() -> torch.device:
    """Returns the device for envs in evaluations: a GPU if this process has one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def on_device(device: torch.device, arrays: Tree) -> TensorTree:
    """Returns a tree of arrays as tensors on a device."""
    return map_tree(lambda array: torch.from_numpy(np.ascontiguousarray(array)).to(device), arrays)


def _on_host(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.cpu().numpy().copy()  # the env may overwrite its own memory
    return array


def _where(mask: NDArray[np.bool_], chosen: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Selects rows from two arrays [B, ...]: from the first where the mask [B] is true, else from the second."""
    return np.where(mask.reshape(-1, *[1] * (chosen.ndim - 1)), chosen, other)
