"""Episodes that do not end: said once, and no reason to go on when the user wants the run to end."""

from __future__ import annotations

from collections.abc import Callable

from rlrun.envs.env_watch import interrupt_wanted

EPISODELESS_STEPS = 20_000
"""Steps of each env slot after which an episode should have ended."""


class EndlessEpisodes:
    """Announces once that no episode has ended, while experience is collected.

    Args:
        announce: Called with a sentence.
        env_slots: Envs of all workers together.
    """

    def __init__(self, announce: Callable[[str], None], env_slots: int) -> None:
        self._announce = announce
        self._steps = EPISODELESS_STEPS * env_slots
        self._looks = True

    def begin(self, *, has_episodes: bool) -> None:
        """Is told whether episodes have ended before, as in a run that is resumed."""
        self._looks = not has_episodes

    def look(self, env_steps: int, has_episodes: bool) -> None:
        """Looks at what was collected.

        Args:
            env_steps: Env steps so far.
            has_episodes: Whether an episode has ended among those that were collected last.
        """
        if self._looks and (has_episodes or env_steps >= self._steps):
            self._looks = False
            if not has_episodes:
                self._announce(
                    f"no episode has ended in {env_steps:,} env steps, so there are no returns to report: set "
                    "env.max_episode_steps if the env does not end episodes by itself"
                )


def end_if_wanted(length: int) -> None:
    """Ends an iteration that waits for the end of an episode, if the user wants that and it may never come.

    Args:
        length: Steps of the longest episode so far.

    Raises:
        KeyboardInterrupt: The user has asked for the end, and the episode is longer than `EPISODELESS_STEPS`.
    """
    if length > EPISODELESS_STEPS and interrupt_wanted.is_set():
        raise KeyboardInterrupt
