"""Q(lambda) targets of fragments, from the Q values recorded while acting."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.action_masks import FORBIDDEN
from rlrun.engine.data.packing import Packing
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator
from rlrun.engine.functional.returns import gae


class QLambdaTargets(Operator):
    """Replaces `q_values` [T + 1, B, A] of a fragment by the lambda-returns of its steps, `q_targets` [T, B].

    G[t] = r[t] + gamma (lambda G[t + 1] + (1 - lambda) max over a of Q(s[t + 1], a)), with G = max Q after the last
    step. A truncated step bootstraps from max Q of its final observation, a terminated one from 0. Traces are not cut
    at exploratory actions. In terms of V = max Q this is the value target of generalized advantage estimation.

    Args:
        gamma: Discount factor.
        q_lambda: Weight between one-step (0) and Monte Carlo (1) returns.

    Source:
        Gallici et al., arXiv:2407.04811, section 4 and algorithm 1; Peng and Williams, "Incremental multi-step
        Q-learning", 1994.
    """

    def __init__(self, gamma: float, q_lambda: float) -> None:
        self.gamma = gamma
        self.q_lambda = q_lambda

    @override
    def settings(self) -> dict[str, Any]:
        return {"gamma": self.gamma, "q_lambda": self.q_lambda}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment with targets; those of invalid rows are 0."""
        rows = Packing(item["valid"], item["terminateds"], item["truncateds"])
        rewards, terminateds = rows.pack(item["rewards"]), rows.pack(item["terminateds"])
        best = rows.pack(item["q_values"]).max(-1)
        # A final observation may allow no action: nothing follows from it then.
        best = np.where(best == FORBIDDEN, np.float32(0), best)
        _, targets = gae(rewards, best, terminateds, rows.truncateds, self.gamma, self.q_lambda)
        batch = SampleBatch({name: column for name, column in item.items() if name != "q_values"})
        batch["q_targets"] = np.where(item["valid"], rows.unpack(targets), np.float32(0))
        return batch
