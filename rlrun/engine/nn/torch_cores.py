"""Recurrent cores in torch, run over sequences of steps; `rlrun.engine.nn.numpy_cores` runs single steps.

Source of GTrXL:
    Parisotto et al., "Stabilizing transformers for reinforcement learning", arXiv:1910.06764, section 3: layer
    normalization before each submodule, a ReLU after it, and GRU-like gates. Attention uses relative positions (Dai et
    al., arXiv:1901.02860, section 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from rlrun.engine.nn.network_spec import Core

GATE_BIAS = 2.0
"""Initial gate bias, which initializes each layer close to the identity (arXiv:1910.06764, eq. 5)."""

INVISIBLE = -1e9
"""Attention logit of a masked step."""


def core_parts(core: Core, inputs: int) -> list[nn.Module]:
    """Creates the torch layers of a recurrent core: input-to-hidden and hidden-to-hidden, or a transformer.

    Args:
        core: Description of the core: kind and size.
        inputs: Number of input features, D.
    """
    if core.kind == "gtrxl":
        return [GatedTransformer(inputs, core.width, core.layers, core.heads, core.memory_len)]
    gates = GATES[core.kind] * core.width
    return [nn.Linear(inputs, gates), nn.Linear(core.width, gates, bias=False)]


def run_core(
    core: Core, parts: Sequence[nn.Module], features: Tensor, state: Tensor, episode_starts: Tensor
) -> tuple[Tensor, Tensor]:
    """Runs a recurrent core over sequences of consecutive steps.

    Args:
        core: Description of the core: kind and size.
        parts: Layers of the core, as created by `core_parts`.
        features: Inputs, [sequences, steps, D].
        state: Recurrent state before the first steps, [sequences, state_size].
        episode_starts: Whether an episode begins with each step, [sequences, steps], which resets the recurrent state.

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
    """Runs an LSTM over S sequences of L steps with H hidden units.

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
    """Runs a GRU over S sequences of L steps with H hidden units.

    As in torch, the reset gate is applied after the product with the hidden state.

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
"""Number of gates by kind of core, including the candidate."""


class GatedTransformer(nn.Module):
    """Transformer core (GTrXL): gated attention layers, each with a memory of the episode's last M steps.

    The recurrent state [S, N * M * H + 1] holds the inputs of the N layers in the last M steps, oldest first. Its last
    entry is the number of these steps that are valid. No gradient flows into the state (stop-gradient).

    Args:
        inputs: Number of input features, D.
        width: Number of output features, H.
        layers: Number of layers, N.
        heads: Attention heads per layer.
        memory_len: Memory length in steps, M.
    """

    def __init__(self, inputs: int, width: int, layers: int, heads: int, memory_len: int) -> None:
        super().__init__()
        self.width = width
        self.memory_len = memory_len
        self.embedding = nn.Linear(inputs, width)
        self.layers = nn.ModuleList(GatedAttention(width, heads) for _ in range(layers))

    @override
    def forward(self, features: Tensor, state: Tensor, episode_starts: Tensor) -> tuple[Tensor, Tensor]:
        """Runs the transformer over sequences of consecutive steps.

        Args:
            features: Input features, [sequences, steps, D].
            state: Recurrent state before the first steps, [sequences, N * M * H + 1].
            episode_starts: Whether a step starts an episode, [sequences, steps], which masks all earlier steps.

        Returns:
            Features [sequences, steps, H], and the recurrent state after the last steps.
        """
        rows, length = episode_starts.shape
        memory, count = state[:, :-1].view(rows, len(self.layers), self.memory_len, self.width), state[:, -1]
        episodes = episode_starts.long().cumsum(1)
        places = torch.arange(-self.memory_len, length, device=features.device)
        # Number of steps from each query back to each position, [L, M + L]; negative for future positions.
        distances = places[self.memory_len :, None] - places
        same_episode = torch.cat([_remembered(episodes, count, self.memory_len), _same(episodes)], -1)
        visible = same_episode & (distances >= 0) & (distances <= self.memory_len)
        positions = sinusoids(self.memory_len + 1, self.width, features.device)
        distances = distances.clamp(0, self.memory_len)
        in_last = (episodes == episodes[:, -1:]).sum(1)
        count = torch.where(episodes[:, -1] == 0, in_last + count, in_last).clamp(max=self.memory_len)
        hidden = self.embedding(features)
        given: list[Tensor] = []
        for layer, before in zip(self.layers, memory.to(hidden.dtype).unbind(1), strict=True):
            given.append(torch.cat([before, hidden.detach()], 1)[:, -self.memory_len :])
            hidden = layer(hidden, before, visible, distances, positions)
        is_there = _latest(count, self.memory_len)[:, None, :, None]
        kept = torch.where(is_there, torch.stack(given, 1), torch.zeros_like(memory))
        return hidden, torch.cat([kept.flatten(1).to(state.dtype), count[:, None].to(state.dtype)], -1)


