"""Tuple and Dict action spaces: one independent distribution per entry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.policy.action_spaces.action_space import Actions, ActionSpace, Distribution, Floats
from rlrun.engine.policy.action_spaces.box import GaussianBoxActions
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.action_spaces.multi_binary import MultiBinaryActions
from rlrun.engine.policy.action_spaces.multi_discrete import MultiDiscreteActions

if TYPE_CHECKING:
    from torch import Tensor

PartActions = DiscreteActions | MultiDiscreteActions | MultiBinaryActions | GaussianBoxActions


@dataclass(frozen=True)
class Part:
    """Entry of a Tuple or Dict action space, with its slices of the concatenated actions, noise and network outputs.

    Attributes:
        actions: Action space of the entry.
        columns: Slice of the entry in the concatenated action.
        noise: Slice of the entry in the concatenated noise.
        outputs: Slice of the entry in the network outputs, without log standard deviations.
        log_stds: Slice of the entry's log standard deviations in the network outputs; empty for an entry without them.
    """

    actions: PartActions
    columns: slice
    noise: slice
    outputs: slice
    log_stds: slice

    def own(self, row: Actions) -> Actions:
        """Extracts this entry's actions from concatenated actions of the whole Tuple or Dict."""
        taken: Actions = row[..., self.columns].astype(self.actions.action_dtype, copy=False)
        return taken if self.actions.action_shape else taken[..., 0]

    def own_outputs(self, outputs: Floats) -> Floats:
        """Extracts this entry's distribution parameters from the network outputs for the whole Tuple or Dict."""
        if isinstance(self.actions, GaussianBoxActions):
            return np.concatenate([outputs[..., self.outputs], outputs[..., self.log_stds]], -1)
        return outputs[..., self.outputs]


class _Cursor:
    """Cursor that allocates consecutive slices of an array."""

    def __init__(self, at: int = 0) -> None:
        self.at = at

    def take(self, width: int) -> slice:
        first, self.at = self.at, self.at + width
        return slice(first, self.at)


class ProductActions(ActionSpace):
    """Action space for a (nested) Tuple or Dict, with one independent distribution per entry.

    An action is one vector that concatenates the entries.

    Concatenated actions are int64 if all entries are discrete, and float32 otherwise. Outputs of Discrete and
    MultiDiscrete entries come first, because action masks cover exactly these outputs. The other entries' outputs
    follow, then all log standard deviations.

    Args:
        tree: A tree with the space's structure, whose leaves are the action spaces of the entries.
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
        """Draws the random numbers that all entries need for sampling, concatenated, [*shape, num_noise]."""
        return np.concatenate([part.actions.noise(generator, shape) for part in self.parts], -1)

    def sample(self, outputs: Floats, noise: Floats) -> Actions:
        """Samples each entry with its slice of the noise, and concatenates the sampled entries."""
        parts = [part.actions.sample(part.own_outputs(outputs), noise[..., part.noise]) for part in self.parts]
        return self._row(parts)

    @override
    def mode(self, outputs: Floats) -> Actions:
        """Returns greedy actions: the mode of each entry's distribution, concatenated."""
        return self._row([part.actions.mode(part.own_outputs(outputs)) for part in self.parts])

    def log_prob(self, outputs: Floats, actions: Actions) -> Floats:
        """Returns the joint log-probabilities of actions: the sums over the independent entries."""
        parts = [part.actions.log_prob(part.own_outputs(outputs), part.own(actions)) for part in self.parts]
        result: Floats = np.sum(parts, axis=0, dtype=np.float32)
        return result

    @override
    def to_env(self, actions: Actions) -> Any:
        """Splits N concatenated actions into the Tuple or Dict structure of the env's action space."""
        return map_tree(lambda i: self.parts[i].actions.to_env(self.parts[i].own(actions)), self._numbers)

    @override
    def from_env(self, actions: Any) -> Actions:
        """Concatenates the entries of N Tuple or Dict env actions."""
        own = map_tree(lambda i, part: self.parts[i].actions.from_env(part), self._numbers, actions)
        return self._row(leaves(own))

    def _row(self, parts: Sequence[Actions]) -> Actions:
        """Concatenates the actions [..., *action_shape] of all parts, [..., D]."""
        pairs = zip(self.parts, parts, strict=True)
        rows = [own if part.actions.action_shape else own[..., None] for part, own in pairs]
        return np.concatenate(rows, -1, dtype=self.action_dtype)

    def distribution(self, outputs: Tensor) -> Product:
        """Creates the joint distribution of all entries from network outputs, for losses in torch."""
        return Product(outputs, self.parts)


class Product(Distribution):
    """Joint distribution of the independent entries of a Tuple or Dict action (torch).

    The entropy adds the entropies of discrete entries and the differential entropies of continuous ones.

    Args:
        outputs: Network outputs [..., K], in the layout of `ProductActions`.
        parts: The entries, in the order of `ProductActions.parts`.
    """

    def __init__(self, outputs: Tensor, parts: Sequence[Part]) -> None:
        self.outputs = outputs
        self.parts = tuple(parts)
        self.distributions: list[Distribution] = [
            part.actions.distribution(_own_outputs(outputs, part)) for part in self.parts
        ]

    @override
    def like(self, outputs: Tensor) -> Product:
        """Creates the joint distribution from other network outputs of the same layout."""
        return Product(outputs, self.parts)

    @override
    def kl(self, other: Product) -> Tensor:
        """Returns the KL divergence KL(self || other) for each action of the batch: the sum over its entries."""
        pairs = zip(self.distributions, other.distributions, strict=True)
        return _added([own.kl(theirs) for own, theirs in pairs])

    @override
    def log_prob(self, actions: Tensor) -> Tensor:
        """Returns the joint log-probability of each concatenated action in the batch: the sum over all entries."""
        pairs = zip(self.distributions, self.parts, strict=True)
        return _added([own.log_prob(_own_actions(actions, part)) for own, part in pairs])

    @override
    def entropy(self) -> Tensor:
        """Returns the joint entropy for each action of the batch: the sum over the independent entries."""
        return _added([own.entropy() for own in self.distributions])


def is_choice(actions: ActionSpace) -> bool:
    """Whether an action space is Discrete or MultiDiscrete, the kinds that support action masks."""
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
