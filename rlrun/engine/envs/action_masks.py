"""Action masks of envs: wrappers that add the mask to observations, and a check that each mask allows some action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK, METHOD, check_action_mask, has_action_mask, masked_choices
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.vector_env import BadReturn, Infos, Tree, VectorEnv

Env: TypeAlias = "gymnasium.Env[Any, Any]"


@runtime_checkable
class OffersActionMasks(Protocol):
    """Protocol of a vector env whose method `action_masks` returns the legal actions in the current states."""

    def action_masks(self) -> NDArray[Any]:
        """Returns the masks over the A actions in the current states of all B env slots, [B, A]."""
        ...


class ActionMaskObservation(gymnasium.ObservationWrapper[dict[str, Any], Any, Any]):  # type: ignore[misc]
    """Env wrapper that adds the mask of `action_masks()` to observations: {observation: ..., action_mask: ...}.

    Raises:
        UsageError: The action space has no discrete choices that a mask can restrict.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        width = sum(masked_choices(env.action_space))
        self.observation_space = gymnasium.spaces.Dict(
            {"observation": env.observation_space, ACTION_MASK: gymnasium.spaces.MultiBinary(width)}
        )
        self._action_masks = env.get_wrapper_attr(METHOD)

    def observation(self, observation: Any) -> dict[str, Any]:
        """Returns a Dict observation: the env's observation, and the action mask of the current state."""
        return {"observation": observation, ACTION_MASK: np.asarray(self._action_masks(), np.int8)}


def with_action_masks(env: Env) -> Env:
    """Wraps an env that has a method `action_masks` in `ActionMaskObservation`; returns envs without one unchanged.

    Raises:
        UsageError: The env has the method, but its action space cannot be masked.
    """
    if has_action_mask(env.observation_space) or not env.has_wrapper_attr(METHOD):
        return env
    return ActionMaskObservation(env)


class VectorActionMaskObservation(gymnasium.vector.VectorObservationWrapper):  # type: ignore[misc]
    """Vector env wrapper that adds the masks of `action_masks()` to observations; see `ActionMaskObservation`.

    Raises:
        UsageError: The action space has no discrete choices that a mask can restrict.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], masks: OffersActionMasks) -> None:
        width = sum(masked_choices(env.single_action_space))
        super().__init__(env)
        self.single_observation_space = gymnasium.spaces.Dict(
            {"observation": env.single_observation_space, ACTION_MASK: gymnasium.spaces.MultiBinary(width)}
        )
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, env.num_envs)
        self._masks = masks

    def observations(self, observations: Any) -> dict[str, Any]:
        """Returns Dict observations [B, ...]: the envs' observations, and the action masks of the current states."""
        return {"observation": observations, ACTION_MASK: np.asarray(self._masks.action_masks(), np.int8)}


def with_vector_action_masks(env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> Any:
    """Wraps a vector env that has a method `action_masks`; returns vector envs without one unchanged.

    Raises:
        UsageError: The vector env has the method, but its action space cannot be masked.
    """
    own = env.unwrapped
    if has_action_mask(env.single_observation_space) or not isinstance(own, OffersActionMasks):
        return env
    return VectorActionMaskObservation(env, own)


class MaskedVectorEnv:
    """Vector env wrapper that validates action masks: each must allow at least one action.

    The mask of an episode's final observation may be all False, since no action follows.

    Args:
        env: The vector env.
        env_id: Name of the env in error messages.
        seeds: Episode seeds, a function of env slot and episode number.

    Raises:
        UsageError: The mask's space does not fit the action space.
    """

    def __init__(self, env: VectorEnv, env_id: str, seeds: EpisodeSeeds) -> None:
        check_action_mask(env.observation_space, env.action_space)
        self.num_envs = env.num_envs
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.name = env.name
        self.seeds_episodes = env.seeds_episodes
        self.columns = env.columns
        self._env = env
        self._env_id = env_id
        self._seeds = seeds
        self._firsts = np.cumsum([0, *masked_choices(env.action_space)[:-1]])
        self._all = np.ones(env.num_envs, np.bool_)

    def reset(self) -> Tree:
        """Starts the first episode of every env slot."""
        return self._checked(self._env.reset(), self._all)

    def step(self, actions: Tree) -> tuple[Tree, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Steps all env slots; a slot whose episode ended is reset instead (NEXT_STEP autoreset)."""
        observations, rewards, terminateds, truncateds, infos = self._env.step(actions)
        self._checked(observations, ~(terminateds | truncateds))
        return observations, rewards, terminateds, truncateds, infos

    def begin(self, slots: Sequence[int], seeds: Sequence[int]) -> Tree:
        """Starts new episodes with given seeds in some env slots, and validates their masks; see `VectorEnv.begin`."""
        begun = np.zeros(self.num_envs, np.bool_)
        begun[list(slots)] = True
        return self._checked(self._env.begin(slots, seeds), begun)

    def places(self) -> list[EpisodePosition]:
        """Returns the current position of each env slot: episode number, seed and episode length so far."""
        return self._env.places()

    def restore(
        self, places: Sequence[EpisodePosition], actions: Sequence[Tree], hashes: Sequence[str], max_replay_s: float
    ) -> tuple[Tree, list[bool]]:
        """Returns each env slot to a saved step of an episode; see `VectorEnv.restore`.

        Masks are validated only in slots that could not be restored exactly, since these start new episodes.
        """
        observations, exact = self._env.restore(places, actions, hashes, max_replay_s)
        return self._checked(observations, ~np.array(exact)), exact

    def close(self) -> None:
        """Closes the environments."""
        self._env.close()

    def _checked(self, observations: Tree, acting: NDArray[np.bool_]) -> Tree:
        """Validates the action masks of non-final observations, then returns the observations."""
        allowed = np.logical_or.reduceat(observations[ACTION_MASK], self._firsts, axis=1).all(1)
        if not (allowed | ~acting).all():
            slot = int(np.flatnonzero(acting & ~allowed)[0])
            raise BadReturn(
                f"env {self._env_id}: {ACTION_MASK} allows no action (worker {self._seeds.worker_index}, "
                f"env {self._seeds.first_slot + slot}, {self.places()[slot]}). The mask must allow at least one action "
                "of each choice, or the env must end the episode"
            )
        return observations
