"""Sessions: the memory of policies in episodes that clients play, by session id."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException

from rlrun.engine.web.error_answers import Refused


class Session:
    """Episode of one client.

    Args:
        id: Id of the session.

    Attributes:
        id: Id of the session.
        memory: The policy's memory after the last observation; None before the first of an episode.
        used_s: Time of the last request.
    """

    def __init__(self, id: str) -> None:  # noqa: A002 (the field's word)
        self.id = id
        self.memory: Mapping[str, Any] | None = None
        self.used_s = 0.0


class Sessions:
    """Open sessions, bounded in number and time.

    Args:
        most: Maximum number of open sessions.
        timeout_s: Seconds without a request after which a session ends.
        clock: Clock in seconds.
    """

    def __init__(self, most: int, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._timeout_s = timeout_s
        self._clock = clock
        self._open: OrderedDict[str, Session] = OrderedDict()  # the one that was used longest ago comes first

    def __len__(self) -> int:
        self._end_expired()
        return len(self._open)

    def begin(self) -> Session:
        """Opens a session.

        Raises:
            HTTPException: All are taken.
        """
        self._end_expired()
        if len(self._open) >= self._most:
            raise HTTPException(503, f"all {self._most:,} sessions are taken: end one, or wait until one expires")
        return self._used(Session(secrets.token_urlsafe(16)))

    def existing(self, session: Any) -> Session:
        """Finds an open session by its id, and keeps it from expiring.

        Raises:
            Refused: There is no such session.
        """
        self._end_expired()
        found = self._open.get(session) if isinstance(session, str) else None
        if found is None:
            raise Refused(404, "session_unknown", "it ended or expired; leave `session` out to begin another")
        return self._used(found)

    def end(self, session: Any) -> None:
        """Ends a session.

        Raises:
            Refused: There is no such session.
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
