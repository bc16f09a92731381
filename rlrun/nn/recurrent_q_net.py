"""The network of recurrent Q policies: what each action is worth, given all that was seen in the episode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rlrun.data.tree import map_tree
from rlrun.nn.encoders import HIDDEN_GAIN, ObservationEncoder, initialize_orthogonally, mlp
from rlrun.nn.recurrent_model import RecurrentModelConfig


class RecurrentQNet(nn.Module):
    """Encoder, dense trunk, an LSTM, and a head with the value of every action.

    What is remembered is one tensor [S, 2 H]: what the LSTM put out last, and its cells.

    Attributes:
        width: H, the LSTM's width.
        is_dense: Whether there are no convolutions, so that a NumPy mirror can act.
        dueling: Whether the head's first output is an observation's own value.
    """

    def __init__(self, parts: Any, num_actions: int, model: RecurrentModelConfig, seed: int) -> None:
        """Builds and initialises the layers.

        Args:
            parts: The tree of `ObservationLeaf`.
            num_actions: A.
            model: Layers and initialisation.
            seed: Seed of the first weights.
        """
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.width = model.lstm
        self.dueling = model.dueling
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder = ObservationEncoder(parts, model)
            self.trunk = mlp(self.encoder.width, model.hiddens, model.activation)
            features = model.hiddens[-1] if model.hiddens else self.encoder.width
            self.lstm_inputs = nn.Linear(features, 4 * model.lstm)
            self.lstm_memory = nn.Linear(model.lstm, 4 * model.lstm, bias=False)
            self.head = nn.Linear(model.lstm, num_actions + model.dueling)
        if model.orthogonal_init:
            initialize_orthogonally(self.encoder, HIDDEN_GAIN, generator)
            initialize_orthogonally(self.trunk, HIDDEN_GAIN, generator)
            for layer in (self.lstm_inputs, self.lstm_memory, self.head):
                initialize_orthogonally(layer, 1.0, generator)
        with torch.no_grad():
            # To begin with it remembers rather than forgets (Jozefowicz et al., "An empirical exploration of recurrent
            # network architectures", 2015).
            self.lstm_inputs.bias[model.lstm : 2 * model.lstm] = 1.0
        self.is_dense = self.encoder.is_dense

    def forward(self, observations: Any, starts: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Returns values [S, L, A] of rows of consecutive observations, and what is remembered behind them [S, 2 H].

        Args:
            observations: A tree of [S, L, ...].
            starts: Whether an episode begins with the observation, [S, L]: nothing from before it is remembered.
            memory: What is remembered before the first ones, [S, 2 H].
        """
        rows, length = starts.shape
        flat = map_tree(lambda leaf: leaf.flatten(0, 1), observations)
        gates = self.lstm_inputs(self.trunk(self.encoder(flat))).view(rows, length, -1)
        outputs, memory = unrolled(gates, self.lstm_memory.weight, 1.0 - starts.to(gates.dtype), memory.to(gates.dtype))
        return self.values(outputs), memory

    def values(self, outputs: Tensor) -> Tensor:
        """Returns values [..., A] for what the LSTM put out, [..., H]."""
        values: Tensor = self.head(outputs)
        if not self.dueling:
            return values
        advantages = values[..., 1:]
        return values[..., :1] + advantages - advantages.mean(-1, keepdim=True)


def unrolled(gates: Tensor, weight: Tensor, keeps: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Runs an LSTM over rows.

    Args:
        gates: What inputs and biases make of the gates (input, forget, candidate, output), [S, L, 4 H].
        weight: Weights of what it put out before, [4 H, H].
        keeps: 0 where nothing from before is remembered, else 1, [S, L].
        memory: What is remembered before, [S, 2 H].

    Returns:
        What it puts out, [S, L, H], and what is remembered behind, [S, 2 H].
    """
    hidden, cells = memory.chunk(2, -1)
    outputs = []
    for step, keep in zip(gates.unbind(1), keeps.unsqueeze(-1).unbind(1), strict=True):
        mixed = torch.addmm(step, hidden * keep, weight.t())
        let_in, kept, candidate, let_out = mixed.chunk(4, -1)
        cells = kept.sigmoid() * (cells * keep) + let_in.sigmoid() * candidate.tanh()
        hidden = let_out.sigmoid() * cells.tanh()
        outputs.append(hidden)
    return torch.stack(outputs, 1), torch.cat([hidden, cells], -1)
