"""Detection of episodes that never end, with a warning, or an error beyond a maximum length."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable

from rlrun.engine.envs.env_watch import interrupt_requested
from rlrun.engine.envs.vector_env import EnvError

EPISODELESS_STEPS = 5_000
"""Steps per env slot after which a warning is due if no episode has ended."""

FEW_STEPS = 500
"""Steps per env slot below which no warning is given, even in a short run."""

LONG_EPISODE = 20_000
"""Length of an awaited episode at which a warning is due."""

LONGEST_EPISODE = 200_000
"""Length of an awaited episode that is an error, unless the env's own limit is higher."""


class EndlessEpisodes:
    """Warns once if no episode ends during training.

    Args:
        announce: Function called with the warning.
        env_slots: Number of envs of all workers together.

    Attributes:
        has_warned: Whether the warning has been given.
        looks: Whether the warning may still be due, so that `look` must be called.
    """

    def __init__(self, announce: Callable[[str], None], env_slots: int) -> None:
        self.has_warned = False
        self._announce = announce
        self._env_slots = env_slots
        self.looks = True
        self._agents_end = False

    def begin(self, *, has_episodes: bool) -> None:
        """Prepares the check when a trial starts or resumes; skips it if episodes have already finished."""
        self.has_warned = self.has_warned and not has_episodes
        self.looks = not (has_episodes or self.has_warned)

    def look(self, env_steps: int, *, has_episodes: bool, has_agent_episodes: bool = False) -> None:
        """Warns if no episode has ended after `EPISODELESS_STEPS` env steps per env slot.

        Args:
            env_steps: Env steps so far.
            has_episodes: Whether an episode has ended in the last fragments.
            has_agent_episodes: In a multi-agent env, whether an agent's episode has ended in the last fragments; the
                env's own episode may continue.
        """
        self._agents_end |= has_agent_episodes
        if has_episodes:
            self.looks = False
        elif env_steps >= EPISODELESS_STEPS * self._env_slots:
            self._tell(env_steps)

    def look_halfway(self, env_steps: int) -> None:
        """Warns if no episode has ended by the middle of a run, for runs that are too short for the warning of `look`.

        Args:
            env_steps: Env steps so far.
        """
        if env_steps >= FEW_STEPS * self._env_slots:
            self._tell(env_steps)

    def _tell(self, env_steps: int) -> None:
        if not self.looks:
            return
        self.looks, self.has_warned = False, True
        if self._agents_end:
            self._announce(
                f"no episode of the world has ended in {env_steps:,} env steps; until one does, rlrun "
                "reports the returns of its agents' own episodes. Set env.max_episode_steps if the world does not "
                "end episodes itself"
            )
        else:
            self._announce(
                f"no episode has ended in {env_steps:,} env steps, so there are no returns to report: set "
                "env.max_episode_steps if the env does not end episodes itself"
            )


class EpisodeWatchdog:
    """Watches episodes that must end, as in evaluations: warns about long ones, and fails if one seems endless.

    Args:
        name: Description for messages: the env, and the operation that waits for its episodes.
        limit: The env's own `max_episode_steps`; None if it sets none.
        grace_s: Seconds for which running episodes may continue after the user's interrupt.
    """

    def __init__(self, name: str, limit: int | None, grace_s: float = math.inf) -> None:
        self._name = name
        self._most = max(LONGEST_EPISODE, limit or 0)
        self._grace_s = grace_s
        self._wished = math.inf

    def look(self, length: int) -> None:
        """Warns or raises if the longest running episode is too long; called after each step.

        Args:
            length: Steps so far of the longest running episode.

        Raises:
            EnvError: The episode is longer than `LONGEST_EPISODE` and the env's own limit.
            KeyboardInterrupt: The user interrupted the run, and the grace period is over or the episode exceeds
                `LONG_EPISODE`.
        """
        if interrupt_requested.is_set():
            now = time.monotonic()
            self._wished = min(self._wished, now)
            if length > LONG_EPISODE or now - self._wished >= self._grace_s:
                raise KeyboardInterrupt
        if length == LONG_EPISODE:
            warnings.warn(
                f"{self._name}: {_not_ended(LONG_EPISODE)}. An error follows after {self._most:,} steps",
                stacklevel=2,
            )
        if length > self._most:
            raise EnvError(f"{self._name}: {_not_ended(self._most)}")


def _not_ended(steps: int) -> str:
    return (
        f"still waiting for an episode that has not ended after {steps:,} steps. Set env.max_episode_steps "
        "if the env does not end episodes itself"
    )


def end_if_requested(length: int) -> None:
    """Raises KeyboardInterrupt if the user requested a stop and the current episode is too long to wait for its end.

    Args:
        length: Steps so far of the longest running episode.

    Raises:
        KeyboardInterrupt: The user requested a stop, and the episode is longer than `LONG_EPISODE`.
    """
    if length > LONG_EPISODE and interrupt_requested.is_set():
        raise KeyboardInterrupt
