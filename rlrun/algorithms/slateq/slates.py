"""Values of slates under a conditional choice model, and slates of high value (NumPy and torch)."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import FORBIDDEN

MOST_SLATES = 20_000
"""Largest number of slates that are enumerated; with more of them, slates are put together item by item."""

LARGEST_LOGIT = 20.0
"""Logits are clipped to this size, so that no weight is infinite or 0."""

Floats = NDArray[np.float32]


def all_slates(num_candidates: int, slate_size: int) -> Floats | None:
    """All slates as 0/1 masks of their items, [M, N]; None if there are more than `MOST_SLATES`."""
    number = comb(num_candidates, slate_size)
    if number > MOST_SLATES:
        return None
    masks = np.zeros((number, num_candidates), np.float32)
    items = np.array(list(combinations(range(num_candidates), slate_size)))
    np.put_along_axis(masks, items, 1.0, -1)
    return masks


def slate_values(values: Any, logits: Any, slates: Any) -> Any:
    """Expected values of slates: values of the items, weighted by the probabilities that they are clicked.

    (sum_i w_i Q_i + Q_none) / (sum_i w_i + 1) over the items of a slate, w = exp(logits); the logit of no click is 0.

    Args:
        values: Q values of the items, and last that of no click, [..., N + 1].
        logits: Logits of the choice model, [..., N].
        slates: 0/1 masks of the slates' items, [M, N].

    Returns:
        Values, [..., M].

    Source:
        Ie et al., "SlateQ", arXiv:1905.12767, section 4.1, where no click is an item of each slate.
    """
    weights = choice_weights(logits)
    return ((weights * values[..., :-1]) @ slates.T + values[..., -1:]) / (weights @ slates.T + 1)


def greedy_slate(values: Any, logits: Any, slate_size: int) -> tuple[Any, Any]:
    """Slate that is put together item by item, each the one with which the slate's value is highest.

    Args:
        values: Q values of the items, and last that of no click, [..., N + 1].
        logits: Logits of the choice model, [..., N].
        slate_size: Number of items in a slate.

    Returns:
        Its 0/1 mask of items [..., N], and its value [...].

    Source:
        Ie et al., "SlateQ", arXiv:1905.12767, section 5.2.
    """
    weights = choice_weights(logits)
    worths, none, number = weights * values[..., :-1], values[..., -1:], weights.shape[-1]
    mask = weights * 0
    for _ in range(slate_size):
        worth, weight = (mask * worths).sum(-1)[..., None], (mask * weights).sum(-1)[..., None]
        with_item = (none + worth + worths) / (weight + weights + 1) + FORBIDDEN * mask
        mask = mask + (with_item.argsort(-1).argsort(-1) == number - 1)
    return mask, (none[..., 0] + (mask * worths).sum(-1)) / ((mask * weights).sum(-1) + 1)


def choice_weights(logits: Any) -> Any:
    """Weights exp(logit) of items in a choice, [..., N], where no click weighs 1."""
    return np.e ** logits.clip(-LARGEST_LOGIT, LARGEST_LOGIT)
