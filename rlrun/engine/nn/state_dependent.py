"""Generalised state-dependent exploration, gSDE (torch).

Noise that is a fixed function of the observation for several steps gives smooth motions, unlike independent noise. The
actor's means are shifted by z E: its last features z times a matrix E of independent normal numbers with standard
deviations S. Over E, the shift is normally distributed with variance z^2 S^2.

Source:
    Raffin, Kober and Stulp, arXiv:2005.05719, eqs. 6 to 9.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.nn.network_spec import VARIANCE_FLOOR


class StateDependentStd(nn.Module):
    """State-dependent log standard deviations of actions, without gradient to the features.

    Args:
        features: F, features of the actor's last layer.
        actions: D, components of an action.
        log_std_init: Initial log standard deviation of every entry of the noise matrix.
    """

    def __init__(self, features: int, actions: int, log_std_init: float) -> None:
        super().__init__()
        self.log_stds = nn.Parameter(torch.full((features, actions), log_std_init))

    @override
    def forward(self, features: Tensor) -> Tensor:
        """Computes log standard deviations [N, D] from features [N, F]."""
        variances: Tensor = features.detach().square() @ (2 * self.log_stds).exp()
        return 0.5 * (variances + VARIANCE_FLOOR).log()
