"""Episodes that clients run: their requests, the order of the requests, and the answers.

`ClientEpisodes` receives the messages of clients in any thread, and serves a vectorized world that one thread steps.
Each request about an agent carries the agent's next sequence number. A repeated request gets the same answer as the
first one, and any other number is refused. Each step thus counts exactly once, even on an unreliable network.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from rlrun.engine.data.space_json import space_to_json
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.external.episode import (
    Agent,
    Answer,
    ConnectedClient,
    Episode,
    LoggedAction,
    PendingStep,
    Requests,
    answered,
)
from rlrun.engine.external.message import (
    PROTOCOL,
    Message,
    Refused,
    action_of,
    action_to_json,
    check_protocol,
    flag_of,
    info_of,
    observation_of,
    read_together,
    reward_of,
    text_of,
    version_of,
)
from rlrun.engine.messages.errors import UsageError

MOST_CLIENTS = 10_000
"""Maximum number of clients at a time."""

MOST_WAITING = 1_000
"""Maximum number of episodes that wait for a free world; further ones are refused as `busy`."""

LOOK_S = 1.0
"""Time between two looks for clients that are silent."""

CLIENT_LOST = "client_lost"
"""Name in the info of an agent's end: 1 if its client died, else 0."""


class ClientEpisodes:
    """Episodes that clients run in W worlds, and the requests that wait for an action.

    Args:
        spaces: Spaces of each agent that a client's episode may have, by id.
        num_worlds: Maximum number of simultaneous episodes, W; further episodes wait.
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
        self._timeout_s = client_timeout_s
        self._gather_s = gather_s
        self._no_logged_actions = no_logged_actions
        self._clock = clock
        self._looked_s = clock()
        self._changed = threading.Condition()
        self._clients: dict[str, ConnectedClient] = {}
        self._episodes: dict[str, Episode] = {}
        self._ended: OrderedDict[str, Requests] = OrderedDict()  # of the latest episodes, for repeated requests
        self._worlds: list[Episode | None] = [None] * num_worlds
        self._free: set[int] = set()
        self._begun = [0] * num_worlds
        self._waiting: deque[tuple[ConnectedClient, Future[Answer]]] = deque()
        self._with_news: set[int] = set()
        self._wakes = False
        self._awaited: set[tuple[str, str]] = set()  # (episode, agent) that are likely to ask at once
        self._is_closed = False
        self._published: dict[str, tuple[int, Callable[[], Answer]]] = {}
        self._verbs: Mapping[str, Callable[[Message], Future[Answer]]] = {
            "hello": self._hello,
            "heartbeat": self._heartbeat,
            "start_episode": self._start_episode,
            "get_action": self._get_action,
            "log_action": self._log_action,
            "get_weights": self._get_weights,
            "log_returns": self._log_returns,
            "end_agent": self._end_agent,
            "end_episode": self._end_episode,
        }

    @property
    def num_clients(self) -> int:
        """Number of clients that are connected, i.e. not silent for longer than the timeout."""
        return len(self._clients)

    def ask(self, message: dict[str, Any]) -> Future[Answer]:
        """Receives a client's message.

        Returns the future answer, which has the key `error` if the message is refused.
        """
        return self.ask_all([message])[0]

    def ask_all(self, messages: Sequence[dict[str, Any]]) -> list[Future[Answer]]:
        """Receives the messages of a request in order, like `ask`; the world's thread is woken only once."""
        with self._changed:
            if len(messages) > 1:
                read_together(self._spaces, messages)
            answers = [self._taken(message) for message in messages]
            if self._wakes:
                self._wakes = False
                self._changed.notify_all()
            return answers

    def _taken(self, message: Message) -> Future[Answer]:
        try:
            verb = self._verbs.get(text_of(message, "verb"))
            if verb is None:
                raise Refused("bad_message", f"there is no verb {message['verb']!r:.40}: {', '.join(self._verbs)}")
            if self._is_closed:
                raise Refused("closing", "the server ends: ask again later")
            return verb(message)
        except Refused as refused:
            return answered(refused.answer)

    def _hello(self, message: Message) -> Future[Answer]:
        check_protocol(message.get("protocol"))
        own = {agent: _spaces_to_json(spaces) for agent, spaces in self._spaces.items()}
        theirs = message.get("agents")
        if theirs is not None and theirs != own:
            raise Refused("spaces_mismatch", f"the client has the agents {theirs!r:.400}, and the server {own!r:.400}")
        if len(self._clients) >= MOST_CLIENTS:
            raise Refused("busy", f"there are {MOST_CLIENTS:,} clients already")
        client = ConnectedClient(secrets.token_hex(8), self._clock())
        self._clients[client.id] = client
        return answered({"protocol": PROTOCOL, "client": client.id, "agents": own, "client_timeout_s": self._timeout_s})

    def _heartbeat(self, message: Message) -> Future[Answer]:
        self._client_of(message)
        return answered({})

    def _start_episode(self, message: Message) -> Future[Answer]:
        client = self._client_of(message)
        if (earlier := client.requests.repeated(message)) is not None:
            return earlier
        if len(self._waiting) >= MOST_WAITING:
            raise Refused("busy", f"{MOST_WAITING:,} episodes wait for a free world already: ask again later")
        answer = client.requests.accept(Future())
        self._waiting.append((client, answer))
        self._begin_waiting()
        return answer

    def _get_action(self, message: Message) -> Future[Answer]:
        return self._observe(message, logs=False)

    def _log_action(self, message: Message) -> Future[Answer]:
        if self._no_logged_actions:
            raise Refused("logged_action_refused", self._no_logged_actions)
        return self._observe(message, logs=True)

    def _observe(self, message: Message, *, logs: bool) -> Future[Answer]:
        """Takes an observation: it waits for an action, or for the record of the action that the client took."""
        episode, name = self._episode_of(message), self._agent_named(message)
        agent = self._agent_of(episode, name)
        if (earlier := agent.requests.repeated(message)) is not None:
            return earlier
        _check_is_to_move(agent)
        observation, reward = observation_of(agent.spaces, message.get("observation")), reward_of(message)
        agent.did = self._logged_action(agent.spaces, name, message) if logs else None
        agent.asking = agent.requests.accept(Future())
        episode.pending_step.observations[name] = observation
        _add_reward(episode, name, reward)
        self._note_update(episode, name)
        return agent.asking

    def _logged_action(self, spaces: Spaces, name: str, message: Message) -> LoggedAction:
        version = version_of(message)
        is_drawn = version is not None and name in self._published
        return LoggedAction(action_of(spaces, message.get("action"), is_drawn=is_drawn), version)

    def _get_weights(self, message: Message) -> Future[Answer]:
        """Answers by an agent's policy, or by its version alone where that is the client's."""
        self._client_of(message)
        published = self._published.get(self._agent_named(message))
        if published is None:
            raise Refused("no_weights", "this server gives no weights: ask for actions by get_action")
        version, policy = published
        if version_of(message) == version:
            return answered({"version": version})
        try:
            return answered({"version": version, **policy()})
        except UsageError as error:
            raise Refused("no_weights", str(error)) from None

    def _log_returns(self, message: Message) -> Future[Answer]:
        episode, name = self._episode_of(message), self._agent_named(message)
        agent = self._agent_of(episode, name)
        if (earlier := agent.requests.repeated(message)) is not None:
            return earlier
        _check_is_to_move(agent)
        _add_reward(episode, name, reward_of(message))
        return agent.requests.accept(answered({}))

    def _end_agent(self, message: Message) -> Future[Answer]:
        episode, name = self._episode_of(message), self._agent_named(message)
        agent = self._agent_of(episode, name)
        if (earlier := agent.requests.repeated(message)) is not None:
            return earlier
        _check_lives(agent)
        finals, truncated, info = self._finals(message), flag_of(message, "truncated"), info_of(message)
        _add_reward(episode, name, reward_of(message))
        episode.pending_step.observations |= finals
        episode.end(name, terminated=not truncated, info={**info, CLIENT_LOST: 0.0})
        self._note_update(episode, name)
        return agent.requests.accept(answered({}))

    def _end_episode(self, message: Message) -> Future[Answer]:
        ended = self._ended.get(text_of(message, "episode"))
        earlier = None if ended is None else ended.repeated(message)
        if earlier is not None:
            return earlier
        episode = self._episode_of(message)
        if (earlier := episode.requests.repeated(message)) is not None:
            return earlier
        finals, truncated, info = self._finals(message), flag_of(message, "truncated"), info_of(message)
        if "reward" in message:
            _add_reward(episode, self._agent_named(message), reward_of(message))
        episode.pending_step.observations |= {name: own for name, own in finals.items() if _is_living(episode, name)}
        self._end_all_agents(episode, terminated=not truncated, info={**info, CLIENT_LOST: 0.0})
        return episode.requests.accept(answered({}))

    def _finals(self, message: Message) -> dict[str, Any]:
        """Final observations in a message by agent: `observations`, or `observation` of one agent."""
        if message.get("observation") is not None:
            found = {self._agent_named(message): message["observation"]}
        else:
            found = message.get("observations", {})
        if not isinstance(found, Mapping) or not all(name in self._spaces for name in found):
            raise Refused("bad_message", f"observations must be an object by agent: {', '.join(self._spaces)}")
        return {name: observation_of(self._spaces[name], own, is_final=True) for name, own in found.items()}

    def _client_of(self, message: Message) -> ConnectedClient:
        client = self._clients.get(text_of(message, "client"))
        if client is None:
            raise Refused("client_unknown", "there is no such client, perhaps since the server began again: say hello")
        client.last_message_s = self._clock()
        return client

    def _episode_of(self, message: Message) -> Episode:
        episode = self._episodes.get(text_of(message, "episode"))
        if episode is None:
            raise Refused(
                "episode_unknown",
                "there is no such running episode: it has ended, its client was silent for too long, or the server "
                "began again. Begin a new episode",
            )
        episode.client.last_message_s = self._clock()
        return episode

    def _agent_named(self, message: Message) -> str:
        first, *others = self._spaces
        name = message.get("agent", None if others else first)
        if not isinstance(name, str) or name not in self._spaces:
            raise Refused("agent_unknown", f"agent must be one of {', '.join(self._spaces)}, not {name!r:.40}")
        return name

    def _agent_of(self, episode: Episode, name: str) -> Agent:
        if name not in episode.agents:
            episode.agents[name] = Agent(self._spaces[name])
        return episode.agents[name]

    def _note_update(self, episode: Episode, name: str) -> None:
        """Notes that a world has news, and whether its thread is to wake, as it waits for nothing else."""
        self._awaited.discard((episode.id, ""))
        self._awaited.discard((episode.id, name))
        self._wakes |= not self._with_news or not self._awaited
        self._with_news.add(episode.world)

    def _end_all_agents(self, episode: Episode, *, terminated: bool, info: dict[str, float]) -> None:
        """Ends all agents of an episode; an episode that the world has not seen leaves no trace."""
        for name in episode.agents:
            episode.end(name, terminated=terminated, info=info)
            self._awaited.discard((episode.id, name))
        self._ended[self._episodes.pop(episode.id).id] = episode.requests
        if len(self._ended) > MOST_CLIENTS:
            self._ended.popitem(last=False)
        del episode.client.episodes[episode.id]
        if episode.is_shown:
            episode.pending_step.ended = True
            self._note_update(episode, "")
            return
        self._awaited.discard((episode.id, ""))
        self._with_news.discard(episode.world)
        self._worlds[episode.world] = None
        self._free.add(episode.world)
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Begins the episodes that wait, in free worlds; the one with the fewest episodes so far is the next."""
        while self._waiting and self._free:
            client, answer = self._waiting.popleft()
            if client.id not in self._clients:
                continue
            world = min(self._free, key=lambda number: (self._begun[number], number))
            self._free.remove(world)
            self._begun[world] += 1
            episode = Episode(secrets.token_hex(8), client, world)
            self._worlds[world] = self._episodes[episode.id] = client.episodes[episode.id] = episode
            self._awaited.add((episode.id, ""))
            client.last_message_s = self._clock()
            answer.set_result({"episode": episode.id})

    # The world's side.

    def free(self, world: int) -> None:
        """Frees a world for another episode, after its last episode has ended."""
        with self._changed:
            self._worlds[world] = None
            self._free.add(world)
            self._begin_waiting()

    def publish(self, name: str, version: int, policy: Callable[[], Answer]) -> None:
        """Publishes the policy's weights for clients that choose actions themselves."""
        with self._changed:
            self._published[name] = version, policy

    def answer(self, world: int, name: str, action: Any) -> LoggedAction | None:
        """Answers the request of an agent with an action; returns the action that the client took itself, if any.

        A client that chose the action itself receives the current version of the weights instead.
        """
        with self._changed:
            episode = self._worlds[world]
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
            self._awaited.add((episode.id, name))
            return agent.did

    def gather(self, timeout_s: float) -> bool:
        """Waits until an episode has new messages, then for other episodes that are likely to have some soon.

        An agent that sent no request in time is not waited for again until its next request.

        Args:
            timeout_s: Maximum wait for the first message in seconds; 0 if other work is waiting.

        Returns:
            Whether there are new messages.
        """
        with self._changed:
            self._end_silent()
            if not self._changed.wait_for(lambda: self._with_news, timeout_s) and timeout_s:
                return False
            self._changed.wait_for(lambda: not self._awaited, self._gather_s)
            self._awaited.clear()
            return True

    def take(self, world: int) -> PendingStep:
        """Returns and clears the parts of a world's next step that have been received."""
        with self._changed:
            self._with_news.discard(world)
            episode = self._worlds[world]
            if episode is None:
                return PendingStep()
            pending_step, episode.pending_step = episode.pending_step, PendingStep()
            for name in pending_step.observations:
                episode.agents[name].is_living = episode.is_shown = True
            return pending_step

    def close(self) -> None:
        """Refuses all further messages and those still waiting."""
        with self._changed:
            self._is_closed = True
            asking = [agent.asking for episode in self._episodes.values() for agent in episode.agents.values()]
            for answer in [*asking, *(answer for _, answer in self._waiting)]:
                if answer is not None and not answer.done():
                    answer.set_result({"error": "closing", "message": "the server ends: ask again later"})

    def _end_silent(self) -> None:
        """Ends the episodes of clients that have been silent for too long, as truncated."""
        now = self._clock()
        if now - self._looked_s < LOOK_S:
            return
        self._looked_s = now
        waiting = {client.id for client, _ in self._waiting}
        for client in list(self._clients.values()):
            if now - client.last_message_s > self._timeout_s and client.id not in waiting and not client.waits:
                del self._clients[client.id]
                for episode in list(client.episodes.values()):
                    self._end_all_agents(episode, terminated=False, info={CLIENT_LOST: 1.0})


def _check_lives(agent: Agent) -> None:
    if agent.has_ended:
        raise Refused("agent_ended", "the agent has ended in this episode: begin a new one")


def _check_is_to_move(agent: Agent) -> None:
    _check_lives(agent)
    if agent.asking is not None:
        raise Refused("out_of_order", "the agent's last request is not answered yet: wait for its answer")


def _add_reward(episode: Episode, name: str, reward: float) -> None:
    if reward:
        episode.pending_step.rewards[name] = episode.pending_step.rewards.get(name, 0.0) + reward


def _is_living(episode: Episode, name: str) -> bool:
    agent = episode.agents.get(name)
    return agent is not None and agent.is_living and not agent.has_ended


def _spaces_to_json(spaces: Spaces) -> dict[str, Any]:
    return {"observation": space_to_json(spaces.observation), "action": space_to_json(spaces.action)}
