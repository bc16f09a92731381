"""Recurrent cores over sequences of consecutive steps (torch); `rlrun.engine.nn.numpy_cores` computes single steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlrun.engine.nn.gtrxl import GatedTransformer
from rlrun.engine.nn.network_spec import Core


def core_parts(core: Core, inputs: int) -> list[nn.Module]:
    """Creates a core's layers: input-to-hidden and hidden-to-hidden, or a transformer.

    Args:
        core: Architecture of the core.
        inputs: Number of input features, D.
    """
    if core.kind == "gtrxl":
        return [GatedTransformer(inputs, core.width, core.layers, core.heads, core.memory_len)]
    gates = GATES[core.kind] * core.width
    return [nn.Linear(inputs, gates), nn.Linear(core.width, gates, bias=False)]


def run_core(
    core: Core, parts: Sequence[nn.Module], features: Tensor, state: Tensor, episode_starts: Tensor
) -> tuple[Tensor, Tensor]:
    """Forward pass of a recurrent core over sequences of consecutive steps.

    Args:
        core: Architecture of the core.
        parts: Layers of the core, as created by `core_parts`.
        features: Inputs, [sequences, steps, D].
        state: Recurrent state before the first steps, [sequences, state_size].
        episode_starts: Whether an episode begins with a step, [sequences, steps]: the recurrent state is reset there.

    Returns:
        Outputs [sequences, steps, H], and the recurrent state after the last steps.
    """
    if core.kind == "gtrxl":
        (transformer,) = parts
        outputs, after = transformer(features, state, episode_starts)
        return outputs, after
    inputs, hidden = parts
    gates = inputs(features)
    keeps = 1.0 - episode_starts.to(gates.dtype)
    assert isinstance(hidden, nn.Linear)
    return UNROLL[core.kind](gates, hidden.weight, keeps, state.to(gates.dtype))


def unrolled_lstm(gates: Tensor, weight: Tensor, keeps: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Unrolls an LSTM over sequences.

    Args:
        gates: Pre-activations of the gates (input, forget, candidate, output) from inputs and biases, [S, L, 4 H].
        weight: Weights of the hidden state, [4 H, H].
        keeps: 0 where an episode starts, which resets the recurrent state, else 1, [S, L].
        state: Hidden state and memory cells before the first steps, [S, 2 H].

    Returns:
        Hidden states [S, L, H], and the recurrent state after the last steps, [S, 2 H].

    Source:
        Gers et al., "Learning to forget: continual prediction with LSTM", 2000.
    """
    hidden, cells = state.chunk(2, -1)
    outputs = []
    for step, keep in zip(gates.unbind(1), keeps.unsqueeze(-1).unbind(1), strict=True):
        mixed = torch.addmm(step, hidden * keep, weight.t())
        let_in, kept, candidate, let_out = mixed.chunk(4, -1)
        cells = kept.sigmoid() * (cells * keep) + let_in.sigmoid() * candidate.tanh()
        hidden = let_out.sigmoid() * cells.tanh()
        outputs.append(hidden)
    return torch.stack(outputs, 1), torch.cat([hidden, cells], -1)


def unrolled_gru(gates: Tensor, weight: Tensor, keeps: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Unrolls a GRU over sequences; the reset gate is applied after the product with the hidden state, as in torch.

    Args:
        gates: Pre-activations of the gates (reset, update, candidate) from inputs and biases, [sequences, steps, 3 H].
        weight: Weights of the hidden state, [3 H, H].
        keeps: 0 where an episode starts, which resets the recurrent state, else 1, [sequences, steps].
        state: Hidden state before the first steps, [sequences, H].

    Returns:
        Hidden states [sequences, steps, H], and the hidden state after the last steps, [sequences, H].

    Source:
        Cho et al., arXiv:1406.1078, section 2.3.
    """
    hidden = state
    outputs = []
    for step, keep in zip(gates.unbind(1), keeps.unsqueeze(-1).unbind(1), strict=True):
        hidden = hidden * keep
        of_inputs, of_hidden = step.chunk(3, -1), (hidden @ weight.t()).chunk(3, -1)
        reset, update = ((mine + own).sigmoid() for mine, own in zip(of_inputs[:2], of_hidden[:2], strict=True))
        candidate = (of_inputs[2] + reset * of_hidden[2]).tanh()
        hidden = candidate + update * (hidden - candidate)
        outputs.append(hidden)
    return torch.stack(outputs, 1), hidden


UNROLL = {"lstm": unrolled_lstm, "gru": unrolled_gru}
"""Unrolling functions by kind of core."""

GATES = {"lstm": 4, "gru": 3}
"""Number of gates by kind of core, the candidate included."""
