"""Policy of DreamerV3: world model, actor and critic (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.dreamer.acting import DrawnActions, WorldModelActor
from rlrun.algorithms.dreamer.actions import DreamerActions, dreamer_actions
from rlrun.algorithms.dreamer.model_config import DreamerModelConfig
from rlrun.algorithms.dreamer.symlog import mean_of_bins, symexp_bins
from rlrun.algorithms.dreamer.world_model import ACTING, ACTOR, CRITIC, WORLD, States, WorldModel, WorldModelParameters
from rlrun.algorithms.dreamer.world_model_spec import NUM_CONVOLUTIONS, WorldModelSpec
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves
from rlrun.errors import UsageError
from rlrun.nn.network_module import seeded
from rlrun.nn.observation_leaves import ObservationTree, is_masked
from rlrun.policy.action_masks import policy_leaves
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.policy.flat_parameters import FlatParameters
from rlrun.policy.policy import Policy

LEAST_SIDE = 48
"""Pixels of the shortest side of an image, of which the convolutions leave 3."""


class Rows(NamedTuple):
    """Rows of L steps aligned to their L + 1 observations; [S, L + 1, ...].

    Row t is the observation before step t, with the reward and end of step t - 1. An episode's final observation has a
    row of its own, from which no step starts.

    Attributes:
        counts: 1 where there is an observation, else 0.
        is_behind: 1 where an observation follows a step of these rows, so that its reward and its end are known.
        rewards: Reward of the step before.
        continues: 0 where that step terminated the episode, else 1.
        starts: 1 where an episode begins.
        actions: Action of the step before, as the model's input; of the first row that in `state`.
    """

    counts: Tensor
    is_behind: Tensor
    rewards: Tensor
    continues: Tensor
    starts: Tensor
    actions: Tensor


class Imagined(NamedTuple):
    """Imagined trajectories of a world model, N of them with H steps each.

    Attributes:
        features: Of their states, [N, H + 1, F].
        actions: The actor's actions, [N, H, A].
        rewards: Expected rewards of the steps, [N, H].
        continues: Probabilities that the episode continues after them, [N, H].
    """

    features: Tensor
    actions: Tensor
    rewards: Tensor
    continues: Tensor


@dataclass(frozen=True)
class DreamerNetworks:
    """Networks of DreamerV3, as losses call them.

    Attributes:
        model: The world model, actor and critic.
        slow: The same with the parameters of the slow critic.
        actions: The actions.
        bins: Of rewards and returns, [M].
    """

    model: WorldModel
    slow: WorldModel
    actions: DreamerActions
    bins: Tensor

    def rows(self, batch: SampleBatch) -> Rows:
        """Aligns a batch to the observations [S, L + 1] of its rows."""
        valid = batch["valid"].float()
        none = torch.zeros_like(valid[:, :1])
        is_behind = torch.cat([none, valid], 1)
        first = batch["state"][:, None, self.model.spec.features :]
        recorded = self.actions.recorded(batch["actions"]) * valid.unsqueeze(-1)
        going_on = (batch["discounts"] > 0).float()
        return Rows(
            counts=torch.cat([valid, none], 1).maximum(is_behind),
            is_behind=is_behind,
            rewards=torch.cat([none, batch["rewards"] * valid], 1),
            continues=1 - is_behind * (1 - torch.cat([none, going_on], 1)),
            starts=batch["episode_starts"].float(),
            actions=torch.cat([first, recorded], 1),
        )

    def observe(self, batch: SampleBatch, rows: Rows) -> tuple[States, Tensor]:
        """Returns the states of a batch's observations [S, L + 1, ...], and the posteriors of their latents."""
        model, recurrent = self.model, self.model.spec.recurrent
        before = batch["state"]
        state = States(before[:, :recurrent], before[:, recurrent : model.spec.features])
        return model.observe(model.encode(batch["obs"]), rows.actions, rows.starts, state, batch["latent_noise"])

    def reconstruction_errors(self, features: Tensor, observations: Any) -> Tensor:
        """Returns the squared errors of decoded observations of states [S, L, F], summed over components, [S, L].

        Vectors are compared as symlog, pixels in [0, 1].
        """
        model, shape = self.model, features.shape[:2]
        errors = torch.zeros(shape, device=features.device)
        if model.spec.dense_width:
            decoded = model.head(f"{WORLD}decoder", features)
            errors = errors + (decoded - model.numbers(observations)).square().sum(-1)
        if model.spec.images:
            for decoded, shown in zip(model.decode_images(features), model.pixels(observations), strict=True):
                errors = errors + (decoded - shown).square().flatten(1).sum(-1).view(shape)
        return errors

    def imagine(self, features: Tensor, latent_noise: Tensor, action_noise: Tensor) -> Imagined:
        """Imagines trajectories of the actor from states; no gradients.

        Args:
            features: The states that trajectories begin with, [N, F].
            latent_noise: Uniform numbers by which latent parts are drawn, [N, H, K].
            action_noise: Noise by which actions are drawn, [N, H, ...].
        """
        model, spec = self.model, self.model.spec
        with torch.no_grad():
            state = States(features[:, : spec.recurrent], features[:, spec.recurrent :])
            passed, taken = [features], []
            for latent_draw, action_draw in zip(latent_noise.unbind(1), action_noise.unbind(1), strict=True):
                action = self.actions.imagined(self.actor_outputs(passed[-1]), action_draw)
                state = model.imagine(state, self.actions.imagined_seen(action), latent_draw)
                passed.append(state.features)
                taken.append(action)
            states = torch.stack(passed, 1)
            behind = states[:, 1:].contiguous()  # layers take a slice row by row else, which is several times slower
            rewards, continues = self.rewards(behind), self.continue_logits(behind).sigmoid()
        return Imagined(states, torch.stack(taken, 1), rewards, continues)

    def actor_outputs(self, features: Tensor) -> Tensor:
        """Returns the parameters of the actor's distributions in states [..., F]."""
        return self.actions.outputs_of(self.model.head(ACTOR[:-1], features))

    def reward_logits(self, features: Tensor) -> Tensor:
        """Returns the logits of the bins of the reward that led to states [..., F], [..., M]."""
        return self.model.head(f"{WORLD}reward", features)

    def rewards(self, features: Tensor) -> Tensor:
        """Returns the expected reward that led to states [..., F], [...]."""
        return mean_of_bins(self.reward_logits(features).softmax(-1), self.bins)

    def continue_logits(self, features: Tensor) -> Tensor:
        """Returns the logits of continuation after states [..., F], [...]."""
        return self.model.head(f"{WORLD}continue", features).squeeze(-1)

    def value_logits(self, features: Tensor) -> Tensor:
        """Returns the logits of the bins of the critic's returns from states [..., F], [..., M]."""
        return self.model.head(CRITIC[:-1], features)

    def values(self, features: Tensor) -> Tensor:
        """Returns the critic's values of states [..., F], [...]."""
        return mean_of_bins(self.value_logits(features).softmax(-1), self.bins)

    def slow_values(self, features: Tensor) -> Tensor:
        """Returns the slow critic's values of states [..., F], [...]; no gradients."""
        with torch.no_grad():
            return mean_of_bins(self.slow.head(CRITIC[:-1], features).softmax(-1), self.bins)


