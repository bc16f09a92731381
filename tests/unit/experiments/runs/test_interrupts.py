"""The first Ctrl-C is a wish, the second an order."""

import os
import signal
import threading

import pytest

from rlrun.engine.envs.env_watch import interrupt_wanted
from rlrun.experiments.runs.interrupts import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_raises_nothing(number: signal.Signals) -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), number)
        assert interrupt_wanted.is_set()

    assert interrupts.received == number.name
    assert not interrupt_wanted.is_set()


def test_the_second_signal_ends_the_run_at_once() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)

    assert interrupts.received == "SIGTERM"


def test_the_handlers_come_back_also_when_a_library_took_the_signals_meanwhile() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with Interrupts() as interrupts:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        interrupts.listen()
        os.kill(os.getpid(), signal.SIGTERM)

    assert interrupts.received == "SIGTERM"
    assert {number: signal.getsignal(number) for number in before} == before


def test_on_another_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def listen() -> None:
        with Interrupts() as interrupts:
            seen.append((signal.getsignal(signal.SIGINT), interrupts.received))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()

    assert seen == [(before, "")]
