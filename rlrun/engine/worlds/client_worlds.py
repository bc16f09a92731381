"""Multi-agent envs in external simulators that connect as clients: each running episode occupies one of W worlds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from rlrun.engine.envs.env_config import ExternalConfig, WorldClock
from rlrun.engine.envs.env_watch import INTERRUPT_S, NOTICE_S, POLL_S, Waiting, interrupt_requested
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.vector_env import Tree
from rlrun.engine.external.agents import agents_of
from rlrun.engine.external.client_episodes import ClientEpisodes
from rlrun.engine.external.episode import LoggedAction
from rlrun.engine.external.server import EpisodeServer
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.worlds.loop_worlds import LoopWorlds
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.vector_world import WorldRows
from rlrun.engine.worlds.world import World, WorldStep

NO_LOGGED_ACTIONS = (
    "the policy learns only from its own actions: request each action with get_action, or set "
    "env.external.logged_actions"
)
"""Reason for refusing a client's `log_action`."""


class ClientWorld(World):
    """Multi-agent env in external simulators (clients), one episode at a time; without clients it only provides spaces.

    Args:
        agents: Spaces of the agents by id.
        episodes: Episodes of the clients; None for a world that is never reset.
        number: Index of this world among the W worlds.
    """

    clock: WorldClock = "per_agent"
    replays = False

    def __init__(self, agents: Mapping[str, Spaces], episodes: ClientEpisodes | None = None, number: int = 0) -> None:
        self.possible_agents: Sequence[str] = tuple(agents)
        self._agents = agents
        self._episodes = episodes
        self._number = number

    @override
    def spaces(self, agent: str) -> Spaces:
        return self._agents[agent]

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Frees this world for the next episode that a client starts."""
        if self._episodes is None:
            raise UsageError("an external env is stepped by its clients; it cannot be stepped by rlrun")
        self._episodes.free(self._number)
        return {}

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Returns the observations, rewards and ends that the client sent after it received the actions."""
        assert self._episodes is not None
        pending_step = self._episodes.take(self._number)
        return WorldStep(
            pending_step.observations,
            pending_step.rewards,
            pending_step.terminateds,
            pending_step.truncateds,
            pending_step.infos,
            pending_step.ended,
        )


class ClientWait:
    """Blocking wait for messages of simulators; it informs the user about a long wait, and Ctrl-C can interrupt it.

    Args:
        server: Server to which the simulators send messages.
    """

    def __init__(self, server: EpisodeServer) -> None:
        self._server = server
        self._episodes = server.episodes

    def until_updates(self) -> None:
        """Waits until a client has sent a message about any episode.

        Raises:
            KeyboardInterrupt: The user interrupted the run, and no client sent a message within `INTERRUPT_S` seconds.
        """
        if self._episodes.gather(POLL_S):
            return
        began, notices, wished = time.monotonic(), 0, 0.0
        with Waiting():
            while not self._episodes.gather(POLL_S):
                waited_s = time.monotonic() - began + POLL_S
                wished = wished + POLL_S if interrupt_requested.is_set() else 0.0
                if wished >= INTERRUPT_S:
                    raise KeyboardInterrupt
                if waited_s >= NOTICE_S * (notices + 1):
                    notices += 1
                    print(self._notice(waited_s), file=sys.stderr, flush=True)

    def _notice(self, waited_s: float) -> str:
        return (
            f"env external: no client request for {waited_s:.0f} s; {self._episodes.num_clients} clients are "
            f"connected to {self._server.url}; still waiting"
        )


class ClientWorlds(LoopWorlds):
    """`VectorWorld` of up to W simultaneous episodes, which external simulators (clients) run.

    A step sends the actions to the clients that requested them, and waits until clients send new observations. A world
    without a new message from its client has no acting agents and does not count as stepped. The server starts at the
    first step.

    Args:
        server: The HTTP server, not yet started.
        agents: Spaces of the agents by id.
        num_worlds: Maximum number of simultaneous episodes, W.
        seeds: Episode seeds, used only in messages and to number the episodes.
        mapping: Mapping from agents to policies.
        spaces: For each policy, the id of one of its agents, and the spaces that all its agents share.
        slots: Number of slots (simultaneous agents) per world by policy, K.
        first_episodes: Index of the episode with which each world starts; 0 for all unless given.
    """

    def __init__(
        self,
        server: EpisodeServer,
        agents: Mapping[str, Spaces],
        num_worlds: int,
        seeds: EpisodeSeeds,
        mapping: PolicyMapping,
        spaces: Mapping[str, tuple[str, Spaces]],
        slots: Mapping[str, int],
        first_episodes: Sequence[int] | None = None,
    ) -> None:
        self._server = server
        self._episodes = server.episodes
        self._wait = ClientWait(server)
        self._mapping = mapping
        worlds = [ClientWorld(agents, self._episodes, number) for number in range(num_worlds)]
        super().__init__("external", worlds, seeds, mapping, spaces, slots, None, first_episodes)

    @override
    def step(self, actions: Mapping[str, Tree]) -> WorldRows:
        self._server.start()
        taken: dict[str, dict[int, LoggedAction]] = {}
        stepped = np.zeros(self.num_worlds, np.bool_)
        for policy, slots in self._policies.items():
            rows = self._copies[policy](actions[policy])
            for slot in slots.rows.acts.nonzero()[0].tolist():
                world = slot // slots.per_world
                stepped[world] = True
                did = self._episodes.answer(world, slots.owners[slot], rows[slot])
                if did is not None:
                    taken.setdefault(policy, {})[slot] = did
        if any(world.awaiting for world in self._worlds):
            self._episodes.gather(0.0)  # an ended world is reset without waiting
        else:
            self._wait.until_updates()
        shown = super().step(actions)
        shown.stepped, shown.taken = stepped, taken
        return shown

    def publish(self, policy: str, version: int, make: Callable[[], dict[str, Any]]) -> None:
        """Publishes new weights of a policy to the clients that run the policy themselves.

        Args:
            policy: Name of the policy.
            version: Version of the policy's weights.
            make: Function that creates the policy's JSON form when a client requests it.
        """
        for agent in self.possible_agents:
            if self._mapping.policy_of(agent, 0) == policy:
                self._episodes.publish(agent, version, make)

    @override
    def close(self) -> None:
        self._server.stop()
        super().close()


def client_world(external: ExternalConfig) -> ClientWorld:
    """Creates a world that never runs an episode, and only provides the spaces of the agents of external simulators."""
    return ClientWorld(agents_of(external))


def client_vector_world(
    external: ExternalConfig,
    num_worlds: int,
    seeds: EpisodeSeeds,
    mapping: PolicyMapping,
    spaces: Mapping[str, tuple[str, Spaces]],
    slots: Mapping[str, int],
    first_episodes: Sequence[int] | None,
) -> ClientWorlds:
    """Creates the `VectorWorld` for episodes that external simulators run; its HTTP server starts at the first step."""
    agents = agents_of(external)
    episodes = ClientEpisodes(
        agents,
        num_worlds,
        client_timeout_s=external.client_timeout_s,
        gather_s=external.gather_ms / 1_000,
        no_logged_actions="" if external.logged_actions in ("mask", "learn") else NO_LOGGED_ACTIONS,
    )
    server = EpisodeServer(episodes, external, seeds.worker_index)
    return ClientWorlds(server, agents, num_worlds, seeds, mapping, spaces, slots, first_episodes)
