"""Output of a profile: tables, JSON data, and a trace for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlrun.cli.profiling import WARM_UP_ITERATIONS, Profile, Span, WorkerTime
from rlrun.cli.tables import counted, stdout_width, table
from rlrun.report.plain_json import fields_of
from rlrun.report.step_axis import ENV_STEPS, SGD_STEPS, STEP_NAMES, counted_metric

if TYPE_CHECKING:
    from rlrun.engine.rollout.counts import MeasuredFragment
    from rlrun.experiments.spec.experiment import TrialSpec


DRIVER, WORKERS = 1, 2
"""Process numbers in the trace: the driver (a track per operator), and the workers."""

Row = list[Any]


def profile_lines(trial: TrialSpec, profile: Profile, warm_up_s: float) -> Iterator[str]:
    """Yields the tables of a profile.

    Args:
        trial: The trial.
        profile: Profile of the trial.
        warm_up_s: Duration of the warm-up in seconds.
    """
    from rlrun.experiments.spec.titles import env_title

    counter = counted_metric([fields_of(profile, ENV_STEPS, SGD_STEPS)])
    steps, name = getattr(profile, counter), STEP_NAMES[counter]
    yield f"{trial.experiment}, {trial.name}: {trial.algorithm} on {env_title(trial.env.to_data())}"
    yield (
        f"{profile.seconds:.1f} s with {counted(profile.iterations, 'iteration')}, "
        f"{counted(steps, name.removesuffix('s'))}: {steps / profile.seconds:,.0f} {name}/s"
    )
    yield f"(not counted: {warm_up_s:.1f} s for {WARM_UP_ITERATIONS} iterations with startup and compilation)"
    yield from ("", _operator_table(profile), "")
    if profile.workers:
        yield _worker_table(profile)
        yield from _travel_table(profile)
        yield from _server_table(profile)
    elif counter == ENV_STEPS:
        yield "no fragment requested during the measurement has arrived"
    yield from ("", *_learner_lines(profile))


def _operator_table(profile: Profile) -> str:
    rows: list[Row] = [
        _operator_row(operator.path, operator.seconds, operator.items, profile) for operator in profile.operators
    ]
    rows.append(_operator_row("waiting", profile.waited_s, len(profile.waits), profile))
    if profile.hooks_s is not None:
        rows.append(_operator_row("trial hooks", profile.hooks_s, None, profile))
    rows.append(_operator_row("between operators", profile.between_s, None, profile))
    rows.append(_operator_row("total", profile.seconds, None, profile))
    return table(["operator", "share %", "seconds", "items", "ms per item"], rows, stdout_width())


def _operator_row(name: str, seconds: float, items: int | None, profile: Profile) -> Row:
    each = round(1000 * seconds / items, 3) if items else None
    return [name, round(100 * seconds / profile.seconds, 1), round(seconds, 3), items, each]


def _worker_table(profile: Profile) -> str:
    """Table of rollout workers with the seconds and the fraction of each phase."""
    phases = list(dict.fromkeys(phase for worker in profile.workers for phase in worker.phases))
    rows = [_worker_row(worker, phases) for worker in profile.workers]
    totals: Row = [sum(column) for column in zip(*(row[1:] for row in rows), strict=True)]
    if len(rows) > 1:
        rows.append(["all", *totals])
    env_steps, spent = max(totals[1], 1), max(sum(totals[2:]), 1e-9)
    rows.append(["share %", None, None, *(round(100 * seconds / spent, 1) for seconds in totals[2:])])
    rows.append(["us per env step", None, None, *(round(1e6 * seconds / env_steps, 3) for seconds in totals[2:])])
    headings = [f"{phase.replace('_', ' ')} s" for phase in [*phases, "wait"]]
    return table(["worker", "fragments", "env steps", *headings], rows, stdout_width())


def _worker_row(worker: WorkerTime, phases: list[str]) -> Row:
    seconds = [worker.phases.get(phase, 0.0) for phase in phases]
    return [
        worker_name(worker.worker),
        worker.fragments,
        worker.env_steps,
        *(round(spent, 3) for spent in [*seconds, worker.wait_s]),
    ]


def _travel_table(profile: Profile) -> Iterator[str]:
    """Yields a table of fragment latencies, from the fragment's end to arrival at the driver, for remote workers."""
    if all(worker.worker == 0 for worker in profile.workers):
        return
    rows = [[worker_name(worker.worker), *_travel_of(worker)] for worker in profile.workers]
    known = [worker for worker in profile.workers if worker.transfer_s is not None]
    if len(rows) > 1 and known:
        fragments = sum(worker.fragments for worker in known)
        sums = [sum(worker.transfer_s or 0.0 for worker in known), sum(worker.queued_s or 0.0 for worker in known)]
        rows.append(["all", *(round(part, 3) for part in sums), *(_ms(part, fragments) for part in sums)])
    yield ""
    headings = ["per finished fragment", "transfer s", "queued s", "transfer ms each", "queued ms each"]
    yield table(headings, rows, stdout_width())
    if len(known) < len(profile.workers):
        yield "(-: from another machine, whose clock cannot be compared with this machine's)"


