"""Data for PB2's Gaussian process: improvements of a population's members, from the lineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlrun.experiments.search.lineage import Generation
from rlrun.experiments.search.rules.pb2_explore import Gain, explore
from rlrun.experiments.spec.tuning import Pb2Config


def modelled(
    settings: Pb2Config,
    generations: Sequence[Generation],
    generation: int,
    score: float,
    taken: Sequence[Mapping[str, Any]],
    draws: np.random.Generator,
) -> dict[str, float]:
    """Hyperparameters for a member's next interval, suggested by PB2's Gaussian process.

    Args:
        settings: Settings of the scheduler.
        generations: The population's generations so far.
        generation: Number of the current generation.
        score: Score of the parent, as reported.
        taken: New hyperparameters of other members in this generation.
        draws: Generator of random draws.
    """
    sign = 1.0 if settings.mode == "max" else -1.0
    return explore(
        gains(generations, sign),
        time=generation,
        score=sign * score,
        pending=taken,
        bounds=dict(sorted(settings.bounds.items())),  # independent of the order in the spec
        log_scale=settings.log_scale,
        generator=draws,
    )


def gains(generations: Sequence[Generation], sign: float) -> list[Gain]:
    """Improvements of each member over each interval that it finished with a score.

    A member that copied another member's weights starts the interval with the other's score.

    Args:
        generations: A population's generations, oldest first.
        sign: 1 if higher values of the metric are better, -1 if lower ones are.
    """
    found = []
    began: dict[str, Gain] = {}
    scores: dict[str, float | None] = {}  # the last ones: in an asynchronous population a line has one member only
    for line in generations:
        scores |= {member.trial: member.score for member in line.members}
        for member in line.members:
            before = began.pop(member.trial, None)
            if before is not None and member.score is not None:
                change = sign * member.score - before.score
                found.append(Gain(before.time, before.score, before.params, change))
            start = scores.get(member.parent) if member.parent is not None else member.score
            if start is not None:
                began[member.trial] = Gain(line.generation, sign * start, member.params, 0.0)
    return found
