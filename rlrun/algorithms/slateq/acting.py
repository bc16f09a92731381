"""Acting with slates: their values under a choice model, search for the best slate, and random slates (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import comb
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.action_masks import FORBIDDEN
from rlrun.engine.data.tree import map_tree
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.engine.policy.action_spaces.multi_discrete import MultiDiscreteActions
from rlrun.engine.policy.exploration.epsilon_greedy import EpsilonGreedy

MOST_SLATES = 20_000
"""Largest number of slates that are enumerated; if there are more, slates are built item by item."""

LARGEST_LOGIT = 20.0
"""Logits are clipped to this size, so that no weight is infinite or 0."""


CANDIDATES = "candidates"
"""Key of the observation's part with the features of the items to choose from, [N, F]."""
CLICKED = "clicked"
"""Key of the observation's part with the clicked position in the last slate; the slate's size for no click."""


class SlateActions(ActionSpace):
    """Action space of slates: `slate_size` out of N candidates, without repetition.

    The network for action selection outputs the chosen slate itself, not parameters of a distribution.

    Args:
        space: The env's action space.
    """

    action_dtype = np.int64
    is_deterministic = True

    def __init__(self, space: gymnasium.spaces.MultiDiscrete) -> None:
        self.num_candidates = int(space.nvec[0])
        self.slate_size = self.num_outputs = len(space.nvec)
        self.action_shape = (self.slate_size,)
        self._places = MultiDiscreteActions(space)

    @override
    def mode(self, outputs: Floats) -> Actions:
        return outputs.astype(np.int64)

    @override
    def to_env(self, actions: Actions) -> Actions:
        return self._places.to_env(actions)

    @override
    def from_env(self, actions: Any) -> Actions:
        return self._places.from_env(actions)


class SlateSearch:
    """Network for action selection that searches for the slate with the highest value.

    Args:
        critic: Q network, whose inputs are an item and the rest of the observation.
        choice: Network that outputs the choice model's coefficients.
        actions: Action space of the slates.
    """

    state_size = 0

    def __init__(self, critic: ActingNetwork, choice: ActingNetwork, actions: SlateActions) -> None:
        self.critic, self.choice = critic, choice
        self.slate_size = actions.slate_size
        self._slates = all_slates(actions.num_candidates, actions.slate_size)

    def load(self, flat: Floats) -> None:
        """Loads the parameters of critic and choice model from a flat vector."""
        self.critic.load(flat)
        self.choice.load(flat)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[dict[str, Floats], Floats | None]:
        """Best slates as the head `outputs`, [B, slate_size]."""
        user = {key: part for key, part in inputs["obs"].items() if key not in (CANDIDATES, CLICKED)}
        items = inputs["obs"][CANDIDATES].astype(np.float32, copy=False)
        with_none = np.concatenate([items, items[:, :1] * 0], 1)
        number = with_none.shape[1]
        rows = map_tree(lambda leaf: leaf.repeat(number, axis=0), user)
        heads, _ = self.critic({"obs": {CANDIDATES: with_none.reshape(-1, items.shape[2]), **rows}})
        coefficients, _ = self.choice({"obs": user})
        logits = choice_logits(coefficients["outputs"], items)
        return {"outputs": self._best(heads["outputs"].reshape(-1, number), logits)}, None

    def _best(self, values: Floats, logits: Floats) -> Floats:
        if self._slates is None:
            masks, _ = greedy_slate(values, logits, self.slate_size)
        else:
            masks = self._slates[slate_values(values, logits, self._slates).argmax(-1)]
        slates: Floats = np.argsort(-masks, axis=-1, kind="stable")[:, : self.slate_size].astype(np.float32)
        return slates


def choice_logits(coefficients: Any, items: Any) -> Any:
    """Logits [..., N] of a conditional logit choice model, linear in the items' features (NumPy and torch).

    Args:
        coefficients: Coefficients of the features, followed by the constant, [..., F + 1].
        items: Features of the items, [..., N, F].
    """
    return (items @ coefficients[..., :-1, None])[..., 0] + coefficients[..., -1:]


class EpsilonGreedySlates(EpsilonGreedy):
    """Epsilon-greedy exploration of slates: the best slate or, with probability `epsilon`, a uniformly random one.

    Args:
        actions: Action space of the slates.
    """

    def __init__(self, actions: SlateActions) -> None:
        super().__init__(actions.num_candidates, num_draws=1 + actions.num_candidates)
        self.actions = actions

    @override
    def chosen(self, values: Floats, explores: NDArray[np.bool_], noise: Floats, mask: ActionMask | None) -> Actions:
        return super().chosen(values, explores[:, None], noise, mask)

    @override
    def greedy(self, values: Floats) -> Actions:
        return self.actions.mode(values)

    @override
    def uniform(self, noise: Floats, mask: ActionMask | None) -> Actions:
        order: Actions = noise[:, 1:].argsort(-1)
        return order[:, : self.actions.slate_size]


def all_slates(num_candidates: int, slate_size: int) -> Floats | None:
    """All M possible slates as 0/1 masks of N items, [M, N]; None if there are more than `MOST_SLATES`."""
    number = comb(num_candidates, slate_size)
    if number > MOST_SLATES:
        return None
    masks = np.zeros((number, num_candidates), np.float32)
    items = np.array(list(combinations(range(num_candidates), slate_size)))
    np.put_along_axis(masks, items, 1.0, -1)
    return masks


def slate_values(values: Any, logits: Any, slates: Any) -> Any:
    """Expected values of slates: items' values, weighted by the items' click probabilities.

    A slate's value is (sum_i w_i Q_i + Q_none) / (sum_i w_i + 1) over its items i, with w = exp(logits). The logit of
    no click is 0.

    Args:
        values: Q values of the items, followed by the Q value of no click, [..., N + 1].
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
    """Slate built greedily: each added item maximizes the slate's value.

    Args:
        values: Q values of the items, followed by the Q value of no click, [..., N + 1].
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
    """Unnormalized choice probabilities exp(logit) of items, [..., N]; the option of no click has weight 1."""
    return np.e ** logits.clip(-LARGEST_LOGIT, LARGEST_LOGIT)
