"""What a spec says of a recurrent network."""

from __future__ import annotations

from rlrun.config import PositiveInt, fixed
from rlrun.nn.model_config import CoreKind, QModelConfig


@fixed("recurrent networks are built by rlrun", module=None)
class RecurrentModelConfig(QModelConfig):
    """The network of a recurrent Q policy: dense layers, a recurrent core, and the values of the actions."""

    core: CoreKind = "lstm"
    """The recurrent layer behind the dense layers: an LSTM, or a GRU, which has three gates instead of four and half
    the recurrent state."""
    core_width: PositiveInt = 64
    """Numbers that it puts out, its hidden state; an LSTM keeps as many to itself."""
    dueling: bool = True
    """Whether the values are an observation's own value plus what each action has ahead of the mean of all (Wang et
    al., arXiv:1511.06581, eq. 9)."""
