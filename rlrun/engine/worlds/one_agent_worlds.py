"""Adapter from a single-agent vector env to a `VectorWorld`: each env slot is a world with one agent and one slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.env_config import EnvConfig, WorldClock
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.make import check_env, make_vector_env, spaces_of
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.vector_env import VectorEnv, observation_hash
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.vector_world import ONLY_AGENT, SlotRows, Tree, VectorWorld, WorldRows
from rlrun.engine.worlds.world_kind import WorldKind

if TYPE_CHECKING:
    from rlrun.engine.envs.tasks import Lessons
    from rlrun.engine.worlds.games.array_game import ArrayGame


class OneAgentWorlds:
    """Adapter from a vector env to a `VectorWorld` of B single-agent worlds.

    Each step overwrites the objects that the previous one returned.

    Args:
        env: The adapted vector env.
        policy: Name of the acting policy.
    """

    clock: WorldClock = "parallel"
    state_space: Box | None = None
    possible_agents: Sequence[str] = (ONLY_AGENT,)

    def __init__(self, env: VectorEnv, policy: str) -> None:
        self.num_worlds = slots = env.num_envs
        self.slots: Mapping[str, int] = {policy: slots}
        self.spaces: Mapping[str, Spaces] = {policy: Spaces(env.observation_space, env.action_space)}
        self.columns: Sequence[str] = tuple(env.columns)
        self.seeds_episodes = env.seeds_episodes
        self.replays = True
        self._env = env
        self._policy = policy
        nobody, nothing = np.zeros(slots, np.bool_), np.zeros(slots)
        everybody = ~nobody
        self._columns = dict.fromkeys(env.columns, nothing)
        self._shown = SlotRows(None, everybody, everybody, nothing, nobody, nobody, everybody, self._columns)
        self._rows = WorldRows({policy: self._shown}, None, nobody, nobody, {}, 0)

    def reset(self) -> WorldRows:
        """Starts the first episode of every env, with the episode's seed."""
        self._shown.observations = self._env.reset()
        return self._rows

    def step(self, actions: Mapping[str, Tree]) -> WorldRows:
        """Steps all envs; an env whose episode ended is reset instead (NEXT_STEP autoreset)."""
        shown, rows = self._shown, self._rows
        begins = rows.ended
        shown.observations, shown.rewards, shown.terminateds, shown.truncateds, infos = self._env.step(
            actions[self._policy]
        )
        rows.ended = shown.terminateds | shown.truncateds
        rows.stepped = ~begins
        rows.infos = {self._policy: infos} if infos else {}
        shown.starts, shown.acts = begins, ~rows.ended
        shown.living = shown.acts
        for name, latest in self._env.columns.items():
            self._columns[name] = np.where(begins, 0.0, latest)
        return rows

    def owners(self, policy: str) -> Sequence[str]:
        """Returns the id of the single agent in each of the B envs, [B]."""
        return (ONLY_AGENT,) * self.num_worlds

    def places(self) -> list[EpisodePosition]:
        """Returns each env's current position: episode number, its seed, and the episode's length so far."""
        return self._env.places()

    def restore(
        self,
        places: Sequence[EpisodePosition],
        actions: Sequence[Mapping[str, Tree]],
        hashes: Sequence[str],
        max_replay_s: float,
    ) -> tuple[WorldRows, list[bool]]:
        """Brings each env back to a saved step of its episode by a seeded reset and a replay of actions.

        See `VectorEnv.restore`.
        """
        own = [map_tree(lambda leaf: leaf[:, 0], taken[self._policy]) for taken in actions]
        self._shown.observations, exact = self._env.restore(places, own, hashes, max_replay_s)
        return self._rows, exact

    def hashes(self) -> list[str]:
        """Returns a digest of each env's current observation; an empty list before `reset`."""
        seen = self._shown.observations
        slots = range(0 if seen is None else self.num_worlds)
        return [observation_hash(map_tree(lambda leaf, slot=slot: leaf[slot], seen)) for slot in slots]

    def render(self) -> NDArray[np.uint8] | None:
        """Returns None: vectorized envs are not rendered, and recordings use a separate env."""
        return None

    def close(self) -> None:
        """Frees the envs' resources."""
        self._env.close()


class OneAgent(WorldKind):
    """Implementation of `WorldKind` that checks and creates single-agent envs, as worlds with one agent."""

    @override
    def check(self, config: EnvConfig) -> None:
        check_env(config)

    @override
    def make(
        self,
        config: EnvConfig,
        num_worlds: int,
        seeds: EpisodeSeeds,
        mapping: PolicyMapping,
        slots: Mapping[str, int],
        first_episodes: Sequence[int] | None,
        lessons: Lessons | None,
        *,
        with_states: bool,
    ) -> VectorWorld:
        env = make_vector_env(config, num_worlds, seeds, first_episodes=first_episodes, lessons=lessons)
        return OneAgentWorlds(env, mapping.policy_of(ONLY_AGENT, 0))

    @override
    def agents_and_spaces(self, config: EnvConfig, mapping: PolicyMapping) -> tuple[tuple[str, ...], dict[str, Spaces]]:
        return (ONLY_AGENT,), {mapping.policy_of(ONLY_AGENT, 0): spaces_of(config)}

    @override
    def game(self, config: EnvConfig) -> ArrayGame | None:
        return None

    @override
    def agents(self, config: EnvConfig) -> PolicyMapping:
        return PolicyMapping(("agent",))
