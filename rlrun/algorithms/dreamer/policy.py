"""Policy of DreamerV3: world model, actor and critic in one parameter vector (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rlrun.algorithms.dreamer.acting import DrawnActions, WorldModelActor
from rlrun.algorithms.dreamer.actions import dreamer_actions
from rlrun.algorithms.dreamer.networks import DreamerNetworks
from rlrun.algorithms.dreamer.symlog import symexp_bins
from rlrun.algorithms.dreamer.world_model import ACTING, ACTOR, WorldModel, WorldModelParameters
from rlrun.algorithms.dreamer.world_model_spec import NUM_CONVOLUTIONS, WorldModelSpec
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.network_module import seeded
from rlrun.engine.nn.observation_leaves import ObservationTree, is_masked
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy

if TYPE_CHECKING:
    from rlrun.algorithms.dreamer.dreamer import DreamerConfig

LEAST_SIDE = 48
"""Minimum height and width of an image in pixels; the convolutions reduce 48 pixels to 3."""


class DreamerPolicy(Policy):
    """Policy of DreamerV3: recurrent world model, with an actor and a critic on its latent states.

    Args:
        spaces: Observation and action space.
        config: Settings of DreamerV3.
        seed: Seed for the initial parameters.

    Raises:
        UsageError: If an observation leaf is an action mask, or neither a vector nor an image of supported size; or if
            actions are neither Discrete nor a bounded Box.
    """

    module: WorldModelParameters

    def __init__(self, spaces: Spaces, config: DreamerConfig, seed: int) -> None:
        self.leaves = policy_leaves(*spaces, config.model, normalize_observations=False)
        check_leaves(self.leaves)
        self.actions = dreamer_actions(spaces.action)
        self.horizon = config.horizon
        widths = config.model.widths
        self.spec = WorldModelSpec(
            leaves=self.leaves,
            action_width=self.actions.width,
            actor_outputs=self.actions.num_outputs,
            hiddens=widths.hiddens,
            recurrent=widths.recurrent,
            latents=widths.latents,
            classes=widths.classes,
            conv_depth=widths.conv_depth,
            num_bins=config.num_bins,
        )
        with seeded(seed):
            self.module = WorldModelParameters(self.spec)
        self.parameters = FlatParameters(self.module)
        self.module.register_buffer("bins", torch.from_numpy(symexp_bins(config.num_bins)))  # moves with the module

    @property
    @override
    def acting_range(self) -> tuple[int, int]:
        """Slice of the parameters of encoder, recurrent model, posterior and actor, as (start, size)."""
        first = next(slot for slot in self.parameters.slots if slot.name.startswith((ACTING, f"{ACTING}_images")))
        start, size = self.parameters.range_under(ACTOR)
        return first.offset, start + size - first.offset

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> DreamerNetworks:
        slow = views if target_views is None else target_views
        bins = self.module.get_buffer("bins")
        return DreamerNetworks(WorldModel(self.spec, views), WorldModel(self.spec, slow), self.actions, bins)

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples the noise of posterior latents and of imagined trajectories.

        The columns are `latent_noise` [S, L + 1, K] and, for a trajectory from each of the L + 1 observations,
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
            state_inputs=network,
        )


def check_leaves(tree: ObservationTree) -> None:
    """Validates that a world model can decode the observations.

    Raises:
        UsageError: A leaf is an action mask, or neither a vector nor an image of supported size.
    """
    if is_masked(tree):
        raise UsageError("dreamer does not support action masks: leave the mask out of the observation")
    for leaf in leaves(tree):
        if leaf.kind == "image":
            _, *sides = leaf.channels_height_width
            if any(side % 2**NUM_CONVOLUTIONS or side < LEAST_SIDE for side in sides):
                raise UsageError(
                    f"dreamer needs images whose sides are multiples of {2**NUM_CONVOLUTIONS} and at least "
                    f"{LEAST_SIDE} pixels, not {'x'.join(map(str, sides))}: add a wrapper that resizes them"
                )
        elif not leaf.is_dense:
            raise UsageError(f"dreamer can decode only numbers, choices and images, not {leaf.describe()}")
