"""Interface for checking and creating envs, implemented once for single-agent and once for multi-agent envs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.envs.episode_position import EpisodeSeeds
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.envs.tasks import Lessons
    from rlrun.engine.worlds.games.array_game import ArrayGame
    from rlrun.engine.worlds.mapping import PolicyMapping
    from rlrun.engine.worlds.vector_world import VectorWorld


class WorldKind(ABC):
    """Interface for checking the config of a single- or multi-agent env, and for creating vectorized worlds from it.

    The functions of `make.py` call its methods.
    """

    @abstractmethod
    def check(self, config: EnvConfig) -> None:
        """Validates a config without creating the env or world; see `check_world`."""

    @abstractmethod
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
        """Creates W vectorized worlds; see `make_vector_world`."""

    @abstractmethod
    def agents_and_spaces(self, config: EnvConfig, mapping: PolicyMapping) -> tuple[tuple[str, ...], dict[str, Spaces]]:
        """Returns the possible agents, and each policy's observation and action space; see `agents_and_spaces`."""

    @abstractmethod
    def game(self, config: EnvConfig) -> ArrayGame | None:
        """Creates the equivalent game for tree search; None if there is none. See `game_of`."""

    @abstractmethod
    def agents(self, config: EnvConfig) -> PolicyMapping:
        """Returns a default policy mapping; see `kinds_of_agents`."""
