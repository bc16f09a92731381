"""Causal transformer over returns-to-go, states and actions (torch).

Source:
    Chen et al., "Decision Transformer", arXiv:2106.01345, section 3 and algorithm 1. As in GPT-2,
    layer normalization precedes each part of a block.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override


def interleaved(returns: Tensor, states: Tensor, actions: Tensor) -> Tensor:
    """Token sequences R_1, s_1, a_1, R_2, ... [rows, 3 K, H] from the embeddings [rows, K, H] of each kind."""
    return torch.stack([returns, states, actions], 2).flatten(1, 2)


class DecisionTransformer(nn.Module):
    """Transformer that predicts each action from the tokens up to and including its state.

    Args:
        features: Number of features of an observation, D.
        actions: Number of features of an action, A.
        outputs: Number of outputs per action.
        width: Number of features of a token, H.
        layers: Number of blocks.
        heads: Number of attention heads per block.
        max_steps: Number of time step embeddings; later steps share the last one.
    """

    def __init__(
        self, features: int, actions: int, outputs: int, *, width: int, layers: int, heads: int, max_steps: int
    ) -> None:
        super().__init__()
        self.returns = nn.Linear(1, width)
        self.states = nn.Linear(features, width)
        self.actions = nn.Linear(actions, width)
        self.steps = nn.Embedding(max_steps, width)
        self.first_norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last_norm = nn.LayerNorm(width)
        self.outputs = nn.Linear(width, outputs)

    @override
    def forward(self, returns: Tensor, states: Tensor, actions: Tensor, steps: Tensor) -> Tensor:
        """Outputs for the action of each step, [S, K, outputs].

        A step's outputs do not depend on its own action or anything later, so padding is allowed at the end only.

        Args:
            returns: Scaled returns-to-go, [S, K].
            states: Features of observations, [S, K, D].
            actions: Features of actions, [S, K, A].
            steps: Step numbers within the episodes, [S, K].
        """
        at = self.steps(steps.clamp(0, self.steps.num_embeddings - 1))
        kinds = self.returns(returns.unsqueeze(-1)), self.states(states), self.actions(actions)
        hidden = self.first_norm(interleaved(*(kind + at for kind in kinds)))
        for block in self.blocks:
            hidden = block(hidden)
        found: Tensor = self.outputs(self.last_norm(hidden[:, 1::3]))  # outputs at the state tokens
        return found


class Block(nn.Module):
    """Transformer block: causal attention and dense layers, each with pre-normalization and a residual connection.

    Args:
        width: Number of features, H.
        heads: Number of attention heads.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.dense_norm = nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    @override
    def forward(self, hidden: Tensor) -> Tensor:
        """Forward pass over tokens [rows, tokens, H], each of which attends to itself and earlier ones."""
        rows, length, width = hidden.shape
        parts = self.queries_keys_values(self.attention_norm(hidden)).view(rows, length, 3, self.heads, -1)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        hidden = hidden + self.attended(seen.transpose(1, 2).reshape(rows, length, width))
        outputs: Tensor = hidden + self.dense(self.dense_norm(hidden))
        return outputs
