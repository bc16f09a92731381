"""Actions of a served policy, with their network outputs, and client sessions, which hold the policy's memory."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from starlette.exceptions import HTTPException

from rlrun.deploy.serving.served_policy import ServedPolicy
from rlrun.engine.data.action_masks import FORBIDDEN
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.json_values import batch_to_json
from rlrun.engine.functional.softmax import log_softmax
from rlrun.engine.policy.action_spaces.action_space import Floats
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.recordings import LogProbsAndValues
from rlrun.engine.training.act.acting_policy import actions_from, resume_episode
from rlrun.engine.web.error_answers import RequestRefused


class Session:
    """Session of a policy server: the episode of one client.

    Args:
        id: Id of the session.

    Attributes:
        id: Id of the session.
        memory: The policy's memory after the last observation; None before the first observation of an episode.
        used_s: Time of the last request, in seconds on the clock of `Sessions`.
    """

    def __init__(self, id: str) -> None:  # noqa: A002 (the usual name)
        self.id = id
        self.memory: Mapping[str, Any] | None = None
        self.used_s = 0.0


class Sessions:
    """Open sessions of clients, limited in number and idle time.

    Args:
        most: Maximum number of open sessions.
        timeout_s: Seconds without a request after which a session ends.
        clock: Function that returns the current time in seconds.
    """

    def __init__(self, most: int, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._timeout_s = timeout_s
        self._clock = clock
        self._open: OrderedDict[str, Session] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        self._end_expired()
        return len(self._open)

    def begin(self) -> Session:
        """Opens a session.

        Raises:
            HTTPException: The maximum number of sessions is already open.
        """
        self._end_expired()
        if len(self._open) >= self._most:
            raise HTTPException(503, f"no session is free (limit: {self._most:,}); end one, or wait until one expires")
        return self._used(Session(secrets.token_urlsafe(16)))

    def existing(self, session: Any) -> Session:
        """Finds an open session by its id, and keeps it from expiring.

        Raises:
            RequestRefused: There is no such session.
        """
        self._end_expired()
        found = self._open.get(session) if isinstance(session, str) else None
        if found is None:
            raise RequestRefused(
                404,
                "session_unknown",
                "the session does not exist, has ended or has expired; leave out `session` to start a new one",
            )
        return self._used(found)

    def end(self, session: Any) -> None:
        """Ends a session.

        Raises:
            RequestRefused: There is no such session.
        """
        del self._open[self.existing(session).id]

    def _used(self, session: Session) -> Session:
        session.used_s = self._clock()
        self._open[session.id] = session
        self._open.move_to_end(session.id)
        return session

    def _end_expired(self) -> None:
        oldest_s = self._clock() - self._timeout_s
        while self._open and next(iter(self._open.values())).used_s < oldest_s:
            self._open.popitem(last=False)


@dataclass(frozen=True)
class Asked:
    """Request to a served policy, with the observations to decide on.

    Attributes:
        observations: Raw observations, a tree of [N, ...].
        num_rows: Number of observations, N; always 1 in a session.
        details: Whether to return the network's outputs too.
        session: The session that the request belongs to; None if it belongs to none.
        prev_reward: Reward for the session's last action.
        executed: The last action that the session's env executed, [1, ...], if it differs from the policy's answer.
    """

    observations: Any
    num_rows: int
    details: bool = False
    session: Session | None = None
    prev_reward: float = 0.0
    executed: Any = None


Answer = dict[str, Any]


class Decisions:
    """Answers requests with the currently served policy, which may be replaced by a newer one at any time.

    Args:
        served: The policy.
        draws: Random generator for sampled actions; None for greedy actions.

    Attributes:
        served: The served policy. Replacing it is atomic: requests in progress keep the previous policy.
    """

    def __init__(self, served: ServedPolicy, draws: np.random.Generator | None) -> None:
        self.served = served
        self._draws = draws

    def decide(self, asked: Sequence[Asked]) -> list[Answer]:
        """Answers requests; all requests outside of sessions share one forward pass of the network.

        If a request fails, its error is raised, and all sessions remain as they were. Overflow and NaN in
        the computation do not count as errors.
        """
        served, memories = self.served, dict[Session, Mapping[str, Any]]()
        alone = [one for one in asked if one.session is None]
        with np.errstate(over="ignore", invalid="ignore"):
            found = iter(self._together(served, alone) if alone else [])
            answers = [
                {**(next(found) if one.session is None else self._next(served, one, memories)), **served.place()}
                for one in asked
            ]
        for session, memory in memories.items():
            session.memory = memory
        return answers

    def _together(self, served: ServedPolicy, asked: Sequence[Asked]) -> list[Answer]:
        first, *others = (one.observations for one in asked)
        batch = map_tree(lambda *parts: np.concatenate(parts), first, *others) if others else first
        rows = batch_to_json(served.behavior.actions(batch, self._draws))
        answers, start = [], 0
        for one in asked:
            answer: Answer = {"actions": rows[start : start + one.num_rows]}
            start += one.num_rows
            if one.details:
                answer["details"] = _details(served, one.observations)
            answers.append(answer)
        return answers

    def _next(self, served: ServedPolicy, one: Asked, memories: dict[Session, Mapping[str, Any]]) -> Answer:
        """Answers the next step of a session's episode.

        Args:
            served: The policy.
            one: The request.
            memories: Memories of sessions after their last request; updated if the request is answered.
        """
        assert one.session is not None
        session, behavior, answer = one.session, served.behavior, Answer(session=one.session.id)
        memory = memories.get(session, session.memory)
        if one.details:
            resume_episode(behavior, memory, one.prev_reward, one.executed)
            answer["details"] = _details(served, one.observations)
        actions, memories[session] = actions_from(
            behavior, memory, one.observations, self._draws, one.prev_reward, one.executed
        )
        return {"actions": batch_to_json(actions), **answer}


def _details(served: ServedPolicy, observations: Any) -> list[dict[str, Any]]:
    """Outputs of the network for observations [N, ...], by their meaning; changes the behavior policy's memory."""
    behavior = served.behavior
    values = None if served.privileged.placeholders else _state_values(behavior, observations)
    name, outputs = "outputs", behavior.outputs(observations)
    is_forbidden = outputs == np.float32(FORBIDDEN)
    if isinstance(served.spaces.action, Discrete) and outputs.shape[-1] == served.spaces.action.n:
        name = "action_values" if served.estimates_actions else "probabilities"
        outputs = outputs if served.estimates_actions else np.exp(log_softmax(outputs))
    details: list[dict[str, Any]] = [
        {name: [None if forbidden else number for number, forbidden in zip(row, mask, strict=True)]}
        for row, mask in zip(outputs.tolist(), is_forbidden.tolist(), strict=True)
    ]
    if values is not None:
        for one, value in zip(details, values.tolist(), strict=True):
            one["state_value"] = value
    return details


def _state_values(behavior: BehaviorPolicy, observations: Any) -> Floats | None:
    """Estimated values [N] of observations; None for policies that estimate none, or only along an episode."""
    recording = behavior.collector.recording
    if type(recording) is not LogProbsAndValues or recording.value_network is None or behavior.memory.views is not None:
        return None
    heads, _ = recording.value_network({"obs": behavior.filter(observations)})
    return heads["value"][:, 0]
