"""Tuple and Dict: independent parts, each with a distribution of its own kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.data.tree import leaves, map_tree
from rlrun.policy.action_spaces.action_space import Actions, ActionSpace, Distribution, Floats
from rlrun.policy.action_spaces.discrete import DiscreteActions
from rlrun.policy.action_spaces.gaussian_box import GaussianBoxActions
from rlrun.policy.action_spaces.multi_binary import MultiBinaryActions
from rlrun.policy.action_spaces.multi_discrete import MultiDiscreteActions

if TYPE_CHECKING:
    from torch import Tensor

PartActions = DiscreteActions | MultiDiscreteActions | MultiBinaryActions | GaussianBoxActions


@dataclass(frozen=True)
class Part:
    """One part of an action that is a Tuple or Dict, and where it stands beside the others.

    Attributes:
        actions: Its own actions.
        columns: Where they stand in the row of the whole action.
        noise: Where its noise stands.
        outputs: Where its outputs stand, without log standard deviations.
        log_stds: Where those stand; empty for a part that has none.
    """

    actions: PartActions
    columns: slice
    noise: slice
    outputs: slice
    log_stds: slice

    def own(self, row: Actions) -> Actions:
        """Returns the part's actions [..., *action_shape] of rows of whole actions [..., D]."""
        taken: Actions = row[..., self.columns].astype(self.actions.action_dtype, copy=False)
        return taken if self.actions.action_shape else taken[..., 0]

    def own_outputs(self, outputs: Floats) -> Floats:
        """Returns what describes the part's distribution, of outputs [..., K] of the whole."""
        if isinstance(self.actions, GaussianBoxActions):
            return np.concatenate([outputs[..., self.outputs], outputs[..., self.log_stds]], -1)
        return outputs[..., self.outputs]


class _Cursor:
    """The end of what was taken so far of a row."""

    def __init__(self, at: int = 0) -> None:
        self.at = at

    def take(self, width: int) -> slice:
        first, self.at = self.at, self.at + width
        return slice(first, self.at)


class ProductActions(ActionSpace):
    """Independent parts of a Tuple or Dict, nested as deep as it is; one action is their numbers in a row.

    A row is of whole numbers where all parts are, and else of float32. The outputs of Discrete and MultiDiscrete parts
    come first, which are what an action mask is about, then those of the others, then all log standard deviations.

    Args:
        tree: A tree with the space's structure, whose leaves are the actions of its parts.
    """

    def __init__(self, tree: Any) -> None:
        actions: list[PartActions] = leaves(tree)
        numbers = iter(range(len(actions)))
        self._numbers = map_tree(lambda _: next(numbers), tree)
        self.num_outputs = sum(each.num_outputs for each in actions)
        self.num_log_stds = sum(each.num_log_stds for each in actions)
        self.action_dtype = np.float32 if any(each.action_dtype == np.float32 for each in actions) else np.int64
        columns, noise, choices = _Cursor(), _Cursor(), _Cursor()
        others = _Cursor(sum(each.num_outputs for each in actions if is_choice(each)))
        log_stds = _Cursor(self.num_outputs - self.num_log_stds)
        self.parts = tuple(
            Part(
                actions=each,
                columns=columns.take(math.prod(each.action_shape)),
                noise=noise.take(each.num_noise),
                outputs=(choices if is_choice(each) else others).take(each.num_outputs - each.num_log_stds),
                log_stds=log_stds.take(each.num_log_stds),
            )
            for each in actions
        )
        self.action_shape = (columns.at,)
        self.num_noise = noise.at

    def noise(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draws the parts' noise, side by side."""
        return np.concatenate([part.actions.noise(generator, shape) for part in self.parts], -1)

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Draws each part by its own noise."""
        parts = [part.actions.sample(part.own_outputs(outputs), noise[..., part.noise]) for part in self.parts]
        return self._row(parts)

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Takes the likeliest action of each part."""
        return self._row([part.actions.mode(part.own_outputs(outputs)) for part in self.parts])

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Adds the parts' log-probabilities up."""
        parts = [part.actions.log_prob(part.own_outputs(outputs), part.own(actions)) for part in self.parts]
        result: Floats = np.sum(parts, axis=0, dtype=np.float32)
        return result

    @override
    def to_env(self, actions: Actions) -> Any:
        """Gives each part its place in the space's structure, in the env's terms."""
        return map_tree(lambda i: self.parts[i].actions.to_env(self.parts[i].own(actions)), self._numbers)

    @override
    def from_env(self, actions: Any) -> Actions:
        """Puts the parts in a row."""
        own = map_tree(lambda i, part: self.parts[i].actions.from_env(part), self._numbers, actions)
        return self._row(leaves(own))

    def _row(self, parts: Sequence[Actions]) -> Actions:
        """Returns the parts' own actions [..., *action_shape] in a row, [..., D]."""
        pairs = zip(self.parts, parts, strict=True)
        rows = [own if part.actions.action_shape else own[..., None] for part, own in pairs]
        return np.concatenate(rows, -1, dtype=self.action_dtype)

    def distribution(self, outputs: Tensor) -> Product:
        """Returns the distribution in torch, for the learner."""
        return Product(outputs, self.parts)


class Product(Distribution):
    """Independent distributions side by side (torch). Entropies of choices and of densities are added up.

    Args:
        outputs: What describes them, [..., K], as `ProductActions` lays it out.
        parts: Which ones they are.
    """

    def __init__(self, outputs: Tensor, parts: Sequence[Part]) -> None:
        self.outputs = outputs
        self.parts = tuple(parts)
        self.distributions: list[Distribution] = [
            part.actions.distribution(_own_outputs(outputs, part)) for part in self.parts
        ]

    @override
    def like(self, outputs: Tensor) -> Product:
        """Returns the same over other outputs."""
        return Product(outputs, self.parts)

    @override
    def kl(self, other: Product) -> Tensor:
        """Returns the sum of the parts' divergences."""
        pairs = zip(self.distributions, other.distributions, strict=True)
        return _added([own.kl(theirs) for own, theirs in pairs])

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the sum of the parts' log-probabilities and log-densities, of rows [..., D]."""
        pairs = zip(self.distributions, self.parts, strict=True)
        return _added([own.log_prob(_own_actions(actions, part)) for own, part in pairs])

    @override
    def entropy(self) -> Tensor:
        """Returns the sum of the parts' entropies."""
        return _added([own.entropy() for own in self.distributions])


def is_choice(actions: ActionSpace) -> bool:
    """Whether actions are choices that an action mask can be about."""
    return isinstance(actions, DiscreteActions | MultiDiscreteActions)


def _own_outputs(outputs: Tensor, part: Part) -> Tensor:
    import torch

    if isinstance(part.actions, GaussianBoxActions):
        return torch.cat([outputs[..., part.outputs], outputs[..., part.log_stds]], -1)
    return outputs[..., part.outputs]


def _own_actions(actions: Tensor, part: Part) -> Tensor:
    own = actions[..., part.columns]
    if is_choice(part.actions):
        own = own.long()
    return own if part.actions.action_shape else own.squeeze(-1)


def _added(parts: Sequence[Tensor]) -> Tensor:
    import torch

    return torch.stack(list(parts)).sum(0)
