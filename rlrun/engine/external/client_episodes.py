"""Episodes of external simulators (clients): client messages arrive in any thread, and one thread steps the worlds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.external.client_requests import ClientRequests, Published
from rlrun.engine.external.episode import Answer, LoggedAction, PendingStep, answered
from rlrun.engine.external.message import Message, MessageRefused, action_to_json, read_together
from rlrun.engine.external.running_episodes import RunningEpisodes


class ClientEpisodes:
    """Thread-safe exchange between HTTP threads, which receive clients' messages, and the thread that steps W worlds.

    Args:
        spaces: Spaces of each agent that may appear in episodes, by id.
        num_worlds: Maximum number of simultaneous episodes, W, each in its own world; further episodes wait.
        client_timeout_s: Seconds of silence after which a client counts as dead and its episodes end as truncated.
        gather_s: Maximum time in seconds that an answer waits for requests of other episodes, so that all can be
            answered together.
        no_logged_actions: Reason why actions chosen by clients are refused; "" if they are accepted.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        spaces: Mapping[str, Spaces],
        num_worlds: int,
        *,
        client_timeout_s: float,
        gather_s: float,
        no_logged_actions: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spaces = spaces
        self._gather_s = gather_s
        self._clock = clock
        self._changed = threading.Condition()
        self._running = RunningEpisodes(num_worlds, client_timeout_s, clock)
        self._published: Published = {}
        self._requests = ClientRequests(
            self._running,
            spaces,
            self._published,
            client_timeout_s=client_timeout_s,
            no_logged_actions=no_logged_actions,
            clock=clock,
        )
        self._is_closed = False

    @property
    def num_clients(self) -> int:
        """Number of connected clients: those that have not been silent for longer than the timeout."""
        return len(self._running.clients)

    def ask(self, message: dict[str, Any]) -> Future[Answer]:
        """Handles a client's message.

        Returns:
            Future of the answer, which has the key `error` if the message is refused.
        """
        return self.ask_all([message])[0]

    def ask_all(self, messages: Sequence[dict[str, Any]]) -> list[Future[Answer]]:
        """Handles several messages of one HTTP request in order; returns the futures of their answers (see `ask`).

        The thread that steps the worlds is woken only once.
        """
        with self._changed:
            if len(messages) > 1:
                read_together(self._spaces, messages)
            answers = [self._taken(message) for message in messages]
            if self._running.wakes:
                self._running.wakes = False
                self._changed.notify_all()
            return answers

    def _taken(self, message: Message) -> Future[Answer]:
        try:
            if self._is_closed:
                raise MessageRefused("closing", "the server is shutting down: try again later")
            return self._requests.take(message)
        except MessageRefused as refused:
            return answered(refused.answer)

    # Methods for the thread that steps the worlds.

    def free(self, world: int) -> None:
        """Makes a world available for another episode, after its last episode has ended."""
        with self._changed:
            self._running.free(world)

    def publish(self, name: str, version: int, policy: Callable[[], Answer]) -> None:
        """Publishes the policy's weights, for clients that choose actions themselves."""
        with self._changed:
            self._published[name] = version, policy

    def answer(self, world: int, name: str, action: Any) -> LoggedAction | None:
        """Answers a client's request for an agent's action; returns the action that the client chose itself, if any.

        A client that chose the action itself receives the current version of the policy's weights.
        """
        with self._changed:
            episode = self._running.of_world[world]
            agent = None if episode is None else episode.agents[name]
            if episode is None or agent is None or agent.asking is None:
                return None  # the episode has ended in the meantime
            if agent.did is None:
                agent.asking.set_result({"action": action_to_json(action)})
            else:
                version, _ = self._published.get(name, (None, None))
                agent.logged_actions += agent.did.version is None or agent.did.version != version
                agent.asking.set_result({} if version is None else {"version": version})
            agent.asking = None
            episode.client.last_message_s = self._clock()
            self._running.awaited.add((episode.id, name))
            return agent.did

    def gather(self, timeout_s: float) -> bool:
        """Waits for a message about any episode, then briefly for messages about other episodes that are expected soon.

        An agent that sent no request in time is not waited for again until its next request.

        Args:
            timeout_s: Maximum wait for the first message in seconds; 0 if other work is waiting.

        Returns:
            Whether there are new messages.
        """
        with self._changed:
            self._running.end_silent()
            if not self._changed.wait_for(lambda: self._running.updated, timeout_s) and timeout_s:
                return False
            self._changed.wait_for(lambda: not self._running.awaited, self._gather_s)
            self._running.awaited.clear()
            return True

    def take(self, world: int) -> PendingStep:
        """Returns and clears the observations, rewards and ends that a world's client sent since the last step."""
        with self._changed:
            self._running.updated.discard(world)
            episode = self._running.of_world[world]
            if episode is None:
                return PendingStep()
            pending_step, episode.pending_step = episode.pending_step, PendingStep()
            for name in pending_step.observations:
                episode.agents[name].is_living = episode.is_shown = True
            return pending_step

    def close(self) -> None:
        """Answers waiting messages of clients, and all later ones, with an error."""
        with self._changed:
            self._is_closed = True
            for answer in self._running.unanswered():
                answer.set_result({"error": "closing", "message": "the server is shutting down: try again later"})
