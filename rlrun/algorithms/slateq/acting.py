"""Acting by slates: the network that looks for the best slate, and random slates (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.slateq.slates import all_slates, greedy_slate, slate_values
from rlrun.data.tree import map_tree
from rlrun.functional.schedules import value_at
from rlrun.nn.acting import ActingNetwork
from rlrun.policy.action_masks import ActionMask
from rlrun.policy.action_spaces.action_space import Actions, ActionSpace, Floats
from rlrun.policy.action_spaces.multi_discrete import MultiDiscreteActions
from rlrun.policy.exploration.exploration import Exploration, Heads, RunNetwork
from rlrun.policy.weights import Weights

CANDIDATES = "candidates"
"""Key of the observation's part with the features of the items to choose from, [N, F]."""
CLICKED = "clicked"
"""Key of the observation's part with the position in the last slate that was clicked; the slate's size for none."""


class SlateActions(ActionSpace):
    """Slates: `slate_size` of N candidates, of which none is in a slate twice; outputs are the slate itself.

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
    """Acting network that looks for the slate of highest value.

    Args:
        critic: Acting Q network of an item and the rest of an observation.
        choice: Acting network of the choice model's coefficients.
        actions: The slates.
    """

    state_size = 0

    def __init__(self, critic: ActingNetwork, choice: ActingNetwork, actions: SlateActions) -> None:
        self.critic, self.choice = critic, choice
        self.slate_size = actions.slate_size
        self._slates = all_slates(actions.num_candidates, actions.slate_size)

    def load(self, flat: Floats) -> None:
        """Loads the parameters [A] of both networks."""
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
    """Logits [..., N] of a conditional logit model, linear in the items' features (NumPy and torch).

    Args:
        coefficients: Coefficients of the features, and the constant, [..., F + 1].
        items: Features of the items, [..., N, F].
    """
    return (items @ coefficients[..., :-1, None])[..., 0] + coefficients[..., -1:]


class EpsilonGreedySlates(Exploration):
    """Epsilon-greedy exploration of slates: the best slate, or with probability `epsilon` a uniformly random one.

    Args:
        actions: The slates.

    Attributes:
        epsilon: Probability of a random slate.
    """

    schedules = ("epsilon",)

    def __init__(self, actions: SlateActions) -> None:
        self.actions = actions
        self.epsilon = 1.0

    @override
    def load(self, weights: Weights) -> None:
        self.epsilon = value_at(weights.schedules["epsilon"], weights.env_steps)

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Samples uniform noise in [0, 1): exploration, and an order of the candidates, [T, B, 1 + N]."""
        return generator.random((length, slots, 1 + self.actions.num_candidates), np.float32)

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Random slates in the slots that explore, best slates elsewhere, [B, slate_size]."""
        explores = noise[:, 0] < self.epsilon
        if explores.all():
            return self._any(noise)
        return np.where(explores[:, None], self._any(noise), self.actions.mode(run()["outputs"]))

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        outputs = heads["outputs"]
        noise = self.noise(generator, 1, len(outputs))[0]
        return np.where(noise[:, :1] < self.epsilon, self._any(noise), self.actions.mode(outputs))

    def _any(self, noise: Floats) -> Actions:
        order: Actions = noise[:, 1:].argsort(-1)
        return order[:, : self.actions.slate_size]
