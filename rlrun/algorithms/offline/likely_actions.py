"""Acting on Q values, restricted to actions that a behavior policy considers likely (NumPy)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.action_masks import FORBIDDEN
from rlrun.engine.nn.acting import ActingNetwork, TransformedOutputs
from rlrun.engine.policy.action_masks import masked
from rlrun.engine.policy.action_spaces.action_space import Floats


class LikelyActions(TransformedOutputs):
    """Network for action selection that outputs Q values, and rules out actions unlikely under a behavior policy.

    Args:
        values: Network that outputs Q values.
        behavior: Network that outputs the behavior policy's logits.
        threshold: Minimum probability of an action, as a fraction of the largest one.
    """

    def __init__(self, values: ActingNetwork, behavior: ActingNetwork, threshold: float) -> None:
        super().__init__(values)
        self._behavior = behavior
        self._least = math.log(threshold)

    @override
    def load(self, flat: Floats) -> None:
        super().load(flat)
        self._behavior.load(flat)

    @override
    def transformed(self, outputs: Floats, inputs: Mapping[str, Any]) -> Floats:
        """Q values [envs, num_actions], with -1e9 for unlikely actions."""
        heads, _ = self._behavior(inputs)
        logits = masked(heads["outputs"], inputs["obs"])
        is_likely = logits - logits.max(-1, keepdims=True) >= self._least
        return np.where(is_likely, outputs, np.float32(FORBIDDEN))
