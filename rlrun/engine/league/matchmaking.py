"""Matchmaking: opponent sampling probabilities in a seat (uniform or prioritized fictitious self-play)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.league.league_settings import SeatSettings
from rlrun.engine.policy.weights import Lineup, Member

UNKNOWN = 0.5
"""Default win rate against an opponent without games."""


def prioritized_weights(win_rates: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """Probabilities of opponents by prioritized fictitious self-play.

    p_i = (1 - w_i)^p / sum_j (1 - w_j)^p, of Vinyals et al. (2019), "Grandmaster level in StarCraft II using
    multi-agent reinforcement learning", Methods, f_hard; uniform if all are always beaten.

    Args:
        win_rates: w, win rate of the learning policy against each opponent, [M].
        exponent: Exponent p of the prioritization.

    Examples:
        >>> import numpy as np
        >>> prioritized_weights(np.array([0.5, 0.75, 1.0]), exponent=2.0).round(2).tolist()
        [0.8, 0.2, 0.0]
    """
    weights = (1.0 - win_rates) ** exponent if exponent else np.ones_like(win_rates)
    total = float(weights.sum())
    return weights / total if total > 0.0 else np.full(len(win_rates), 1.0 / len(win_rates))


def lineup(
    settings: SeatSettings,
    present: Sequence[Member],
    pool: Sequence[Member],
    win_rates: Mapping[str, float],
    saved: Mapping[str, Member],
) -> Lineup:
    """Builds a seat's lineup: possible opponents with sampling probabilities.

    Args:
        settings: Settings of the seat.
        present: The present selves, at least one; they share `self_play_share`.
        pool: The past selves, at least one.
        win_rates: Win rates of the policy that learns against the seat, by the opponent's name; draws count half.
        saved: The opponents from checkpoints, by the path in the settings.
    """
    rates = np.array([win_rates.get(member.name, UNKNOWN) for member in pool])
    exponent = settings.priority_exponent if settings.matchmaking == "prioritized" else 0.0
    scripted, checkpoints = settings.scripted, settings.checkpoints
    probabilities = [
        *(settings.self_play_share / len(present) for _ in present),
        *scripted.values(),
        *checkpoints.values(),
        *(settings.pool_share * prioritized_weights(rates, exponent)).tolist(),
    ]
    members = (*present, *map(Member, scripted), *(saved[path] for path in checkpoints), *pool)
    return Lineup(members, np.array(probabilities))
