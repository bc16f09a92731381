"""Networks of a Q policy, as losses run them (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlrun.algorithms.dqn.return_model import ReturnModel
from rlrun.nn.noisy_net import NoisyNet
from rlrun.nn.torch_network import TorchNetwork
from rlrun.policy.action_masks import allowed_argmax

_ONLINE, _CHOICE, _TARGET = 0, 1, 2


@dataclass(frozen=True)
class QNetworks:
    """The online and the target network of a Q policy, to be run on what a loss chooses.

    A noisy network's passes have noise of their own: one for what is learned, one for the choice of the next action,
    one for the target.

    Attributes:
        network: The network.
        decode: From parameters, outputs of heads and columns to values, where actions are embedded; None elsewhere.
        returns: What is estimated of an action's return.
        num_actions: A.
        views: The network's parameters by name.
        target_views: The target network's.
        noise: Noise of the three passes, [3, num_noise]; None if parameters are not varied.
    """

    network: TorchNetwork
    decode: Callable[[Mapping[str, Tensor], Mapping[str, Tensor], Mapping[str, Any]], Tensor] | None
    returns: ReturnModel
    num_actions: int
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]
    noise: Tensor | None = None

    def q_outputs(self, observations: Any) -> Tensor:
        """Return distributions (or means) of all actions in observations [S, L, ...], [S, L, A, K]."""
        return self._run(self.views, observations, _ONLINE)

    def target_q_outputs(self, observations: Any) -> Tensor:
        """The same of the target network, without gradient."""
        with torch.no_grad():
            return self._run(self.target_views, observations, _TARGET)

    def values(self, observations: Any) -> Tensor:
        """Returns the values of all actions in observations [S, L, ...], [S, L, A]."""
        return self.means(self.q_outputs(observations))

    def target_values(self, observations: Any) -> Tensor:
        """Returns the target network's values, without gradient."""
        return self.means(self.target_q_outputs(observations))

    def greedy_actions(self, observations: Any) -> Tensor:
        """Returns the allowed actions [S, L] that the network itself thinks best."""
        with torch.no_grad():
            return self.allowed_argmax(self.means(self._run(self.views, observations, _CHOICE)), observations)

    def allowed_argmax(self, values: Tensor, observations: Any) -> Tensor:
        """Returns the actions [S, L] with the largest of values [S, L, A] among those that observations allow."""
        return allowed_argmax(values, observations)

    def means(self, q_outputs: Tensor) -> Tensor:
        """Returns the mean returns [...] that numbers [..., K] describe."""
        match self.returns.kind:
            case "none":
                return q_outputs.squeeze(-1)
            case "quantile":
                return q_outputs.mean(-1)
        return (q_outputs.softmax(-1) * self.support(q_outputs)).sum(-1)

    def support(self, like: Tensor) -> Tensor:
        """Returns the returns [K] whose probabilities `c51` estimates, where another tensor is."""
        model = self.returns
        return torch.linspace(model.v_min, model.v_max, model.num_atoms, device=like.device)

    def _run(self, views: Mapping[str, Tensor], observations: Any, which: int) -> Tensor:
        module = self.network.module
        if isinstance(module, NoisyNet) and self.noise is not None:
            views = module.drawn(views, self.noise[which])
        heads, _ = self.network(views, {"obs": observations})
        outputs = heads["outputs"]
        if self.decode is not None:
            outputs = self.decode(views, heads, {"obs": observations})
        return outputs.view(*outputs.shape[:2], self.num_actions, -1)
