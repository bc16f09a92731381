"""What PB2's model learns from: the gains of a population, read off its lineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlrun.search.lineage import Generation
from rlrun.search.rules.pb2_explore import Gain, explore
from rlrun.spec.tuning import Pb2Config


def modelled(
    settings: Pb2Config,
    generations: Sequence[Generation],
    generation: int,
    score: float,
    taken: Sequence[Mapping[str, Any]],
    draws: np.random.Generator,
) -> dict[str, float]:
    """Returns settings for a member's next interval.

    Args:
        settings: The scheduler's.
        generations: What was decided in the population so far.
        generation: Number of the generation that is being decided.
        score: Score of the parent that the member goes on from, as it was reported.
        taken: What other members have chosen in this generation.
        draws: Where chance comes from.
    """
    sign = 1.0 if settings.mode == "max" else -1.0
    return explore(
        gains(generations, sign),
        time=generation,
        score=sign * score,
        pending=taken,
        bounds=dict(sorted(settings.bounds.items())),  # nothing hangs on the order in which a spec lists them
        log_scale=settings.log_scale,
        generator=draws,
    )


def gains(generations: Sequence[Generation], sign: float) -> list[Gain]:
    """Returns what each member gained over each interval that it has finished with a score.

    A member that took over another's weights began with the other's score.

    Args:
        generations: What was decided in a population, oldest first.
        sign: 1 where more of the metric is better, -1 where less is.
    """
    found = []
    began: dict[str, Gain] = {}
    scores: dict[str, float | None] = {}  # the last of each member: where they do not wait, a line speaks of one only
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
