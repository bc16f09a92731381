"""State of connected clients (simulators), their episodes and agents, and sequence numbers of requests."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.external.message import Message, MessageRefused

Answer = dict[str, Any]


def answered(answer: Answer) -> Future[Answer]:
    """Returns a future that is already completed with the given answer."""
    future: Future[Answer] = Future()
    future.set_result(answer)
    return future


class Requests:
    """Sequence number and answer of the last request about an agent, an episode or a client.

    A repeated request is recognized by its number, and gets the stored answer.
    """

    def __init__(self) -> None:
        self._expected = 0
        self._last: Future[Answer] | None = None

    def repeated(self, message: Message) -> Future[Answer] | None:
        """Returns the stored answer if a request repeats the last one; None if the request is new.

        Raises:
            MessageRefused: The sequence number is neither the last nor the next one.
        """
        number = message.get("seq")
        if type(number) is int and number == self._expected:
            return None
        if type(number) is int and number == self._expected - 1 and self._last is not None:
            return self._last
        raise MessageRefused(
            "out_of_order",
            f"seq must be {self._expected}, or one less to repeat a request, not {number!r:.40}",
            expected=self._expected,
        )

    def accept(self, answer: Future[Answer]) -> Future[Answer]:
        """Records a request as handled, and keeps the answer in case the request is repeated."""
        self._expected += 1
        self._last = answer
        return answer


@dataclass(eq=False)
class ConnectedClient:
    """External simulator that is connected to the server as a client.

    Attributes:
        id: Id of the client.
        last_message_s: Time of the client's last message, or of the last answer to the client, in seconds.
        requests: Sequence numbers of the client's requests to start episodes.
        episodes: The client's running episodes by id.
    """

    id: str
    last_message_s: float
    requests: Requests = field(default_factory=Requests)
    episodes: dict[str, ClientEpisode] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether the client is waiting for an answer, so that its silence does not indicate a failure."""
        return any(agent.asking for episode in self.episodes.values() for agent in episode.agents.values())


class LoggedAction(NamedTuple):
    """Action that an external simulator (client) chose itself.

    Attributes:
        action: The action.
        version: Version of the policy's weights that chose the action; None for an action not chosen by the policy.
    """

    action: Any
    version: int | None


@dataclass(eq=False)
class Agent:
    """Agent in a client's episode.

    Attributes:
        spaces: The agent's observation and action space.
        requests: Sequence numbers of requests about the agent.
        asking: Future of the action for the agent's latest observation; None if the client has to send the next
            message.
        did: Action that the client chose itself for this observation; None if the server has to choose.
        logged_actions: Number of actions so far that the client chose itself, without using the policy's current
            weights.
        is_living: Whether the world that receives the client's data has received an observation of the agent.
        has_ended: Whether the agent's episode has ended.
    """

    spaces: Spaces
    requests: Requests = field(default_factory=Requests)
    asking: Future[Answer] | None = None
    did: LoggedAction | None = None
    logged_actions: int = 0
    is_living: bool = False
    has_ended: bool = False


@dataclass
class PendingStep:
    """Observations, rewards and episode ends that a client has sent since its world's last step, by agent id."""

    observations: dict[str, Any] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    terminateds: dict[str, bool] = field(default_factory=dict)
    truncateds: dict[str, bool] = field(default_factory=dict)
    infos: dict[str, dict[str, float]] = field(default_factory=dict)
    ended: bool = False


@dataclass(eq=False)
class ClientEpisode:
    """Running episode of a client (an external simulator).

    Attributes:
        id: Id of the episode.
        client: The client.
        world: Index of the world (one of W slots for episodes) that the episode occupies.
        agents: Agents about which the client has sent a message, by id.
        requests: Sequence numbers of the requests about the whole episode.
        pending_step: Observations, rewards and ends received since the world's last step.
        is_shown: Whether the world has received an observation of the episode.
    """

    id: str
    client: ConnectedClient
    world: int
    agents: dict[str, Agent] = field(default_factory=dict)
    requests: Requests = field(default_factory=Requests)
    pending_step: PendingStep = field(default_factory=PendingStep)
    is_shown: bool = False

    def end(self, name: str, *, terminated: bool, info: dict[str, float]) -> None:
        """Ends the episode for one agent.

        If the episode's world has not received any observation of the agent yet, the agent is not recorded at all.
        """
        agent, pending_step = self.agents[name], self.pending_step
        if agent.asking is not None and not agent.asking.done():
            agent.asking.set_result(
                {"error": "episode_ended", "message": "the agent's episode has ended in the meantime"}
            )
        agent.asking = None
        if agent.is_living and not agent.has_ended:
            (pending_step.terminateds if terminated else pending_step.truncateds)[name] = True
            pending_step.infos[name] = {**info, "logged_actions": float(agent.logged_actions)}
        elif not agent.is_living:
            pending_step.observations.pop(name, None)
            pending_step.rewards.pop(name, None)
        agent.has_ended = True
