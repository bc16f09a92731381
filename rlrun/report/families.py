"""Lineage of a population, for drawings: the members' training between generations, and the copying of weights.

A stretch (segment) is the training of one member from one generation to the next, with constant settings. The ancestors
of the best final member are the stretches from which its weights descend. The sequence of their settings is the
schedule that the population has found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlrun.engine.settings.metric import Mode
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.search.lineage import Generation, MemberRecord
from rlrun.report.reading import RunView
from rlrun.report.step_axis import counted_metric


@dataclass(frozen=True)
class TrainingSegment:
    """Training of one population member between two generations, with constant settings.

    Attributes:
        member: Index of the member.
        generation: Index of the generation at the start of the segment.
        start: Steps at the start of the segment: env steps, or SGD steps in offline training.
        stop: Steps at the next generation, or at the end of training.
        score: Value of the metric at `stop`; None if it has no value.
        how: Change of the settings at the start: initial, kept, perturbed, resampled, mixed, modeled.
        parent: Index of the member whose weights were copied; None if no weights were copied.
        params: Settings of the member during the segment.
        is_ancestor: Whether the final weights of the best member descend from this segment.
    """

    member: int
    generation: int
    start: float
    stop: float
    score: float | None
    how: str
    parent: int | None
    params: dict[str, Any]
    is_ancestor: bool


@dataclass(frozen=True)
class Family:
    """Lineage of one population.

    Attributes:
        population: Seed of the population.
        members: Names of the population's trials.
        best: Index of the member that is best at the end; None if no member has a score.
        copies: Number of times that a member copied another member's weights.
        stretches: Training segments (from one generation to the next) of all members, sorted by generation and member.
    """

    population: int
    members: list[str]
    best: int | None
    copies: int
    stretches: list[TrainingSegment]


def families(run: RunView, metric: str, mode: Mode) -> list[Family]:
    """Lineage of each population of a run; [] if there are none."""
    seeds = dict.fromkeys(line.population for line in run.generations)
    return [_family(run, [line for line in run.generations if line.population == seed], metric, mode) for seed in seeds]


def _family(run: RunView, lines: Sequence[Generation], metric: str, mode: Mode) -> Family:
    trials = {trial.name: trial for trial in run.trials}
    records: dict[str, dict[int, MemberRecord]] = {}
    for line in lines:
        for record in line.members:
            records.setdefault(record.trial, {})[line.generation] = record
    known = [trial.name for trial in run.trials if trial.name in records]
    members = known + [name for name in records if name not in trials]
    ends = {name: trials[name].final(metric) if name in trials else None for name in members}
    scored = [(end, place) for place, name in enumerate(members) if (end := ends[name]) is not None]
    best = None
    if scored:
        best = max(scored)[1] if mode == "max" else min(scored)[1]
    ancestors = _ancestors(records, members[best]) if best is not None else set()
    stretches = [
        stretch
        for place, name in enumerate(members)
        for stretch in _stretches(place, name, records[name], trials.get(name), ends[name], members, ancestors)
    ]
    stretches.sort(key=lambda stretch: (stretch.generation, stretch.member))
    copies = sum(stretch.parent is not None for stretch in stretches)
    return Family(lines[0].population, members, best, copies, stretches)


def _stretches(
    place: int,
    name: str,
    records: dict[int, MemberRecord],
    trial: TrialResult | None,
    end: float | None,
    members: list[str],
    ancestors: set[tuple[str, int]],
) -> list[TrainingSegment]:
    numbers = sorted(records)
    last = trial.last_result if trial is not None else {}
    reached = last.get(counted_metric([last]))
    found = []
    for number, following in zip(numbers, [*numbers[1:], None], strict=True):
        record = records[number]
        after = records[following] if following is not None else None
        stop = after.steps if after else reached
        found.append(
            TrainingSegment(
                member=place,
                generation=number,
                start=float(record.steps),
                stop=max(float(record.steps), float(stop)) if isinstance(stop, int | float) else record.steps,
                score=after.score if after else end,
                how=record.how,
                parent=members.index(record.parent) if record.parent in members else None,
                params=dict(record.params),
                is_ancestor=(name, number) in ancestors,
            )
        )
    return found


def _ancestors(records: dict[str, dict[int, MemberRecord]], best: str) -> set[tuple[str, int]]:
    """Ancestry of a member's final weights, as (trial, generation) of each stretch, traced back from the end."""
    found: set[tuple[str, int]] = set()
    name, number = best, max(records[best])
    while (name, number) not in found:
        found.add((name, number))
        record = records[name][number]
        upto = number - 1
        if record.parent in records:
            name = record.parent
            upto = (number if record.parent_generation is None else record.parent_generation) - 1
        earlier = [generation for generation in records[name] if generation <= upto]
        if not earlier:
            break
        number = max(earlier)
    return found