class DreamerPolicy(Policy):
    """A world model, an actor and a critic.

    Args:
        observation_space: What the env shows.
        action_space: What it takes.
        model: The networks' sizes.
        num_bins: Bins of rewards and returns.
        horizon: Steps that are imagined.
        seed: Seed of the first parameters.

    Raises:
        UsageError: If a part of an observation is neither numbers nor an image of a fitting size, actions are neither
            Discrete nor a bounded Box, or observations hold an action mask.
    """

    module: WorldModelParameters

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        model: DreamerModelConfig,
        *,
        num_bins: int,
        horizon: int,
        seed: int,
    ) -> None:
        self.leaves = policy_leaves(observation_space, action_space, model, normalize_observations=False)
        check_leaves(self.leaves)
        self.actions = dreamer_actions(action_space)
        self.horizon = horizon
        widths = model.widths
        self.spec = WorldModelSpec(
            leaves=self.leaves,
            action_width=self.actions.width,
            actor_outputs=self.actions.num_outputs,
            hiddens=widths.hiddens,
            recurrent=widths.recurrent,
            latents=widths.latents,
            classes=widths.classes,
            conv_depth=widths.conv_depth,
            num_bins=num_bins,
        )
        with seeded(seed):
            self.module = WorldModelParameters(self.spec)
        self.parameters = FlatParameters(self.module)
        self.bins = torch.from_numpy(symexp_bins(num_bins))

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """The parameters of encoder, recurrent model, posterior and actor."""
        first = next(slot for slot in self.parameters.slots if slot.name.startswith((ACTING, f"{ACTING}_images")))
        start, size = self.parameters.range_under(ACTOR)
        return first.offset, start + size - first.offset

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> DreamerNetworks:
        slow = views if target_views is None else target_views
        bins = self.bins.to(views[f"{WORLD}gru.weight"].device)
        return DreamerNetworks(WorldModel(self.spec, views), WorldModel(self.spec, slow), self.actions, bins)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Returns the noise of latent parts and imaginations, for rows of L steps and L + 1 observations.

        Those are `latent_noise` [S, L + 1, K], and, for trajectories that begin in each of the observations,
        `imagined_noise` [S, L + 1, H, K] and `action_noise` [S, L + 1, H, ...].
        """
        latents, imagined = self.spec.latents, (rows, length + 1, self.horizon)
        return {
            "latent_noise": generator.random((rows, length + 1, latents), np.float32),
            "imagined_noise": generator.random((*imagined, latents), np.float32),
            "action_noise": self.actions.draw_noise(generator, imagined),
        }

    @override
    def behavior(self) -> BehaviorPolicy:
        start, size = self.acting_range
        slots = [slot for slot in self.parameters.slots if start <= slot.offset < start + size]
        shifted = {slot.name: replace(slot, offset=slot.offset - start) for slot in slots}
        network = WorldModelActor(self.spec, shifted, self.actions)
        return BehaviorPolicy(
            network,
            self.actions.space,
            DrawnActions(self.actions, self.spec.latents),
            self.leaves,
            normalize_observations=False,
            state_after=network.state_after,
        )


def check_leaves(tree: ObservationTree) -> None:
    """Refuses observations that a world model cannot decode.

    Raises:
        UsageError: A part is neither numbers nor an image of a fitting size, or an action mask.
    """
    if is_masked(tree):
        raise UsageError("dreamer imagines what it observes, and no action masks: leave the mask out of observations")
    for leaf in leaves(tree):
        if leaf.kind == "image":
            _, *sides = leaf.channels_height_width
            if any(side % 2**NUM_CONVOLUTIONS or side < LEAST_SIDE for side in sides):
                raise UsageError(
                    f"dreamer decodes images whose sides are multiples of {2**NUM_CONVOLUTIONS}, and "
                    f"{LEAST_SIDE} pixels at least, not {'x'.join(map(str, sides))}: have a wrapper resize them"
                )
        elif not leaf.is_dense:
            raise UsageError(f"dreamer decodes what it observes: numbers, choices and images, not {leaf.describe()}")
