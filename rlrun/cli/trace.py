"""Export of a profile as a trace in Chrome's event format, for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlrun.cli.profiling import Profile, Span

if TYPE_CHECKING:
    from rlrun.engine.rollout.counts import MeasuredFragment

DRIVER, WORKERS = 1, 2
"""Process numbers in the trace: the driver (a track per operator), and the workers."""


def write_trace(profile: Profile, output: Path) -> None:
    """Exports a profile as a trace with a track for each operator of the driver and each rollout worker.

    A worker's track holds its fragments, and in each of them its phases one after another. In reality the phases
    alternate at every step, so only their total lengths within a fragment are meaningful.

    Args:
        profile: The profile.
        output: The trace file.
    """
    events = [json.dumps(event, separators=(",", ":")) for event in trace_events(profile)]
    text = ",\n".join(events)
    output.write_text(f'{{"displayTimeUnit":"ms","traceEvents":[\n{text}\n]}}\n', encoding="utf-8")


def trace_events(profile: Profile) -> Iterator[dict[str, Any]]:
    """Yields the events of a trace; times are in microseconds since the start of the measurement."""
    yield _named("process_name", DRIVER, 0, "driver")
    tracks: list[tuple[str, Iterable[Span]]] = [(operator.path, operator.spans) for operator in profile.operators]
    for track, (name, spans) in enumerate([*tracks, ("waiting", profile.waits)], start=1):
        yield _named("thread_name", DRIVER, track, name)
        for span in spans:
            yield _event(name, "driver", DRIVER, track, span, profile.began)
    yield _named("process_name", WORKERS, 0, "rollout workers")
    for time in profile.workers:
        own = [fragment for fragment in profile.fragments if fragment.worker == time.worker]
        offsets = _clock_offsets(own)
        yield _named("thread_name", WORKERS, time.worker + 1, worker_name(time.worker))
        for fragment in own:
            yield from _fragment_events(fragment, offsets[fragment.times.clock], profile.began)


def worker_name(worker: int) -> str:
    """Display name of a rollout worker by index."""
    return f"worker {worker}" if worker else "local worker"


def _fragment_events(fragment: MeasuredFragment, offset: float, zero: float) -> Iterator[dict[str, Any]]:
    """Yields the span of a fragment and those of its phases.

    Args:
        fragment: The fragment.
        offset: Offset in seconds from the worker's clock to the driver's clock.
        zero: Time 0 of the trace, on the driver's clock.
    """
    track, times = fragment.worker + 1, fragment.times
    whole = (times.began + offset, times.ended + offset)
    yield _event("fragment", "worker", WORKERS, track, whole, zero) | {"args": {"env_steps": fragment.env_steps}}
    began = whole[0]
    for phase, seconds in times.seconds.items():
        ended = min(began + seconds, whole[1])
        yield _event(phase, "phase", WORKERS, track, (began, ended), zero)
        began = ended


def _clock_offsets(fragments: Sequence[MeasuredFragment]) -> dict[str, float]:
    """Estimates the offset in seconds of each fragment clock to the driver's clock.

    The offset of another machine is estimated from the fastest fragment, with an assumed latency of zero.
    """
    from rlrun.engine.rollout.phases import machine_clock

    offsets: dict[str, float] = {}
    for fragment in fragments:
        late = fragment.received - fragment.times.ended
        offsets[fragment.times.clock] = min(late, offsets.get(fragment.times.clock, late))
    return offsets | {machine_clock(): 0.0}


def _named(what: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}


def _event(name: str, category: str, process: int, track: int, span: Span, zero: float) -> dict[str, Any]:
    began, ended = (round((moment - zero) * 1e6, 3) for moment in span)
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": began,
        "dur": round(ended - began, 3),
        "pid": process,
        "tid": track,
    }
