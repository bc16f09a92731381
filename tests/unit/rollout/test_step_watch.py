from __future__ import annotations

import gc
import signal
import time
import weakref
from typing import Any, cast

import pytest

from rlrun.envs.vector_env import EpisodePlace, VectorEnv
from rlrun.rollout.step_watch import StepTimeout, StepWatch


class Still:
    """Envs that never move on."""

    def places(self) -> list[EpisodePlace]:
        return [EpisodePlace(0, 0, 0)]


def watch(name: str, timeout_s: float) -> StepWatch:
    return StepWatch(name, cast(VectorEnv, Still()), timeout_s)


def test_each_watch_ends_its_own_step_whatever_others_there_are(capfd: pytest.CaptureFixture[str]) -> None:
    older, newer = watch("older", 0.1), watch("newer", 60.0)
    with pytest.raises(StepTimeout, match=r"^older: took no step within 0.1 s \(worker_timeout_s\)$"), older:
        time.sleep(600)
    older.close()
    newer.close()
    assert "older: has taken no step for" in capfd.readouterr().err


def test_a_signal_that_comes_when_the_fragment_has_ended_does_nothing() -> None:
    late = watch("late", 60.0)
    with late:
        pass
    late.end_step()
    signal.raise_signal(signal.SIGALRM)
    late.close()


def test_a_closed_watch_keeps_no_env_alive() -> None:
    env: Any = Still()
    kept = weakref.ref(env)
    closed = StepWatch("closed", env, 60.0)
    closed.close()
    del env, closed
    deadline = time.monotonic() + 60
    while kept() is not None and time.monotonic() < deadline:  # its thread may be looking just now
        gc.collect()
        time.sleep(0.01)
    assert kept() is None
