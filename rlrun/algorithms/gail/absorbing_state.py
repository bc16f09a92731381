"""Absorbing state after terminations, so that neither a long nor a short life is a reward in itself (NumPy).

A terminated episode continues for ever in an absorbing state, for learner and expert alike. The discriminator sees
that state too: a learner that terminates more often than its expert visits it more often, and is punished for it. One
that survives where its expert falls is rewarded for an end. The log-odds of the absorbing state have a closed form,
since it is a single state: the ratio of two shares.

Source:
    Kostrikov et al., "Discriminator-actor-critic", arXiv:1809.02925, section 4.1, where the absorbing state is an input
    of the discriminator.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SMOOTHING = 0.5
"""Terminations added to each count, so that the log-odds are finite where none was seen."""


class AbsorbingLogOdds(NamedTuple):
    """Log-odds that a state is the expert's, as far as they follow from the shares of the absorbing state.

    Attributes:
        absorbing: Log-odds of the absorbing state.
        others: Log-odds of any other state, to be added to the discriminator's.
    """

    absorbing: float
    others: float


def absorbing_share(steps: float, terminations: float, gamma: float) -> float:
    """Share of the absorbing state in all visits: each termination adds 1 / (1 - gamma), the length that counts.

    Args:
        steps: Number of env steps.
        terminations: Number of terminations among them.
        gamma: Discount factor, below 1.

    Examples:
        >>> absorbing_share(steps=100, terminations=0.5, gamma=0.99)
        0.5
    """
    visits = (terminations + SMOOTHING) / (1 - gamma)
    return visits / (steps + visits)


def absorbing_log_odds(expert_share: float, own_share: float) -> AbsorbingLogOdds:
    """Log-odds by Bayes' rule, from the shares of the absorbing state in the expert's and in the learner's visits.

    Examples:
        >>> absorbing_log_odds(0.5, 0.5)
        AbsorbingLogOdds(absorbing=0.0, others=0.0)
    """
    return AbsorbingLogOdds(math.log(expert_share / own_share), math.log((1 - expert_share) / (1 - own_share)))
