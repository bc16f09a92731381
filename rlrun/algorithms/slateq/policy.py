"""Policy of SlateQ: Q values of items and a choice model, as networks for losses (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import gymnasium
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.actor_q.actor_q_nets import ActorQNets
from rlrun.algorithms.actor_q.networks import CRITICS, repeated, torch_networks
from rlrun.algorithms.slateq.acting import (
    CANDIDATES,
    CLICKED,
    EpsilonGreedySlates,
    SlateActions,
    SlateSearch,
    all_slates,
    choice_logits,
    greedy_slate,
    slate_values,
)
from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.network_spec import Head, Tower, network_spec
from rlrun.engine.nn.observation_leaves import observation_leaves
from rlrun.engine.nn.torch_network import TorchNetwork
from rlrun.engine.policy.acting_network import acting_network
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy

if TYPE_CHECKING:
    from rlrun.algorithms.slateq.settings import SlateQConfig


@dataclass(frozen=True)
class SlateNetworks:
    """Q network of items, target network and choice model, as losses use them: evaluated with given parameters.

    An item with all features zero represents "no click".

    Attributes:
        critic: The Q network, whose inputs are an item and the rest of the observation.
        choice: The network that outputs the choice model's coefficients.
        slates: Masks of all slates, [M, N]; None if there are too many.
        slate_size: Number of items in a slate.
        views: Parameters of the online networks by name.
        target_views: Parameters of the target networks by name.
    """

    critic: TorchNetwork
    choice: TorchNetwork
    slates: Tensor | None
    slate_size: int
    views: Mapping[str, Tensor]
    target_views: Mapping[str, Tensor]

    def item_values(self, observations: Mapping[str, Any]) -> Tensor:
        """Online network's Q values [rows, N + 1] of all candidate items, followed by the Q value of no click."""
        return self._item_values(self.views, observations)

    def logits(self, observations: Mapping[str, Any]) -> Tensor:
        """Choice model's logits [rows, N] of all candidates; the logit of no click is 0."""
        heads, _ = self.choice(self.views, {"obs": _user(observations)})
        logits: Tensor = choice_logits(heads["outputs"], observations[CANDIDATES].float())
        return logits.squeeze(1)

    def target_slate_values(self, observations: Mapping[str, Any]) -> Tensor:
        """Values [rows] of the best slates, from the target network and the choice model, without gradient."""
        with torch.no_grad():
            values, logits = self._item_values(self.target_views, observations), self.logits(observations)
            if self.slates is None:
                best: Tensor = greedy_slate(values, logits, self.slate_size)[1]
                return best
            found: Tensor = slate_values(values, logits, self.slates)
            return found.amax(-1)

    def _item_values(self, views: Mapping[str, Tensor], observations: Mapping[str, Any]) -> Tensor:
        items = observations[CANDIDATES].squeeze(1)
        items = torch.cat([items, items[:, :1] * 0], 1)
        heads, _ = self.critic(views, {"obs": {CANDIDATES: items, **repeated(_user(observations), items.shape[1])}})
        return heads["outputs"].squeeze(-1)


class SlateQPolicy(Policy):
    """Policy that shows the slate with the highest value, based on items' Q values and a learned choice model.

    Args:
        spaces: Observation and action space.
        config: Settings of SlateQ.
        seed: Seed for the initial parameters.

    Raises:
        UsageError: Observations lack candidates or clicks, or actions are not slates of candidates.
    """

    def __init__(self, spaces: Spaces, config: SlateQConfig, seed: int) -> None:
        space, items = _checked(spaces)
        item = Box(items.low[0], items.high[0], dtype=items.dtype.type)
        model = config.model
        self.leaves = observation_leaves(
            Dict({CANDIDATES: item, **_user(space)}),
            model.observations,
            normalize=False,
            encoders=model.encoders,
            conv=model.conv,
        )
        others = {key: leaf for key, leaf in self.leaves.items() if key != CANDIDATES}
        critic = network_spec(self.leaves, model, Tower((Head("outputs", "head", 1),)))
        coefficients = Tower((Head("outputs", "head", items.shape[1] + 1),))
        choice = network_spec(others, model, coefficients, hiddens=())
        self.action_space = SlateActions(spaces.action)
        self.module = ActorQNets([critic], {"choice": choice}, model, seed=seed)
        self.parameters = FlatParameters(self.module)
        (self.critic,) = torch_networks(self.module, CRITICS)
        self.choice = TorchNetwork(self.module.get_submodule("choice"), prefix="choice.")
        slates = all_slates(self.action_space.num_candidates, self.action_space.slate_size)
        self.module.register_buffer("slates", None if slates is None else torch.from_numpy(slates))  # moves with it

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> SlateNetworks:
        targets = views if target_views is None else target_views
        return SlateNetworks(
            self.critic,
            self.choice,
            cast("Tensor | None", self.module.slates),
            self.action_space.slate_size,
            views,
            targets,
        )

    @override
    def behavior(self) -> BehaviorPolicy:
        search = SlateSearch(
            acting_network(self.critic, self.parameters),
            acting_network(self.choice, self.parameters),
            self.action_space,
        )
        exploration = EpsilonGreedySlates(self.action_space)
        return BehaviorPolicy(search, self.action_space, exploration, self.leaves, normalize_observations=False)


def _user(observations: Mapping[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in observations.items() if key not in (CANDIDATES, CLICKED)}


def _checked(spaces: Spaces) -> tuple[Mapping[str, gymnasium.Space[Any]], Box]:
    """Parts of the observation, and the candidates among them.

    Raises:
        UsageError: There are no candidates or no clicks, or actions are not slates of candidates.
    """
    action, parts = spaces.action, spaces.observation.spaces if isinstance(spaces.observation, Dict) else {}
    items, clicked = parts.get(CANDIDATES), parts.get(CLICKED)
    if not isinstance(items, Box) or len(items.shape) != 2:
        raise UsageError(
            f"slateq needs a Dict observation whose part {CANDIDATES!r} is a Box [items, features], "
            f"but it {'is ' + str(items) if items else 'is missing'}"
        )
    if not isinstance(action, MultiDiscrete) or action.nvec.ndim != 1 or (action.nvec != items.shape[0]).any():
        raise UsageError(
            f"slateq needs the action space MultiDiscrete([{items.shape[0]}] * slate_size), a slate of candidates, "
            f"but this env has {action}"
        )
    if len(action.nvec) > items.shape[0]:
        raise UsageError(
            f"a slate of {len(action.nvec)} items needs at least as many candidates, but there are only "
            f"{len(items.low)}"
        )
    if not isinstance(clicked, Discrete) or clicked.n != len(action.nvec) + 1 or clicked.start:
        raise UsageError(
            f"slateq needs the observation's part {CLICKED!r}, Discrete({len(action.nvec) + 1}): the clicked "
            f"position in the last slate, {len(action.nvec)} for no click. "
            f"It {'is ' + str(clicked) if clicked else 'is missing'}"
        )
    if ACTION_MASK in parts:
        raise UsageError(
            "slateq does not support action_mask: mark candidates that must not be shown by their features"
        )
    if not parts.keys() - {CANDIDATES, CLICKED}:
        raise UsageError(
            f"slateq needs a part of the observation that describes the user, in addition to {CANDIDATES!r}"
        )
    return parts, items
