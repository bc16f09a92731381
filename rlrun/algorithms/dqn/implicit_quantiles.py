"""Implicit quantile networks (IQN): quantiles of the return as a function of their fractions (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from rlrun.algorithms.dqn.networks import FRACTIONS, WAVES
from rlrun.algorithms.dqn.q_values import MeanQuantiles, midpoints, waves
from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.nn.encoders import ACTIVATIONS, HIDDEN_GAIN, initialize_orthogonally
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.nn.parameter_slot import ParameterSlot
from rlrun.engine.policy.decoder import Decoder


class ImplicitQuantiles(Decoder):
    """Decoder from features psi(s) (head `outputs` [S, L, D]) to the return's quantiles at fractions tau.

    Z_tau(s, a) = f(psi(s) * phi(tau))_a, where phi(tau) = relu(linear(cos(pi i tau) for i = 0 to C - 1)) has D
    components, and f is a hidden layer and an output layer.

    Args:
        returns: Representation of returns: numbers of quantiles and cosines.
        num_actions: Number of Discrete actions, A.
        model: Settings with the activation and the initialization.
        widths: D, and the width of the hidden layer.
        seed: Seed for the initial parameters.

    Source:
        Dabney et al., arXiv:1806.06923, section 3.1 and eq. 4.
    """

    heads = ("outputs",)

    def __init__(
        self, returns: ReturnModel, num_actions: int, model: ModelConfig, widths: tuple[int, int], *, seed: int
    ) -> None:
        super().__init__()
        self.returns = returns
        self.model = model
        self.embedding = nn.Linear(returns.num_cosines, widths[0])
        self.hidden = nn.Linear(*widths)
        self.output = nn.Linear(widths[1], num_actions)
        self.activation = ACTIVATIONS[model.activation]()
        if model.orthogonal_init:
            initialize_orthogonally(self, HIDDEN_GAIN, torch.Generator().manual_seed(seed))

    @override
    def forward(self, heads: Mapping[str, Tensor], columns: Mapping[str, Any]) -> Tensor:
        """Quantiles [rows, steps, A * K] at K fractions: fixed, or given by their cosines [rows, steps, K, C]."""
        features = self.activation(heads["outputs"]).unsqueeze(-2)
        cosines = columns.get(WAVES)
        if cosines is None:
            fixed = waves(midpoints(self.returns.acting_quantiles), self.returns.num_cosines)
            cosines = torch.from_numpy(fixed).to(features.device)
        products = features * self.embedding(cosines).relu()
        quantiles: Tensor = self.output(self.activation(self.hidden(products)))
        return quantiles.transpose(-1, -2).flatten(-2)

    @override
    def acting(self, network: ActingNetwork, slots: Mapping[str, ParameterSlot]) -> ActingNetwork:
        """Creates the NumPy network for acting, whose Q values are mean quantiles; its weights are loaded later."""
        return MeanQuantiles(network, self.returns, self.model.activation, slots)


def drawn_fractions(
    generator: np.random.Generator, rows: int, length: int, returns: ReturnModel
) -> dict[str, NDArray[np.float32]]:
    """Samples uniform fractions for the online and target quantiles of a minibatch, with their cosines."""
    fractions = generator.random((rows, length, 2 * returns.num_atoms), np.float32)
    return {FRACTIONS: fractions, WAVES: waves(fractions, returns.num_cosines)}
