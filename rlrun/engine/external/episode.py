"""Clients, their episodes and agents, and the sequence numbers of their requests."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.external.message import Message, Refused

Answer = dict[str, Any]


def answered(answer: Answer) -> Future[Answer]:
    """Returns a future that has an answer already."""
    future: Future[Answer] = Future()
    future.set_result(answer)
    return future


class Requests:
    """Sequence numbers of the requests about one agent, episode or client, with the last answer."""

    def __init__(self) -> None:
        self._expected = 0
        self._last: Future[Answer] | None = None

    def repeated(self, message: Message) -> Future[Answer] | None:
        """Returns the answer to a request that repeats the last one; None for the next request.

        Raises:
            Refused: The number belongs to neither.
        """
        number = message.get("seq")
        if type(number) is int and number == self._expected:
            return None
        if type(number) is int and number == self._expected - 1 and self._last is not None:
            return self._last
        raise Refused(
            "out_of_order",
            f"seq must be {self._expected}, the next number, or the one before for a repetition, not {number!r:.40}",
            expected=self._expected,
        )

    def accept(self, answer: Future[Answer]) -> Future[Answer]:
        """Counts a request, and keeps its answer for a repetition."""
        self._expected += 1
        self._last = answer
        return answer


@dataclass(eq=False)
class ConnectedClient:
    """A client.

    Attributes:
        id: Its id.
        last_message_s: Time of its last message, or of the last answer to it.
        requests: Sequence numbers of the episodes that it begins.
        episodes: Its running episodes by id.
    """

    id: str
    last_message_s: float
    requests: Requests = field(default_factory=Requests)
    episodes: dict[str, Episode] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether an answer of the server is due, so that it may well be silent."""
        return any(agent.asking for episode in self.episodes.values() for agent in episode.agents.values())


class LoggedAction(NamedTuple):
    """Action that a client took by itself.

    Attributes:
        action: The action.
        version: Version of the policy's weights that chose it; None for an action that was not the policy's.
    """

    action: Any
    version: int | None


@dataclass(eq=False)
class Agent:
    """An agent in a client's episode.

    Attributes:
        spaces: Its spaces.
        requests: Sequence numbers of its requests.
        asking: Future answer to the observation that waits for an action; None if the client is to move.
        did: Action that the client took by itself at that observation; None for none.
        logged_actions: Number of such actions so far that were not by the present weights of its policy.
        is_living: Whether the world has had an observation of the agent.
        has_ended: Whether its episode has ended.
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
    """Parts of a world's next step, from the messages of its client since the last one."""

    observations: dict[str, Any] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    terminateds: dict[str, bool] = field(default_factory=dict)
    truncateds: dict[str, bool] = field(default_factory=dict)
    infos: dict[str, dict[str, float]] = field(default_factory=dict)
    ended: bool = False


@dataclass(eq=False)
class Episode:
    """A running episode of a client.

    Attributes:
        id: Its id.
        client: The client.
        world: Number of the world that it occupies.
        agents: Its agents by id, those that have sent a message so far.
        requests: Sequence numbers of the requests about the whole episode.
        news: What the world has not taken yet.
        is_shown: Whether the world has had an observation of the episode.
    """

    id: str
    client: ConnectedClient
    world: int
    agents: dict[str, Agent] = field(default_factory=dict)
    requests: Requests = field(default_factory=Requests)
    pending_step: PendingStep = field(default_factory=PendingStep)
    is_shown: bool = False

    def end(self, name: str, *, terminated: bool, info: dict[str, float]) -> None:
        """Ends an agent's episode; an agent that the world has not seen leaves no trace."""
        agent, pending_step = self.agents[name], self.pending_step
        if agent.asking is not None and not agent.asking.done():
            agent.asking.set_result({"error": "episode_ended", "message": "the agent's episode ended meanwhile"})
        agent.asking = None
        if agent.is_living and not agent.has_ended:
            (pending_step.terminateds if terminated else pending_step.truncateds)[name] = True
            pending_step.infos[name] = {**info, "logged_actions": float(agent.logged_actions)}
        elif not agent.is_living:
            pending_step.observations.pop(name, None)
            pending_step.rewards.pop(name, None)
        agent.has_ended = True
