"""GTrXL: gated transformer-XL over the last steps of an episode (torch).

Source:
    Parisotto et al., "Stabilizing transformers for reinforcement learning", arXiv:1910.06764, section 3: layer
    normalisation before each submodule, a ReLU after it, and GRU-like gates. Attention is by relative positions (Dai et
    al., arXiv:1901.02860, section 3.3).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

GATE_BIAS = 2.0
"""Initial gate bias, with which each layer is initialized close to the identity (arXiv:1910.06764, eq. 5)."""

INVISIBLE = -1e9
"""Attention logit of a masked step."""


class GatedTransformer(nn.Module):
    """GTrXL core: stacked gated attention layers, each with a memory of the episode's last M steps.

    The recurrent state [S, N * M * H + 1] holds the inputs of the N layers in the last M steps, oldest first. Its last
    entry is the number of valid steps among these. No gradient flows into the state (stop-gradient).

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
        """Forward pass over sequences of consecutive steps.

        Args:
            features: Input features, [sequences, steps, D].
            state: Recurrent state before the first steps.
            episode_starts: Whether a step starts an episode, [sequences, steps], which masks all earlier steps.

        Returns:
            Features [sequences, steps, H], and the recurrent state after the last steps.
        """
        rows, length = episode_starts.shape
        memory, count = state[:, :-1].view(rows, len(self.layers), self.memory_len, self.width), state[:, -1]
        episodes = episode_starts.long().cumsum(1)
        places = torch.arange(-self.memory_len, length, device=features.device)
        # Steps from each place back to each query, [L, M + L]; negative for future places.
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
    """Sinusoidal encodings of relative positions 0, 1, ..., [number, width] (arXiv:1706.03762, section 3.5)."""
    half = (width + 1) // 2
    frequencies = 10_000.0 ** (-torch.arange(half, device=device) / half)
    angles = torch.arange(number, device=device)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], -1)[:, :width]


class GatedAttention(nn.Module):
    """GTrXL layer: attention and dense submodule, each pre-normed and gated (arXiv:1910.06764, eqs. 3 and 4).

    Args:
        width: Number of features, H.
        heads: Number of attention heads.
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
        """Forward pass of the layer over sequences, [S, L, H].

        Args:
            hidden: Inputs of the layer, [S, L, H].
            memory: Inputs of the layer in the M preceding steps, [S, M, H].
            visible: Attention mask: which of the M + L steps each step attends to, [S, L, M + L].
            distances: Relative positions of these steps, 0 to M steps back, [L, M + L].
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
    """GRU-type gating layer between a submodule's input and output (arXiv:1910.06764, section 3.2).

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
        """Gated combination of a submodule's input `hidden` and output `part`, [sequences, steps, H] each."""
        made = self.of_part(part).chunk(3, -1)
        came = self.of_input(hidden).chunk(2, -1)
        reset = (made[0] + came[0]).sigmoid()
        update = (made[1] + came[1] - self.bias).sigmoid()
        candidate = (made[2] + self.of_reset(reset * hidden)).tanh()
        outputs: Tensor = hidden + update * (candidate - hidden)
        return outputs
