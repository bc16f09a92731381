"""Values of slates under a conditional choice model, and search for slates of high value (NumPy and torch)."""

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
    """All possible slates as 0/1 masks of their items, [M, N]; None if there are more than `MOST_SLATES`."""
    number = comb(num_candidates, slate_size)
    if number > MOST_SLATES:
        return None
    masks = np.zeros((number, num_candidates), np.float32)
    items = np.array(list(combinations(range(num_candidates), slate_size)))
    np.put_along_axis(masks, items, 1.0, -1)
    return masks


def slate_values(values: Any, logits: Any, slates: Any) -> Any:
    """Expected values of slates: items' values, weighted by the items' click probabilities.

    (sum_i w_i Q_i + Q_none) / (sum_i w_i + 1) over the items of a slate, w = exp(logits); the logit of no click is 0.

    Args:
        values: Q values of the items, followed by that of no click, [..., N + 1].
        logits: Logits of the choice model, [..., N].
        slates: 0/1 masks of the slates' items, [M, N].

    Returns:
        Values of the slates, [..., M].

    Source:
        Ie et al., "SlateQ", arXiv:1905.12767, section 4.1, where "no click" is an item of each slate.
    """
    weights = choice_weights(logits)
    return ((weights * values[..., :-1]) @ slates.T + values[..., -1:]) / (weights @ slates.T + 1)


def greedy_slate(values: Any, logits: Any, slate_size: int) -> tuple[Any, Any]:
    """Slate built greedily: each added item maximises the slate's value.

    Args:
        values: Q values of the items, followed by that of no click, [..., N + 1].
        logits: Logits of the choice model, [..., N].
        slate_size: Number of items in a slate.

    Returns:
        The slate's 0/1 mask of items [..., N], and the slate's value [...].

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
    """Unnormalised choice probabilities exp(logit) of items, [..., N]; no click has weight 1."""
    return np.e ** logits.clip(-LARGEST_LOGIT, LARGEST_LOGIT)
