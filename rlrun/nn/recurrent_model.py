"""What a spec says of a network with memory."""

from __future__ import annotations

from pydantic import model_validator

from rlrun.config import PositiveInt
from rlrun.nn.model_config import ModelConfig


class RecurrentModelConfig(ModelConfig):
    """The network of a recurrent Q policy: dense layers, an LSTM behind them, and the values of the actions."""

    lstm: PositiveInt = 64
    """Width of the LSTM behind the dense layers: numbers it puts out, and as many that it keeps to itself."""
    dueling: bool = True
    """Whether the values are an observation's own value plus what each action has ahead of the mean of all (Wang et
    al., arXiv:1511.06581, eq. 9)."""

    @model_validator(mode="after")
    def _is_built_here(self) -> RecurrentModelConfig:
        if self.module is not None:
            raise ValueError("a network with an LSTM is built by rlrun: module must be null")
        return self
