"""Episodes of external simulators (clients): messages arrive in any thread; one thread steps a world per episode."""

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
    """Thread-safe exchange between clients' requests, added by any thread, and the thread that steps their W worlds.

    Args:
        spaces: Spaces of each agent that a client's episode may have, by id.
        num_worlds: Maximum number of simultaneous episodes, W, each in its own world; further episodes wait.
        client_timeout_s: Seconds of silence after which a client counts as dead and its episodes end as truncated.
        gather_s: Maximum time in seconds that an answer waits for requests of other episodes, to answer them together.
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
        """Number of clients that are connected, i.e. not silent for longer than the timeout."""
        return len(self._running.clients)

    def ask(self, message: dict[str, Any]) -> Future[Answer]:
        """Receives a client's message.

        Returns the future answer, which has the key `error` if the message is refused.
        """
        return self.ask_all([message])[0]

    def ask_all(self, messages: Sequence[dict[str, Any]]) -> list[Future[Answer]]:
        """Receives the messages of a request in order, like `ask`; wakes the thread that steps the worlds only once."""
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
                raise MessageRefused("closing", "the server ends: ask again later")
            return self._requests.take(message)
        except MessageRefused as refused:
            return answered(refused.answer)

    # The world's side.

    def free(self, world: int) -> None:
        """Frees a world for another episode, after its last episode has ended."""
        with self._changed:
            self._running.free(world)

    def publish(self, name: str, version: int, policy: Callable[[], Answer]) -> None:
        """Publishes the policy's weights for clients that choose actions themselves."""
        with self._changed:
            self._published[name] = version, policy

    def answer(self, world: int, name: str, action: Any) -> LoggedAction | None:
        """Answers a client's request with an agent's action; returns the action that the client chose itself, if any.

        If the client chose the action itself, the answer is the current version of the weights instead.
        """
        with self._changed:
            episode = self._running.of_world[world]
            agent = None if episode is None else episode.agents[name]
            if episode is None or agent is None or agent.asking is None:
                return None  # its episode has ended meanwhile
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
        """Waits for a message about any episode, then briefly for messages about further episodes that are likely soon.

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
        """Returns and clears what a world's client sent since the last step: observations, rewards, episode ends."""
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
        """Answers all waiting and all later messages of clients with an error."""
        with self._changed:
            self._is_closed = True
            for answer in self._running.unanswered():
                answer.set_result({"error": "closing", "message": "the server ends: ask again later"})
