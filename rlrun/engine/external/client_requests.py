"""Requests of external simulators (clients): validation, effect and answer of each kind of request.

Each request about an agent carries the agent's next sequence number. A repeated request gets the same answer as the
first one, and any other number is refused. Each step thus counts exactly once, even on an unreliable network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from rlrun.engine.data.space_json import space_to_json
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.external.episode import Agent, Answer, ClientEpisode, ConnectedClient, LoggedAction, answered
from rlrun.engine.external.message import (
    PROTOCOL,
    Message,
    MessageRefused,
    action_of,
    check_protocol,
    flag_of,
    info_of,
    observation_of,
    reward_of,
    text_of,
    version_of,
)
from rlrun.engine.external.running_episodes import CLIENT_LOST, RunningEpisodes
from rlrun.engine.messages.errors import UsageError

Published = dict[str, tuple[int, Callable[[], Answer]]]
"""For each agent, the version of its policy's weights and a function that returns the policy as JSON."""


class ClientRequests:
    """Handler of requests of external simulators (clients), which validates and answers each by its kind.

    Args:
        running: Register of the clients and their running episodes.
        spaces: Spaces of each agent that may appear in episodes, by id.
        published: Policy weights by agent, for clients that choose actions themselves; read at each request.
        client_timeout_s: Seconds of silence after which a client counts as dead; sent to clients.
        no_logged_actions: Reason why actions chosen by clients are refused; "" if they are accepted.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        running: RunningEpisodes,
        spaces: Mapping[str, Spaces],
        published: Published,
        *,
        client_timeout_s: float,
        no_logged_actions: str,
        clock: Callable[[], float],
    ) -> None:
        self._running = running
        self._spaces = spaces
        self._published = published
        self._timeout_s = client_timeout_s
        self._no_logged_actions = no_logged_actions
        self._clock = clock
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

    def take(self, message: Message) -> Future[Answer]:
        """Handles a client's message; returns the future of its answer, which may not be complete yet.

        Raises:
            MessageRefused: The message is refused.
        """
        verb = self._verbs.get(text_of(message, "verb"))
        if verb is None:
            raise MessageRefused(
                "bad_message", f"unknown verb {message['verb']!r:.40}: must be one of {', '.join(self._verbs)}"
            )
        return verb(message)

    def _hello(self, message: Message) -> Future[Answer]:
        check_protocol(message.get("protocol"))
        own = {agent: _spaces_to_json(spaces) for agent, spaces in self._spaces.items()}
        theirs = message.get("agents")
        if theirs is not None and theirs != own:
            raise MessageRefused(
                "spaces_mismatch", f"the client has the agents {theirs!r:.400}, but the server has {own!r:.400}"
            )
        client = self._running.connect()
        return answered({"protocol": PROTOCOL, "client": client.id, "agents": own, "client_timeout_s": self._timeout_s})

    def _heartbeat(self, message: Message) -> Future[Answer]:
        self._client_of(message)
        return answered({})

    def _start_episode(self, message: Message) -> Future[Answer]:
        client = self._client_of(message)
        if (earlier := client.requests.repeated(message)) is not None:
            return earlier
        return self._running.start(client)

    def _get_action(self, message: Message) -> Future[Answer]:
        return self._observe(message, logs=False)

    def _log_action(self, message: Message) -> Future[Answer]:
        if self._no_logged_actions:
            raise MessageRefused("logged_action_refused", self._no_logged_actions)
        return self._observe(message, logs=True)

    def _observe(self, message: Message, *, logs: bool) -> Future[Answer]:
        """Handles an observation, which waits for an action, or for the record of the action that the client took."""
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
        self._running.note_update(episode, name)
        return agent.asking

    def _logged_action(self, spaces: Spaces, name: str, message: Message) -> LoggedAction:
        version = version_of(message)
        is_drawn = version is not None and name in self._published
        return LoggedAction(action_of(spaces, message.get("action"), is_drawn=is_drawn), version)

    def _get_weights(self, message: Message) -> Future[Answer]:
        """Returns an agent's policy, or only its version if the client already has that version."""
        self._client_of(message)
        published = self._published.get(self._agent_named(message))
        if published is None:
            raise MessageRefused("no_weights", "this server does not send weights: request actions with get_action")
        version, policy = published
        if version_of(message) == version:
            return answered({"version": version})
        try:
            return answered({"version": version, **policy()})
        except UsageError as error:
            raise MessageRefused("no_weights", str(error)) from None

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
        self._running.note_update(episode, name)
        return agent.requests.accept(answered({}))

    def _end_episode(self, message: Message) -> Future[Answer]:
        ended = self._running.ended.get(text_of(message, "episode"))
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
        self._running.end(episode, terminated=not truncated, info={**info, CLIENT_LOST: 0.0})
        return episode.requests.accept(answered({}))

    def _finals(self, message: Message) -> dict[str, Any]:
        """Returns the final observations in a message by agent: `observations`, or the only agent's `observation`."""
        if message.get("observation") is not None:
            found = {self._agent_named(message): message["observation"]}
        else:
            found = message.get("observations", {})
        if not isinstance(found, Mapping) or not all(name in self._spaces for name in found):
            raise MessageRefused(
                "bad_message", f"observations must be an object with a key per agent: {', '.join(self._spaces)}"
            )
        return {name: observation_of(self._spaces[name], own, is_final=True) for name, own in found.items()}

    def _client_of(self, message: Message) -> ConnectedClient:
        client = self._running.clients.get(text_of(message, "client"))
        if client is None:
            raise MessageRefused(
                "client_unknown", "unknown client, perhaps because the server restarted: send `hello` first"
            )
        client.last_message_s = self._clock()
        return client

    def _episode_of(self, message: Message) -> ClientEpisode:
        episode = self._running.episodes.get(text_of(message, "episode"))
        if episode is None:
            raise MessageRefused(
                "episode_unknown",
                "unknown episode: it has ended, its client was inactive for too long, or the server "
                "restarted. Start a new episode",
            )
        episode.client.last_message_s = self._clock()
        return episode

    def _agent_named(self, message: Message) -> str:
        first, *others = self._spaces
        name = message.get("agent", None if others else first)
        if not isinstance(name, str) or name not in self._spaces:
            raise MessageRefused("agent_unknown", f"agent must be one of {', '.join(self._spaces)}, not {name!r:.40}")
        return name

    def _agent_of(self, episode: ClientEpisode, name: str) -> Agent:
        if name not in episode.agents:
            episode.agents[name] = Agent(self._spaces[name])
        return episode.agents[name]


def _check_lives(agent: Agent) -> None:
    if agent.has_ended:
        raise MessageRefused("agent_ended", "the agent has already ended in this episode: start a new episode")


def _check_is_to_move(agent: Agent) -> None:
    _check_lives(agent)
    if agent.asking is not None:
        raise MessageRefused("out_of_order", "the agent's last request has not been answered yet: wait for the answer")


def _add_reward(episode: ClientEpisode, name: str, reward: float) -> None:
    if reward:
        episode.pending_step.rewards[name] = episode.pending_step.rewards.get(name, 0.0) + reward


def _is_living(episode: ClientEpisode, name: str) -> bool:
    agent = episode.agents.get(name)
    return agent is not None and agent.is_living and not agent.has_ended


def _spaces_to_json(spaces: Spaces) -> dict[str, Any]:
    return {"observation": space_to_json(spaces.observation), "action": space_to_json(spaces.action)}
