"""Writes a profile as a trace in Chrome's event format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlrun.cli.profiling import Profile, Span

if TYPE_CHECKING:
    from rlrun.rollout.counts import MeasuredFragment

DRIVER, WORKERS = 1, 2
"""Process numbers in the trace: a row of operators, and a row of workers."""


def write_trace(profile: Profile, output: Path) -> None:
    """Writes a trace: the driver's operators a track each, the workers a track each.

    A worker's track holds its fragments, and in each of them its phases one after another. Within a fragment the phases
    really alternate with every step; there, only their lengths mean something.

    Args:
        profile: What was measured.
        output: The file.
    """
    events = [json.dumps(event, separators=(",", ":")) for event in trace_events(profile)]
    text = ",\n".join(events)
    output.write_text(f'{{"displayTimeUnit":"ms","traceEvents":[\n{text}\n]}}\n', encoding="utf-8")


def trace_events(profile: Profile) -> Iterator[dict[str, Any]]:
    """Yields the events of a trace; times are in microseconds since measuring began."""
    yield _named("process_name", DRIVER, 0, "driver")
    tracks: list[tuple[str, Iterable[Span]]] = [(operator.path, operator.spans) for operator in profile.operators]
    for track, (name, spans) in enumerate([*tracks, ("waiting", profile.waits)], start=1):
        yield _named("thread_name", DRIVER, track, name)
        for span in spans:
            yield _event(name, "driver", DRIVER, track, span, profile.began)
    yield _named("process_name", WORKERS, 0, "rollout workers")
    for time in profile.workers:
        own = [fragment for fragment in profile.fragments if fragment.worker == time.worker]
        behind = _clocks_behind(own)
        yield _named("thread_name", WORKERS, time.worker + 1, worker_name(time.worker))
        for fragment in own:
            yield from _fragment_events(fragment, behind[fragment.times.clock], profile.began)


def worker_name(worker: int) -> str:
    """Returns what a worker is called."""
    return f"worker {worker}" if worker else "local worker"


def _fragment_events(fragment: MeasuredFragment, behind: float, zero: float) -> Iterator[dict[str, Any]]:
    """Yields the span of a fragment and those of its phases.

    Args:
        fragment: The fragment.
        behind: Seconds that its worker's clock is behind the driver's.
        zero: What counts as 0, on the driver's clock.
    """
    track, times = fragment.worker + 1, fragment.times
    whole = (times.began + behind, times.ended + behind)
    yield _event("fragment", "worker", WORKERS, track, whole, zero) | {"args": {"env_steps": fragment.env_steps}}
    began = whole[0]
    for phase, seconds in times.seconds.items():
        ended = min(began + seconds, whole[1])
        yield _event(phase, "phase", WORKERS, track, (began, ended), zero)
        began = ended


def _clocks_behind(fragments: Sequence[MeasuredFragment]) -> dict[str, float]:
    """Returns the seconds by which the clocks that fragments were timed on are behind the driver's.

    Another machine's is told from the fragment that came fastest, as if it had arrived the moment it was done.
    """
    from rlrun.rollout.phases import machine_clock

    behind: dict[str, float] = {}
    for fragment in fragments:
        late = fragment.received - fragment.times.ended
        behind[fragment.times.clock] = min(late, behind.get(fragment.times.clock, late))
    return behind | {machine_clock(): 0.0}


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