def _travel_of(worker: WorkerTime) -> Row:
    parts = [worker.transfer_s, worker.queued_s]
    return [
        *(None if part is None else round(part, 3) for part in parts),
        *(None if part is None else _ms(part, worker.fragments) for part in parts),
    ]


def _server_table(profile: Profile) -> Iterator[str]:
    """Yields a table of the requests to an inference server: batches, queue, and the parts of the waiting time."""
    rows: list[Row] = [
        [
            worker_name(worker.worker),
            served.requests,
            round(served.rows / served.requests, 1),
            served.most_rows,
            round(served.queue / served.requests, 1),
            *(_ms(part, served.requests) for part in (served.queue_s, served.compute_s, served.round_trip_s)),
        ]
        for worker in profile.workers
        if (served := worker.served) is not None and served.requests
    ]
    if rows:
        yield ""
        headings = ["inference server", "requests", "batch rows", "largest", "waiting requests"]
        yield table([*headings, "queue ms", "compute ms", "round trip ms"], rows, stdout_width())


def _learner_lines(profile: Profile) -> Iterator[str]:
    steps, waited = counted(profile.sgd_steps, "SGD step"), 100 * profile.waited_s / profile.seconds
    if profile.sgd_s == 0:
        yield f"learner: {steps}, none of them in this process; waiting {waited:.1f}% of the time"
    else:
        each = f", {1000 * profile.sgd_s / profile.sgd_steps:.3g} ms each" if profile.sgd_steps else ""
        share = 100 * profile.sgd_s / profile.seconds
        yield f"learner: SGD {share:.1f}% of the time ({steps}{each}), waiting for data {waited:.1f}%"
    if profile.policy_lag_mean is not None:
        yield f"policy lag: {profile.policy_lag_mean:.3g} batches on average, at most {profile.policy_lag_max}"


def _ms(seconds: float, items: int) -> float:
    return round(1000 * seconds / items, 3)


def profile_data(trial: TrialSpec, profile: Profile, warm_up_s: float) -> dict[str, Any]:
    """Serializes a profile to plain data, with times in seconds.

    Args:
        trial: The trial.
        profile: Profile of the trial.
        warm_up_s: Duration of the warm-up in seconds.
    """
    from rlrun.experiments.spec.titles import env_title

    return {
        **fields_of(trial, "experiment", "algorithm"),
        **fields_of(profile, "seconds", "iterations", ENV_STEPS, SGD_STEPS, "policy_lag_mean", "policy_lag_max"),
        "trial": trial.name,
        "env": env_title(trial.env.to_data()),
        "interrupted": profile.was_interrupted,
        "warm_up": {"iterations": WARM_UP_ITERATIONS, "seconds": warm_up_s},
        "env_steps_per_s": profile.env_steps / profile.seconds,
        "sgd_steps_per_s": profile.sgd_steps / profile.seconds,
        "learner_wait_share": profile.waited_s / profile.seconds,
        "operators": [
            {
                **fields_of(operator, "path", "seconds", "items", "learns"),
                "share": operator.seconds / profile.seconds,
            }
            for operator in profile.operators
        ],
        "waiting_s": profile.waited_s,
        "between_operators_s": profile.between_s,
        "hooks_s": profile.hooks_s,
        "workers": [asdict(worker) for worker in profile.workers],
        "learner": fields_of(profile, "sgd_s", "sgd_steps"),
    }


def write_trace(profile: Profile, output: Path) -> None:
    """Exports a profile as a trace with a track for each operator of the driver and each rollout worker.

    A worker's track shows its fragments, and within each fragment one span per phase, end to end. In reality the phases
    alternate at every step, so only the length of each span is meaningful, not its position.

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
    """Display name of the rollout worker with a given index."""
    return f"worker {worker}" if worker else "local worker"


def _fragment_events(fragment: MeasuredFragment, offset: float, zero: float) -> Iterator[dict[str, Any]]:
    """Yields the spans of a fragment and of its phases.

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
