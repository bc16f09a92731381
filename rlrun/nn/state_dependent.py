"""How widely an actor explores as a function of what it sees: gSDE (torch).

Noise that stays the same for some steps, as a function of the observation, makes motions smooth where fresh noise would
shake them. The actor's last features z, times a matrix E of independent normal numbers with standard deviations S,
shift its means; over E, that is a normal variable with variance z^2 S^2.

Source:
    Raffin, Kober and Stulp, arXiv:2005.05719, eqs. 6 to 9.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlrun.nn.network_spec import VARIANCE_FLOOR


class StateDependentStd(nn.Module):
    """Log standard deviations of actions from an actor's last features; features get no gradient from them.

    Args:
        features: F.
        actions: D.
        log_std_init: Logarithm of the first standard deviation of every entry of the noise matrix.
    """

    def __init__(self, features: int, actions: int, log_std_init: float) -> None:
        super().__init__()
        self.log_stds = nn.Parameter(torch.full((features, actions), log_std_init))

    def forward(self, features: Tensor) -> Tensor:
        """Returns log standard deviations [N, D] of features [N, F]."""
        variances: Tensor = features.detach().square() @ (2 * self.log_stds).exp()
        return 0.5 * (variances + VARIANCE_FLOOR).log()
