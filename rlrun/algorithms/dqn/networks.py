"""Online and target Q network of DQN and its variants, evaluated in losses (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.action_masks import allowed_argmax, masked_tensor

if TYPE_CHECKING:
    from rlrun.engine.nn.noisy_net import NoisyNet

_ONLINE, _CHOICE, _TARGET = 0, 1, 2

FRACTIONS = "quantile_fractions"
"""Minibatch column of the fractions of the online and then of the target network's quantiles, [S, L, 2 N]."""

WAVES = "quantile_waves"
"""Minibatch column of the cosines of the fractions of online and then of target quantiles, [S, L, 2 N, C]."""


@dataclass(frozen=True)
class QNetworks:
    """Online and target network of a Q policy, as losses use them: evaluated with given parameters.

    A noisy network has independent noise for the online values, the choice of the next action, and the target. An
    implicit quantile network uses random fractions for online and target quantiles, and fixed ones for choosing
    actions.

    Attributes:
        network: The Q network, as a function that takes its parameters as input.
        decode: Function from parameters, head outputs and batch columns to quantiles or Q values; None if the head
            outputs need no decoding.
        returns: Representation of returns: mean, categorical distribution or quantiles.
        num_actions: Number of Discrete actions, A.
        views: Parameters of the online network by name.
        target_views: Parameters of the target network by name.
        noise: Noise of a noisy network for the three forward passes, [3, num_noise]; None without noise.
        fractions: Fractions of the online quantiles of an implicit quantile network, [S, L, N]; None for other
            networks.
        waves: C cosine features of each fraction of online and target quantiles in an implicit quantile network,
            [S, L, 2 N, C]; None for other networks.
    """

    network: TorchNetwork
    decode: Callable[[Mapping[str, Tensor], Mapping[str, Tensor], Mapping[str, Any]], Tensor] | None
    returns: ReturnModel
    num_actions: int
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]
    noise: Tensor | None = None
    fractions: Tensor | None = None
    waves: Tensor | None = None

    def q_outputs(self, observations: Any) -> Tensor:
        """Online network's returns of A actions, [rows, steps, A, K]: distributions (K numbers) or means (K = 1)."""
        return self._run(self.views, observations, _ONLINE)

    def target_q_outputs(self, observations: Any) -> Tensor:
        """Target network's returns of A actions, [rows, steps, A, K], as in `q_outputs`, without gradient."""
        with torch.no_grad():
            return self._run(self.target_views, observations, _TARGET)

    def values(self, observations: Any) -> Tensor:
        """Online network's Q values [rows, steps, num_actions] for observations [rows, steps, ...]."""
        return self.means(self.q_outputs(observations))

    def target_values(self, observations: Any, outputs: Tensor | None = None) -> Tensor:
        """Target network's Q values [S, L, A] of all actions, for choosing actions, without gradient.

        In an implicit quantile network, these are means at fixed fractions, as in acting. Means at the target's random
        fractions would favor actions whose quantiles happen to be high in that target.

        Args:
            observations: Observations [S, L, ...].
            outputs: The target network's outputs [S, L, A, K] for the observations, if already computed. Their means
                are the Q values, except in an implicit quantile network.
        """
        if self.waves is not None:
            with torch.no_grad():
                return self.means(self._run(self.target_views, observations, _TARGET, at_midpoints=True))
        return self.means(self.target_q_outputs(observations) if outputs is None else outputs)

    def greedy_actions(self, observations: Any) -> Tensor:
        """Online network's greedy actions [rows, steps] under action masks, for double Q-learning, without gradient."""
        with torch.no_grad():
            outputs = self._run(self.views, observations, _CHOICE, at_midpoints=True)
            return self.allowed_argmax(self.means(outputs), observations)

    def allowed_argmax(self, values: Tensor, observations: Any) -> Tensor:
        """Argmax [rows, steps] of Q values [rows, steps, num_actions] over the actions that observations allow."""
        return allowed_argmax(values, observations)

    def log_policy(self, values: Tensor, observations: Any, temperature: float) -> Tensor:
        """Log-softmax [rows, steps, num_actions] of Q values divided by a temperature, under action masks."""
        return (masked_tensor(values, observations) / temperature).log_softmax(-1)

    def means(self, q_outputs: Tensor) -> Tensor:
        """Expected returns [...] from representations of returns [..., K]: C51 logits, quantiles, or means."""
        match self.returns.kind:
            case "none":
                return q_outputs.squeeze(-1)
            case "quantile" | "iqn":
                return q_outputs.mean(-1)
        return (q_outputs.softmax(-1) * self.support(q_outputs)).sum(-1)

    def support(self, like: Tensor) -> Tensor:
        """Support of C51: K evenly spaced returns, on the same device as the tensor `like`."""
        model = self.returns
        return torch.linspace(model.v_min, model.v_max, model.num_atoms, device=like.device)

    def _run(self, views: Mapping[str, Tensor], observations: Any, which: int, *, at_midpoints: bool = False) -> Tensor:
        module = self.network.module
        if self.noise is not None:
            views = cast("NoisyNet", module).drawn(views, self.noise[which])
        heads, _ = self.network(views, {"obs": observations})
        outputs = heads["outputs"]
        if self.decode is not None:
            columns = {"obs": observations}
            if self.waves is not None and not at_midpoints:
                columns[WAVES] = self.waves.chunk(2, 2)[int(which == _TARGET)]
            outputs = self.decode(views, heads, columns)
        return outputs.view(*outputs.shape[:2], self.num_actions, -1)
