"""Client of rlrun's external environments: a simulator asks a policy for actions over HTTP.

Copy this file next to your simulator. It needs Python 3.7 or later and only the standard library.

    client = Client("http://127.0.0.1:9900")
    while True:
        episode = client.start_episode()
        observation, over = simulator.reset(), False
        while not over:
            action = client.get_action(episode, observation)
            observation, reward, over = simulator.step(action)
            client.log_returns(episode, reward)
        client.end_episode(episode, observation)

If the server requires a token, set the environment variable RLRUN_TOKEN. While the server is unavailable or restarts,
the client waits. `EpisodeUnknown` is raised for an episode that the server no longer knows: start a new episode then.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import threading
import time
import urllib.parse
from typing import Any

PROTOCOL = "1.0"


class Refused(Exception):
    """Error for a message that the server does not accept.

    Attributes:
        code: Kind of the error, such as `bad_observation`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


class EpisodeUnknown(Refused):
    """Error for an episode that the server no longer knows, for example after a restart; start a new episode then."""


class ServerGone(Exception):
    """Error for a server that has not answered for `patience_s` seconds."""


class Client:
    """Connection of a simulator to a server that has the policy; its methods may be called from several threads.

    Args:
        address: Address of the server, such as http://127.0.0.1:9900.
        token: Token of the server; None for the environment variable RLRUN_TOKEN.
        cafile: Path of the certificate that verifies an https server; None for the system's certificates.
        timeout_s: Time limit of one request in seconds, after which the request is repeated.
        patience_s: Seconds to wait for an unavailable server before `ServerGone` is raised.

    Attributes:
        agents: Observation and action space of each agent, in JSON form.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:9900",
        token: str | None = None,
        cafile: str | None = None,
        timeout_s: float = 60.0,
        patience_s: float = 600.0,
    ) -> None:
        self.agents: dict[str, Any] = {}
        self._address = urllib.parse.urlsplit(address)
        self._tls = ssl.create_default_context(cafile=cafile) if self._address.scheme == "https" else None
        token = os.environ.get("RLRUN_TOKEN") if token is None else token
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = "Bearer " + token
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._idle: list[http.client.HTTPConnection] = []
        self._starting = threading.Lock()
        self._closed = threading.Event()
        self._client = ""
        self._starts = 0
        self._next: dict[tuple[str, str | None], int] = {}  # sequence numbers by episode and agent
        self._rewards: dict[tuple[str, str | None], float] = {}  # to be sent with the next message
        try:
            self._hello()
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def start_episode(self) -> str:
        """Starts an episode, after waiting until the server has room for another one; returns the episode's id."""
        with self._starting:
            while True:
                try:
                    message = {"verb": "start_episode", "client": self._client, "seq": self._starts}
                    episode = str(self._ask(message)["episode"])
                except Refused as refused:
                    if refused.code != "client_unknown":
                        raise
                    self._hello()  # the server has restarted, or has not heard from this client for a long time
                else:
                    self._starts += 1
                    return episode

    def get_action(self, episode: str, observation: Any, agent: str | None = None) -> Any:
        """Returns the policy's action for an agent's observation; `agent` is None in single-agent episodes."""
        return self._say("get_action", episode, agent, observation=observation)["action"]

    def get_actions(self, observations: dict[str, Any]) -> dict[str, Any]:
        """Returns the actions for observations of several single-agent episodes, in one request to the server."""
        episodes = list(observations)
        messages = [self._message("get_action", each, None, observation=observations[each]) for each in episodes]
        answers = self._send({"messages": messages})["answers"]
        for each, answer in zip(episodes, answers):  # noqa: B905 (Python 3.7)
            _check(answer)
            self._count(each, None)
        return {each: answer["action"] for each, answer in zip(episodes, answers)}  # noqa: B905

    def log_action(
        self, episode: str, observation: Any, action: Any, agent: str | None = None, version: int | None = None
    ) -> int | None:
        """Reports to the server an action that the simulator chose itself.

        Args:
            episode: The episode.
            observation: Observation for which the action was chosen.
            action: The action.
            agent: Id of the agent in a multi-agent episode; None with a single agent.
            version: Version of the policy's weights that chose the action; None for an action not chosen by the policy.

        Returns:
            The current version of the weights; None if the server does not share them.
        """
        answer = self._say("log_action", episode, agent, observation=observation, action=action, version=version)
        present: int | None = answer.get("version")
        return present

    def get_weights(self, version: int | None = None, agent: str | None = None) -> dict[str, Any]:
        """Returns the policy's weights and their `version`, or only the version if it equals the given one."""
        message = {"verb": "get_weights", "client": self._client, "version": version}
        return self._ask(message if agent is None else {**message, "agent": agent})

    def log_returns(self, episode: str, reward: float, agent: str | None = None) -> None:
        """Adds a reward to an agent's last action; the reward is sent with the next message about the episode."""
        key = (episode, agent)
        self._rewards[key] = self._rewards.get(key, 0.0) + float(reward)

    def end_agent(
        self,
        episode: str,
        agent: str,
        observation: Any = None,
        truncated: bool = False,
        info: dict[str, float] | None = None,
    ) -> None:
        """Ends an episode for one agent, while other agents continue; see `end_episode` for the arguments."""
        self._say("end_agent", episode, agent, observation=observation, truncated=truncated, info=info or {})

    def end_episode(
        self,
        episode: str,
        observation: Any = None,
        truncated: bool = False,
        info: dict[str, float] | None = None,
        observations: dict[str, Any] | None = None,
    ) -> None:
        """Ends an episode.

        Args:
            episode: The episode.
            observation: Final observation, after which no action follows; None if there is none.
            truncated: Whether the episode was cut off, for example by a time limit, and could have continued.
            info: Numbers about the episode, which become metrics.
            observations: Final observations of several agents, by agent id.
        """
        for key in [key for key in self._rewards if key[0] == episode and self._rewards[key]]:
            self._say("log_returns", episode, key[1])
        message = {"verb": "end_episode", "episode": episode, "seq": 0, "truncated": truncated, "info": info or {}}
        if observation is not None:
            message["observation"] = observation
        if observations is not None:
            message["observations"] = observations
        self._ask(message)
        for table in (self._next, self._rewards):
            for key in [key for key in table if key[0] == episode]:
                table.pop(key)

    def close(self) -> None:
        """Stops the heartbeats and any wait for the server; the server then truncates running episodes."""
        self._closed.set()
        while self._idle:
            self._idle.pop().close()

    def _hello(self) -> None:
        answer = self._ask({"verb": "hello", "protocol": PROTOCOL})
        self._client, self._starts = str(answer["client"]), 0
        self.agents = answer["agents"]
        self._beat_s = float(answer["client_timeout_s"]) / 3

    def _send_heartbeats(self) -> None:
        """Sends the heartbeats of this client to the server."""
        while not self._closed.wait(self._beat_s):
            with contextlib.suppress(Refused, ServerGone):  # the next request will raise the same error
                self._ask({"verb": "heartbeat", "client": self._client})

    def _say(self, verb: str, episode: str, agent: str | None, **entries: Any) -> dict[str, Any]:
        answer = self._ask(self._message(verb, episode, agent, **entries))
        self._count(episode, agent)
        return answer

    def _message(self, verb: str, episode: str, agent: str | None, **entries: Any) -> dict[str, Any]:
        key = (episode, agent)
        message = {"verb": verb, "episode": episode, "seq": self._next.get(key, 0), **entries}
        message["reward"] = self._rewards.get(key, 0.0)
        if agent is not None:
            message["agent"] = agent
        return message

    def _count(self, episode: str, agent: str | None) -> None:
        self._next[episode, agent] = self._next.get((episode, agent), 0) + 1
        self._rewards[episode, agent] = 0.0

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        while True:
            answer = self._send(message)
            if answer.get("error") not in ("closing", "busy"):
                return _check(answer)
            time.sleep(1.0)

    def _send(self, message: dict[str, Any]) -> dict[str, Any]:
        """Sends a message until it is answered; a repetition has the same number and therefore gets the same answer."""
        body = json.dumps(message, default=_plain).encode("utf-8")
        last_answer, pause_s = time.monotonic(), 0.05
        while True:
            try:
                status, text = self._post(body)
            except ssl.SSLCertVerificationError as error:
                raise Refused(
                    "certificate_untrusted",
                    f"the server's certificate is not trusted ({error.verify_message}): pass the file of the "
                    "certificate, or of its issuer, as Client(address, cafile='cert.pem')",
                ) from error
            except (OSError, http.client.HTTPException) as error:
                if self._closed.is_set() or time.monotonic() - last_answer > self._patience_s:
                    raise ServerGone(f"no answer for {self._patience_s:g} s: {error!r}") from error
            else:
                if status == 200:
                    found: dict[str, Any] = json.loads(text.decode("utf-8"))
                    return found
                if status not in (429, 503):
                    raise _refusal(status, text.decode("utf-8", "replace"))
                last_answer = time.monotonic()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 2.0)

    def _post(self, body: bytes) -> tuple[int, bytes]:
        """Sends one request on a connection that no other thread uses; keeps the connection for the next request."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connection()
        try:
            connection.request("POST", self._address.path or "/", body, self._headers)
            response = connection.getresponse()
            answer = response.status, response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        if self._closed.is_set():
            self.close()
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        host, port = str(self._address.hostname), self._address.port
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=self._tls)


def _check(answer: dict[str, Any]) -> dict[str, Any]:
    """Raises the error in an answer, if there is one."""
    code = answer.get("error")
    if code is None:
        return answer
    raise (EpisodeUnknown if code == "episode_unknown" else Refused)(code, str(answer.get("message")))


def _refusal(status: int, text: str) -> Refused:
    """Returns the error for an HTTP status; a proxy may answer without the server's code."""
    try:
        answer = json.loads(text)
        return Refused(str(answer["error"]), str(answer["message"]))
    except (ValueError, KeyError, TypeError):
        return Refused("http_" + str(status), text[:1000])


def _plain(value: Any) -> Any:
    """Converts arrays and scalars, of NumPy or other libraries, to plain lists and numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


__all__: list[str] = ["Client", "EpisodeUnknown", "Refused", "ServerGone"]
