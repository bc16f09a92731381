"""Users who wait for an env's code are told what rlrun waits for, and can end the wait."""

from __future__ import annotations

import gc
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rlrun.engine.envs import env_watch
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import StepTimeout, Watched, hangs_fail_after, interrupt_requested
from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env
from rlrun.engine.envs.vector_env import EnvError, close_or_warn
from rlrun.engine.rollout.evaluation import evaluate

HANGS = f"{__name__}:hangs"


def still() -> list[EpisodePosition]:
    """Returns the places of an env that never moves on."""
    return [EpisodePosition(2, 33, 4)]


def hangs() -> Any:
    """Makes no env."""
    time.sleep(600)


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(env_watch, "POLL_S", 0.02)
    yield
    interrupt_requested.clear()


def test_a_hanging_step_fails_and_prints_where_it_hangs(capfd: pytest.CaptureFixture[str], wording) -> None:
    told = r"^env x: worker 0: no step finished within 0.1 s \(worker_timeout_s\)$"
    with hangs_fail_after(0.1), pytest.raises(StepTimeout, match=told), Watched("env x: worker 0", still):
        time.sleep(600)
    err = capfd.readouterr().err
    assert wording("33") in err.splitlines()
    assert "time.sleep(600)" in err


def test_the_timeout_applies_to_each_step_and_not_to_their_sum() -> None:
    steps = iter(range(1_000_000))
    with hangs_fail_after(0.2), Watched("env x: worker 0", lambda: [EpisodePosition(0, 0, next(steps))]):
        time.sleep(1)


def test_an_inner_watch_suspends_the_outer_one_whose_timeout_restarts_afterwards(wording) -> None:
    with hangs_fail_after(0.5), Watched("outer", still):
        with wording.raised(StepTimeout, "worker_timeout_s", "0.5"), Watched("inner"):
            time.sleep(600)
        began = time.monotonic()
        with wording.raised(StepTimeout):
            time.sleep(600)
        assert time.monotonic() - began >= 0.4  # the outer watch restarts slightly before `began`


def test_a_signal_after_the_watched_code_has_ended_does_nothing() -> None:
    late = Watched("late", still)
    with hangs_fail_after(60), late:
        pass
    late.end_step()
    signal.raise_signal(signal.SIGALRM)


def test_an_interrupt_soon_ends_a_hanging_step_even_before_the_first_notice_is_due(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(env_watch, "INTERRUPT_S", 0.1)
    interrupt_requested.set()
    with pytest.raises(KeyboardInterrupt), Watched("env x: worker 0", still):
        time.sleep(600)
    assert "env x: worker 0: no step has finished for 0 s" in capfd.readouterr().err


def test_a_hang_on_a_thread_other_than_the_main_one_is_reported_but_not_interrupted(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(env_watch, "NOTICE_S", 0.0)
    goes_on, err, notice = threading.Event(), "", "env x: making it has taken 0 s. Current line:"

    def step() -> None:
        with hangs_fail_after(0.01), Watched("env x: making it"):
            goes_on.wait(60)

    thread = threading.Thread(target=step)
    thread.start()
    while notice not in err and thread.is_alive():
        err += capfd.readouterr().err
        time.sleep(0.01)
    assert notice in err
    goes_on.set()
    thread.join(60)
    assert not thread.is_alive()


def test_a_finished_watch_does_not_keep_the_env_alive() -> None:
    class Env:
        def places(self) -> list[EpisodePosition]:
            return still()

    env: Any = Env()
    kept = weakref.ref(env)
    with Watched("done", env.places):
        pass
    del env
    deadline = time.monotonic() + 60
    while kept() is not None and time.monotonic() < deadline:  # the watching thread may still hold the env
        gc.collect()
        time.sleep(0.01)
    assert kept() is None


def test_a_process_whose_code_ignores_the_timeout_is_ended_with_exit_code_4(wording) -> None:
    code = """
from rlrun.engine.envs import env_watch
env_watch.POLL_S = env_watch.GRACE_S = 0.1
with env_watch.hangs_fail_after(0.1), env_watch.Watched("env x: closing it"):
    while True:
        try:
            import time; time.sleep(600)
        except Exception:
            pass
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 4, done.stderr
    assert wording("rlrun resume") in done.stderr.splitlines()


def test_making_an_env_that_hangs_fails_after_the_timeout() -> None:
    told = rf"env {HANGS} .* in its factory \(worker 0, env 0\):\n(.|\n)*making it \(.*\) took more than 0.1 s"
    with hangs_fail_after(0.1), pytest.raises(EnvError, match=told):
        make_vector_env(EnvConfig(id=HANGS), 2, EpisodeSeeds(0, 0))


def test_closing_an_env_is_abandoned_with_a_warning_after_the_timeout() -> None:
    told = re.escape("env x: closing it (worker 0) took more than 0.1 s (worker_timeout_s)")
    with hangs_fail_after(0.1), pytest.warns(UserWarning, match=told):
        close_or_warn(hangs, "x", "worker 0")


class HangsInEvaluation:
    """A policy for CartPole that never answers."""

    def begin_episodes(self, starts: Any) -> None:
        """Has no memory."""

    def take_rewards(self, rewards: Any) -> None:
        """Needs no rewards."""

    def actions(self, observations: Any, generator: np.random.Generator | None, acts: Any = None) -> Any:
        """Never returns."""
        hangs()


def test_a_hanging_evaluation_fails_after_the_timeout() -> None:
    told = r"^env CartPole-v1: evaluation: no step finished within 0.1 s \(worker_timeout_s\)$"
    with hangs_fail_after(0.1), pytest.raises(StepTimeout, match=told):
        evaluate({"default": HangsInEvaluation()}, EnvConfig(id="CartPole-v1"), 1, seed=0)
