"""Network modules with batch renormalisation, residual blocks or dropout (torch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.nn.batch_renorm import RenormalizedLinear
from rlrun.engine.nn.dropout import with_dropout
from rlrun.engine.nn.encoders import mlp
from rlrun.engine.nn.network_module import NetworkModule
from rlrun.engine.nn.network_spec import KEPT_UNITS
from rlrun.engine.nn.residual_layers import residual_layers


class ExtendedNetworkModule(NetworkModule):
    """Torch module of a `NetworkSpec` whose dense layers may be renormalised, residual, or drop units.

    Units of the trunk of a feed-forward network are dropped by a further input, the factors `KEPT_UNITS` [S, L, sum of
    the hidden widths].
    """

    @override
    def _linear(self, inputs: int, outputs: int) -> nn.Linear:
        return RenormalizedLinear(inputs, outputs) if self.spec.renormalizes else super()._linear(inputs, outputs)

    @override
    def _mlp(self, inputs: int, hiddens: Sequence[int]) -> nn.Sequential:
        spec = self.spec
        if spec.residual and hiddens:
            return residual_layers(inputs, hiddens[-1], len(hiddens), spec.activation)
        return mlp(inputs, hiddens, spec.activation, self._linear if spec.renormalizes else spec.normalization)

    @override
    def _features(self, trunk: nn.Sequential, x: Tensor, inputs: Mapping[str, Any]) -> Tensor:
        kept = inputs.get(KEPT_UNITS)
        return super()._features(trunk, x, inputs) if kept is None else with_dropout(trunk, x, kept.flatten(0, 1))
