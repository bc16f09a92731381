"""Register of connected simulators (clients), their running episodes, and the world that each episode occupies."""

from __future__ import annotations

import secrets
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future

from rlrun.engine.external.episode import Answer, ClientEpisode, ConnectedClient, Requests
from rlrun.engine.external.message import MessageRefused

MOST_CLIENTS = 10_000
"""Maximum number of clients at a time."""

MOST_WAITING = 1_000
"""Maximum number of episodes that wait for a free world; further ones are refused as `busy`."""

LOOK_S = 1.0
"""Seconds between two searches for silent clients."""

CLIENT_LOST = "client_lost"
"""Key in the info of an agent's end: 1 if its client died, else 0."""


class RunningEpisodes:
    """Register of connected simulators (clients) and their episodes, each in one of W worlds; not thread-safe.

    Args:
        num_worlds: Maximum number of simultaneous episodes, W; further episodes wait.
        client_timeout_s: Seconds of silence after which a client counts as dead and its episodes end as truncated.
        clock: Monotonic clock in seconds.

    Attributes:
        clients: Connected clients by id.
        episodes: Running episodes by id.
        ended: Last requests of episodes that ended recently, by episode, in case a client repeats one.
        of_world: Each world's episode; None for a free world, or if the episode ended before the world received an
            observation.
        updated: Worlds whose episode has received messages that the world has not processed yet.
        awaited: Pairs (episode, agent) about which a request is expected soon; the agent is "" for an episode that has
            just begun.
        wakes: Whether to wake the thread that steps the worlds: set by the first message for it to process, and by a
            message after which no further request is expected.
    """

    def __init__(self, num_worlds: int, client_timeout_s: float, clock: Callable[[], float]) -> None:
        self.clients: dict[str, ConnectedClient] = {}
        self.episodes: dict[str, ClientEpisode] = {}
        self.ended: OrderedDict[str, Requests] = OrderedDict()
        self.of_world: list[ClientEpisode | None] = [None] * num_worlds
        self.updated: set[int] = set()
        self.awaited: set[tuple[str, str]] = set()
        self.wakes = False
        self._timeout_s = client_timeout_s
        self._clock = clock
        self._looked_s = clock()
        self._free: set[int] = set()
        self._begun = [0] * num_worlds
        self._waiting: deque[tuple[ConnectedClient, Future[Answer]]] = deque()

    def connect(self) -> ConnectedClient:
        """Adds a client to the register.

        Raises:
            MessageRefused: There are too many clients.
        """
        if len(self.clients) >= MOST_CLIENTS:
            raise MessageRefused("busy", f"the limit of {MOST_CLIENTS:,} clients is reached")
        client = ConnectedClient(secrets.token_hex(8), self._clock())
        self.clients[client.id] = client
        return client

    def start(self, client: ConnectedClient) -> Future[Answer]:
        """Begins an episode as soon as a world is free; returns the future of the answer, which has the episode's id.

        Raises:
            MessageRefused: Too many episodes are already waiting for a world.
        """
        if len(self._waiting) >= MOST_WAITING:
            raise MessageRefused(
                "busy", f"{MOST_WAITING:,} episodes are already waiting for a free world: try again later"
            )
        answer = client.requests.accept(Future())
        self._waiting.append((client, answer))
        self._begin_waiting()
        return answer

    def unanswered(self) -> list[Future[Answer]]:
        """Returns the futures of the answers that clients are waiting for."""
        asking = [agent.asking for episode in self.episodes.values() for agent in episode.agents.values()]
        found = [*asking, *(answer for _, answer in self._waiting)]
        return [answer for answer in found if answer is not None and not answer.done()]

    def note_update(self, episode: ClientEpisode, name: str) -> None:
        """Records that the world of an episode has a new message to process.

        Args:
            episode: The episode.
            name: Id of the agent that the message is about; "" for the whole episode.
        """
        self.awaited.discard((episode.id, ""))
        self.awaited.discard((episode.id, name))
        self.wakes |= not self.updated or not self.awaited
        self.updated.add(episode.world)

    def end(self, episode: ClientEpisode, *, terminated: bool, info: dict[str, float]) -> None:
        """Ends an episode for all its agents.

        If its world has not received any observation yet, the episode is not recorded at all.
        """
        for name in episode.agents:
            episode.end(name, terminated=terminated, info=info)
            self.awaited.discard((episode.id, name))
        self.ended[self.episodes.pop(episode.id).id] = episode.requests
        if len(self.ended) > MOST_CLIENTS:
            self.ended.popitem(last=False)
        del episode.client.episodes[episode.id]
        if episode.is_shown:
            episode.pending_step.ended = True
            self.note_update(episode, "")
            return
        self.awaited.discard((episode.id, ""))
        self.updated.discard(episode.world)
        self.free(episode.world)

    def end_silent(self) -> None:
        """Ends, as truncated, the episodes of clients that have been silent for too long."""
        now = self._clock()
        if now - self._looked_s < LOOK_S:
            return
        self._looked_s = now
        waiting = {client.id for client, _ in self._waiting}
        for client in list(self.clients.values()):
            if now - client.last_message_s > self._timeout_s and client.id not in waiting and not client.waits:
                del self.clients[client.id]
                for episode in list(client.episodes.values()):
                    self.end(episode, terminated=False, info={CLIENT_LOST: 1.0})

    def free(self, world: int) -> None:
        """Makes a world available for another episode."""
        self.of_world[world] = None
        self._free.add(world)
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Starts waiting episodes in free worlds; worlds with the fewest episodes so far are used first."""
        while self._waiting and self._free:
            client, answer = self._waiting.popleft()
            if client.id not in self.clients:
                continue
            world = min(self._free, key=lambda number: (self._begun[number], number))
            self._free.remove(world)
            self._begun[world] += 1
            episode = ClientEpisode(secrets.token_hex(8), client, world)
            self.of_world[world] = self.episodes[episode.id] = client.episodes[episode.id] = episode
            self.awaited.add((episode.id, ""))
            client.last_message_s = self._clock()
            answer.set_result({"episode": episode.id})
