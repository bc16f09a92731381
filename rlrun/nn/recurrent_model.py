"""What a spec says of a network with memory."""

from __future__ import annotations

from rlrun.config import PositiveInt, fixed
from rlrun.nn.model_config import QModelConfig


@fixed("networks with an LSTM are built by rlrun", module=None)
class RecurrentModelConfig(QModelConfig):
    """The network of a recurrent Q policy: dense layers, an LSTM behind them, and the values of the actions."""

    lstm: PositiveInt = 64
    """Width of the LSTM behind the dense layers: numbers it puts out, and as many that it keeps to itself."""
    dueling: bool = True
    """Whether the values are an observation's own value plus what each action has ahead of the mean of all (Wang et
    al., arXiv:1511.06581, eq. 9)."""