def _remembered(episodes: Tensor, count: Tensor, memory_len: int) -> Tensor:
    """Attention mask [sequences, steps, M] over memory: valid steps of the same episode."""
    return (episodes == 0)[..., None] & _latest(count, memory_len)[:, None]


def _latest(count: Tensor, memory_len: int) -> Tensor:
    """Mask [S, M] of the `count` [S] newest memory steps; memory is ordered oldest first."""
    return torch.arange(memory_len, 0, -1, device=count.device) <= count[:, None]


def _same(episodes: Tensor) -> Tensor:
    """Mask [sequences, steps, L] of step pairs in the same episode."""
    return episodes[..., None] == episodes[:, None]


def sinusoids(number: int, width: int, device: torch.device) -> Tensor:
    """Returns the sinusoidal encodings of the relative positions 0 to `number` - 1, [number, width].

    Source:
        Vaswani et al., arXiv:1706.03762, section 3.5.
    """
    half = (width + 1) // 2
    frequencies = 10_000.0 ** (-torch.arange(half, device=device) / half)
    angles = torch.arange(number, device=device)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], -1)[:, :width]


class GatedAttention(nn.Module):
    """Transformer layer of GTrXL: attention and dense layers, each after a LayerNorm and followed by a gate.

    Args:
        width: Number of features, H.
        heads: Number of attention heads.

    Source:
        Parisotto et al., arXiv:1910.06764, eqs. 3 and 4.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.queries = nn.Linear(width, width, bias=False)
        self.keys_values = nn.Linear(width, 2 * width, bias=False)
        self.distances = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.distance_bias = nn.Parameter(torch.zeros(heads, width // heads))
        self.attended = nn.Linear(width, width)
        self.attention_gate = GRUGate(width)
        self.dense_norm = nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.dense_gate = GRUGate(width)

    @override
    def forward(self, hidden: Tensor, memory: Tensor, visible: Tensor, distances: Tensor, positions: Tensor) -> Tensor:
        """Runs the layer over S sequences of L steps with H features, [S, L, H].

        Args:
            hidden: Inputs of the layer, [S, L, H].
            memory: Inputs of the layer in the M preceding steps, [S, M, H].
            visible: Attention mask: whether each step attends to each of the M + L steps, [S, L, M + L].
            distances: Number of steps back to each of the M + L steps, from 0 to M, [L, M + L].
            positions: Positional encodings of the distances, [M + 1, H].
        """
        seen = self.attention_norm(torch.cat([memory, hidden], 1))
        queries = self._by_head(self.queries(seen[:, memory.shape[1] :]))
        keys, values = (self._by_head(part) for part in self.keys_values(seen).chunk(2, -1))
        encoded = self.distances(positions).view(len(positions), self.heads, -1).permute(1, 2, 0)
        by_content = (queries + self.content_bias[:, None]) @ keys.transpose(-1, -2)
        by_distance = (queries + self.distance_bias[:, None]) @ encoded
        by_distance = by_distance.gather(-1, distances.expand(*by_distance.shape[:2], *distances.shape))
        scores = (by_content + by_distance) / queries.shape[-1] ** 0.5
        weights = scores.float().masked_fill(~visible[:, None], INVISIBLE).softmax(-1).to(values.dtype)
        attended = self.attended((weights @ values).transpose(1, 2).flatten(2))
        hidden = self.attention_gate(hidden, F.relu(attended))
        outputs: Tensor = self.dense_gate(hidden, F.relu(self.dense(self.dense_norm(hidden))))
        return outputs

    def _by_head(self, features: Tensor) -> Tensor:
        """Splits features [sequences, steps, H] by attention head, as [sequences, heads, L, H / heads]."""
        return features.view(*features.shape[:2], self.heads, -1).transpose(1, 2)


class GRUGate(nn.Module):
    """GRU-like gate that blends a sublayer's input with its output (arXiv:1910.06764, section 3.2).

    Args:
        width: Number of features, H.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_part = nn.Linear(width, 3 * width, bias=False)
        self.of_input = nn.Linear(width, 2 * width, bias=False)
        self.of_reset = nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.full((width,), GATE_BIAS))

    @override
    def forward(self, hidden: Tensor, part: Tensor) -> Tensor:
        """Blends a sublayer's input `hidden` with its output `part`, both [S, L, H] for S sequences of L steps."""
        made = self.of_part(part).chunk(3, -1)
        came = self.of_input(hidden).chunk(2, -1)
        reset = (made[0] + came[0]).sigmoid()
        update = (made[1] + came[1] - self.bias).sigmoid()
        candidate = (made[2] + self.of_reset(reset * hidden)).tanh()
        outputs: Tensor = hidden + update * (candidate - hidden)
        return outputs
