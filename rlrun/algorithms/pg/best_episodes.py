"""Selection of the best episodes of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator


class KeepBestEpisodes(Operator):
    """Keeps the steps of a batch's best episodes, those whose return is at least the (1 - share)-quantile of returns.

    Args:
        share: Share of the episodes that are kept, more where returns are equal.

    Source:
        Filtered behavioral cloning of Zhou et al., arXiv:2402.19446, section 5.
    """

    def __init__(self, share: float) -> None:
        self.share = share

    @override
    def settings(self) -> dict[str, Any]:
        return {"share": self.share}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Selects from episodes that follow each other in one row, [1, N], as [1, M].

        An episode's return is the value target of its first step.
        """
        ends = (item["terminateds"] | item["truncateds"])[0]
        number = np.concatenate([[0], np.cumsum(ends)[:-1]])  # of the episode of each step
        firsts = np.concatenate([[True], ends[:-1]])
        returns = item["value_targets"][0][firsts]
        kept = returns >= np.quantile(returns, 1 - self.share)
        return item.map(lambda leaf: leaf[:, kept[number]])
